"""Which values of discrete elements are possible at all beside what data and other discrete elements allow.

Arc consistency (Mackworth 1977, "Consistency in networks of relations"): a value goes that some factor allows
beside no values that are left of the others. What stays may still be impossible; what goes is.
"""

from collections.abc import Mapping

import jax.numpy as jnp
import numpy as np

from gibbsite.conditional.reads.support import FiniteSupport, finite_support
from gibbsite.conditional.tables.factor import Factor
from gibbsite.density import Density
from gibbsite.elimination.tables.collect import Summed, Tables
from gibbsite.errors import ModelError
from gibbsite.programs.jaxpr.compiling import once

_VALUES = 64
"""Of a site without an end, those around its values that are looked at."""
_MOST_ENTRIES = 2**20
_ROUNDS = 100


def decided(density: Density, state: Mapping[str, np.ndarray], odds: float) -> dict[str, np.ndarray]:
    """By discrete latent which of its elements, in a row, can have one value only, continuous ones being as
    they are in `state`; empty where the factors between the discrete ones are too large to be listed. A
    factor rules out what it gives a log density lower than its best by `odds`."""
    discrete = [n for n in density.latent_vars if density.sites[n].discrete]
    try:
        of = Summed({n: _values(density, n, state[n]) for n in discrete})
        tables = Tables(density, of, _MOST_ENTRIES)
    except ModelError:
        return {}
    if sum(f.entries for f in tables.factors) > _MOST_ENTRIES:
        return {}
    others = {n: jnp.asarray(v) for n, v in state.items() if n not in of.supports}
    found = once(lambda at: tables(at, tuple(density.arguments.arrays)), others)
    domains = {n: np.ones((of.sizes[n], of.count[n]), bool) for n in discrete}
    allowed = []
    for f, t in zip(tables.factors, map(np.asarray, found), strict=True):
        top = t.max(axis=tuple(range(t.ndim - 1)), keepdims=True)
        allowed.append((f, np.broadcast_to(t > top - odds, (*f.sizes, f.rows))))
    for _ in range(_ROUNDS):
        before = sum(int(d.sum()) for d in domains.values())
        for factor, possible in allowed:
            _narrow(domains, factor, possible)
        if sum(int(d.sum()) for d in domains.values()) == before:
            break
    return {n: d.sum(axis=0) <= 1 for n, d in domains.items()}


def _narrow(domains: dict[str, np.ndarray], factor: Factor, possible: np.ndarray) -> None:
    """Take from the domains `[value, element]` what a factor, `[*values, row]`, allows beside nothing."""
    joint = possible
    for axis, (site, at) in enumerate(zip(factor.sites, factor.index, strict=True)):
        own = domains[site][:, at]
        shape = [1] * (possible.ndim - 1) + [own.shape[1]]
        shape[axis] = own.shape[0]
        joint = joint & own.reshape(shape)
    for axis, (site, at) in enumerate(zip(factor.sites, factor.index, strict=True)):
        supported = joint.any(axis=tuple(a for a in range(possible.ndim - 1) if a != axis))
        lost = np.zeros_like(domains[site])
        value, row = np.nonzero(~supported)
        lost[value, at[row]] = True
        domains[site] &= ~lost


def _values(density: Density, site: str, now: np.ndarray) -> FiniteSupport:
    """All values of a site, or some around what its elements are."""
    support = finite_support(density, site)
    if support is not None:
        return support
    low = min(int(now.min()), max(int(np.median(now)) - _VALUES // 2, 0))
    return FiniteSupport((low + np.arange(_VALUES)).astype(now.dtype), now.shape, None)
