"""Sums and integrals that the schedule rests on, against sums over all values and quadrature."""

import itertools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from numpyro.distributions import biject_to

from gibbsite.checking.finding import NO_PLACE, Finding
from gibbsite.checking.truth import Place, arrays, log_terms
from gibbsite.errors import GibbsiteError
from gibbsite.programs.jaxpr.compiling import Quick

_MOST = 4096
"""Joint values of discrete sites that are summed over."""
_POINTS = 2001
_DRAWS = 200
_NUMBERS, _WEIGHED, _TAILS = 32, 16_000, 5.0
"""Of importance sampling: the most coordinates, how many points, and the degrees of freedom of their law."""
_SURE = 0.03
"""The standard error of a log integral up to which its weights are even enough to be believed."""
_AT_ONCE = 64
_OFF = 5e-3
_BLIND = "sums of more than 4096 values, and integrals over more than 32 numbers"


def marginals(model: Any, places: Sequence[Place], seed: int) -> Finding | None:
    """What the schedule eliminates, or all that can be: discrete sites of finite support, closed forms. None
    where nothing can."""
    test = "sums and integrals"
    schedule = model.execution.schedule()
    gone = [schedule.members(u.eliminated) for u in schedule.updates if u.eliminated]
    try:
        found = [model.marginal(*sites) for sites in gone] or [model.marginal()]
    except GibbsiteError:
        return None
    at, said, blind = [arrays(p.values) for p in places], [], []
    if len(at) < 2:
        return Finding(test, "open", NO_PLACE)
    for marginal in found:
        names = ", ".join(marginal.sites)
        truth = _truth(model, marginal, at, seed)
        if truth is None:
            blind.append(names)
            continue
        truth, error = truth
        run = Quick(marginal.logdensity)
        told = np.array([float(run(s)) for s in at])
        off = np.abs((told - told[0]) - (truth - truth[0]))
        room = _OFF + 1e-4 * np.abs(truth - truth[0]) + 1e-5 * np.abs(told).max()
        room += 6 * np.hypot(error, error[0])
        if not (off < room).all():
            return Finding(test, "wrong", f"{names}: off by {off.max():.2g}", _BLIND)
        said.append(names)
    if not said:
        return Finding(test, "open", f"too large to be found another way: {'; '.join(blind)}", _BLIND)
    text = f"those over {'; '.join(said)} are as found another way"
    return Finding(test, "right", text, _BLIND)


Found = tuple[np.ndarray, np.ndarray]
"""Log sums or integrals at each place, up to a constant, and their standard errors."""


def _truth(model: Any, marginal: Any, at: list[Any], seed: int) -> Found | None:
    sites = [n for n in marginal.sites if n in model.density.sites]
    if len(sites) != len(marginal.sites):
        return None
    if all(model.density.sites[n].discrete for n in sites):
        return _summed(model, sites, at)
    size = sum(int(np.prod(model.density.sites[n].shape, dtype=np.int64)) for n in sites)
    if any(model.density.sites[n].discrete for n in sites) or size > _NUMBERS:
        return None
    if size > 1:
        return _weighed(model, marginal, sites, at, seed)
    return _integrated(model, marginal, sites[0], at, seed)


def _summed(model: Any, sites: list[str], at: list[Any]) -> Found | None:
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
    return np.array([float(run(s)) for s in at]), np.zeros(len(at))


def _integrated(model: Any, marginal: Any, name: str, at: list[Any], seed: int) -> Found | None:
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
    return (np.array(found), np.zeros(len(at))) if np.isfinite(found).all() else None


def _weighed(model: Any, marginal: Any, sites: list[str], at: list[Any], seed: int) -> Found | None:
    """By importance sampling in unconstrained coordinates, from a multivariate t with the mean and covariance
    of the marginal's own draws: wrong ones make weights uneven, and no wrong integral."""
    through = {n: biject_to(model.density.sites[n].support) for n in sites}

    def free(key: Any, state: Any) -> dict[str, Any]:
        drawn = marginal.sample(key, state)
        return {n: t.inv(drawn[n]) for n, t in through.items()}

    def weights(state: Any, key: Any) -> Any:
        drawing, normal, scale = jax.random.split(key, 3)
        drawn = jax.vmap(lambda k: free(k, state))(jax.random.split(drawing, 4 * _DRAWS))
        flat = jax.vmap(lambda one: ravel_pytree(one)[0])(drawn)
        back = ravel_pytree(jax.tree.map(lambda x: x[0], drawn))[1]
        size = flat.shape[1]
        root = jnp.linalg.cholesky(jnp.cov(flat.T))
        z = jax.random.normal(normal, (_WEIGHED, size))
        z = z / jnp.sqrt(jax.random.gamma(scale, _TAILS / 2, (_WEIGHED, 1)) / (_TAILS / 2))
        log_q = -0.5 * (_TAILS + size) * jnp.log1p(jnp.sum(z**2, 1) / _TAILS)
        log_q = log_q - jnp.sum(jnp.log(jnp.diagonal(root)))

        def one(u: Any) -> Any:
            total, values = 0.0, {}
            for name, x in back(u).items():
                values[name] = through[name](x)
                total += jnp.sum(through[name].log_abs_det_jacobian(x, values[name]))
            return jnp.sum(log_terms(model, {**state, **values})) + total

        return jax.lax.map(one, flat.mean(0) + z @ root.T, batch_size=_AT_ONCE) - log_q

    run = Quick(weights)
    logs = np.array([run(s, jax.random.key(seed + i)) for i, s in enumerate(at)], np.float64)
    logs[np.isnan(logs)] = -np.inf
    top = logs.max(1, keepdims=True)
    if not np.isfinite(top).all():
        return None
    w = np.exp(logs - top)
    error = w.std(1) / w.mean(1) / np.sqrt(w.shape[1])
    return (np.log(w.mean(1)) + top[:, 0], error) if error.max() < _SURE else None
