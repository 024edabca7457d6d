"""Warm-up adaptation shared by the Metropolis and slice kernels."""

from typing import NamedTuple

import jax
import jax.numpy as jnp


class ScaleTuning(NamedTuple):
    """A global log scale and running moments per coordinate, all frozen after warm-up."""

    log_scale: jax.Array
    mean: jax.Array
    variance: jax.Array
    count: jax.Array

    @property
    def scale(self) -> jax.Array:
        """Scale per coordinate."""
        return jnp.exp(self.log_scale) * jnp.sqrt(self.variance)


def init_scale(u: jax.Array, scale: float | jax.Array) -> ScaleTuning:
    """Start from `scale` times unit variances around the flat coordinates `u`."""
    return ScaleTuning(jnp.log(jnp.asarray(scale, u.dtype)), u, jnp.ones_like(u), jnp.zeros((), jnp.int32))


def adapt_scale(
    tuning: ScaleTuning,
    u: jax.Array,
    accept_prob: jax.Array,
    target: float | jax.Array,
    adapting: jax.Array,
    floor: float | jax.Array = 1e-12,
) -> ScaleTuning:
    """One Robbins–Monro step towards acceptance `target` and the moments of `u` (flat coordinates).

    `floor`: least variance, per coordinate or for all.

    Andrieu and Thoms, "A tutorial on adaptive MCMC" (2008), algorithm 4 with a diagonal covariance.
    """
    count = tuning.count + 1
    gain = jnp.asarray(count + 9, u.dtype) ** -0.6
    delta = u - tuning.mean
    new = ScaleTuning(
        tuning.log_scale + 2.0 * gain * (accept_prob - target),
        tuning.mean + gain * delta,
        jnp.maximum(tuning.variance + gain * (delta**2 - tuning.variance), floor),
        count,
    )
    return jax.tree.map(lambda a, b: jnp.where(adapting, jnp.asarray(a, b.dtype), b), new, tuning)
