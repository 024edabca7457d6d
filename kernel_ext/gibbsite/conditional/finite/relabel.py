"""Starts whose components bear each other's labels → the same with the labels that the priors like.

Where components have priors of their own (locations around −3, 0 and 3), a chain that has found them in
another order fits the data as well, and never leaves: the mass there is what the priors make of that order.
Two labels exchanged in all that bears them leave the likelihood as it is, so that the logdensity tells which
order is meant. Where it hardly differs nothing is touched, as of components that are exchangeable.
"""

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gibbsite.conditional.chains.discrete import FiniteConditional
from gibbsite.conditional.dispatch import conditional_of
from gibbsite.density import Density

LEAST = 7.0
"""By how much the logdensity must rise: what is left has a thousandth of the mass."""
_MOST_LABELS = 8
# elements of a site times exchanges of its labels: each is an evaluation of the density
_MOST_WORK = 10**6


@dataclass(frozen=True)
class Labels:
    """A discrete site whose `values` are labels, the axes of other sites (chain axis not counted) that have
    one element per label, and families of one site per label."""

    site: str
    values: np.ndarray
    axes: tuple[tuple[str, int], ...]
    families: tuple[tuple[str, ...], ...]

    def exchanged(self, at: Mapping[str, Any], i: int, j: int) -> dict[str, np.ndarray]:
        """Values `[chain, *shape]` by site with labels i and j in each other's place."""
        out = {n: np.array(v) for n, v in at.items()}
        z, (a, b) = out[self.site], self.values[[i, j]]
        out[self.site] = np.where(z == a, b, np.where(z == b, a, z)).astype(z.dtype)
        order = np.arange(len(self.values))
        order[[i, j]] = j, i
        for name, axis in self.axes:
            out[name] = np.take(out[name], order, axis=1 + axis)
        for family in self.families:
            out.update({family[i]: out[family[j]], family[j]: out[family[i]]})
        return out


def labels_of(density: Density) -> list[Labels]:
    """The discrete sites that pick components, with what these are made of."""
    found = []
    for site in density.latents:
        conditional = conditional_of(density, site) if density.sites[site].discrete else None
        if not isinstance(conditional, FiniteConditional):
            continue
        values = np.asarray(conditional.support)
        if values.ndim != 1 or not 2 < len(values) <= _MOST_LABELS:
            continue
        if math.prod(density.sites[site].shape) * len(values) ** 2 > _MOST_WORK:
            continue
        near = {n for t, _ in density.terms_of(site) for n in density.maps.latents(t.atom)}
        smooth = [n for n in density.latents if n in near and not density.sites[n].discrete]
        shapes = {n: tuple(density.sites[n].shape) for n in smooth}
        axes = tuple((n, a) for n in smooth for a, size in enumerate(shapes[n]) if size == len(values))
        single = [n for n in smooth if len(values) not in shapes[n]]
        alike = [tuple(n for n in single if shapes[n] == s) for s in dict.fromkeys(shapes[n] for n in single)]
        families = tuple(f for f in alike if len(f) == len(values))
        if axes or families:
            found.append(Labels(site, values, axes, families))
    return found


def relabelled(
    density: Density, values: Mapping[str, Any], level: Callable[[Mapping[str, Any]], np.ndarray]
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """The values `[chain, *shape]` with labels exchanged where that raises the logdensity of a chain, which
    `level` tells of such values `[chain]`; and in which chains it did."""
    now = {n: np.asarray(v) for n, v in values.items()}
    first = height = None
    best = now
    for labels in labels_of(density):
        if labels.site not in now:
            continue
        pairs = list(itertools.combinations(range(len(labels.values)), 2))
        for _ in labels.values:  # each round may put one more in its place
            if height is None:
                first = height = level(best)
            start = best
            for i, j in pairs:
                other = labels.exchanged(start, i, j)
                there = level(other)
                higher = there > height
                best = {n: _where(higher, other[n], v) for n, v in best.items()}
                height = np.where(higher, there, height)
            if best is start or all(np.array_equal(best[n], start[n]) for n in best):
                break
    if first is None or height is None:
        return now, np.zeros(0, bool)
    moved = np.isfinite(first) & (height > first + LEAST)
    return {n: _where(moved, best[n], v) for n, v in now.items()}, moved


def _where(chains: np.ndarray, new: np.ndarray, old: np.ndarray) -> np.ndarray:
    return np.where(chains.reshape(-1, *(1,) * (np.ndim(old) - 1)), new, old)
