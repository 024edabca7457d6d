"""The compiled part of a run over structures: an engine whose program is made anew as more are known."""

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gibbsite.density.model.alone import handlers_alone
from gibbsite.plans.schedule.plan import Plan
from gibbsite.programs.jaxpr.compiling import compiled
from gibbsite.programs.passes.for_cpu import lowered_for_cpu
from gibbsite.sampling.engine.engine import Engine
from gibbsite.sampling.engine.in_flight import Chunk, Flight
from gibbsite.sampling.engine.stages import COMPILING, TRACING
from gibbsite.structure.automaton import Automaton, ChainState


class Leg(Flight):
    """Steps on their way that may turn out fewer, where a chain proposes an unknown structure; `more` then
    makes it known, and gives a flight of the steps that are left. There is one step at least."""

    def __init__(self, begin: Callable[[], Any], steps: int, warming: bool, more: Callable[[Any], Flight]):
        super().__init__(begin, steps, warming)
        self._more = more

    def landed(self) -> tuple[Chunk, float]:
        """As a flight's."""
        if self._error is not None:
            raise self._error
        self.state, done, buffers = jax.block_until_ready((self.state, *self._buffers))
        if int(done) == 0:
            again = self._more(self.state)
            chunk, _ = again.landed()
            self.state, self.steps = again.state, again.steps
            return chunk, time.monotonic() - self.began
        self.steps, self._buffers = int(done), buffers
        values, stats = jax.tree.map(self._fetched, buffers)
        return Chunk(values, stats), time.monotonic() - self.began


class StructureEngine(Engine):
    """Advances chains over the structures that are known.

    Chains take their steps one after another, so that each runs the program of its own structure alone, and
    all stop before the step in which any proposes an unknown one.
    """

    kernel: Automaton  # type: ignore[assignment]

    _grown: Callable[[ChainState], ChainState]

    def grows_by(self, grown: Callable[[ChainState], ChainState]) -> None:
        """Ask this for a state to go on from, where chains propose what is not known; by then the engine has
        `become` what knows it."""
        self._grown = grown

    def become(self, plan: Plan) -> None:
        """Run a plan that knows more structures; it is compiled anew."""
        self.plan, self.kernel, self._programs = plan, plan.kernel, {}  # type: ignore[assignment]

    def _compile(self, tell: Callable[[str, bool], None]) -> None:
        automaton = self.kernel
        tell(TRACING, False)
        automaton.ready()
        state = jax.eval_shape(self._begin, self._first_keys(0, 0), np.zeros(self.chains, np.int32))[0]
        count = jax.ShapeDtypeStruct((), jnp.int32)
        with handlers_alone:
            lowered = self._lowered(self._advance, state, self.plan.inputs, count)
        tell(COMPILING, False)
        on_cpu = self.devices[0].platform == "cpu"
        # as many numbers for every list of structures: the same options for all their programs
        advance = compiled(lowered, on=automaton.known[0].inputs if on_cpu else None, expect=self._expect)
        self._programs.update(template=state, advance=advance)

    def _lowered(self, fn: Any, *arguments: Any) -> Any:
        if self.devices[0].platform == "cpu":
            return lowered_for_cpu(fn, *arguments)
        return jax.jit(fn).lower(*arguments)

    def compile_rest(self) -> None:
        """Nothing."""

    def _first_keys(self, seed: int, attempt: int) -> Any:
        first, total = self.share
        key = jax.random.fold_in(jax.random.key(seed), attempt)
        return jax.random.split(key, total)[first : first + self.chains]

    def _begin(self, keys: Any, index: Any) -> tuple[ChainState, Any]:
        return lax.map(lambda at: self.kernel.begin(*at), (keys, index))

    def begin(self, seed: int, attempt: int, index: np.ndarray) -> tuple[ChainState, np.ndarray]:
        """Chains in the structures `index`, and the log densities there."""
        arguments = self._first_keys(seed, attempt), np.asarray(index, np.int32)
        if "begin" not in self._programs:
            with handlers_alone:
                lowered = self._lowered(self._begin, *arguments)
            self._programs["begin"] = compiled(lowered, quickly=self.devices[0].platform == "cpu")
        state, level = self._programs["begin"](*arguments)
        return state, np.asarray(level)

    def depart(
        self, state: Any, steps: int, warming: bool, done: int | None = None, warmup: int | None = None
    ) -> Flight:
        """As an engine's; the flight may make fewer steps."""

        def begin() -> Any:
            found, made, buffers = self._programs["advance"](state, self.plan.inputs, np.int32(steps))
            return found, (made, buffers)

        def more(stuck: Any) -> Flight:
            return self.depart(self._grown(stuck), steps, warming)  # on the device that it was on

        return Leg(begin, steps, warming, more)

    def _advance(self, state: ChainState, inputs: Any, steps: Any) -> Any:
        automaton, ways = self.kernel, inputs["ways"]

        def records(s: ChainState) -> Any:
            return automaton.records(s), {"0.acceptance_rate": s.accept, "0.diverging": s.diverging}

        shapes = jax.eval_shape(lambda s: lax.map(records, s), state)
        buffers = jax.tree.map(lambda a: jnp.zeros((self.capacity, *a.shape), a.dtype), shapes)

        def body(carry: Any) -> Any:
            i, s, _, bufs = carry
            new = lax.map(lambda one: automaton.step(one, ways), s)
            stuck = jnp.any(new.stuck)
            kept = s._replace(stuck=new.stuck, wanted=new.wanted)
            new = jax.tree.map(lambda a, b: jnp.where(stuck, a, b), kept, new)
            out = lax.map(records, new)
            # a step that was not made is written over, or not read
            bufs = jax.tree.map(lambda b, v: lax.dynamic_update_index_in_dim(b, v, i, 0), bufs, out)
            return i + jnp.where(stuck, 0, 1), new, stuck, bufs

        start = (jnp.zeros((), jnp.int32), state, jnp.zeros((), bool), buffers)
        i, state, _, buffers = lax.while_loop(lambda c: (c[0] < steps) & ~c[2], body, start)
        return state, i, buffers
