"""Multinomial counts whose totals are data: NumPyro draws as many categories as the largest total, which has
to be known when the program is made."""

from typing import Any

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from numpyro.distributions.util import binomial


def by_binomials(key: Any, probs: Any, total: Any, shape: tuple[int, ...]) -> Any:
    """Counts `[*shape, K]` of `total` trials with `probs` `[…, K]`, category by category out of those that
    are left (Devroye 1986, XI.1.4)."""
    probs = jnp.broadcast_to(probs, (*shape, jnp.shape(probs)[-1]))
    tails = jnp.flip(jnp.cumsum(jnp.flip(probs, -1), -1), -1)  # added up from the end: no small one is lost
    shares = jnp.clip(jnp.where(tails > 0, probs / jnp.where(tails > 0, tails, 1), 1), 0, 1)
    left = jnp.broadcast_to(total, shape).astype(int)

    def category(left: Any, given: Any) -> tuple[Any, Any]:
        one, share = given
        count = binomial(one, share, left).astype(left.dtype)
        return left - count, count

    keys = jax.random.split(key, probs.shape[-1] - 1)
    left, counts = jax.lax.scan(category, left, (keys, jnp.moveaxis(shares, -1, 0)[:-1]))
    return jnp.concatenate([jnp.moveaxis(counts, 0, -1), left[..., None]], -1)


class MultinomialProbs(dist.MultinomialProbs):
    """NumPyro's, with totals that may be unknown."""

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Any:
        return by_binomials(key, self.probs, self.total_count, sample_shape + self.batch_shape)


class MultinomialLogits(dist.MultinomialLogits):
    """NumPyro's, with totals that may be unknown."""

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Any:
        return by_binomials(key, self.probs, self.total_count, sample_shape + self.batch_shape)


class DirichletMultinomial(dist.DirichletMultinomial):
    """NumPyro's, with totals that may be unknown."""

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Any:
        key_shares, key_counts = jax.random.split(key)
        probs = self._dirichlet.sample(key_shares, sample_shape)
        return by_binomials(key_counts, probs, self.total_count, sample_shape + self.batch_shape)
