"""Univariate slice sampling (Neal 2003, figures 3 and 5), element by element."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax, random
from jax.flatten_util import ravel_pytree

from gibbsite.errors import OptionError
from gibbsite.kernels.base import SiteKernel, StepInfo, step_info
from gibbsite.kernels.target import Target, Values

_MAX_SHRINKS = 100


class SliceTuning(NamedTuple):
    """Width of the first interval per coordinate, learned in warm-up from the distance moved."""

    width: jax.Array
    count: jax.Array


class Slice(SiteKernel):
    """Updates every element of the block's sites in turn, by a slice through that element.

    Works in unconstrained coordinates, so any continuous support fits. One sweep costs about six
    evaluations of the touched factors per element. `width`: first interval, adapted in warm-up;
    `max_steps`: most steps out.
    """

    def __init__(self, model: Any, width: float = 2.0, max_steps: int = 16):
        super().__init__(model)
        if not width > 0:
            raise OptionError(f"Slice: width must be positive, got {width!r}")
        if int(max_steps) != max_steps or max_steps < 1:
            raise OptionError(f"Slice: max_steps must be a positive integer, got {max_steps!r}")
        self._width, self._max_steps = float(width), int(max_steps)

    def init_tuning(self, z: Values, target: Target) -> SliceTuning:
        """Equal widths."""
        flat, _ = ravel_pytree(target.unconstrain(z))
        return SliceTuning(jnp.full_like(flat, self._width), jnp.zeros((), jnp.int32))

    def step(
        self, key: jax.Array, z: Values, tuning: SliceTuning, target: Target, adapting: jax.Array
    ) -> tuple[dict[str, jax.Array], SliceTuning, StepInfo]:
        """One sweep over all elements in order."""
        start, unravel = ravel_pytree(target.unconstrain(z))

        def update(i: jax.Array, carry: Any) -> Any:
            flat, here, evaluations = carry

            def logdensity(x: jax.Array) -> jax.Array:
                return target.free_logdensity(unravel(flat.at[i].set(x)))

            x, here, count = slice_element(
                random.fold_in(key, i), logdensity, flat[i], here, tuning.width[i], self._max_steps
            )
            return flat.at[i].set(x), here, evaluations + count

        first = (start, target.free_logdensity(unravel(start)), jnp.ones((), jnp.int32))
        flat, _, evaluations = lax.fori_loop(0, start.shape[0], update, first)
        count = tuning.count + 1
        # three mean moves is about the width that needs neither stepping out nor much shrinking
        gain = jnp.asarray(count + 1, flat.dtype) ** -0.6
        width = jnp.maximum(tuning.width + gain * (3.0 * jnp.abs(flat - start) - tuning.width), 1e-6)
        new = SliceTuning(jnp.where(adapting, width, tuning.width), jnp.where(adapting, count, tuning.count))
        return target.constrain(unravel(flat)), new, step_info(1.0, evaluations, jnp.mean(tuning.width))


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
