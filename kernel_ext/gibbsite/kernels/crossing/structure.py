"""How discrete sites and the continuous ones that they decide are updated together."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gibbsite.conditional.finite.finite import finite_structure
from gibbsite.conditional.forms.walk import Refused
from gibbsite.conditional.reads.support import FiniteSupport, finite_support
from gibbsite.conditional.reads.term_access import SINGLE, Touch, touches
from gibbsite.density import Density
from gibbsite.errors import ModelError

APART, IN_TURN, WHOLE = "side by side", "pair by pair", "as a whole"
MOST = 64
"""Combinations of values that are summed over in every evaluation, and numbers that are sliced in turn: both
at this limit are some 25,000 evaluations of the density in a sweep."""


@dataclass(frozen=True, eq=False)
class Together:
    """Discrete sites, whose values are summed out, and continuous ones, which are sliced meanwhile.

    `way` is APART for pairs of elements that are independent of all other pairs, which take their slices at
    once; IN_TURN for pairs of elements one after another; WHOLE where all `combinations` of the discrete
    sites' values are summed over. `touched` are the terms of either site of pairs that are apart.
    """

    discrete: tuple[str, ...]
    continuous: tuple[str, ...]
    supports: dict[str, FiniteSupport]
    way: str
    touched: tuple[Touch, ...] = ()
    combinations: int = 1

    @property
    def cost(self) -> str:
        """The work of one update, in words."""
        if self.way == APART:
            return f"about 10 × {self.combinations} evaluations of the touched factors"
        return f"about 6 × {self.combinations} evaluations of the touched factors for each number"

    @property
    def reason(self) -> str:
        """What is done, in words."""
        x, z = " and ".join(self.continuous), " and ".join(self.discrete)
        verb = "decide" if len(self.discrete) + len(self.continuous) > 2 else "and"
        pair = f"{z} and {x} decide" if verb == "and" else f"{z}, {x} decide"
        return f"{pair} each other: {x} sliced with {z} summed out, then {z} drawn, {self.way}"


def together(density: Density, sites: Sequence[str]) -> Together:
    """How the sites are updated as one; derived once per density. Raises `Refused` where they cannot."""
    key = ("crossing", tuple(sites))
    if key not in density.cache:
        try:
            density.cache[key] = _together(density, sites)
        except Refused as why:
            density.cache[key] = why
    found = density.cache[key]
    if isinstance(found, Refused):
        raise found
    return found


def _together(density: Density, sites: Sequence[str]) -> Together:
    discrete = tuple(n for n in sites if density.sites[n].discrete)
    continuous = tuple(n for n in sites if n not in discrete)
    if not discrete or not continuous:
        raise Refused("Crossing takes discrete sites and continuous ones that they decide, both")
    supports: dict[str, FiniteSupport] = {}
    for name in discrete:
        support = _listed(density, name)
        if support is None:
            raise Refused(f"the values of {name} cannot be listed")
        supports[name] = support
    sizes = {n: _size(density, n) for n in sites}
    values = max(s.size for s in supports.values())
    if len(sites) == 2 and density.sites[discrete[0]].shape == density.sites[continuous[0]].shape:
        found = _apart(density, discrete[0], continuous[0], supports[discrete[0]])
        if found:
            return Together(discrete, continuous, supports, APART, found, values)
        if sizes[discrete[0]] <= MOST and values <= MOST:
            return Together(discrete, continuous, supports, IN_TURN, (), values)
    combinations = math.prod(supports[n].size ** sizes[n] for n in discrete)
    if combinations > MOST or sum(sizes[n] for n in continuous) > MOST:
        raise Refused(
            f"their {combinations:,} combinations of values and {sum(sizes[n] for n in continuous)} numbers "
            f"are too many (limit: {MOST} of each)"
        )
    return Together(discrete, continuous, supports, WHOLE, (), combinations)


def _listed(density: Density, name: str) -> FiniteSupport | None:
    try:
        found = finite_support(density, name)
    except ModelError:
        return None
    return None if found is None or found.values.ndim > 1 else found


def _size(density: Density, name: str) -> int:
    return int(np.prod(density.sites[name].shape, dtype=np.int64))


def _apart(density: Density, z: str, x: str, support: FiniteSupport) -> tuple[Touch, ...]:
    """The terms of either site, where each of them reads at most one element of each and, of both, those of
    one pair; nothing where any does not."""
    if density.sites[x].event_shape or not finite_structure(density, z, support).independent:
        return ()
    of_z = touches(density, z, len(support.elements))
    of_x = touches(density, x, len(support.elements))
    if any(t.kind != SINGLE for t in (*of_z, *of_x)) or any(_moved(t, (z, x)) for t in (*of_z, *of_x)):
        return ()
    read: dict[Any, Touch] = {t.term.atom: t for t in of_z}
    for t in of_x:
        mine = read.get(t.term.atom)
        if mine is not None and set(mine.accesses) != set(t.accesses):
            return ()
    return (*of_z, *(t for t in of_x if t.term.atom not in read))


def _moved(touch: Touch, sites: Sequence[str]) -> bool:
    return any(not a.latents().isdisjoint(sites) for a in touch.accesses)
