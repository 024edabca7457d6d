"""Sums and integrals that the schedule rests on, against sums over all values and quadrature."""

import itertools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import biject_to

from gibbsite.checking.finding import NO_PLACE, Finding
from gibbsite.checking.truth import Place, arrays, log_terms
from gibbsite.errors import GibbsiteError
from gibbsite.programs.jaxpr.compiling import Quick

_MOST = 4096
"""Joint values of discrete sites that are summed over."""
_POINTS = 2001
_DRAWS = 200
_AT_ONCE = 64
_OFF = 5e-3
_BLIND = "sums of more than 4096 values, and integrals over more than one number"


def marginals(model: Any, places: Sequence[Place], seed: int) -> Finding:
    """What the schedule eliminates, or all discrete sites of finite support."""
    test = "sums and integrals"
    gone = [model._flat(u.eliminated) for u in model.schedule().updates if u.eliminated]
    try:
        found = [model.marginal(*sites) for sites in gone] or [model.marginal()]
    except GibbsiteError as why:
        return Finding(test, "open", f"nothing is summed or integrated out ({why})")
    at, said, blind = [arrays(p.values) for p in places], [], []
    if len(at) < 2:
        return Finding(test, "open", NO_PLACE)
    for marginal in found:
        names = ", ".join(marginal.sites)
        truth = _truth(model, marginal, at, seed)
        if truth is None:
            blind.append(names)
            continue
        run = Quick(marginal.logdensity)
        told = np.array([float(run(s)) for s in at])
        off = np.abs((told - told[0]) - (truth - truth[0]))
        room = _OFF + 1e-4 * np.abs(truth - truth[0]) + 1e-5 * np.abs(told).max()
        if not (off < room).all():
            return Finding(test, "wrong", f"{names}: off by {off.max():.2g}", _BLIND)
        said.append(names)
    if not said:
        return Finding(test, "open", f"too large to be found another way: {'; '.join(blind)}", _BLIND)
    return Finding(test, "right", f"{'; '.join(said)} agree with sums and quadrature", _BLIND)


def _truth(model: Any, marginal: Any, at: list[Any], seed: int) -> np.ndarray | None:
    sites = [n for n in marginal.sites if n in model.density.sites]
    if len(sites) != len(marginal.sites):
        return None
    if all(model.density.sites[n].discrete for n in sites):
        return _summed(model, sites, at)
    size = sum(int(np.prod(model.density.sites[n].shape, dtype=np.int64)) for n in sites)
    return _integrated(model, marginal, sites[0], at, seed) if size == 1 else None


def _summed(model: Any, sites: list[str], at: list[Any]) -> np.ndarray | None:
    supports, total = [], 1
    for name in sites:
        c = model.conditional(name)
        if c.kind not in ("finite", "chain"):
            return None
        size = int(np.prod(model.density.sites[name].shape, dtype=np.int64))
        supports += [np.asarray(c.support)] * size
        total *= len(c.support) ** size
        if total > _MOST:
            return None
    rows = np.array(list(itertools.product(*supports)))
    values, start = {}, 0
    for name in sites:
        site = model.density.sites[name]
        size = int(np.prod(site.shape, dtype=np.int64))
        values[name] = jnp.asarray(rows[:, start : start + size].reshape(-1, *site.shape), site.dtype)
        start += size

    def heights(state: Any) -> Any:
        def one(v: Any) -> Any:
            return jnp.sum(log_terms(model, {**state, **v}))

        return jax.scipy.special.logsumexp(jax.lax.map(one, values, batch_size=_AT_ONCE))

    run = Quick(heights)
    return np.array([float(run(s)) for s in at])


def _integrated(model: Any, marginal: Any, name: str, at: list[Any], seed: int) -> np.ndarray | None:
    """By the trapezoidal rule in the unconstrained coordinate, over ten times the range of draws."""
    site = model.density.sites[name]
    through = biject_to(site.support)

    def heights(state: Any, keys: Any) -> Any:
        draws = jax.vmap(lambda k: through.inv(marginal.sample(k, state)[name]))(keys).ravel()
        middle, reach = jnp.median(draws), jnp.max(draws) - jnp.min(draws)
        u = middle + 5 * reach * jnp.linspace(-1, 1, _POINTS)

        def one(u: Any) -> Any:
            u = u.reshape(through.inverse_shape(site.shape))
            value = through(u)
            jacobian = jnp.sum(through.log_abs_det_jacobian(u, value))
            return jnp.sum(log_terms(model, {**state, name: value})) + jacobian

        logs = jax.lax.map(one, u, batch_size=_AT_ONCE)
        logs = jnp.where(jnp.isnan(logs), -jnp.inf, logs)
        return jax.scipy.special.logsumexp(logs) + jnp.log(u[1] - u[0])

    run, keys = Quick(heights), jax.random.split(jax.random.key(seed), _DRAWS)
    found = [float(run(s, keys)) for s in at]
    return np.array(found) if np.isfinite(found).all() else None
