"""Which sites are coupled, and which of them are drawn as one Gaussian."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gibbsite.conditional.dispatch import conditional_of
from gibbsite.conditional.forms.walk import Refused
from gibbsite.conditional.linear.collapsed import collapsed_block
from gibbsite.conditional.linear.joint import JointGaussian, is_gaussian, joint_gaussian
from gibbsite.conditional.linear.logistic import Likelihood
from gibbsite.conditional.linear.polya_gamma import PolyaGammaBlock, polya_gamma_block
from gibbsite.density import Density
from gibbsite.density.observed import observed_values

# elements outside the groups up to which a joint draw is worth its dense factorisation unasked
_MOST_DENSE = 300
# Gaussians that one collapsed update may solve for unasked
_MOST_SOLVED = 256
# of the information of the variates, the part that the data must have for a chain to move well
_LEAST_KEPT = 0.2


@dataclass(frozen=True)
class Together:
    """How a block of conjugate sites is drawn: `joint` are its parts that are one Gaussian, `alone` the
    sites that meet no other, `refused` the sites that do meet and why they are not drawn jointly."""

    joint: tuple[JointGaussian, ...]
    alone: tuple[str, ...]
    refused: Mapping[tuple[str, ...], str]

    @property
    def reason(self) -> str:
        """Why these are drawn jointly, in words; empty where none is."""
        return "; ".join(j.reason for j in self.joint)


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
    joint, alone, refused = [], [], {}
    for part in coupled(density, names):
        if len(part) == 1:
            alone += part
            continue
        try:
            joint.append(joint_gaussian(density, part))
        except Refused as why:
            refused[part] = str(why)
    return Together(tuple(joint), tuple(alone), refused)


def gaussian_blocks(density: Density, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The blocks of coupled sites among `names` that are Gaussian together, by each of their sites.

    Where not all that are coupled are (scores and loadings of a factor model are only in turn), a block takes
    in one after another what is Gaussian together with it.
    """
    candidates = [n for n in names if is_gaussian(conditional_of(density, n))]
    out: dict[str, tuple[str, ...]] = {}
    for part in coupled(density, candidates):
        left = list(part)
        while len(left) > 1:
            block = _grown(density, left)
            left = [n for n in left if n not in block]
            if len(block) > 1:
                out.update(dict.fromkeys(block, block))
    return out


def _grown(density: Density, names: Sequence[str]) -> tuple[str, ...]:
    """The first of `names`, and of the others those that can join it."""
    if _worth(density, names):
        return tuple(names)
    block = (names[0],)
    for name in names[1:]:
        wider = (*block, name)
        if len(coupled(density, wider)) == 1 and _worth(density, wider):
            block = wider
    return block


def _worth(density: Density, names: Sequence[str]) -> bool:
    if len(coupled(density, names)) > 1:
        return False
    try:
        layout = joint_gaussian(density, names).layout
    except Refused:
        return False
    dense = layout.rest + layout.border
    largest = max(int(np.prod(density.sites[n].shape, dtype=np.int64)) for n in names)
    return dense <= max(_MOST_DENSE, largest)


def collapsed_blocks(density: Density, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The blocks of one discrete site and of the Gaussian sites among `names` to integrate out for it, by
    each of their sites.

    They are for sites whose values go with coefficients of their own: a single switch or change point that
    the terms of Gaussian sites read, or a few indicators that many data read at once. The assignments of a
    mixture are drawn in one pass without.
    """
    out: dict[str, tuple[str, ...]] = {}
    gaussian = [n for n in names if not density.sites[n].discrete and is_gaussian(conditional_of(density, n))]
    joint = gaussian_blocks(density, gaussian)
    for site in names:
        if not density.sites[site].discrete or site in out:
            continue
        near = [n for n in gaussian if n not in out and len(coupled(density, (site, n))) == 1]
        inner = dict.fromkeys(m for n in near for m in joint.get(n, (n,)))
        block = (site, *(n for n in gaussian if n in inner))
        if near and not inner.keys() & out.keys() and _small(density, site, block):
            out.update(dict.fromkeys(block, block))
    return out


def _small(density: Density, site: str, names: tuple[str, ...]) -> bool:
    """Whether a collapsed draw is there, is of use and costs little."""
    conditional = conditional_of(density, site)
    structure = getattr(conditional, "structure", None)
    if structure is None or conditional.site != site:  # no list of values, or a member of a group
        return False
    try:
        found = collapsed_block(density, names)
    except Refused:
        return False
    if found.outer[0].elements > 1 and structure.independent:
        return False
    layout, solved = found.gaussian.layout, found.evaluations
    return solved <= _MOST_SOLVED and solved * (layout.rest + layout.border) ** 2 <= _MOST_SOLVED * 100


def logistic_blocks(density: Density, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The blocks of coupled sites among `names` for which Pólya-gamma draws are better than gradients, by
    each of their sites.

    They are where there are groups of effects, which the joint draw takes in at little cost, where all that
    is continuous in the predictors is drawn with them, and where the rates are not extreme: the variates then
    know much more than the data do, and the chain creeps.
    """
    out: dict[str, tuple[str, ...]] = {}
    linear = [n for n in names if _logistic(density, (n,)) or is_gaussian(conditional_of(density, n))]
    for part in coupled(density, linear):
        block = _logistic(density, part)
        if (
            block is not None
            and block.gaussian.layout.groups
            and not any(_shares(x, part) for x in block.likelihoods)
            and all(_kept(x) > _LEAST_KEPT for x in block.likelihoods)
        ):
            out.update(dict.fromkeys(part, part))
    return out


def _logistic(density: Density, sites: tuple[str, ...]) -> PolyaGammaBlock | None:
    try:
        return polya_gamma_block(density, sites)
    except Refused:
        return None


def _shares(likelihood: Likelihood, sites: tuple[str, ...]) -> bool:
    """Whether a linear predictor reads continuous sites beside those of a block: drawn in turn, they walk."""
    density = likelihood.density
    read = set().union(*(density.maps.latents(a) for a in likelihood.atoms))
    return any(not density.sites[n].discrete for n in read.difference(sites))


def _kept(likelihood: Likelihood) -> float:
    """Of the information of the variates, the part that is the data's, at the average rate; 0 if unknown."""
    density, origin = likelihood.density, likelihood.origin
    if origin not in observed_values(density) or not likelihood.free:
        return 0.0
    y = np.asarray(observed_values(density)[origin], np.float64)
    rate = (np.nansum(y) + 0.5) / (likelihood.total + 1)
    if not 0 < rate < 1:
        return 0.0
    psi = np.log(rate / (1 - rate))
    return rate * (1 - rate) * (4.0 if abs(psi) < 1e-3 else 2 * psi / np.tanh(psi / 2))
