"""Starts whose components bear each other's labels → the same with the labels that the priors like.

Where components have priors of their own (locations around −3, 0 and 3), a chain that has found them in
another order fits the data as well, and never leaves: the mass there is what the priors make of that order.
Two labels exchanged in all that bears them leave the likelihood as it is, so that the logdensity tells which
order is meant. Where it hardly differs nothing is touched, as of components that are exchangeable.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gibbsite.conditional.dispatch import conditional_of
from gibbsite.conditional.finite.discrete import FiniteConditional
from gibbsite.density import Density
from gibbsite.density.hierarchy.exchangeability import deciding, whole
from gibbsite.programs.evaluation.pieces import in_marked

LEAST = 7.0
"""By how much the logdensity must rise: what is left has a thousandth of the mass."""
_MOST_LABELS = 8
# elements of a site times exchanges of its labels: each is an evaluation of the density
_MOST_WORK = 10**6


@dataclass(frozen=True)
class Labels:
    """A discrete site whose `values` are labels, the axes of other sites (chain axis not counted) that have
    one element per label, families of one site per label, and, of two labels, sites that tell for or against
    one: with the labels exchanged such a value x is c − x (1 − p of a probability, −b of a coefficient)."""

    site: str
    values: np.ndarray
    axes: tuple[tuple[str, int], ...]
    families: tuple[tuple[str, ...], ...]
    mirrored: tuple[tuple[str, float], ...] = ()

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
        for name, both in self.mirrored:
            out[name] = (both - out[name]).astype(out[name].dtype)
        return out


def labels_of(density: Density) -> list[Labels]:
    """The discrete sites that pick components, with what these are made of."""
    found = []
    for site in density.latents:
        conditional = conditional_of(density, site) if density.sites[site].discrete else None
        if not isinstance(conditional, FiniteConditional):
            continue
        values = np.asarray(conditional.support)
        if values.ndim != 1 or not 2 <= len(values) <= _MOST_LABELS:
            continue
        elements = math.prod(density.sites[site].shape)
        if elements * len(values) ** 2 > _MOST_WORK or (len(values) == 2 and elements == 1):
            continue  # a single switch is no label of components
        near = {n for t, _ in density.terms_of(site) for n in density.maps.latents(t.atom)}
        smooth = [n for n in density.latents if n in near and not density.sites[n].discrete]
        for axes, families in _parts(density, site, smooth, len(values)):
            for mirrored in _mirrored(density, site, axes, families):
                found.append(Labels(site, values, axes, families, mirrored))
    return found


Axes = tuple[tuple[str, int], ...]
Families = tuple[tuple[str, ...], ...]


def _parts(
    density: Density, site: str, smooth: Sequence[str], labels: int
) -> Iterator[tuple[Axes, Families]]:
    """What may have one element or one site per label: arrays with an axis of that length, or as many sites
    that are alike; of two labels, where an axis of length two says little, first the one and then the
    other."""
    shapes = {n: tuple(density.sites[n].shape) for n in smooth}
    decide = deciding(density, site)

    def alike(names: Sequence[str]) -> Families:
        by_shape = [tuple(n for n in names if shapes[n] == s) for s in dict.fromkeys(map(shapes.get, names))]
        return tuple(f for f in by_shape if len(f) == labels)

    axes = tuple((n, a) for n in smooth for a, size in enumerate(shapes[n]) if size == labels)
    free = [n for n in smooth if n not in decide]
    families = alike([n for n in free if labels not in shapes[n]])
    if axes or families:
        yield axes, families
    pairs = alike(free) if labels == 2 else families
    if pairs != families:
        paired = {n for f in pairs for n in f}
        yield tuple((n, a) for n, a in axes if n not in paired), pairs


def _mirrored(
    density: Density, site: str, axes: Axes, families: Families
) -> list[tuple[tuple[str, float], ...]]:
    """What may be mirrored along with an exchange of labels: of a choice between yes and no, all that decides
    it; with that, the probabilities of the two as well, as those of a test that finds the sick and of one
    that finds the healthy."""
    if not density.sites[site].fn_name.startswith("Bernoulli"):
        return [()]
    decide = deciding(density, site)
    wholes = {n: w for n in density.latents if (w := whole(density, n)) is not None}
    own = tuple((n, w) for n, w in wholes.items() if n in decide)
    parts = {n for n, _ in axes} | {n for f in families for n in f}
    others = tuple((n, w) for n, w in wholes.items() if n in parts - decide and w)
    return [own, (*own, *others)] if others else [own]


def relabelled(
    density: Density, values: Mapping[str, Any], level: Callable[[Mapping[str, Any]], np.ndarray]
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """The values `[chain, *shape]` with labels exchanged where that raises the logdensity of a chain, which
    `level` tells of such values `[chain]`; and in which chains it did."""
    now = {n: np.asarray(v) for n, v in values.items()}
    first = height = None
    best = now
    for site, found in itertools.groupby(labels_of(density), lambda found: found.site):
        if site not in now:
            continue
        ways = list(found)
        pairs = list(itertools.combinations(range(len(ways[0].values)), 2))
        for _ in ways[0].values:  # each round may put one more in its place
            if height is None:
                first = height = level(best)
            start = best
            for labels, (i, j) in itertools.product(ways, pairs):
                other = labels.exchanged(start, i, j)
                there = level(other)
                higher = there > height
                best = {n: in_marked(higher, other[n], v, np.where) for n, v in best.items()}
                height = np.where(higher, there, height)
            if best is start or all(np.array_equal(best[n], start[n]) for n in best):
                break
    if first is None or height is None:
        return now, np.zeros(0, bool)
    moved = np.isfinite(first) & (height > first + LEAST)
    return {n: in_marked(moved, best[n], v, np.where) for n, v in now.items()}, moved
