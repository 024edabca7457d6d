"""Where replicas start from: normals fitted to the draws of warm-up, one for every chain, and a wide one."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import random
from jax.scipy.linalg import solve_triangular
from jax.scipy.special import logsumexp

MOST = 8
"""Normals at most: chains beyond these share them."""
_WIDER = 1.2
"""How much wider the normals are than the draws: what is too narrow has tails that replicas seldom leave."""
_WIDE = 0.1
"""Share of the wide normal. Its draws are mostly rejected, and no exchange can be accepted more often."""
_LEAST = 10.0
"""Draws that a normal is fitted to at least."""


class Reference(NamedTuple):
    """A mixture of normals in flat coordinates `[size]`: `means` `[k, size]` and triangular `factors`
    `[k, size, size]` that are fitted, equally often, and a wide one, location and scale by number, that is
    not.

    One normal for every chain, as chains may have found different modes: a single one that covers modes of
    different widths has no draws in the narrow one, and no power of the density leads there (Woodard,
    Schmidler and Huber 2009). The wide one is for modes that no chain has found (Surjanovic and others 2022).
    """

    means: jax.Array
    factors: jax.Array
    wide_mean: jax.Array
    wide_scale: jax.Array

    def draw(self, key: jax.Array) -> jax.Array:
        """One draw `[size]`."""
        key_wide, key_which, key_e = random.split(key, 3)
        e = random.normal(key_e, self.wide_mean.shape, self.wide_mean.dtype)
        k = random.randint(key_which, (), 0, self.means.shape[0])
        fitted, wide = self.means[k] + self.factors[k] @ e, self.wide_mean + self.wide_scale * e
        return jnp.where(random.bernoulli(key_wide, _WIDE), wide, fitted)

    def logdensity(self, u: jax.Array) -> jax.Array:
        """The normalised log density at `u`."""
        size, k = u.shape[0], self.means.shape[0]
        wide = (u - self.wide_mean) / self.wide_scale
        far = jnp.log(_WIDE) - 0.5 * wide @ wide - jnp.sum(jnp.log(self.wide_scale))
        each = jnp.log((1 - _WIDE) / k) + self._by_normal(u)
        return logsumexp(jnp.append(each, far)) - 0.5 * size * jnp.log(2 * jnp.pi)

    def _by_normal(self, u: jax.Array) -> jax.Array:
        """The log density at `u` of each fitted normal `[k]`, without the constant of all."""

        def one(mean: jax.Array, factor: jax.Array) -> jax.Array:
            e = solve_triangular(factor, u - mean, lower=True)
            return -0.5 * e @ e - jnp.sum(jnp.log(jnp.diag(factor)))

        return jax.vmap(one)(self.means, self.factors)

    def fitted_to(self, x: jax.Array, counts: jax.Array, first: jax.Array) -> "Reference":
        """The same with normals fitted to the draws `[chain, draw, size]` that `counts` `[chain, draw]`
        marks.

        The `first` time each to those of its chain; then to those that are more likely its own than others',
        a step of expectation maximisation. So they stay with their modes when chains go to and fro between
        these. Of few draws of many numbers the correlations count the less."""
        k, rows = self.means.shape[0], x.reshape(-1, x.shape[-1])
        weight = (counts & jnp.isfinite(x).all(axis=-1)).reshape(-1).astype(x.dtype)
        rows = jnp.where(weight[:, None] > 0, rows, self.wide_mean)
        chain = jnp.repeat(jnp.arange(x.shape[0]), x.shape[1]) % k
        own = jax.nn.one_hot(chain, k, dtype=x.dtype)
        share = jnp.where(first, own, jax.nn.softmax(jax.vmap(self._by_normal)(rows), axis=-1))
        means, factors = jax.vmap(_moments, in_axes=(None, 1, 0, 0))(
            rows, share * weight[:, None], self.means, self.factors
        )
        return self._replace(means=means, factors=factors)


def _moments(
    rows: jax.Array, weight: jax.Array, mean: jax.Array, factor: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Location and widened triangular scale of weighted rows; those that were there where rows are few."""
    n, size = weight.sum(), rows.shape[1]
    new = weight @ rows / jnp.maximum(n, 1.0)
    centred = (rows - new) * jnp.sqrt(weight)[:, None]
    cov = centred.T @ centred / jnp.maximum(n - 1, 1.0)
    diagonal, share = jnp.diag(cov), n / (n + size)
    cov = share * cov + jnp.diag((1 - share) * diagonal + 1e-4 * diagonal + 1e-10)
    scale = _WIDER * jnp.linalg.cholesky(cov)
    good = (n > _LEAST) & jnp.isfinite(scale).all() & jnp.isfinite(new).all()
    return jnp.where(good, new, mean), jnp.where(good, scale, factor)
