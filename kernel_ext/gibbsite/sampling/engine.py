"""The compiled part of a run: all chains at once on one device, any number of steps per call."""

import copy
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from gibbsite.kernels.plan import Plan

INPUTS = "_gibbsite_inputs"
# fields of block states that are worth recording, by the name under which people know them
_FIELDS = {
    "diverging": "diverging",
    "accept_prob": "acceptance_rate",
    "num_steps": "n_steps",
    "energy": "energy",
    "potential_energy": "potential_energy",
}


@dataclass(frozen=True)
class Chunk:
    """What some consecutive steps produced, leading axes `[step, chain]`; `stats` by block number."""

    values: dict[str, Any]
    stats: dict[str, Any]


def block_stats(states: tuple[Any, ...]) -> dict[str, Any]:
    """The recordable fields of every block's state, as `"<block>.<name>"`."""
    out = {}
    for i, state in enumerate(states):
        for field, name in _FIELDS.items():
            if hasattr(state, field):
                out[f"{i}.{name}"] = getattr(state, field)
        adapted = getattr(state, "adapt_state", None)
        step_size = getattr(adapted, "step_size", None) if adapted is not None else None
        if step_size is None:
            step_size = getattr(state, "step_size", None)
        if step_size is not None:
            out[f"{i}.step_size"] = step_size
    return out


class Engine:
    """Initialises and advances the chains of one plan.

    One step loop is compiled, with the number of steps as an argument, so the draws do not depend on how
    the run was cut into chunks. `capacity` bounds the steps of one call.
    """

    def __init__(self, plan: Plan, chains: int, warmup: int, capacity: int):
        self.plan, self.chains, self.warmup, self.capacity = plan, chains, warmup, capacity
        self._init = jax.jit(self._init_chains)
        self._advance = jax.jit(self._advance_chains)

    def rebound(self, plan: Plan) -> "Engine":
        """The same compiled programs for a plan of equal `cache_key` with other data."""
        engine = copy.copy(self)
        engine.plan = plan
        return engine

    def init(self, key: Any, init_params: Any = None) -> Any:
        """Initial state of all chains, leading axis chain."""
        return self._init(jax.random.split(key, self.chains), self.plan.inputs, init_params)

    def advance(self, state: Any, steps: int) -> tuple[Any, Chunk]:
        """Make `steps` sweeps (at most `capacity`) in every chain."""
        state, buffers = self._advance(state, self.plan.inputs, jnp.asarray(steps, jnp.int32))
        values, stats = jax.tree.map(lambda b: b[:steps], buffers)
        return state, Chunk(values, stats)

    def _init_chains(self, keys: Any, inputs: Any, init_params: Any) -> Any:
        start = partial(self.plan.kernel.init, model_args=(), model_kwargs={INPUTS: inputs})
        return jax.vmap(lambda k: start(k, self.warmup, init_params))(keys)

    def _record(self, state: Any, kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        values = self.plan.kernel.postprocess_fn((), kwargs)(state.z)
        kept = {n: v for n, v in values.items() if n in self.plan.sites}
        return kept, block_stats(state.block_states)

    def _advance_chains(self, state: Any, inputs: Any, steps: Any) -> Any:
        kwargs = {INPUTS: inputs}

        def one(s: Any) -> tuple[Any, Any]:
            s = self.plan.kernel.sample(s, (), kwargs)
            return s, self._record(s, kwargs)

        sweep = jax.vmap(one)
        shapes = jax.eval_shape(lambda s: sweep(s)[1], state)
        buffers = jax.tree.map(lambda a: jnp.zeros((self.capacity, *a.shape), a.dtype), shapes)

        def body(i: Any, carry: Any) -> Any:
            s, bufs = carry
            s, out = sweep(s)
            return s, jax.tree.map(lambda b, v: b.at[i].set(v), bufs, out)

        return jax.lax.fori_loop(0, steps, body, (state, buffers))
