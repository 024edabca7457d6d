"""Whether the draws of a distribution follow its log density, up to a constant.

Of elements that are numbers the draws are held against their distribution function, integrated from the log
density (Kolmogorov and Smirnov); of integers their frequencies against the probabilities among the values
that occur (Pearson); of vectors the means of Stein's operator, which are 0 for draws of the density (Stein
1972; Gorham and Mackey 2015): `f(u) ∂ log p(u) + f'(u)` for constants, sines and cosines of each
unconstrained coordinate. What the last cannot see are the weights of modes without mass between them.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from numpyro import handlers
from numpyro.distributions.transforms import biject_to
from numpyro.distributions.util import sum_rightmost
from numpyro.infer.initialization import init_to_sample

from gibbsite.density.model.alone import handlers_alone
from gibbsite.density.model.collect import base_distribution
from gibbsite.ground.lazy_import import later
from gibbsite.programs.jaxpr.compiling import once

stats = later("scipy.stats")

DRAWS = 1000
_MANY = 20_000
"""Of numbers, of whose draws nothing is computed: Kolmogorov's test then sees distances of .02."""
_LIMIT = 1e-6
"""Of p-values, the smallest of all tests of a distribution: one right one in ten thousand is doubted, which
costs it the forward draw and no more."""
_ELEMENTS = 8
"""Elements of a batch that are looked at: they are of one class, and differ in parameters."""
_POINTS = 4001
_MOST_NUMBERS = 4_000_000
_FARTHEST = 12.0  # of the grid's ends, as an inverse hyperbolic sine of unconstrained coordinates: ±80,000


def disagreement(fn: Any, key: Any) -> str:
    """Why a distribution's `sample` is not to be trusted, in words; empty where it agrees with `log_prob`, or
    where there is no way to tell (vectors of integers)."""
    try:
        size = int(np.prod(fn.batch_shape, dtype=np.int64))
        many = max(DRAWS, min(_MANY, _MOST_NUMBERS // max(size, 1)))
        count = (DRAWS if fn.event_shape else many,)
        x = once(lambda key: jnp.asarray(fn.sample(key, count)), key)
        if fn.support.is_discrete:
            return "" if fn.event_shape else _integers(fn, np.asarray(x))
        return _numbers(fn, x) if not fn.event_shape else _vectors(fn, x)
    except NotImplementedError:
        return "it has no `sample`"


def _some(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Evenly spaced elements of a batch."""
    size = int(np.prod(shape, dtype=np.int64))
    flat = np.unique(np.linspace(0, max(size - 1, 0), min(size, _ELEMENTS)).astype(int))
    return [tuple(int(i) for i in np.unravel_index(k, shape)) for k in flat] if shape else [()]


def _numbers(fn: Any, x: Any) -> str:
    through = biject_to(fn.support)
    u = np.asarray(once(lambda x: through.inv(x), x), np.float64)
    if not np.isfinite(u).all():
        return "some of its draws lie outside of its support"
    size = int(np.prod(fn.batch_shape, dtype=np.int64))
    some = _some(fn.batch_shape)
    count = max(201, min(_POINTS, _MOST_NUMBERS // max(size, 1)))
    there = np.zeros((2 * count, *fn.batch_shape), np.float32)
    for at in some:
        mine = u[(slice(None), *at)]
        if np.ptp(mine) == 0:
            return "all of its draws are the same"
        there[(slice(None), *at)] = _grid(mine, count)
    points = jnp.asarray(there, x.dtype)

    def looked_at(points: Any, known: Any) -> Any:
        value = through(points)
        inside = jnp.isfinite(value) & fn.support(value)
        value = jnp.where(inside, value, known)
        height = fn.log_prob(value) + through.log_abs_det_jacobian(points, value)
        return jnp.where(inside & ~jnp.isnan(height), height, -jnp.inf)

    heights = np.asarray(once(looked_at, points, x[:1]), np.float64)
    worst = 1.0
    for at in some:
        mine, grid = u[(slice(None), *at)], np.asarray(points, np.float64)[(slice(None), *at)]
        lp = heights[(slice(None), *at)]
        if not np.isfinite(lp).any():
            return "its log density is nowhere finite"
        p = np.exp(lp - lp[np.isfinite(lp)].max())
        parts = np.diff(grid) * (p[1:] + p[:-1]) / 2
        total = np.concatenate([[0.0], np.cumsum(parts)])
        if not total[-1] > 0 or not np.isfinite(total[-1]):
            return "its log density has no finite integral"
        cdf = np.interp(mine, grid, total / total[-1])
        worst = min(worst, float(stats.kstest(cdf, "uniform").pvalue))
    return "" if worst * len(some) > _LIMIT else "the distribution of its draws is another"


def _grid(u: np.ndarray, points: int) -> np.ndarray:
    """Twice so many points, far out, and fine where draws are: the mass may be there, or elsewhere."""
    middle, spread = np.median(u), max(float(np.ptp(u)), 1e-6)
    near = middle + spread * np.linspace(-2, 2, points)
    far = np.sinh(np.linspace(-_FARTHEST, _FARTHEST, points))
    return np.sort(np.concatenate([near, far]))


def _integers(fn: Any, x: np.ndarray) -> str:
    worst, some = 1.0, _some(fn.batch_shape)
    for at in some:
        mine = x[(slice(None), *at)].astype(np.int64)
        if fn.has_enumerate_support:
            found = np.asarray(fn.enumerate_support(expand=False)).reshape(-1)
            values = found.astype(np.int64)
        else:
            values = np.arange(mine.min(), mine.max() + 1)
        if len(values) > _POINTS:
            values = np.unique(mine)
        if not np.isin(mine, values).all():
            return "some of its draws lie outside of its support"
        there = jnp.asarray(values, x.dtype).reshape(-1, *(1,) * len(fn.batch_shape))
        there = jnp.broadcast_to(there, (len(values), *fn.batch_shape))

        def heights(there: Any, known: Any) -> Any:
            inside = fn.support(there)
            return jnp.where(inside, fn.log_prob(jnp.where(inside, there, known)), -jnp.inf)

        lp = once(heights, there, jnp.asarray(x[:1]))
        lp = np.asarray(lp, np.float64)[(slice(None), *at)]
        lp = np.where(np.isnan(lp), -np.inf, lp)
        if not np.isfinite(lp).any():
            return "its log density is nowhere finite"
        p = np.exp(lp - lp.max())
        p /= p.sum()
        counts = np.array([(mine == v).sum() for v in values])
        if (counts[p == 0] > 0).any():
            return "it draws values that its log density excludes"
        # values that are seldom expected are counted together
        order = np.argsort(p)
        seldom = order[np.cumsum(p[order]) * len(mine) < 5]
        often = np.setdiff1d(order, seldom)
        expected = np.append(p[often], p[seldom].sum()) * len(mine)
        seen = np.append(counts[often], counts[seldom].sum())
        kept = expected > 0
        if kept.sum() < 2:
            worst = min(worst, 1.0)
            continue
        chi = ((seen[kept] - expected[kept]) ** 2 / np.maximum(expected[kept], 1)).sum()
        worst = min(worst, float(stats.chi2.sf(chi, kept.sum() - 1)))
    return "" if worst * len(some) > _LIMIT else "its values have other frequencies"


def _vectors(fn: Any, x: Any) -> str:
    through = biject_to(fn.support)
    u = once(lambda x: through.inv(x), x)
    if not bool(jnp.isfinite(u).all()):
        return "some of its draws lie outside of its support"
    inner = u.ndim - 1 - len(fn.batch_shape)  # axes of one unconstrained event

    def height(u: Any) -> Any:
        value = through(u)
        jacobian = through.log_abs_det_jacobian(u, value)
        return jnp.sum(fn.log_prob(value) + sum_rightmost(jacobian, jacobian.ndim - len(fn.batch_shape)))

    slope = np.asarray(once(lambda u: jax.lax.map(jax.grad(height), u, batch_size=32), u), np.float64)
    at = np.asarray(u, np.float64)
    worst, count = 1.0, 0
    for element in _some(fn.batch_shape):
        s = slope[(slice(None), *element)].reshape(len(at), -1)
        v = at[(slice(None), *element)].reshape(len(at), -1)
        if not np.isfinite(s).all():
            return "its log density has no gradient at some of its draws"
        if inner and (np.ptp(v, axis=0) == 0).any():
            return "all of its draws are the same"
        p, tests = stein(v, s)
        worst, count = min(worst, p), count + tests
    return "" if worst * count > _LIMIT else "the mean of Stein's operator over its draws is not 0"


def stein(draws: np.ndarray, slopes: np.ndarray) -> tuple[float, int]:
    """The smallest p-value of all tests of the mean of Stein's operator over `draws` `[n, coordinates]`, none
    of them constant, with the gradients of the log density there; and how many tests there are."""
    scale = draws.std(axis=0)
    v, s = (draws - np.median(draws, axis=0)) / scale, slopes * scale
    worst = 1.0
    for f, df in _STEIN:
        g = f(v) * s + df(v)
        spread = g.std(axis=0) / np.sqrt(len(g))
        z = np.abs(g.mean(axis=0)) / np.maximum(spread, 1e-12)
        worst = min(worst, float(2 * stats.norm.sf(z.max())))
    return worst, len(_STEIN) * draws.shape[1]


_STEIN = [
    (np.ones_like, np.zeros_like),
    *((lambda v, k=k: np.sin(k * v), lambda v, k=k: k * np.cos(k * v)) for k in (0.5, 1.0, 2.0)),
    *((lambda v, k=k: np.cos(k * v), lambda v, k=k: -k * np.sin(k * v)) for k in (0.5, 1.0, 2.0)),
]
"""Test functions and their derivatives, of coordinates by their own standard deviation."""


# Sites whose distributions are the user's own, and those of them whose draws are not to be trusted.
#
# NumPyro's own samplers take a latent from `log_prob`; a `sample` that only starts chains may give anything
# ("it is enough to return an arbitrary sample with correct shape", says an example). What draws forward must
# not: it is looked at first, where the class is none of NumPyro's.


_STATES = 2


def doubted(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], names: Collection[str]
) -> dict[str, str]:
    """Of the sites `names` of the model `fn(*args, **kwargs)` those whose draws do not follow their log
    density, with what was seen, at some draws of all other sites from their statements."""
    found: dict[str, str] = {}
    for n in range(_STATES):
        key, look = jax.random.split(jax.random.key(n))
        with handlers_alone, numpyro.validation_enabled(False):
            model = handlers.substitute(handlers.seed(fn, key), substitute_fn=init_to_sample)
            traced = handlers.trace(model).get_trace(*args, **kwargs)
            for name in names:
                if name in found or name not in traced:
                    continue
                inner = base_distribution(traced[name]["fn"])
                why = disagreement(inner, jax.random.fold_in(look, len(found)))
                if why:
                    found[name] = f"{type(inner).__name__}: {why}"
    return found
