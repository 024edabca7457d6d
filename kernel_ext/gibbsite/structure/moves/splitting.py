"""An element that one of two structures has not comes out of one that both have, and goes into one.

Birth and death alone seldom change how many there are where each element holds many data: what is new comes
from a wide prior. Here a weight is divided between two, and numbers part by as much as weights leave their
mean where it was (Richardson and Green 1997, "On Bayesian analysis of mixtures with an unknown number of
components"); by how much is drawn from normal distributions of very different widths, as nobody knows it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import jax.numpy as jnp
from jax import random
from jax.scipy.special import logsumexp, ndtri

from gibbsite.structure.moves.places import Place

_LEAST = 2.0**-24
"""Of uniform numbers: none is 0, where a normal one would be infinite."""
SPLITS = 0.25
"""Of moves by which one element comes or goes, which share splits or merges. Where all data have their place
births are accepted three to five times as often (500 points of three components, galaxies); splits alone
find what is hidden in one."""
WIDTHS = 8
"""Of the normal distributions, from twice the prior's width on, each half as wide as the one before."""


@dataclass(frozen=True)
class Along:
    """Of one axis of a site: which indices are kept (a mask); of one that is new, which it is; which of those
    that are kept it comes out of; and whether it does."""

    kept: Any
    new: Any
    of: Any
    splits: Any


def along_of(kept: Any, lots: Any) -> Along:
    """By a mask over an axis, and a number by lot for each index, of which the least decides. One can split
    where one index is new and others are kept."""
    one = (kept.sum() == len(kept) - 1) & jnp.any(kept)
    first = jnp.argmin(jnp.where(kept, lots >> 1, ~jnp.zeros((), lots.dtype)))
    return Along(kept, jnp.argmin(kept), first, one)


def _only(axes: Sequence[Along], may: Any) -> list[Along]:
    """The axes of a site of which at most one splits: the others are kept whole."""
    whole = [jnp.all(a.kept) for a in axes]
    others = [[w for k, w in enumerate(whole) if k != i] for i in range(len(axes))]
    return [
        replace(a, splits=a.splits & may & jnp.all(jnp.stack([jnp.ones((), bool), *rest])))
        for a, rest in zip(axes, others, strict=True)
    ]


class Splitting:
    """What one move does to the elements of a structure that comes and goes by `axes`, of each site's axes.

    `key` is of the move: it decides the same in both structures. `may`: the move is none of another kind.
    `draw`: the element comes, by numbers of the key `fresh`; else it goes. `values` are the chain's, of
    `places`, with the `widths` of priors in real coordinates.
    """

    def __init__(
        self,
        key: Any,
        places: Mapping[str, Place],
        widths: Mapping[str, Any],
        axes: Mapping[str, Sequence[Along]],
        values: Mapping[str, Any],
        draw: Any,
        fresh: Any,
        may: Any = True,
    ):
        self._places = {
            n: p for n, p in places.items() if p.batch and (p.coordinate is not None or p.adds_up)
        }
        self._widths, self._draw, self._values = widths, draw, values
        # one call for all numbers of a kind: each is a hundred operations for the compiler
        of_move, *of_sites = random.uniform(key, (1 + len(self._places),))
        self._axes = {n: _only(axes[n], (of_move < SPLITS) & may) for n in self._places}
        self._shared = {
            n: jnp.asarray(True) if p.weights else own < 0.5
            for (n, p), own in zip(self._places.items(), of_sites, strict=True)
            if p.adds_up
        }
        self._numbers = random.uniform(fresh, (self._needed,), minval=_LEAST)

    @property
    def _needed(self) -> int:
        """How many uniform numbers a move takes: for a share three, and for each site those of `_taken`."""
        return 3 + sum(4 + max(map(math.prod, _elements(p))) for p in self._places.values())

    def _taken(self, name: str, count: int) -> tuple[Any, Any, Any]:
        """A site's numbers: three for a share, one for a width, and `count` by how much it parts."""
        start = 3
        for n, p in self._places.items():
            if n == name:
                break
            start += 4 + max(map(math.prod, _elements(p)))
        own = self._numbers[start : start + 4 + count]
        return own[:3], own[3], own[4:]

    def can(self, name: str) -> bool:
        """Whether elements of this site are split at all."""
        return name in self._places

    def splits(self, name: str) -> Any:
        """Whether this move splits an element of the site."""
        return jnp.any(jnp.stack([a.splits for a in self._axes[name]]))

    @cached_property
    def _first(self) -> tuple[dict[str, Any], Any]:
        """By site whether it is the first of those whose elements are shares, and the share that the kept
        element has of it; a half where there is none."""
        share = jnp.where(self._draw, _share(self._numbers[:3]), 0.5)
        first, found = {}, jnp.zeros((), bool)
        for name, shared in self._shared.items():
            first[name] = shared & self.splits(name) & ~found
            (along,) = self._axes[name]
            a, b = self._values[name][along.of], self._values[name][along.new]
            share = jnp.where(first[name] & ~self._draw, a / (a + b), share)
            found |= first[name]
        return first, jnp.where(found, share, 0.5)

    def element(self, name: str, value: Any) -> tuple[Any, Any, Any]:
        """Of a site's value: with the two elements, where they come; with the one, where they go; and the log
        density of what was drawn for it, less the log of how volumes change."""
        two = one = value
        cost = jnp.zeros(())
        for axis, along in enumerate(self._axes[name]):
            two, one, here = self._at(name, axis, along, value, two, one)
            cost += jnp.where(along.splits, here, 0.0)
        return two, one, cost

    def _at(self, name: str, axis: int, along: Along, value: Any, two: Any, one: Any) -> tuple[Any, Any, Any]:
        place = self._places[name]
        a, b = (jnp.take(value, i, axis=axis) for i in (along.of, along.new))
        made = []
        if place.adds_up:
            made.append(self._divided(name, a, b))
        if place.coordinate is not None:
            made.append(self._parted(name, a, b))
        if len(made) > 1:
            made = [[jnp.where(self._shared[name], x, y) for x, y in zip(*made, strict=True)]]
        first, second, whole, cost = made[0]
        at = [jnp.arange(value.shape[axis]) == i for i in (along.of, along.new)]
        at = [jnp.expand_dims(m, [k for k in range(value.ndim) if k != axis]) for m in at]
        comes, goes = along.splits & self._draw, along.splits & ~self._draw
        for mask, x in zip(at, (first, second), strict=True):
            two = jnp.where(mask & comes, jnp.expand_dims(x, axis).astype(value.dtype), two)
        one = jnp.where(at[0] & goes, jnp.expand_dims(whole, axis).astype(value.dtype), one)
        return two, one, cost

    def _divided(self, name: str, a: Any, b: Any) -> tuple[Any, ...]:
        """Two shares, the whole, and the cost. Where they come, `a` is the whole."""
        first, of_first = self._first
        drawn = jnp.where(first[name], of_first, _share(self._taken(name, 0)[0]))
        share, whole = jnp.where(self._draw, drawn, a / (a + b)), jnp.where(self._draw, a, a + b)
        cost = jnp.log(6.0) + jnp.log(share) + jnp.log1p(-share) - jnp.log(whole)
        return whole * share, whole * (1 - share), whole, cost

    def _parted(self, name: str, a: Any, b: Any) -> tuple[Any, ...]:
        """Two elements that part from one in real coordinates, that one, and the cost."""
        coordinate, share = self._places[name].coordinate, self._first[1]
        _, of_width, of_each = self._taken(name, a.size)
        widths = 2.0 * self._widths[name] * 0.5 ** jnp.arange(WIDTHS)
        ya, yb = coordinate.inv(a), coordinate.inv(b)
        by = ndtri(of_each).reshape(a.shape) * widths[(of_width * WIDTHS).astype(int)]
        by = jnp.where(self._draw, by, ya - yb)
        middle = jnp.where(self._draw, ya, share * ya + (1 - share) * yb)
        first, second = middle + (1 - share) * by, middle - share * by
        each = [(y, coordinate(y)) for y in (first, second, middle)]
        steep = [jnp.sum(coordinate.log_abs_det_jacobian(y, x)) for y, x in each]
        squares = -0.5 * jnp.sum(by**2) / widths**2 - a.size * jnp.log(widths * jnp.sqrt(2 * jnp.pi))
        cost = logsumexp(squares) - jnp.log(WIDTHS) - (steep[0] + steep[1] - steep[2])
        return each[0][1], each[1][1], each[2][1], cost


def _share(numbers: Any) -> Any:
    """A share of Beta(2, 2), the median of three uniform numbers: few are next to nothing."""
    return jnp.sort(numbers)[1]


def _elements(place: Place) -> list[tuple[int, ...]]:
    """The shape of an element along each axis."""
    axes = range(len(place.batch))
    return [tuple(n for k, n in enumerate(place.shape) if k != axis) for axis in axes]
