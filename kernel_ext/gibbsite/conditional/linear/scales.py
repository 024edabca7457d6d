"""Which scales are drawn with their effects integrated out."""

from collections.abc import Collection, Mapping

import numpy as np

from gibbsite.conditional.forms.walk import Refused
from gibbsite.conditional.linear.outer import outer_site
from gibbsite.density import Density
from gibbsite.density.hierarchy.location_scale import location_scales
from gibbsite.trace.jaxpr.compat import Literal

# effects of one scale from which on they tell it well enough: a draw given them costs a tenth
_FEW = 25
# evaluations times term elements that one update may take unasked
_MOST_WORK = 10**5


def few_effects(
    density: Density,
    scales: Collection[str],
    blocks: Mapping[str, tuple[str, ...]],
    logistic: Collection[str] = (),
) -> dict[tuple[str, ...], tuple[str, ...]]:
    """By block of Gaussian sites, given as in `blocks` by each of its sites, those of `scales` that few of
    its effects have for a scale. Of effects in blocks of `logistic` sites any number is few: counts tell
    little of each, and may leave their scale anywhere near zero.

    Given few effects their scale hardly moves wherever data allow it to be small, and they follow it (Gelman
    et al. 2008, "Using redundant parameterizations to fit hierarchical models"). So it is with the scale of
    data that are hardly more than the effects, which may take all of their noise: a state for each count. Of
    several kinds of effects with less than two data for each, as of lines through three points, any number is
    few.
    """
    found: dict[tuple[str, ...], tuple[str, ...]] = {}
    taken: set[str] = set()
    for block in dict.fromkeys(blocks.values()):
        if not set(block) <= density.latent_vars.keys():
            continue
        mine = [
            n
            for n in scales
            if n not in taken
            and n in density.latent_vars
            and (_is_few(density, n, block, logistic) or _is_of_few_data(density, n, block))
        ]
        work = sum(_work(density, n) for n in mine)
        if mine and work <= _MOST_WORK:
            found[block] = tuple(mine)
            taken.update(mine)
    return found


def _is_few(density: Density, scale: str, block: Collection[str], logistic: Collection[str]) -> bool:
    effects = [n for n in block if scale in getattr(location_scales(density).get(n), "scale", ())]
    try:
        each = outer_site(density, scale).elements if effects else 0
    except Refused:
        return False
    if not each or set(block) & set(logistic):
        return bool(each)
    return max(_size(density, n) for n in effects) <= _FEW * each or _is_sparse(density, block)


def _is_sparse(density: Density, block: Collection[str]) -> bool:
    """Whether several kinds of effects share data that are less than two for each number of their block."""
    if sum(_size(density, n) > 1 for n in block) < 2:
        return False
    data = 0
    for name, parameters in density.outputs["parameters"].items():
        level = None if name in density.latent_vars else parameters.get("loc")
        if level is not None and not isinstance(level, Literal):
            data += _size(density, name) * (not density.maps.latents(level).isdisjoint(block))
    return 0 < data < 2 * sum(_size(density, n) for n in block)


def _is_of_few_data(density: Density, scale: str, block: Collection[str]) -> bool:
    """Whether a scale is one of data about the block's sites, of which there are as many as of these."""
    for name, parameters in density.outputs["parameters"].items():
        atom, level = parameters.get("scale"), parameters.get("loc")
        if name in density.latent_vars or any(a is None or isinstance(a, Literal) for a in (atom, level)):
            continue
        effects = [n for n in block if n in density.maps.latents(level)]
        if scale in density.maps.latents(atom) and effects:
            size = _size(density, name)
            return size <= _FEW and 2 * size <= 3 * max(_size(density, n) for n in effects)
    return False


def _size(density: Density, name: str) -> int:
    return int(np.prod(density.sites[name].shape, dtype=np.int64))


def _work(density: Density, scale: str) -> int:
    elements = sum(int(np.prod(t.shape, dtype=np.int64)) for t in density.terms)
    return outer_site(density, scale).evaluations * elements
