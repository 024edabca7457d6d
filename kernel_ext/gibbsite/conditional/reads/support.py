"""Supports: the values of a discrete site and their names; those that move with other latents."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from numpyro.distributions import constraints

from gibbsite.density import Density
from gibbsite.density.intervals import range_of
from gibbsite.density.known_elements import equations_behind
from gibbsite.density.model.bounds import base_constraint
from gibbsite.errors import ModelError
from gibbsite.programs.jaxpr.compat import Literal
from gibbsite.programs.maps.access import Table, of_site

Shape = tuple[int, ...]

_MOST_BOUNDS = 4096
_FEW_BOUNDS = 256  # joint values of the sites that bound one, each of which is looked at by itself
_MOST_ROUNDS = 8


@dataclass(frozen=True)
class FiniteSupport:
    """`values` has shape `(K, *event)`: event is empty unless one draw of the site is itself a vector.

    `elements` is the shape of the site's elements (the site's shape without that event). `valid`, of shape
    `(K, *elements)`, tells which values each element may take where elements differ; None where they agree.
    """

    values: np.ndarray
    elements: Shape
    valid: np.ndarray | None

    @property
    def size(self) -> int:
        """Number of values."""
        return self.values.shape[0]


def finite_support(density: Density, name: str, asking: frozenset[str] = frozenset()) -> FiniteSupport | None:
    """The support of a discrete latent site; None where it is not finite, as that of a count out of one that
    has no end, or not known, as of sites that bound each other in turn (those that are `asking`).

    Raises `ModelError` where the support depends on many latent values.
    """
    site = density.site(name)
    if not site.discrete:
        return None
    if name in density.outputs["bounds"]:
        return None if name in asking else _integer_range(density, name, asking | {name})
    values = density.enumerated.get(name)
    if values is None:
        return None
    event = values.ndim - 1
    elements = site.shape[: len(site.shape) - event] if event else site.shape
    return FiniteSupport(values.astype(site.dtype), elements, None)


def listed(density: Density, name: str, most: float = math.inf) -> FiniteSupport | None:
    """The support of a discrete site whose values are numbers, at most so many; None where it is none such,
    or moves with many values of another site."""
    try:
        found = finite_support(density, name)
    except ModelError:
        return None
    return None if found is None or found.values.ndim > 1 or found.size > most else found


def endless(density: Density, name: str) -> bool:
    """Whether no list of a site's values is known; one that moves with many values of another site is none
    without end."""
    try:
        return finite_support(density, name) is None
    except ModelError:
        return False


def _integer_range(density: Density, name: str, asking: frozenset[str]) -> FiniteSupport | None:
    site = density.site(name)
    atoms = density.outputs["bounds"][name]
    if any(density.maps.latents(a) for a in atoms):
        return _widest_range(density, name, atoms, asking)
    read = density.evaluator({}).full
    low, high = (np.asarray(read(a)) for a in atoms)
    values = np.arange(low.min(), high.max() + 1)
    valid = None
    if low.min() != low.max() or high.min() != high.max():
        column = values.reshape((-1,) + (1,) * len(site.shape))
        inside: Any = (column >= low) & (column <= high)
        valid = np.broadcast_to(inside, (len(values), *site.shape))
    return FiniteSupport(values.astype(site.dtype), site.shape, valid)


def _widest_range(
    density: Density, name: str, atoms: Sequence[Any], asking: frozenset[str]
) -> FiniteSupport | None:
    """All values that a site may have, whatever the values of the sites that bound it. Terms of the density
    rule out those that are too large or too small at the time."""
    site = density.site(name)
    blame = sorted(frozenset().union(*(density.maps.latents(a) for a in atoms)))
    supports = {n: finite_support(density, n, asking) for n in blame if n != name}
    endless = [n for n, s in supports.items() if s is None or s.values.ndim > 1]
    mixed = [n for n in blame for a in atoms if not all(x.single for x in density.maps[a].get(n, ()))]
    many = math.prod(s.size for s in supports.values() if s)
    if mixed or many > _FEW_BOUNDS:
        ends = range_of(density, atoms[0])[0], range_of(density, atoms[1])[1]
        if ends[1] - ends[0] < _MOST_BOUNDS:  # neither infinite nor NaN
            values = np.arange(int(ends[0]), int(max(ends)) + 1)
            return FiniteSupport(values.astype(site.dtype), site.shape, None)
    if mixed or many > _MOST_BOUNDS:
        first = (mixed + blame)[0]
        raise ModelError(
            f"the support of {name!r} depends on the latent site {first!r}, so its size changes from draw "
            f"to draw, and it reads many values of {first!r}; give it a fixed upper bound and put the "
            f"dependence into its probabilities"
        )
    if endless:
        return None

    def widest(known: Mapping[str, Any]) -> tuple[int, int]:
        low, high = np.inf, -np.inf
        for values in itertools.product(*known.values()):
            filled = {
                n: np.full(density.sites[n].shape, v, density.sites[n].dtype)
                for n, v in zip(known, values, strict=True)
            }
            read = density.evaluator(filled).full
            found = [np.asarray(read(a)) for a in atoms]
            low, high = min(low, found[0].min()), max(high, found[1].max())
        return int(low), int(max(low, high))

    known = {n: s.values for n, s in supports.items() if s}
    if name in blame:  # elements bound each other, as survivors of survivors do
        low = high = 0
        for _ in range(_MOST_ROUNDS):
            before = low, high
            if (high - low + 1) * math.prod(map(len, known.values())) > _MOST_BOUNDS:
                return None
            low, high = widest({**known, name: np.arange(low, high + 1)})
            if (low, high) == before:
                break
        else:
            return None
    else:
        low, high = widest(known)
    return FiniteSupport(np.arange(low, high + 1).astype(site.dtype), site.shape, None)


def value_labels(
    density: Density, plates: Mapping[str, Sequence[str]], columns: Mapping[str, Sequence[str]]
) -> dict[str, tuple[str, ...]]:
    """Labels of the values 0, 1, … of discrete latent sites, by site.

    They are known in two ways, since a wrong label is worse than a number: the site's values are used as
    places in a plate whose elements have labels (`mu[z]`), `plates` by name; or the site is called as one of
    the `columns` of categories (`species`, `df['species']`).
    """
    out: dict[str, tuple[str, ...]] = {}
    for name in density.latents:
        values = listed_values(density, name)
        if not len(values):
            continue
        own = [known for column, known in columns.items() if _last_name(column) == name]
        found = {
            tuple(known) for known in (*own, *_places(density, name, plates)) if len(known) == len(values)
        }
        if len(found) == 1:
            out[name] = found.pop()
    for group, members in density.groups.items():
        known = {out[m] for m in members if m in out}
        if len(known) == 1 and all(m in out for m in members):
            out[group] = known.pop()
    return out


def listed_values(density: Density, name: str) -> np.ndarray:
    """The values 0, 1, … of a site; none where they are others, or move."""
    support = listed(density, name)
    fits = support is not None and np.array_equal(support.values, np.arange(support.size))
    return support.values if support is not None and fits else np.zeros(0, int)


def _last_name(column: str) -> str:
    """`df['species']` → `species`."""
    return column.removesuffix("']").rpartition("['")[2] if column.endswith("']") else column


def _places(density: Density, name: str, plates: Mapping[str, Sequence[str]]) -> Iterator[Sequence[str]]:
    """The labels of every axis that is read at the values of the site `name`."""
    labelled = {
        (site.name, axis): plates[plate]
        for site in density.sites.values()
        for axis, plate in zip(site.plate_axes, site.plates, strict=True)
        if plate in plates
    }
    if not labelled:
        return
    for term in density.terms:
        for site, accesses in density.maps[term.atom].items():
            for access in accesses:
                yield from (
                    labelled[site, axis]
                    for axis, index in enumerate(access.index)
                    if (site, axis) in labelled and _is_value(density, name, index)
                )


def _is_value(density: Density, name: str, index: Any) -> bool:
    """Whether an index is the value of the site `name` itself, tried at every value that it can have."""
    if not isinstance(index, Table) or index.latents != {name}:
        return False
    site = density.sites[name]
    for value in listed_values(density, name):
        state = {name: jnp.full(site.shape, value, site.dtype)}
        found = np.asarray(index.value(density.evaluator(state).full))
        if not (found == value).all():
            return False
    return True


def support_movers(density: Density, site: str) -> frozenset[str]:
    """The latents that the support of a site may depend on; a group whose members bound each other is among
    its own.

    They are those in the bounds that the distribution itself gives, or one that it is made of. A distribution
    that NumPyro does not know counts with all of its parameters, unless its support is a constraint of
    NumPyro's, which holds its ends alone. Those of integers are often written with more than their density
    allows: there, parameters that are discrete count, and all where the density has an infinity of its own.
    """
    name = density.sites[site].fn_name
    computed = (
        _computed_movers(density, site) | _moved_by_affine(density, site) | _read_by_ends(density, site)
    )
    if all(hasattr(dist, n) for n in name.split(" or ")) or _known(density, site):
        return computed
    parameters = density.outputs["parameters"].get(site, {})
    found = computed.union(*(density.maps.latents(atom) for atom in parameters.values()))
    if not _of_numpyro(density, site) or _has_infinities(density, site):
        return found
    return computed.union(n for n in found if density.sites[n].discrete)


def _read_by_ends(density: Density, site: str) -> frozenset[str]:
    """The latents in the ends of the support, and in those of distributions that the site's is made of
    (`LogUniform`)."""
    ends = [a for kind in ("supports", "ends") for a in density.outputs.get(kind, {}).get(site, ())]
    return frozenset().union(*(density.maps.latents(a) for a in ends))


def _known(density: Density, site: str) -> bool:
    """Whether the support of a continuous site is of a class of NumPyro."""
    return not density.sites[site].discrete and _of_numpyro(density, site)


def _of_numpyro(density: Density, site: str) -> bool:
    found = density.sites[site]
    kind = found.interval or type(base_constraint(found.support))
    return kind.__module__.partition(".")[0] == "numpyro"


def _has_infinities(density: Density, site: str) -> bool:
    """Whether an infinite constant enters a site's log density."""
    consts = dict(zip(density.closed.jaxpr.constvars, density.closed.consts, strict=True))
    read = (a for eqn in equations_behind(density, [density.outputs["log_prob"][site]]) for a in eqn.invars)
    values = (a.val if isinstance(a, Literal) else consts.get(a) for a in read)
    return any(v is not None and np.isinf(np.asarray(v, np.float64)).any() for v in values)


def _computed_movers(density: Density, site: str) -> frozenset[str]:
    """The latents in the bounds that the model computes."""
    found: set[str] = set()
    for term in density.bounds:
        if term.origin == site:
            maps = density.maps[term.atom]
            own = of_site(density.sites[site].shape)
            found |= {n for n, accesses in maps.items() if n != site or accesses != own}
    return frozenset(found)


def _moved_by_affine(density: Density, site: str) -> frozenset[str]:
    """The latents in the density of a site whose bounded values go through an affine transform, which calls
    them real unless it is told its domain."""
    name, *transforms = density.transforms.get(site, ("Normal",))
    base = getattr(getattr(dist, name, None), "support", None)
    if "Affine" not in transforms or base is constraints.real or base is constraints.real_vector:
        return frozenset()
    found = [density.maps.latents(t.atom) for t in density.terms if t.origin == site]
    return frozenset().union(*found) - {site}


def bounded_by(density: Density, site: str) -> tuple[str, ...]:
    """The sites, latent or observed, whose support the latent `site` may move."""
    named = [n for n, s in density.sites.items() if s.role != "deterministic"]
    return tuple(n for n in named if n != site and site in support_movers(density, n))
