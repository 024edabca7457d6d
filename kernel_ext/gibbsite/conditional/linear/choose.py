"""Which sites are coupled, and which of them can be drawn as one Gaussian."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gibbsite.conditional.dispatch import conditional_of
from gibbsite.conditional.forms.walk import Refused
from gibbsite.conditional.linear.joint import JointGaussian, is_gaussian, joint_gaussian
from gibbsite.density import Density


@dataclass(frozen=True)
class Together:
    """How a block of conjugate sites is drawn: `joint` are its parts that are one Gaussian, `refused` the
    sites that do meet and why they are not drawn jointly."""

    joint: tuple[JointGaussian, ...]
    refused: Mapping[tuple[str, ...], str]


def coupled(density: Density, names: Sequence[str]) -> list[tuple[str, ...]]:
    """`names` in parts that share no term: given the other sites, parts are independent of each other."""
    parts: list[set[str]] = [{n} for n in names]
    for term in density.terms:
        here = density.maps.latents(term.atom).intersection(names)
        met = [p for p in parts if p & here]
        if len(met) > 1:
            parts = [p for p in parts if not p & here] + [set().union(*met)]
    found = [tuple(n for n in names if n in p) for p in parts]
    return sorted(found, key=lambda p: names.index(p[0]))


def together(density: Density, names: Sequence[str]) -> Together:
    """How conjugate sites of one block are drawn at once."""
    joint, refused = [], {}
    for part in coupled(density, names):
        if len(part) == 1:
            continue
        try:
            joint.append(joint_gaussian(density, part))
        except Refused as why:
            refused[part] = str(why)
    return Together(tuple(joint), refused)


def gaussian_blocks(
    density: Density, names: Sequence[str], dense: float = math.inf
) -> dict[str, tuple[str, ...]]:
    """The blocks of coupled sites among `names` that are Gaussian together, by each of their sites, with at
    most `dense` elements outside the groups of one.

    Where not all that are coupled are (scores and loadings of a factor model are only in turn), a block takes
    in one after another what is Gaussian together with it.
    """
    candidates = [n for n in names if is_gaussian(conditional_of(density, n))]
    out: dict[str, tuple[str, ...]] = {}
    for part in coupled(density, candidates):
        left = list(part)
        while len(left) > 1:
            block = _grown(density, left, dense)
            left = [n for n in left if n not in block]
            if len(block) > 1:
                out.update(dict.fromkeys(block, block))
    return out


def _grown(density: Density, names: Sequence[str], dense: float) -> tuple[str, ...]:
    """The first of `names`, and of the others those that can join it."""
    if _is_one(density, names, dense):
        return tuple(names)
    block = (names[0],)
    for name in names[1:]:
        wider = (*block, name)
        if len(coupled(density, wider)) == 1 and _is_one(density, wider, dense):
            block = wider
    return block


def _is_one(density: Density, names: Sequence[str], dense: float) -> bool:
    if len(coupled(density, names)) > 1:
        return False
    try:
        layout = joint_gaussian(density, names).layout
    except Refused:
        return False
    return layout.rest + layout.border <= dense
