"""A model → the ways to rename its components that leave it as it is.

A mixture of components with equal priors has as many copies of one posterior as they have orders (Stephens
2000). What bears a label may be an axis of a site, a site of its own per label, the value of a discrete site,
and, of two labels, a share that is written as one number: with the labels exchanged, a probability p is
1 − p and a log odds b is −b. Ways are thought of from shapes and supports alone, generously; which of them
leave the density as it is, is seen at random values.
"""

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import jax
import numpy as np
from numpyro.distributions import biject_to, constraints

from gibbsite.density.density import Density
from gibbsite.density.hierarchy.location_scale import on_the_real_line
from gibbsite.density.hierarchy.sticks import reordered
from gibbsite.density.intervals import range_of_support
from gibbsite.density.known_elements import known_numbers
from gibbsite.density.model.bounds import base_constraint
from gibbsite.density.model.sites import Site
from gibbsite.ground.once import once
from gibbsite.programs.jaxpr.compat import is_traced
from gibbsite.programs.jaxpr.compiling import ByShape
from gibbsite.programs.jaxpr.primitives import MAXIMA, of_kind

_TOLERANCE = 1e-4
"""Of a part of the log density, in nats or relative: single precision keeps 1e-7 of each of its sums."""
_MOST_WAYS = 40
_MOST_SINGLE = 4
_ENDS = (0, 1)  # of what discrete sites are tried at: the lowest, the highest
_STATES = 3
"""Random states at which a way is tried: each alone would do, but for values that agree by chance, as two
discrete elements may."""


@dataclass(frozen=True)
class Exchange:
    """Components renamed: what was component `order[k]` is component k.

    `axes` are the axes of each site with one element per component, `families` tuples of one site each,
    `labels` discrete sites whose values are numbers of components; a value of a `mirrored` site and what it
    becomes add up to the number there; the weights of components are broken off `sticks`, whose own prior
    need not stay as it is.
    """

    order: tuple[int, ...]
    axes: Mapping[str, tuple[int, ...]]
    families: tuple[tuple[str, ...], ...] = ()
    labels: frozenset[str] = frozenset()
    mirrored: Mapping[str, float] | None = None
    sticks: str | None = None

    @cached_property
    def _from(self) -> dict[str, str]:
        return {f[k]: f[o] for f in self.families for k, o in enumerate(self.order)}

    @property
    def moves(self) -> frozenset[str]:
        """The sites whose elements it puts into other places, or mirrors."""
        sticks = () if self.sticks is None else (self.sticks,)
        axes = {n for n, a in self.axes.items() if a}
        return frozenset(axes | {*self._from} | {*(self.mirrored or ())} | {*sticks})

    def source(self, name: str, shape: Sequence[int]) -> tuple[str, np.ndarray, float | None]:
        """Where the value of a site comes from: which site, which of its elements (flat indices `[size]`),
        and what both add up to (None: it is that value)."""
        places = np.arange(np.prod(shape, dtype=np.int64)).reshape(shape)
        for axis in self.axes.get(name, ()):
            places = np.take(places, self.order, axis)
        return self._from.get(name, name), places.ravel(), (self.mirrored or {}).get(name)

    def applied(self, values: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """The values of all sites under their new names."""
        out = {}
        for name, value in values.items():
            other, places, whole = self.source(name, np.shape(value))
            new = np.asarray(values[other]).ravel()[places].reshape(np.shape(value))
            new = new if whole is None else (whole - new).astype(new.dtype)
            if name in self.labels:  # what was `order[k]` is called k now
                new = np.argsort(self.order)[new.astype(int)].astype(new.dtype)
            if name == self.sticks:
                new = reordered(np.asarray(value), self.order)[0]
            out[name] = new
        return out


def mixes(density: Density) -> bool:
    """Whether components are mixed in a way that one sees: by a discrete site, or a sum of exponentials."""
    return any(density.sites[n].discrete for n in density.latents) or any(
        of_kind(eqn, MAXIMA) for eqn in density.closed.jaxpr.eqns
    )


def ways(density: Density, order: Sequence[int]) -> Iterator[Exchange]:
    """The exchanges of components that shapes and supports allow, at most forty, the likeliest first."""
    found = itertools.product(labelled(density, len(order)), _mirrors(density, len(order)))
    for (axes, families, labels), mirrored in itertools.islice(found, _MOST_WAYS):
        if not set(mirrored) & {n for f in families for n in f}:
            yield Exchange(tuple(order), axes, families, labels, mirrored)


def labelled(density: Density, k: int) -> Iterator[tuple[Any, Any, frozenset[str]]]:
    """What may bear the labels of k components: axes by site, families, and discrete sites."""
    sites = {n: density.sites[n] for n in density.latents}
    labels = frozenset(
        n for n, s in sites.items() if s.discrete and range_of_support(s.support) == (0, k - 1)
    )
    every = {n: component_axes(density, n, k) for n in sites}
    choices = [every]
    if any(len(a) > 1 for a in every.values()):  # the other one may be something else of that length
        choices += [{n: a[:1] for n, a in every.items()}, {n: a[-1:] for n, a in every.items()}]
    terms = [t for n in labels for t, _ in density.terms_of(n)]
    near = {n for t in terms for n in density.maps.latents(t.atom)} if labels else set(sites)
    alike: dict[Any, list[str]] = {}
    for n, s in sites.items():
        if n in near and not every[n] and not s.discrete:
            alike.setdefault((s.shape, s.fn_name), []).append(n)
    undecided = {n for label in labels for n in deciding(density, label)}
    free = {key: [n for n in names if n not in undecided] for key, names in alike.items()}
    for groups in ((), free, alike):
        families = tuple(tuple(f) for f in groups.values() if len(f) == k) if groups else ()
        if families or not groups:
            for axes in choices:
                yield axes, families, labels


def _mirrors(density: Density, k: int) -> list[dict[str, float]]:
    """What may be mirrored along with an exchange of two components: nothing; all that decides between yes
    and no, with the probabilities of both or without; all shares; one of them, or one number."""
    if k != 2:
        return [{}]
    found = {n: w for n in density.latents if (w := whole(density, n)) is not None}
    own = {n for label in density.latents for n in deciding(density, label)} & set(found)
    shares = {n for n, w in found.items() if w}
    alone = {n for n in shares if not component_axes(density, n, k)}
    numbers = [n for n, w in found.items() if not w and not density.sites[n].shape]
    choices: list[Collection[str]] = [(), own, own | shares, alone]
    choices += [{n} for n in [*sorted(alone)[:_MOST_SINGLE], *numbers[:_MOST_SINGLE]]]
    return [{n: found[n] for n in names} for names in dict.fromkeys(map(frozenset, choices))]


def component_axes(density: Density, name: str, k: int) -> tuple[int, ...]:
    """The axes of a site that may have an element per component: of that length, and no plate of data."""
    site = density.sites[name]
    observed = {p for s in density.sites.values() if s.role == "observed" for p in s.plates}
    data = {a for p, a in zip(site.plates, site.plate_axes, strict=True) if p in observed}
    return tuple(a for a, n in enumerate(site.shape) if n == k and a not in data)


def deciding(density: Density, site: str) -> frozenset[str]:
    """The latents that the probability of a yes or no reads; none for other sites."""
    if not density.sites[site].fn_name.startswith("Bernoulli"):
        return frozenset()
    return frozenset(density.maps.latents(density.outputs["log_prob"][site])) - {site}


def whole(density: Density, name: str) -> float | None:
    """What a value and its mirror image add up to: 1 between 0 and 1, 0 on the real line; else None."""
    support = density.sites[name].support
    if density.sites[name].discrete or support is None:
        return None
    if on_the_real_line(support):
        return 0.0
    base = base_constraint(support)
    ends = getattr(base, "lower_bound", None), getattr(base, "upper_bound", None)
    if any(e is None or is_traced(e) or np.ndim(e) for e in ends):
        return None
    return 1.0 if (float(ends[0]), float(ends[1])) == (0.0, 1.0) else None  # type: ignore[arg-type]


class Unchanged:
    """Whether exchanges leave the density as it is, seen at the same random values for all of them.

    Each site's part of the log density is compared element by element where the exchange leaves its elements
    in their places, so that one datum whose component is known is enough to tell components apart in a
    million; sites whose elements change places by their sums, families together. Counts of what happened
    before reach the last of components only where all happened: discrete sites are tried at their ends, too.
    Where `compiled` is false only what NumPy evaluates is looked at, and what it does not know counts as a
    difference, as do models with a site of which no value is known to be possible. Of `drawn` states, values
    of all latents, the density is of the size that it has in a posterior: far from it rounding hides much.
    """

    def __init__(self, density: Density, compiled: bool = True, drawn: Sequence[Mapping[str, Any]] = ()):
        self._density, self._compiled = density, compiled
        sites = {n: density.sites[n] for n in density.latents}
        possible = all(map(_has_values, sites.values()))
        rng = np.random.default_rng(0)
        self._states = [
            _anywhere(density, rng, end)
            for end in (*[None] * _STATES, *(_ENDS if any(s.discrete for s in sites.values()) else ()))
            if possible
        ]
        self._states += [{n: np.asarray(state[n]) for n in sites} for state in drawn if possible]
        self._computed = ByShape(partial(_computed, density))
        self._here = [self._at(state) for state in self._states]

    def _at(self, values: Mapping[str, Any]) -> "_Parts":
        return _Parts(self._density, values, self._computed)

    def by(self, exchange: Exchange) -> bool:
        """Whether the model stays the same."""
        return self._changed(exchange) and all(
            self._same(exchange, values, here) for values, here in zip(self._states, self._here, strict=True)
        )

    def _changed(self, exchange: Exchange) -> bool:
        """Whether every site that it moves has other values then, in one of the states at least."""
        pairs = [(state, exchange.applied(state)) for state in self._states]
        return bool(exchange.moves and pairs) and all(
            any(not np.array_equal(state[n], new[n]) for state, new in pairs) for n in exchange.moves
        )

    def _same(self, exchange: Exchange, values: Mapping[str, Any], here: "_Parts") -> bool:
        density, renamed = self._density, exchange.applied(values)
        moved = [n for n in exchange.moves if n in density.sites]
        if any(density.bounds_of(n) or not _inside(density.sites[n], renamed[n]) for n in moved):
            return False
        there = self._at(renamed)
        group = {n: f[0] for f in exchange.families for n in f}
        places = {n for n, a in exchange.axes.items() if a}
        late = []
        for name in density.outputs["log_prob"].keys() - {exchange.sticks}:
            pair = here.known(name), there.known(name)
            if pair[0] is None or pair[1] is None or name in group:
                late.append(name)
            elif not _agree(pair[0], pair[1], name in places):
                return False
        if not self._compiled and any(here.known(n) is None for n in late):
            return False
        sums: dict[str, list[Any]] = {}
        for name in late:
            pair = here.value(name), there.value(name)
            if name in group:
                sums.setdefault(group[name], []).append([float(np.asarray(p, float).sum()) for p in pair])
            elif not _agree(pair[0], pair[1], name in places):
                return False
        if not all(_agree(rows.T[0], rows.T[1], True) for rows in map(np.array, sums.values())):
            return False
        return all(
            _agree(a, b, False) and (n not in exchange.moves or np.unique(a).size < 2)  # masks, too
            for n, atoms in density.outputs["weights"].items()
            for i in range(len(atoms))
            for a, b in [(here.weight(n, i), there.weight(n, i))]
        )


def _computed(density: Density, latents: Mapping[str, Any], data: Any) -> tuple[Any, Any]:
    found = density.computed(latents, data)
    return found["log_prob"], found["weights"]


class _Parts:
    """Each site's part of the log density at some values, as NumPy has it where it can; as `computed` makes
    all of them else."""

    def __init__(self, density: Density, values: Mapping[str, Any], computed: Callable[..., Any]):
        self._density, self._by_jax = density, computed
        self._latents = {n: np.asarray(v, density.sites[n].dtype) for n, v in values.items()}

    @cached_property
    def _numbers(self) -> Any:
        return known_numbers(self._density, self._latents)

    @cached_property
    def _computed(self) -> Any:
        return self._by_jax(self._latents, tuple(self._density.arguments.arrays))

    def known(self, name: str) -> np.ndarray | None:
        """What NumPy makes of it; None where it cannot."""
        return self._numbers.value(self._density.outputs["log_prob"][name])

    def value(self, name: str) -> np.ndarray:
        found = self.known(name)
        return np.asarray(self._computed[0][name] if found is None else found)

    def weight(self, name: str, i: int) -> np.ndarray:
        """The `i`-th mask or weight of a site."""
        found = self._numbers.value(self._density.outputs["weights"][name][i])
        return np.asarray(self._computed[1][name][i] if found is None else found)


def _agree(here: Any, there: Any, summed: bool) -> bool:
    a, b = np.asarray(here, float), np.asarray(there, float)
    size = np.abs(a)
    if summed:
        a, b, size = a.sum(), b.sum(), size.sum()
    with np.errstate(invalid="ignore"):
        return bool(np.all(np.abs(a - b) <= _TOLERANCE * np.maximum(1.0, size)))


def random_state(density: Density, seed: int = 0) -> dict[str, Any] | None:
    """Values of all latents in their supports; None where there is a site of which none is known."""
    if not all(_has_values(density.sites[n]) for n in density.latents):
        return None
    return _anywhere(density, np.random.default_rng(seed))


def _inside(site: Site, value: np.ndarray) -> bool:
    return site.support is None or bool(np.all(site.support(value)))


def _has_values(site: Site) -> bool:
    """Whether values in the support can be made without others'."""
    if site.discrete:
        return True
    if site.support is None or any(map(is_traced, vars(base_constraint(site.support)).values())):
        return False
    try:
        return biject_to(site.support) is not None
    except NotImplementedError:  # NumPyro's word for a constraint that it has no way into
        return False


def _shares(x: np.ndarray) -> np.ndarray:
    return np.exp(x) / np.exp(x).sum(axis=-1, keepdims=True)


_SIMPLE: Sequence[tuple[Any, Callable[[np.ndarray], np.ndarray]]] = (
    (constraints.real, lambda x: x),
    (constraints.positive, np.exp),
    (constraints.unit_interval, lambda x: 1 / (1 + np.exp(-x))),
    (constraints.simplex, _shares),
)


def _anywhere(density: Density, rng: np.random.Generator, end: int | None = None) -> dict[str, Any]:
    """Random values of all latents; of discrete sites those at an end of what is tried, where it is given."""
    found, free = {}, {}
    for n in density.latents:
        site = density.sites[n]
        if site.discrete:
            low, high = range_of_support(site.support)
            ends = int(max(low, 0)), int(min(high, max(low, 0) + 5))
            found[n] = rng.integers(ends[0], ends[1] + 1, site.shape) if end is None else ends[end]
            found[n] = np.broadcast_to(found[n], site.shape)
            continue
        base = base_constraint(site.support)
        # what NumPy can make takes no program
        simple = next((make for kind, make in _SIMPLE if base is kind), None)
        if simple is not None:
            found[n] = simple(rng.uniform(-1, 1, site.shape)).astype(site.dtype)
        else:
            shape = biject_to(site.support).inverse_shape(site.shape)
            free[n] = rng.uniform(-1, 1, shape).astype(site.dtype)
    found |= jax.tree.map(np.asarray, _constrained(density)(free)) if free else {}
    return {n: found[n] for n in density.latents}


@once
def _constrained(density: Density) -> ByShape:
    """Numbers without bounds, as values in the supports of sites: one program for all of them."""
    supports = {n: density.sites[n].support for n in density.latents}
    return ByShape(lambda free: {n: biject_to(supports[n])(v) for n, v in free.items()})
