"""Chains that go between structures: the structures that are known, as one compiled loop.

A chain's step is a sweep within its structure, then a proposal of another one (Green 1995, "Reversible jump
Markov chain Monte Carlo computation and Bayesian model determination", with what both have kept, what is new
drawn from its prior, and what can be eliminated eliminated on both sides). A chain that proposes a structure
which is not known stops before that step; once it is known the step is taken again with the same key.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random

from gibbsite.errors import ModelError
from gibbsite.structure.straight import Straight, Values
from gibbsite.structure.ways import Way, Ways, moved_with

INDEX = "_structure"
"""Under which the number of a chain's structure is kept beside its values."""


class ChainState(NamedTuple):
    """Where a chain is: the number of its structure among the known ones, values of all sites with room for
    the largest known shapes, and the key of the next step. `stuck`: the next step proposes an unknown
    structure, by the number `wanted`. `accept` and `diverging` tell of the last step."""

    index: Any
    z: Values
    rng_key: Any
    stuck: Any
    wanted: Any
    accept: Any
    diverging: Any

    @property
    def block_states(self) -> tuple[Any, ...]:
        """None: what engines ask of a composite."""
        return ()


@dataclass(frozen=True)
class Room:
    """How large a site is at most among the known structures, and its dtype there."""

    shape: tuple[int, ...]
    dtype: Any


class Automaton:
    """The known structures of a model, in the order in which they became known."""

    def __init__(self, ways: Ways, known: Sequence[Straight], learn: Callable[[Sequence[Way]], Any]):
        self.ways, self.known = ways, tuple(known)
        self.learn = learn  # makes a plan that knows some ways more

    def index(self, way: Way) -> int | None:
        """The number of a way; None where it is not known."""
        return next((i for i, s in enumerate(self.known) if s.way == way), None)

    @cached_property
    def rooms(self) -> dict[str, Room]:
        """The sites of all known structures, latents and deterministic ones, in the order of programs."""
        found: dict[str, Room] = {}
        for s in self.known:
            here = {n: (p.shape, p.dtype) for n, p in s.places.items()} | s.computed
            for name, (shape, dtype) in here.items():
                if name not in found:
                    found[name] = Room(shape, dtype)
                    continue
                room = found[name]
                if len(room.shape) != len(shape):
                    raise ModelError(
                        f"the site {name!r} has shape {room.shape} in one structure and {shape} in another "
                        f"({s.name}), with other numbers of axes: call them by different names"
                    )
                wide = tuple(max(a, b) for a, b in zip(room.shape, shape, strict=True))
                found[name] = Room(wide, np.promote_types(room.dtype, dtype))
        return found

    @cached_property
    def latents(self) -> tuple[str, ...]:
        """The sites that are drawn in any known structure."""
        return tuple(n for n in self.rooms if any(n in s.places for s in self.known))

    # values with room for all

    def _own(self, i: int, z: Values) -> Values:
        """A structure's own part. The barrier keeps XLA from fusing what is computed of it with how it is cut
        out, so that the numbers are the same whatever room there is."""
        places = self.known[i].places
        cut = {n: z[n][tuple(map(slice, p.shape))].astype(p.dtype) for n, p in places.items()}
        return lax.optimization_barrier(cut) if cut else cut

    def _put(self, z: Values, values: Values) -> Values:
        if values:
            values = lax.optimization_barrier(values)
        return {
            **z,
            **{n: z[n].at[tuple(map(slice, v.shape))].set(v.astype(z[n].dtype)) for n, v in values.items()},
        }

    def blank(self) -> Values:
        """Room without values."""
        return {n: jnp.zeros(self.rooms[n].shape, self.rooms[n].dtype) for n in self.latents}

    # what is known of pairs of structures

    @cached_property
    def _extents(self) -> dict[str, np.ndarray]:
        """`[to, from, axis]` per site: how far its axes are there in both, where a move keeps elements, and
        behind them whether it keeps any; a last row for a start, from nowhere."""
        n = len(self.known)
        found = {}
        for name in self.latents:
            rank = len(self.rooms[name].shape)
            table = np.zeros((n, n + 1, rank + 1), np.int32)
            for j, to in enumerate(self.known):
                for i, whence in enumerate(self.known):
                    a, b = to.left.get(name), whence.left.get(name)
                    stays = name not in moved_with(to.way, whence.way)
                    if a is not None and b is not None and a.like(b) and stays:
                        both = [min(x, y) for x, y in zip(a.batch, b.batch, strict=True)]
                        table[j, i, : len(both)] = both
                        table[j, i, rank] = 1
            found[name] = table
        return found

    def _kept(self, j: int, i: Any) -> dict[str, Any]:
        """Masks over the elements of structure `j`'s sites: which of them structure `i`, traced, has too."""
        masks = {}
        for name, place in self.known[j].left.items():
            row = jnp.asarray(self._extents[name])[j, i]
            mask = jnp.broadcast_to(row[-1] > 0, place.batch)
            for axis in range(len(place.batch)):
                mask &= lax.broadcasted_iota(jnp.int32, place.batch, axis) < row[axis]
            masks[name] = mask
        return masks

    @cached_property
    def _jumps(self) -> tuple[np.ndarray, np.ndarray]:
        """`[from, to]`: beginnings and widths of the intervals of numbers that propose; behind the known
        structures, those where a chain stays."""
        n = len(self.known)
        stays = [self.ways.stays(s.way) for s in self.known]
        most = max(map(len, stays), default=0)
        low, width = np.zeros((2, n, n + most), np.uint64)
        for i, whence in enumerate(self.known):
            for j, to in enumerate(self.known):
                if i != j:
                    low[i, j], width[i, j] = self.ways.span(whence.way, to.way)
            for k, (at, share) in enumerate(stays[i]):
                low[i, n + k], width[i, n + k] = at, share
        # a width of 2^32, a single way that is never left, would be 0
        return low.astype(np.uint32), np.minimum(width, 2**32 - 1).astype(np.uint32)

    def ready(self) -> None:
        """Have everything that a program needs which is traced."""
        for s in self.known:
            s.ready()
        _ = self._extents, self._jumps

    # steps

    def step(self, state: ChainState, inputs: Any) -> ChainState:
        """One step of one chain."""
        n = len(self.known)
        key_next, key_sweep, key_jump, key_out, key_in = random.split(state.rng_key, 5)
        sweeps = [partial(self._sweep, i) for i in range(n)]
        z, diverging = lax.switch(state.index, sweeps, key_sweep, state.z, inputs)
        low, width = (jnp.asarray(a) for a in self._jumps)
        u = random.bits(key_jump, (), jnp.uint32)
        here = (u - low[state.index]) < width[state.index]
        hit = jnp.argmax(here)
        known, moves = jnp.any(here), jnp.any(here) & (hit < n)
        to = jnp.where(moves, hit, state.index)
        there, back = width[state.index, to], width[to, state.index]

        def jumped(z: Values) -> tuple[Any, Values, Any]:
            enters = [partial(self._enter, j) for j in range(n)]
            no, yes = jnp.zeros((), bool), jnp.ones((), bool)
            # one program for both: the way out is a look from the other structure
            _, out, _ = lax.switch(state.index, enters, key_out, z, to, no, jnp.zeros(()))
            level = out + jnp.log(there.astype(out.dtype)) - jnp.log(back.astype(out.dtype))
            level = jnp.where(jnp.isnan(level), jnp.inf, level)
            new, score, taken = lax.switch(to, enters, key_in, z, state.index, yes, level)
            accept = jnp.minimum(1.0, jnp.exp(score - level))
            index = jnp.where(taken, to, state.index)
            return index, jax.tree.map(lambda a, b: jnp.where(taken, a, b), new, z), accept

        def stayed(z: Values) -> tuple[Any, Values, Any]:
            return state.index, z, jnp.zeros_like(state.accept)

        index, z, accept = lax.cond(moves, jumped, stayed, z)
        moved = ChainState(
            index.astype(state.index.dtype),
            z,
            key_next,
            ~known,
            u,
            jnp.nan_to_num(accept).astype(state.accept.dtype),
            diverging,
        )
        held = state._replace(stuck=~known, wanted=u)
        return jax.tree.map(lambda a, b: jnp.where(known, a, b), moved, held)

    def _sweep(self, i: int, key: Any, z: Values, inputs: Any) -> tuple[Values, Any]:
        values, diverging = self.known[i].sweep(key, self._own(i, z), inputs[i])
        return self._put(z, values), diverging

    def _enter(self, j: int, key: Any, z: Values, i: Any, draw: Any, level: Any) -> tuple[Values, Any, Any]:
        s = self.known[j]
        values, score, taken = s.enter(key, self._own(j, z), self._kept(j, i), draw, level)
        here = {n: values[n] for n in s.places}
        return self._put(z, here), score.astype(jnp.result_type(float)), taken

    def begin(self, key: Any, index: Any) -> tuple[ChainState, Any]:
        """A chain in a structure, its values drawn from the prior, and what is eliminated from its exact
        conditional; and the log density there."""
        n = len(self.known)
        key_next, key_in = random.split(key)
        enters = [partial(self._enter, j) for j in range(n)]
        nowhere, yes = jnp.asarray(n, jnp.int32), jnp.ones((), bool)
        z, _, _ = lax.switch(index, enters, key_in, self.blank(), nowhere, yes, -jnp.inf)
        levels = [lambda z, j=j: self._level(j, z) for j in range(n)]
        level = lax.switch(index, levels, z)
        false = jnp.zeros((), bool)
        zero = jnp.zeros((), jnp.result_type(float))
        return ChainState(index, z, key_next, false, jnp.zeros((), jnp.uint32), zero, false), level

    def _level(self, j: int, z: Values) -> Any:
        found = self.known[j].logdensity(self._own(j, z))
        return jnp.nan_to_num(found, nan=-jnp.inf, posinf=-jnp.inf).astype(jnp.result_type(float))

    def records(self, state: ChainState) -> Values:
        """What is kept of a chain: values with room for all, deterministic ones among them, and the number of
        its structure."""
        out = dict(state.z)
        if any(s.computed for s in self.known):
            rest = {n: jnp.zeros(r.shape, r.dtype) for n, r in self.rooms.items() if n not in out}

            def of(j: int, z: Values) -> Values:
                return self._put({**z, **rest}, self.known[j].deterministic(self._own(j, z)))

            out = lax.switch(state.index, [partial(of, j) for j in range(len(self.known))], out)
        return {**out, INDEX: state.index}

    def widened(self, state: ChainState) -> ChainState:
        """The state of some chains, leading axis chain, of an automaton that knew less, with room for what
        this one knows."""
        z = {}
        for name in self.latents:
            room = self.rooms[name]
            new = np.zeros((len(np.asarray(state.index)), *room.shape), room.dtype)
            if name in state.z:
                old = np.asarray(state.z[name])
                new[tuple(map(slice, old.shape))] = old
            z[name] = jnp.asarray(new)
        return state._replace(z=z, stuck=jnp.zeros_like(state.stuck))

    def wanted(self, state: ChainState) -> list[Way]:
        """The unknown structures that stuck chains propose; where a proposal turns out to be to stay, the
        tree of ways notes that."""
        found: list[Way] = []
        for i, u, stuck in zip(*map(np.asarray, (state.index, state.wanted, state.stuck)), strict=True):
            if stuck:
                way = self.ways.proposed(self.known[int(i)].way, int(u))
                if way is not None and way not in found:
                    found.append(way)
        return found

    # what engines ask of a kernel

    ends_early = True

    def window_ends(self, num_warmup: int) -> tuple[int, ...]:
        """None: structures learn by themselves, before chains begin."""
        return ()
