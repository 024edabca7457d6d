"""Univariate slice sampling (Neal 2003, figures 3 and 5), element by element."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax, random
from jax.flatten_util import ravel_pytree

from gibbsite.conditional.draws.slice import slice_element
from gibbsite.errors import OptionError
from gibbsite.kernels.base import SiteKernel, StepInfo, step_info
from gibbsite.kernels.blocks.target import Target, Values


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
