"""The compiled part of a run over structures: loops of those that are known, and moves between loops."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gibbsite.density.model.alone import handlers_alone
from gibbsite.plans.schedule.plan import Plan
from gibbsite.programs.jaxpr.compiling import compiled
from gibbsite.programs.passes.for_cpu import lowered_for_cpu
from gibbsite.sampling.engine.abandonable import beside
from gibbsite.sampling.engine.engine import Engine
from gibbsite.sampling.engine.in_flight import Flight
from gibbsite.sampling.engine.stages import COMPILING, TRACING
from gibbsite.storage.draws import Chunk
from gibbsite.structure.automaton import (
    INDEX,
    Automaton,
    ChainState,
    Inside,
    Loop,
    keys_of,
    widths,
    with_room,
)

_ROWS = 256
"""Steps that a chain makes in a loop before what it drew is fetched: the call costs some 50 µs, a step 5 µs
and more; and as many rows are zeroed at every call, which chains that leave after two steps pay, too."""


_DOUBLES = 5
"""So many structures take twice as long to compile as one loop as they take apart, and the factor grows
linearly (two, four and six mixtures: 1.3, 1.7 and 2.3 times)."""


class Leg(Flight):
    """Steps that are made when they land: a chain may propose what has to be made known first."""

    def __init__(self, make: Callable[[], tuple[Any, Chunk]], steps: int, warming: bool):
        super().__init__(lambda: (None, None), steps, warming)
        self._make = make

    def landed(self) -> tuple[Chunk, float]:
        """As a flight's."""
        began = time.monotonic()
        self.state, chunk = self._make()
        return chunk, time.monotonic() - began


class _Stay(NamedTuple):
    """Consecutive steps of one chain in one loop: the number of the first, that of the loop's first
    structure, and what was kept, `[step, …]` by name."""

    at: int
    first: int
    values: Mapping[str, np.ndarray]
    stats: Mapping[str, np.ndarray]


class _Programs:
    """A loop of structures, the first of which is the `first` known one, and its programs, each compiled when
    a chain first needs it: a structure that is proposed, and never entered, has no sweep compiled."""

    def __init__(
        self,
        ways: Any,
        known: Sequence[Any],
        first: int,
        compile_: Callable[..., Any],
        busy: Callable[[], AbstractContextManager[Any]],
    ):
        self.loop, self.first, self._compile, self._busy = Loop(ways, known), first, compile_, busy
        self._made: dict[str, Any] = {}
        self.seconds = 0.0  # that compiling took

    def _program(self, name: str, fn: Any, *arguments: Any, quickly: bool = False) -> Any:
        if name not in self._made:
            with self._busy():
                began = time.monotonic()
                for s in self.loop.known:  # no program can be run while another is traced
                    s.looked_at()
                if name == "run":
                    self.loop.ready()
                    arguments = (*arguments, self.loop.inputs)
                self._made[name] = self._compile(fn, arguments, quickly)
                self.seconds += time.monotonic() - began
        return self._made[name]

    def made(self, *shapes: Any) -> None:
        """Compile what runs on arguments of these shapes."""
        self._program("run", partial(self.loop.run, rows=_ROWS), *shapes)

    def started(self, *shapes: Any) -> None:
        """Compile what makes states from arguments of these shapes: once for each chain, so quickly."""
        self._program("begin", self.loop.begin, *shapes, quickly=True)

    def run(self, *arguments: Any) -> Any:
        """See `Loop.run`."""
        found = self._program("run", partial(self.loop.run, rows=_ROWS), *arguments)
        return found(*arguments, self.loop.inputs)

    def met(self, *arguments: Any) -> Any:
        """See `Loop.met`."""
        return self._program("met", self.loop.met, *arguments)(*arguments)

    def begin(self, *arguments: Any) -> Any:
        """See `Loop.begin`."""
        return self._program("begin", self.loop.begin, *arguments, quickly=True)(*arguments)


class StructureEngine(Engine):
    """Advances chains over the structures that are known, one chain after the other.

    Where there are few structures, and all are known at the beginning, they are one loop; else each is one,
    which is compiled when a chain comes to it: what XLA takes for a program grows faster than the structures
    in it. Where moves between loops have taken longer than compiling all as one loop will, that is done.
    """

    kernel: Automaton  # type: ignore[assignment]

    _learnt: Callable[[Any], None]
    _busy: Callable[[], AbstractContextManager[Any]] = nullcontext

    def learns_by(
        self, learnt: Callable[[Any], None], busy: Callable[[], AbstractContextManager[Any]]
    ) -> None:
        """Ask `learnt` for what knows a way that a chain proposes; by then the engine has `become` that.
        Programs are compiled within a context `busy`."""
        self._learnt, self._busy = learnt, busy

    def become(self, plan: Plan) -> None:
        """Run a plan that knows more structures, of which each is a loop."""
        self.plan, self.kernel = plan, plan.kernel  # type: ignore[assignment]
        loops = self._programs["loops"]
        for i in range(loops[-1].first + len(loops[-1].loop.known), len(self.kernel.known)):
            loops.append(self._loop(i, i + 1))
        self._programs["template"] = self.kernel.template(self.chains)

    def _loop(self, first: int, end: int) -> _Programs:
        known = self.kernel.known[first:end]
        return _Programs(self.kernel.ways, known, first, self._made, lambda: self._busy())

    def _compile(self, tell: Callable[[str, bool], None]) -> None:
        tell(TRACING, False)
        template, number = self.kernel.template(self.chains), len(self.kernel.known)
        if self.kernel.whole:
            whole = self._loop(0, number)
            whole.loop.ready()
            tell(COMPILING, False)
            one: Any = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), template)
            flag, proposal = jax.ShapeDtypeStruct((), bool), jax.ShapeDtypeStruct((), np.uint32)
            begun = Inside(*one, leaves=flag, proposal=proposal)
            place = jax.ShapeDtypeStruct((), np.int32)
            with beside(lambda: whole.started(begun.rng_key, place, begun.z, dict.fromkeys(begun.z, flag))):
                whole.made(begun, flag, place)
            loops = [whole]
        else:
            loops = [self._loop(i, i + 1) for i in range(number)]
        self._programs.update(template=template, loops=loops)
        self._between = 0.0  # seconds that moves between loops took

    def _made(self, fn: Any, arguments: tuple[Any, ...], quickly: bool = False) -> Any:
        on_cpu = self.devices[0].platform == "cpu"
        with handlers_alone:
            lowered = lowered_for_cpu(fn, *arguments) if on_cpu else jax.jit(fn).lower(*arguments)
        # as many numbers for every loop: the same options for all their programs
        on = self.kernel.known[0].inputs if on_cpu else None
        return compiled(lowered, quickly=quickly and on_cpu, on=on, expect=self._expect)

    def compile_rest(self) -> None:
        """Nothing."""

    def begin(
        self,
        seed: int,
        attempt: int,
        index: np.ndarray,
        z: Mapping[str, np.ndarray],
        given: Mapping[str, np.ndarray],
    ) -> tuple[ChainState, np.ndarray]:
        """Chains in the structures `index`, with values `z` `[chain, …]` of the sites that are `given`, flags
        `[chain]`; and the log densities there."""
        first, total = self.share
        key = jax.random.fold_in(jax.random.key(seed), attempt)
        keys = jax.random.split(key, total)[first : first + self.chains]
        states, levels = [], []
        for c, i in enumerate(index):
            programs = self._at(int(i))
            own = {n: with_room(z[n][c] if n in z else None, r) for n, r in programs.loop.latents.items()}
            flags = {n: np.bool_(n in given and given[n][c]) for n in own}
            state, level = programs.begin(keys[c], np.int32(i - programs.first), own, flags)
            states.append((programs, state))
            levels.append(float(level))
        return self._together(states), np.array(levels)

    def walked(self, state: ChainState) -> ChainState:
        """Chains where a warm-up of the structure that each is in leads."""
        states = []
        for c, i in enumerate(np.asarray(state.index)):
            programs, s = self._at(int(i)), self.kernel.known[int(i)]
            z = {n: with_room(state.z[n][c], r) for n, r in programs.loop.latents.items()}
            if s.learns:
                own = {n: z[n][tuple(map(slice, p.shape))] for n, p in s.places.items()}
                with self._busy():
                    walked = s.walked(jax.random.fold_in(state.rng_key[c], 1), own)
                for n, v in walked.items():
                    z[n] = np.array(z[n])
                    z[n][tuple(map(slice, np.shape(v)))] = v
            told = np.asarray(state.accept)[c], np.asarray(state.diverging)[c]
            at = np.int32(i - programs.first)
            states.append((programs, Inside(at, z, state.rng_key[c], *told, np.bool_(False), np.uint32(0))))
        return self._together(states)

    def depart(
        self, state: Any, steps: int, warming: bool, done: int | None = None, warmup: int | None = None
    ) -> Flight:
        """As an engine's."""
        return Leg(lambda: self._advanced(state, steps, 1 if warming else self.thin), steps, warming)

    def _advanced(self, state: ChainState, steps: int, thin: int) -> tuple[ChainState, Chunk]:
        self._fuse()
        chains = [self._chain(state, c, steps * thin) for c in range(self.chains)]
        values, stats = {}, {}
        known = {n: (r.shape, r.dtype) for n, r in self.kernel.rooms.items()} | {INDEX: ((), np.int32)}
        for name, (shape, dtype) in known.items():
            values[name] = np.zeros((steps, self.chains, *shape), dtype)
        every = {}
        for c, (_, _, stays) in enumerate(chains):
            for stay in stays:
                for name, v in stay.stats.items():
                    every.setdefault(name, np.zeros((steps * thin, self.chains), v.dtype))
                    every[name][stay.at : stay.at + len(v), c] = v
                skip = -(stay.at + 1) % thin  # of every `thin` steps the last is kept
                start = (stay.at + skip) // thin
                for name, v in stay.values.items():
                    v = v[skip::thin] + (stay.first if name == INDEX else 0)
                    into = values[name][start : start + len(v), c]
                    into[(slice(None), *map(slice, v.shape[1:]))] = v
        for name, v in every.items():
            of = v.reshape(steps, thin, self.chains)
            stats[name] = of.any(axis=1) if v.dtype == bool else of[:, -1]
        return self._together([(p, s) for p, s, _ in chains]), Chunk(values, stats)

    def _together(self, chains: Sequence[tuple[_Programs, Inside]]) -> ChainState:
        """The states of all chains as one."""
        z = {
            n: np.stack([with_room(s.z.get(n), r) for _, s in chains]) for n, r in self.kernel.latents.items()
        }
        index = np.array([p.first + int(s.index) for p, s in chains], np.int32)
        keys = jnp.stack([s.rng_key for _, s in chains])
        accept = np.stack([np.asarray(s.accept) for _, s in chains])
        return ChainState(index, z, keys, accept, np.array([bool(s.diverging) for _, s in chains]))

    def _at(self, i: int) -> _Programs:
        """The loop that the `i`-th known structure is in."""
        return next(p for p in reversed(self._programs["loops"]) if p.first <= i)

    def _chain(self, state: ChainState, c: int, steps: int) -> tuple[_Programs, Inside, list[_Stay]]:
        """Steps of one chain: the loop and the state that it ends in, and what was kept."""
        i = int(state.index[c])
        programs = self._at(i)
        z = {n: with_room(state.z[n][c], r) for n, r in programs.loop.latents.items()}
        told = np.asarray(state.accept)[c], np.asarray(state.diverging)[c]
        s = Inside(np.int32(i - programs.first), z, state.rng_key[c], *told, np.bool_(False), np.uint32(0))
        at, entered, stays = 0, False, []
        while at < steps:
            most = np.int32(min(steps - at, _ROWS))
            made, s, (values, stats) = programs.run(s, np.bool_(entered), most)
            n = int(made)
            kept = jax.tree.map(lambda v, n=n: np.array(np.asarray(v)[:n]), (values, stats))
            stays.append(_Stay(at, programs.first, *kept))
            at += n
            entered = at < steps and bool(s.leaves)
            if entered:
                programs, s = self._crossed(programs, s)
        return programs, s, stays

    def _crossed(self, programs: _Programs, s: Inside) -> tuple[_Programs, Inside]:
        """The rest of a step whose proposal is not of the loop that the chain is in."""
        ways, i = self.kernel.ways, programs.first + int(s.index)
        here = self.kernel.known[i]
        s = s._replace(leaves=np.bool_(False))
        way = ways.proposed(here.way, int(s.proposal))
        if way is None:  # to stay, for want of numbers to tell ways apart
            return programs, s._replace(rng_key=keys_of(s.rng_key)[0])
        if self.kernel.barred(way):
            return programs, s._replace(rng_key=keys_of(s.rng_key)[0], accept=np.zeros_like(s.accept))
        if self.kernel.index(way) is None:
            self._learnt(way)
        j = self.kernel.index(way)
        assert j is not None
        began, compiled_before = time.monotonic(), self._compiled
        there, other = self.kernel.known[j], self._at(j)
        no, zero, one = np.bool_(False), np.zeros_like(s.accept), np.uint32(1)
        shared = programs.loop.shared(here, there)
        out = programs.met(s.index, s.rng_key, s.z, shared, no, (zero, one, one))
        z = {n: with_room(out.z.get(n), r) for n, r in other.loop.latents.items()}
        shared, local = other.loop.shared(there, here), np.int32(j - other.first)
        of = (out.score, *widths(ways, here.way, there.way))
        came = other.met(local, s.rng_key, z, shared, np.bool_(True), of)
        s = s._replace(rng_key=came.rng_key, accept=came.accept)
        if bool(came.taken):
            programs, s = other, s._replace(index=local, z=came.z)
        self._between += time.monotonic() - began - (self._compiled - compiled_before)
        return programs, s

    @property
    def _compiled(self) -> float:
        return sum(p.seconds for p in self._programs["loops"])

    def _fuse(self) -> None:
        """Make one loop of all, where it is time."""
        number = len(self.kernel.known)
        if len(self._programs["loops"]) > 1 and self._between > self._compiled * (1 + number / _DOUBLES):
            self._programs["loops"], self._between = [self._loop(0, number)], 0.0
