"""Reflective slice sampling (Neal 2003, section 7), reflecting from outside points."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax, random
from jax.flatten_util import ravel_pytree

from gibbsite.errors import OptionError
from gibbsite.kernels.base import SiteKernel, StepInfo, step_info
from gibbsite.kernels.blocks.adapt import ScaleTuning, adapt_scale, init_scale
from gibbsite.kernels.blocks.target import Target, Values


class ReflectiveSlice(SiteKernel):
    """Moves all elements of the block at constant velocity inside a slice, bouncing off its edge.

    Steps of `step_size` (times the standard deviation of each coordinate, both adapted in warm-up);
    wherever a step lands outside the slice the velocity is reflected in the gradient there; the end point
    is accepted if it lies in the slice. `target_inside`: share of steps inside that warm-up aims for. Works
    in unconstrained coordinates; needs gradients. `num_steps` evaluations of the
    gradient per update.
    """

    def __init__(self, model: Any, step_size: float = 0.3, num_steps: int = 10, target_inside: float = 0.8):
        super().__init__(model)
        if not step_size > 0:
            raise OptionError(f"ReflectiveSlice: step_size must be positive, got {step_size!r}")
        if int(num_steps) != num_steps or num_steps < 1:
            raise OptionError(f"ReflectiveSlice: num_steps must be a positive integer, got {num_steps!r}")
        if not 0 < target_inside < 1:
            raise OptionError(f"ReflectiveSlice: target_inside must lie in (0, 1), got {target_inside!r}")
        self._step_size, self._num_steps = float(step_size), int(num_steps)
        self._inside = float(target_inside)

    def init_tuning(self, z: Values, target: Target) -> ScaleTuning:
        """Unit scales."""
        flat, _ = ravel_pytree(target.unconstrain(z))
        return init_scale(flat, self._step_size)

    def step(
        self, key: jax.Array, z: Values, tuning: ScaleTuning, target: Target, adapting: jax.Array
    ) -> tuple[dict[str, jax.Array], ScaleTuning, StepInfo]:
        """Volume preserving and, up to the sign of the velocity, its own inverse; so accepted as it is."""
        start, unravel = ravel_pytree(target.unconstrain(z))
        scale = tuning.scale
        evaluate = jax.value_and_grad(lambda flat: target.free_logdensity(unravel(flat)))
        key_height, key_velocity, key_jitter = random.split(key, 3)
        height = target.free_logdensity(unravel(start)) - random.exponential(key_height, dtype=start.dtype)
        # a jittered speed breaks the resonance of fixed-length trajectories
        jitter = random.uniform(key_jitter, dtype=start.dtype, minval=0.8, maxval=1.2)
        velocity = random.normal(key_velocity, start.shape, start.dtype) * jitter

        def move(carry: Any, _: Any) -> Any:
            flat, velocity = carry
            flat = flat + scale * velocity
            value, gradient = evaluate(flat)
            normal = scale * jnp.nan_to_num(gradient, nan=0.0, posinf=0.0, neginf=0.0)
            normal = normal / jnp.maximum(jnp.linalg.norm(normal), 1e-30)
            bounced = velocity - 2.0 * normal * jnp.vdot(normal, velocity)
            return (flat, jnp.where(value > height, velocity, bounced)), value

        (flat, _), values = lax.scan(move, (start, velocity), None, length=self._num_steps)
        accepted = values[-1] > height
        flat = jnp.where(accepted, flat, start)
        # adapt to the share of steps inside: end points alone also look good where giant steps bounce back
        inside = jnp.mean((values > height).astype(start.dtype))
        new = adapt_scale(tuning, flat, inside, self._inside, adapting)
        info = step_info(accepted, self._num_steps + 1, jnp.exp(tuning.log_scale))
        return target.constrain(unravel(flat)), new, info
