"""What no observation can see, drawn forward from the state of a chain: once per draw, not once per step."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from numpyro import handlers

from gibbsite.errors import ModelError
from gibbsite.plans.schedule.plan import Plan

# tells the key of predictions from those that kernels make of the same one
_PREDICTIONS = 0x7072


def forward(kernel: Any, plan: Plan, state: Any, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The recorded values of one chain, by site: the kernel's, and everything that follows from them by the
    model as written. A function of the state alone, so the cut of a run does not matter."""
    values = dict(kernel.get_constrain_fn((), dict(kwargs))(state.z))
    for group, members in plan.stacked.items():
        if group in values:
            stack = values.pop(group)
            values.update({m: stack[i] for i, m in enumerate(members)})
    model = handlers.substitute(plan.model, data=values)
    traced = handlers.trace(handlers.seed(model, _key(state))).get_trace(**kwargs)
    out = {}
    for n in plan.sites:
        if n in traced:
            out[n] = jnp.asarray(traced[n]["value"])
        else:
            out[n] = jnp.stack([jnp.asarray(traced[m]["value"]) for m in plan.stacked[n]])
    return out


def _key(state: Any) -> Any:
    """A random key that changes with every step: of the first block that has one."""
    for leaf in jax.tree.leaves(state.block_states):
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) and jnp.ndim(leaf) == 0:
            return jax.random.fold_in(leaf, _PREDICTIONS)
    raise ModelError(
        "predictions are drawn by a random key of the kernels, and no block of this schedule keeps one in "
        "its state; name the predictions in the schedule, with a kernel of their own"
    )
