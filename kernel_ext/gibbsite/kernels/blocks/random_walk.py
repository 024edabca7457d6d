"""Random-walk Metropolis with scales adapted in warm-up."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax import random
from jax.flatten_util import ravel_pytree

from gibbsite.density.model.bounds import base_constraint
from gibbsite.errors import OptionError, ScheduleError
from gibbsite.kernels.base import SiteKernel, StepInfo, step_info
from gibbsite.kernels.blocks.adapt import ScaleTuning, adapt_scale, init_scale
from gibbsite.kernels.blocks.finite import INPUTS_KWARG
from gibbsite.kernels.blocks.target import Target, Values


class RandomWalk(SiteKernel):
    """Gaussian random-walk Metropolis on all elements of the block together.

    Continuous sites move in unconstrained coordinates; integer sites (Poisson, …) by a rounded Gaussian step,
    which is symmetric too. `step_size`: first scale; global scale and one standard deviation per element are
    adapted in warm-up towards `target_accept_prob` (.44 for one element, .234 for more, unless given). With
    `argument` that is read from the compiled program's inputs, where it is called so (NaN: not given): others
    need no other program.
    """

    def __init__(
        self,
        model: Any,
        step_size: float = 1.0,
        target_accept_prob: float | None = None,
        argument: str | None = None,
    ):
        super().__init__(model)
        if not step_size > 0:
            raise OptionError(f"RandomWalk: step_size must be positive, got {step_size!r}")
        if target_accept_prob is not None and not 0 < target_accept_prob < 1:
            raise OptionError(
                f"RandomWalk: target_accept_prob must lie in (0, 1), got {target_accept_prob!r}"
            )
        self._step_size, self._accept, self._argument = float(step_size), target_accept_prob, argument

    def check(self, name: str, site: Mapping[str, Any]) -> None:
        """Any support but discrete vectors (Multinomial), whose elements cannot move one by one."""
        support = site["fn"].support
        if support.is_discrete and base_constraint(support).event_dim > 0:
            raise ScheduleError(f"RandomWalk cannot update {name!r}: its support couples integers")

    def init_tuning(self, z: Values, target: Target) -> ScaleTuning:
        flat, _ = ravel_pytree(_as_float(target.unconstrain(z)))
        return init_scale(
            flat, self._step_size if flat.shape[0] == 1 else self._step_size / flat.shape[0] ** 0.5
        )

    def step(
        self, key: jax.Array, z: Values, tuning: ScaleTuning, target: Target, adapting: jax.Array
    ) -> tuple[dict[str, jax.Array], ScaleTuning, StepInfo]:
        """Propose, accept or stay, adapt."""
        here = target.unconstrain(z)
        flat, unravel = ravel_pytree(_as_float(here))
        key_move, key_accept = random.split(key)
        shift = unravel(tuning.scale * random.normal(key_move, flat.shape, flat.dtype))
        there = {name: x + _as_step(shift[name], x.dtype) for name, x in here.items()}
        log_ratio = target.free_logdensity(there) - target.free_logdensity(here)
        accepted = -random.exponential(key_accept, dtype=flat.dtype) < log_ratio
        new = {name: jnp.where(accepted, there[name], here[name]) for name in here}
        accept_prob = jnp.exp(jnp.minimum(jnp.nan_to_num(log_ratio, nan=-jnp.inf, neginf=-jnp.inf), 0.0))
        aim = self._aim(target, 0.44 if flat.shape[0] == 1 else 0.234)
        # an integer coordinate whose scale fell below half a unit would never move again
        floor = ravel_pytree({n: jnp.full(x.shape, _floor(x.dtype), flat.dtype) for n, x in here.items()})[0]
        tuning_new = adapt_scale(tuning, ravel_pytree(_as_float(new))[0], accept_prob, aim, adapting, floor)
        info = step_info(accept_prob, 2, jnp.exp(tuning.log_scale))
        return target.constrain(new), tuning_new, info

    def _aim(self, target: Target, usual: float) -> Any:
        """The acceptance that is aimed at."""
        asked = target.kwargs.get(INPUTS_KWARG, {}).get("options", {}).get(self._argument)
        return self._accept or usual if asked is None else jnp.where(jnp.isnan(asked), usual, asked)


def _as_float(u: Values) -> dict[str, jax.Array]:
    return {name: x.astype(jnp.result_type(float)) for name, x in u.items()}


def _as_step(shift: jax.Array, dtype: Any) -> jax.Array:
    if jnp.issubdtype(dtype, jnp.floating):
        return shift.astype(dtype)
    return jnp.round(shift).astype(dtype)


def _floor(dtype: Any) -> float:
    return 1e-12 if jnp.issubdtype(dtype, jnp.floating) else 0.5
