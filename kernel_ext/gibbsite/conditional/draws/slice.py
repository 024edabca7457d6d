"""One slice update of a single number (Neal 2003, "Slice sampling", figures 3 and 5)."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax, random

_MAX_SHRINKS = 100


def slice_element(
    key: jax.Array, logdensity: Any, x: jax.Array, here: jax.Array, width: jax.Array, max_steps: int
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """One slice update of a scalar `x` with logdensity `here`: new value, its logdensity, evaluations."""
    key_height, key_place, key_split, key_draw = random.split(key, 4)
    height = here - random.exponential(key_height, dtype=x.dtype)
    left = x - width * random.uniform(key_place, dtype=x.dtype)
    # the budget of steps is divided at random, which keeps the update reversible
    left_steps = jnp.floor(max_steps * random.uniform(key_split)).astype(jnp.int32)

    def step_out(edge: jax.Array, steps: jax.Array, move: jax.Array) -> tuple[jax.Array, jax.Array]:
        def cond(carry: Any) -> jax.Array:
            _, left, value, _ = carry
            return (left > 0) & (value > height)

        def body(carry: Any) -> Any:
            edge, left, _, count = carry
            edge = edge + move
            return edge, left - 1, logdensity(edge), count + 1

        edge, _, _, count = lax.while_loop(
            cond, body, (edge, steps, logdensity(edge), jnp.ones((), jnp.int32))
        )
        return edge, count

    low, n_left = step_out(left, left_steps, -width)
    high, n_right = step_out(left + width, max_steps - 1 - left_steps, width)

    def cond(carry: Any) -> jax.Array:
        *_, value, count = carry
        return ~(value > height) & (count < _MAX_SHRINKS)

    def body(carry: Any) -> Any:
        low, high, _, key, _, count = carry
        key, key_x = random.split(key)
        new = low + (high - low) * random.uniform(key_x, dtype=x.dtype)
        value = logdensity(new)
        low, high = jnp.where(new < x, new, low), jnp.where(new < x, high, new)
        return low, high, new, key, value, count + 1

    first = (low, high, x, key_draw, jnp.full_like(here, -jnp.inf), jnp.zeros((), jnp.int32))
    _, _, new, _, value, count = lax.while_loop(cond, body, first)
    found = value > height  # after so many shrinks the bracket has collapsed onto x
    return jnp.where(found, new, x), jnp.where(found, value, here), count + n_left + n_right
