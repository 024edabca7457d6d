"""Replicas between a reference and a density: how they exchange places, and where their rungs stand."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import random


class Swaps(NamedTuple):
    """Which replica each rung takes `[rung]`, and the probability that each pair of neighbours rejects an
    exchange `[rung - 1]`."""

    taken: jax.Array
    rejects: jax.Array


def swaps(key: jax.Array, betas: jax.Array, log_ratio: jax.Array, odd: jax.Array) -> Swaps:
    """Exchanges of neighbouring replicas, whose log densities beside the reference's are `log_ratio`
    `[rung]`: of the odd pairs or of the even ones, in turn and not at random, which makes replicas go on in
    the direction in which they went (Okabe and others 2001; Syed and others 2022). Each is accepted as
    Metropolis has it, so that every rung's density is left as it is."""
    rungs = betas.shape[0]
    gain = jnp.diff(betas) * (log_ratio[:-1] - log_ratio[1:])
    gain = jnp.where(jnp.isnan(gain), -jnp.inf, gain)
    accepts = jnp.exp(jnp.minimum(gain, 0.0))
    pair = jnp.arange(rungs - 1)
    turn = pair % 2 == jnp.where(odd, 1, 0)
    swapped = turn & (random.uniform(key, (rungs - 1,), betas.dtype) < accepts)
    up = jnp.concatenate([swapped, jnp.zeros(1, bool)])
    down = jnp.concatenate([jnp.zeros(1, bool), swapped])
    at = jnp.arange(rungs)
    return Swaps(jnp.where(up, at + 1, jnp.where(down, at - 1, at)), 1 - accepts)


def even_rungs(betas: jax.Array, rejects: jax.Array) -> jax.Array:
    """Rungs `[rung]` between which, by the mean rejections between those of now `[rung - 1]`, exchanges are
    rejected equally often (Syed and others 2022, algorithm 4): evenly spaced in the communication barrier."""
    barrier = jnp.concatenate([jnp.zeros(1), jnp.cumsum(rejects + 1e-3)])
    wanted = jnp.linspace(0.0, 1.0, betas.shape[0]) * barrier[-1]
    return jnp.interp(wanted, barrier, betas).at[0].set(0.0).at[-1].set(1.0).astype(betas.dtype)


def first_rungs(rungs: int) -> jax.Array:
    """Where rungs stand before anything is known: closer to the reference, where densities change most."""
    return jnp.linspace(0.0, 1.0, rungs) ** 3
