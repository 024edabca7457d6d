"""Degrees of centring: learnt from draws and their gradients, element by element.

For an element with location m and scale s, `z̃ = λ m + s^(λ−1) (z − m)` is z itself at λ = 1 and the
non-centred coordinate at λ = 0 (Papaspiliopoulos, Roberts and Sköld 2007; learnt by variational inference in
Gorinova, Moore and Hoffman 2020). Here λ minimises `F = ½ log var z̃ + ½ log var g̃`, the Fisher divergence of
an independent normal distribution to the draws, which exist anyway.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gibbsite.kernels.learnt.metric import log_product, moments

GRID = 25
_TIE = 0.05
# bins of log2 of (scale² × curvature of everything but the own prior): elements in one have equal data
_WIDTH, _MOST = 0.5, 8.0
BINS = int(2 * _MOST / _WIDTH) + 2


class Fit(NamedTuple):
    """F of every element as written, wholly centred, non-centred, and at the degree in use; each `[c]`."""

    written: jax.Array
    centred: jax.Array
    non_centred: jax.Array
    used: jax.Array


def factor(lam: jax.Array, scale: jax.Array) -> jax.Array:
    """s^(1−λ), exactly s at λ = 0 and 1 at λ = 1."""
    between = jnp.exp((1 - lam) * jnp.log(scale))
    return jnp.where(lam == 0, scale, jnp.where(lam == 1, 1.0, between))


def centred_from(z: jax.Array, lam: jax.Array, loc: jax.Array, scale: jax.Array) -> jax.Array:
    """z̃ → z."""
    f = factor(lam, scale)
    return jnp.where(lam == 1, z, f * z + (1 - lam * f) * loc)


def centred_to(z: jax.Array, lam: jax.Array, loc: jax.Array, scale: jax.Array) -> jax.Array:
    """z → z̃."""
    f = factor(lam, scale)
    return jnp.where(lam == 1, z, (z - (1 - lam * f) * loc) / f)


def offset(z: jax.Array, lam: jax.Array, loc: jax.Array, scale: jax.Array) -> jax.Array:
    """z̃ → z − m, exact where the scale is below the last digit of m."""
    return jnp.where(lam == 1, z - loc, factor(lam, scale) * (z - lam * loc))


def divergences(x: jax.Array, g: jax.Array, loc: jax.Array, scale: jax.Array, weight: jax.Array) -> jax.Array:
    """F at `GRID` degrees from 0 to 1 by element, `[GRID, c]`, from draws and gradients `[n, c]`.

    The program runs a few times on many numbers and is compiled as fast as can be; so its loop has few
    operations and no powers, and its sums are products with matrices.
    """
    total = jnp.maximum(weight.sum(), 1)
    x, g, loc = (jnp.where(weight[:, None] > 0, a, 0.0) for a in (x, g, loc))
    scale = jnp.where(weight[:, None] > 0, scale, 1.0)
    own, step = x - loc, jnp.exp(jnp.log(scale) / (GRID - 1))

    def spread(y: jax.Array) -> jax.Array:
        y = y - weight @ y / total
        return weight @ y**2 / total

    def at(factors: tuple[jax.Array, jax.Array], lam: jax.Array) -> Any:
        over, times = factors  # s^(λ−1) and its inverse
        found = log_product(spread(own * over + lam * loc), spread(g * times))
        return (over * step, times / step), found

    grid = jnp.linspace(0.0, 1.0, GRID, dtype=x.dtype)
    return jax.lax.scan(at, (1 / scale, scale), grid)[1]


def equal_data(
    x: jax.Array, g: jax.Array, loc: jax.Array, scale: jax.Array, weight: jax.Array, site: np.ndarray
) -> jax.Array:
    """A number per element, equal for elements of one site about which the data say the same.

    That is the curvature of everything but the own prior, in units of the prior's: the slope of that part of
    the gradient over the draws.
    """
    rest = g + (x - loc) / scale**2
    (mean_x, var_x), (mean_rest, _) = moments(x, weight), moments(rest, weight)
    product, _ = moments((x - mean_x) * (rest - mean_rest), weight)
    squared, _ = moments(scale**2, weight)
    curvature = -product / jnp.maximum(var_x, 1e-20) * squared
    level = jnp.log2(jnp.maximum(curvature, 2.0**-_MOST))
    first = jnp.asarray(site * BINS, jnp.int32)
    return first + jnp.clip((level + _MOST) / _WIDTH, 0, BINS - 1).astype(jnp.int32)


def learnt(
    x: jax.Array,
    g: jax.Array,
    loc: jax.Array,
    scale: jax.Array,
    weight: jax.Array,
    site: np.ndarray,
    written: np.ndarray,
    guarded: jax.Array,
) -> tuple[jax.Array, Fit]:
    """Degrees by element from draws `x`, gradients `g`, locations and scales, all `[n, c]`, and how they fit.

    `site` numbers each element's site, `written` is the degree of the model as written (0 or 1), both `[c]`.
    F is summed over elements with equal data before the best degree is taken, for the noise of single
    elements costs more than they gain. Where `guarded`, a site stays as written unless another choice is
    better by more than noise.
    """
    sites = int(site.max()) + 1
    grid = jnp.linspace(0.0, 1.0, GRID, dtype=x.dtype)
    tables = divergences(x, g, loc, scale, weight)
    group = equal_data(x, g, loc, scale, weight, site)
    pooled = jax.vmap(lambda f: jax.ops.segment_sum(f, group, sites * BINS))(tables)
    # next to an end of the grid, the end
    place = jnp.arange(GRID).at[jnp.array([1, GRID - 2])].set(jnp.array([0, GRID - 1]))
    which = place[jnp.argmin(pooled, 0)][group]
    best, at_best = grid[which], jnp.take_along_axis(tables, which[None], 0)[0]
    as_written = jnp.where(written == 1, tables[-1], tables[0])

    def mean(f: jax.Array) -> jax.Array:
        count = jax.ops.segment_sum(jnp.ones_like(f), site, sites)
        return (jax.ops.segment_sum(f, site, sites) / jnp.maximum(count, 1))[site]

    choices = [(as_written, written), (at_best, best), (tables[0], 0.0 * best), (tables[-1], 0.0 * best + 1)]
    margin = jnp.array([0.0, _TIE, 2 * _TIE, 2 * _TIE], x.dtype)
    fits = jnp.stack([mean(f) for f, _ in choices]) + margin[:, None]
    chosen = jnp.argmin(fits, 0)
    safe = jnp.choose(chosen, [jnp.asarray(lam, x.dtype) for _, lam in choices], mode="clip")
    lam = jnp.where(guarded, safe, best)
    used = jnp.where(guarded, jnp.choose(chosen, [f for f, _ in choices], mode="clip"), at_best)
    return lam, Fit(as_written, tables[-1], tables[0], used)
