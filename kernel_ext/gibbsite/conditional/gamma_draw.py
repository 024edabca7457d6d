"""Gamma variates, and the distributions that are drawn through them.

JAX's own sampler runs one loop inside another for every element. For batches of some sizes XLA compiles
that on CPUs into a program that for some keys never ends: with three elements and the key of this module's
test it holds up a run for ever. Here is one loop, in which all elements propose until the last is accepted;
it is faster, too.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpyro.distributions as dist


def log_gamma(key: Any, concentration: Any) -> Any:
    """Logarithms of gamma variates with unit rate, of the shape and dtype of the float array `concentration`.

    Marsaglia and Tsang (2000), "A simple method for generating gamma variables"; below 1 by their boost,
    in logarithms so that nothing underflows. NaN where the concentration is not above 0.
    """
    a = jnp.asarray(concentration)
    key, boost_key = jax.random.split(key)
    d = jnp.where(a < 1, a + 1, a) - 1 / 3
    c = 1 / (3 * jnp.sqrt(d))
    tiny = jnp.finfo(a.dtype).tiny

    def propose(carry: Any) -> Any:
        key, out, done = carry
        key, normal_key, uniform_key = jax.random.split(key, 3)
        x = jax.random.normal(normal_key, a.shape, a.dtype)
        u = jax.random.uniform(uniform_key, a.shape, a.dtype)
        root = 1 + c * x
        log_v = 3 * jnp.log(jnp.maximum(root, tiny))
        accepted = (root > 0) & (jnp.log(u) < x * x / 2 + d * (1 - root**3 + log_v))
        return key, jnp.where(done, out, log_v), done | accepted

    start = (key, jnp.full_like(a, jnp.nan), ~((a > 0) & (a < jnp.inf)))
    _, log_v, _ = jax.lax.while_loop(lambda carry: ~jnp.all(carry[2]), propose, start)
    boost = -jax.random.exponential(boost_key, a.shape, a.dtype) / a
    return jnp.log(d) + log_v + jnp.where(a < 1, boost, 0)


def _spread(d: Any, concentration: Any, sample_shape: tuple[int, ...]) -> Any:
    return jnp.broadcast_to(concentration, d.shape(sample_shape))


class Gamma(dist.Gamma):
    """NumPyro's, drawn by `log_gamma`."""

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Any:
        return jnp.exp(log_gamma(key, _spread(self, self.concentration, sample_shape))) / jnp.asarray(
            self.rate
        )


class InverseGamma(dist.InverseGamma):
    """NumPyro's, drawn by `log_gamma`."""

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Any:
        return jnp.asarray(self.rate) * jnp.exp(
            -log_gamma(key, _spread(self, self.concentration, sample_shape))
        )


class Beta(dist.Beta):
    """NumPyro's, drawn by `log_gamma`."""

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Any:
        both = jnp.stack([_spread(self, c, sample_shape) for c in (self.concentration1, self.concentration0)])
        return jax.nn.softmax(log_gamma(key, both), axis=0)[0]


class Dirichlet(dist.Dirichlet):
    """NumPyro's, drawn by `log_gamma`."""

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Any:
        return jax.nn.softmax(log_gamma(key, _spread(self, self.concentration, sample_shape)), axis=-1)
