"""The compiled part of a run: all chains at once on one device, any number of steps per call."""

import copy
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
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


# starting values are computed once: compiling them fast matters more than running them fast
_COMPILE_FAST = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


class Engine:
    """Initialises and advances the chains of one plan.

    One step loop is compiled, with the number of steps as an argument, so the draws do not depend on how
    the run was cut into chunks. `capacity` bounds the steps of one call.
    """

    def __init__(self, plan: Plan, chains: int, warmup: int, capacity: int):
        self.plan, self.chains, self.warmup, self.capacity = plan, chains, warmup, capacity
        self._programs: dict[str, Any] = {}

    def rebound(self, plan: Plan) -> "Engine":
        """The same compiled programs for a plan of equal `cache_key` with other data."""
        engine = copy.copy(self)
        engine.plan = plan
        return engine

    def compile(self) -> None:
        """Compile both programs, side by side; does nothing where that is done already."""
        if self._programs:
            return
        keys = jax.random.split(jax.random.key(0), self.chains)
        init = jax.jit(self._init_chains).lower(keys, self.plan.inputs)
        fast = _COMPILE_FAST if jax.default_backend() == "cpu" else None
        with ThreadPoolExecutor(1) as other:
            compiled_init = other.submit(init.compile, compiler_options=fast)
            steps = jax.ShapeDtypeStruct((), jnp.int32)
            advance = jax.jit(self._advance_chains).lower(init.out_info, self.plan.inputs, steps).compile()
            self._programs.update(init=compiled_init.result(), advance=advance)

    def init(self, key: Any) -> Any:
        """Initial state of all chains, leading axis chain."""
        return self._programs["init"](jax.random.split(key, self.chains), self.plan.inputs)

    def advance(self, state: Any, steps: int) -> tuple[Any, Chunk]:
        """Make `steps` sweeps (at most `capacity`) in every chain."""
        count = jnp.asarray(steps, jnp.int32)
        state, buffers = self._programs["advance"](state, self.plan.inputs, count)
        values, stats = jax.tree.map(lambda b: b[:steps], buffers)
        return state, Chunk(values, stats)

    def _init_chains(self, keys: Any, inputs: Any) -> Any:
        kwargs = {INPUTS: inputs}
        return jax.vmap(lambda k: self.plan.kernel.init(k, self.warmup, None, (), kwargs))(keys)

    def _advance_chains(self, state: Any, inputs: Any, steps: Any) -> Any:
        kwargs = {INPUTS: inputs}

        def record(s: Any) -> Any:
            values = self.plan.kernel.postprocess_fn((), kwargs)(s.z)
            return {n: v for n, v in values.items() if n in self.plan.sites}, block_stats(s.block_states)

        def sweep(s: Any) -> Any:
            s = self.plan.kernel.sample(s, (), kwargs)
            return s, record(s)

        shapes = jax.eval_shape(jax.vmap(record), state)
        buffers = jax.tree.map(lambda a: jnp.zeros((self.capacity, *a.shape), a.dtype), shapes)

        def body(carry: Any) -> Any:
            i, s, bufs = carry
            s, out = jax.vmap(sweep)(s)
            return i + 1, s, jax.tree.map(lambda b, v: b.at[i].set(v), bufs, out)

        start = (jnp.zeros((), jnp.int32), state, buffers)
        _, state, buffers = jax.lax.while_loop(lambda carry: carry[0] < steps, body, start)
        return state, buffers
