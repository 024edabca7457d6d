"""Univariate slice sampling (Neal 2003, figures 3 and 5), element by element, or all at once where apart."""

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax, random
from jax.flatten_util import ravel_pytree

from gibbsite.conditional.draws.slice import slice_element, slice_in_turn
from gibbsite.conditional.reads.elements import ElementDensity, element_density
from gibbsite.density import Density
from gibbsite.errors import OptionError
from gibbsite.kernels.base import SiteKernel, StepInfo, step_info
from gibbsite.kernels.blocks.adapt import ScaleTuning, adapt_scale, init_scale
from gibbsite.kernels.blocks.finite import given_to
from gibbsite.kernels.blocks.target import Target, Values

# A slice may be of pieces, as where a number is looked up in a table by its floor: intervals about as long as
# moves are end in the gap and never reach over it. One update in four begins with eight times the width (Neal
# 2003, section 4.1: widths may be drawn), which takes three evaluations more of some six; a gap of a quarter
# of the support was crossed in half as many sweeps as with one in eight.
_REACHES, _REACH = 1 / 4, 8.0


class SliceTuning(NamedTuple):
    """Width of the first interval per coordinate, learned in warm-up from the distance moved."""

    width: jax.Array
    count: jax.Array

    def after(self, flat: jax.Array, start: jax.Array, adapting: jax.Array) -> "SliceTuning":
        """What a move from `start` to `flat` teaches, where it is `adapting`."""
        count = self.count + 1
        # three mean moves is about the width that needs neither stepping out nor much shrinking
        gain = jnp.asarray(count + 1, flat.dtype) ** -0.6
        width = jnp.maximum(self.width + gain * (3.0 * jnp.abs(flat - start) - self.width), 1e-6)
        return SliceTuning(jnp.where(adapting, width, self.width), jnp.where(adapting, count, self.count))


class Slice(SiteKernel):
    """Updates every element of the block's sites by a slice through that element.

    Works in unconstrained coordinates, so any continuous support fits. Elements are updated in turn, which
    costs about seven evaluations of the touched factors each; sites whose elements `density`, the analysis of
    the model, shows to be independent given the rest take their slices side by side, in as many evaluations
    as the slowest of them. `width`: first interval, adapted in warm-up; `max_steps`: most steps out.
    """

    def __init__(
        self, model: Any, width: float = 2.0, max_steps: int = 16, *, density: Density | None = None
    ):
        super().__init__(model)
        self._density = density
        if not width > 0:
            raise OptionError(f"Slice: width must be positive, got {width!r}")
        if int(max_steps) != max_steps or max_steps < 1:
            raise OptionError(f"Slice: max_steps must be a positive integer, got {max_steps!r}")
        self._width, self._max_steps = float(width), int(max_steps)

    def init_tuning(self, z: Values, target: Target) -> SliceTuning:
        flat, _ = ravel_pytree(target.unconstrain(z))
        return SliceTuning(jnp.full_like(flat, self._width), jnp.zeros((), jnp.int32))

    def step(
        self, key: jax.Array, z: Values, tuning: SliceTuning, target: Target, adapting: jax.Array
    ) -> tuple[dict[str, jax.Array], SliceTuning, StepInfo]:
        """One sweep over all elements, site by site where theirs are independent, else in order."""
        free = target.unconstrain(z)
        start, unravel = ravel_pytree(free)
        apart, (key, key_reach) = self._apart(z), random.split(key)
        width = tuning.width * jnp.where(random.bernoulli(key_reach, _REACHES), _REACH, 1.0)
        if apart is None:
            flat, evaluations = slice_in_turn(
                key, lambda u: target.free_logdensity(unravel(u)), start, width, self._max_steps
            )
        else:
            flat, evaluations = self._at_once(key, free, unravel(width), apart, target)
        new = tuning.after(flat, start, adapting)
        return target.constrain(unravel(flat)), new, step_info(1.0, evaluations, jnp.mean(tuning.width))

    def _apart(self, z: Values) -> dict[str, ElementDensity] | None:
        """The conditionals of the elements of each site, where all have them."""
        if self._density is None or any(n not in self._density.latent_vars for n in z):
            return None
        found = {n: element_density(self._density, n) for n in z}
        return {n: d for n, d in found.items() if d is not None} if all(found.values()) else None

    def _at_once(
        self, key: jax.Array, free: Values, width: Values, apart: Mapping[str, ElementDensity], target: Target
    ) -> tuple[jax.Array, jax.Array]:
        assert self._density is not None
        others, data = given_to(self._density, target.args, target.kwargs)
        others |= {n: apart[n].constrained(u) for n, u in free.items()}
        moved, evaluations = dict(free), jnp.zeros((), jnp.int32)
        for i, (name, elements) in enumerate(apart.items()):
            at = partial(elements.at, others=dict(others), data=data)
            moved[name], _, count = slice_element(
                random.fold_in(key, i), at, free[name], None, width[name], self._max_steps
            )
            others[name] = elements.constrained(moved[name])
            evaluations = evaluations + count
        return ravel_pytree(moved)[0], evaluations


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
