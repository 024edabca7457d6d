"""Chains that go between structures: some structures as one compiled loop, and moves to those beyond it.

A chain's step is a sweep within its structure, then a proposal of another one (Green 1995, "Reversible jump
Markov chain Monte Carlo computation and Bayesian model determination", with what both have kept, what is new
drawn from its prior or coming out of what is there, and what can be eliminated eliminated on both sides).
Of an axis that is longer in one of two structures, every choice of the elements that the other has not is
equally likely, and what is kept keeps its order: any element may go, and a new one may come between any two.
A chain whose proposal is not of its loop leaves that before the move, which is made with the same key by what
holds both structures; so draws are the same however structures are dealt out to loops, and whenever they
became known.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random

from gibbsite.errors import ModelError
from gibbsite.sampling.engine.abandonable import beside
from gibbsite.structure.moves.splitting import Along, along_of
from gibbsite.structure.straight import Straight, Values
from gibbsite.structure.ways import Way, Ways, moved_with

INDEX = "_structure"
"""Under which the number of a chain's structure is kept beside its values."""
ANEW, WHOLE = 0.5, 0.5
"""Of moves where structures have learnt something, which share draws from that; and which of these keeps
nothing of it. What both mean alike is best kept, and what they mean differently is not: nobody knows
beforehand, so that each of two ways has half."""
# what two structures share: kept by all moves; by all but those that keep nothing of what both draw anew; not
# by those that draw anew at all, as it is idle in one of the two
_KEPT, _ANEW, _APART = 1, 2, 3
_KIND = 2**31  # folded into the key of a move; no index of an element is as large
_MOST_WIDTH = 2**32 - 1  # a width of 2^32, a single way that is never left, would be 0


class ChainState(NamedTuple):
    """Where a chain is: the number of its structure among the known ones, values of all sites with room for
    the largest known shapes, and the key of the next step. `accept` and `diverging` tell of the last step."""

    index: Any
    z: Values
    rng_key: Any
    accept: Any
    diverging: Any

    @property
    def block_states(self) -> tuple[Any, ...]:
        """None: what engines ask of a composite."""
        return ()


class Inside(NamedTuple):
    """Where one chain is within a `Loop`: as `ChainState`, numbers being those of the loop. `leaves`: its
    sweep is made, and the number `proposal` proposes a structure that is not in the loop."""

    index: Any
    z: Values
    rng_key: Any
    accept: Any
    diverging: Any
    leaves: Any
    proposal: Any


class Met(NamedTuple):
    """What came of a look at a structure, or of entering it: values, the log density there less that of what
    is new, whether the chain enters, with what probability, and the key of the next step."""

    z: Values
    score: Any
    taken: Any
    accept: Any
    rng_key: Any


@dataclass(frozen=True)
class Room:
    """How large a site is at most among some structures, and its dtype there."""

    shape: tuple[int, ...]
    dtype: Any


def rooms_of(known: Sequence[Straight]) -> dict[str, Room]:
    """The sites of some structures, latents and deterministic ones, in the order of programs. Raises
    `ModelError` for a site with other numbers of axes in one than in another."""
    found: dict[str, Room] = {}
    for s in known:
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


def drawn_in(known: Sequence[Straight], rooms: dict[str, Room]) -> dict[str, Room]:
    """Those of `rooms` that are drawn in any of these structures."""
    return {n: r for n, r in rooms.items() if any(n in s.places for s in known)}


class Automaton:
    """The known structures of a model, in the order in which they became known. `whole`: there are no
    others."""

    def __init__(
        self,
        ways: Ways,
        known: Sequence[Straight],
        learn: Callable[[Way], Any],
        barred: Callable[[Way], bool],
        whole: bool = False,
    ):
        self.ways, self.known, self.whole = ways, tuple(known), whole
        self.learn = learn  # makes a plan that knows a way more
        self.barred = barred  # whether the data are impossible there, whatever is drawn

    def index(self, way: Way) -> int | None:
        """The number of a way; None where it is not known."""
        return next((i for i, s in enumerate(self.known) if s.way == way), None)

    @cached_property
    def rooms(self) -> dict[str, Room]:
        """The sites of all known structures: see `rooms_of`."""
        return rooms_of(self.known)

    @cached_property
    def latents(self) -> dict[str, Room]:
        """The sites that are drawn in any known structure."""
        return drawn_in(self.known, self.rooms)

    def template(self, chains: int) -> ChainState:
        """Shapes and dtypes of the state of so many chains."""
        shape = jax.ShapeDtypeStruct
        z = {n: shape((chains, *r.shape), r.dtype) for n, r in self.latents.items()}
        keys = jax.eval_shape(lambda: random.split(random.key(0), chains))
        whole, real = shape((chains,), np.int32), shape((chains,), jnp.result_type(float))
        return ChainState(whole, z, keys, real, shape((chains,), bool))

    def widened(self, state: ChainState) -> ChainState:
        """The state of some chains, leading axis chain, of an automaton that knew less, with room for what
        this one knows."""
        z = {n: state.z.get(n, [None] * len(state.index)) for n in self.latents}
        wide = {n: np.stack([with_room(v, self.latents[n]) for v in chains]) for n, chains in z.items()}
        return state._replace(z=wide)

    # what engines ask of a kernel

    def window_ends(self, num_warmup: int) -> tuple[int, ...]:
        """None: structures learn by themselves, before chains begin."""
        return ()


def with_room(values: Any, room: Room) -> np.ndarray:
    """Values in the corner of an array of zeros as large as `room`, or as much of them as that holds; zeros
    alone where there are none."""
    new = np.zeros(room.shape, room.dtype)
    if values is not None:
        old = np.asarray(values)
        cut = tuple(slice(min(a, b)) for a, b in zip(old.shape, room.shape, strict=True))
        new[cut] = old[cut]
    return new


class Loop:
    """Some structures as one program, and what takes chains into them from elsewhere and out of them."""

    def __init__(self, ways: Ways, known: Sequence[Straight]):
        self._ways, self.known = ways, tuple(known)
        self.rooms = rooms_of(self.known)
        self.latents = drawn_in(self.known, self.rooms)
        self.shared = lru_cache(maxsize=None)(self._shared)

    # values with room for all

    def _own(self, i: Any, z: Values) -> Values:
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

    # what is known of pairs of structures

    def _shared(self, to: Straight, whence: Straight) -> dict[str, np.ndarray]:
        """By site: how long its axes are in `whence`, where a move keeps elements, and behind them whether it
        keeps any."""
        moved, found = moved_with(to.way, whence.way), {}
        for name, room in self.latents.items():
            row = np.zeros(len(room.shape) + 1, np.int32)
            a, b = to.left.get(name), whence.left.get(name)
            if a is not None and b is not None and a.like(b) and name not in moved:
                row[: len(b.batch)] = b.batch
                row[-1] = self._shares(name, to, whence)
            found[name] = row
        return found

    @staticmethod
    def _shares(name: str, to: Straight, whence: Straight) -> int:
        if not (name in to.anew and name in whence.anew):
            return _KEPT
        return _APART if name in to.idle | whence.idle else _ANEW

    @cached_property
    def _extents(self) -> dict[str, np.ndarray]:
        """As `shared`, `[to, from, axis]`."""
        table = [[self.shared(to, whence) for whence in self.known] for to in self.known]
        return {n: np.array([[cell[n] for cell in row] for row in table]) for n in self.latents}

    def _lots(self, key: Any) -> Any:
        """Two random numbers for every index there may be, which are the same however many there are; none is
        the one that `key` proposes by, or of the key for what comes out of others."""
        most = max((n for s in self.known for p in s.left.values() for n in p.batch), default=0)
        return jax.vmap(lambda i: random.bits(random.fold_in(key, i + 1), (2,), jnp.uint32))(jnp.arange(most))

    def _kind(self, key: Any) -> tuple[Any, Any]:
        """Whether a move draws anew what structures have learnt, and whether it keeps nothing of that."""
        if not any(s.anew for s in self.known):
            return jnp.zeros((), bool), jnp.zeros((), bool)
        u = random.uniform(random.fold_in(key, _KIND))
        return u < ANEW, u < ANEW * WHOLE

    def _kept(
        self, j: int, rows: dict[str, Any], lots: Any, anew: Any, whole: Any
    ) -> tuple[dict[str, Any], dict[str, list[Along]]]:
        """Masks over the elements of structure `j`'s sites: which of them a structure that shares `rows` with
        it has, too, and keeps: a move that draws `anew` keeps nothing of what is idle in one of them, a
        `whole` one nothing of what both can draw. Where an axis is longer here, those of the least `lots` are
        what the other has not. And by site and axis, which of the indices are kept, and which one may come
        out of which."""
        masks, along = {}, {}
        for name, place in self.known[j].left.items():
            shared = rows[name][-1]
            keeps = (shared == _ANEW) & jnp.logical_not(whole) | (shared == _APART) & jnp.logical_not(anew)
            keeps |= shared == _KEPT
            mask = jnp.broadcast_to(keeps, place.batch)
            along[name] = []
            for axis, size in enumerate(place.batch):
                own, at = lots[:size, 0], jnp.arange(size)
                below = (own < own[:, None]) | ((own == own[:, None]) & (at < at[:, None]))
                here = below.sum(axis=1) >= size - rows[name][axis]
                mask &= jnp.expand_dims(here, [a for a in range(len(place.batch)) if a != axis])
                along[name].append(along_of(here, lots[:size, 1]))
            masks[name] = mask
        return masks, along

    @staticmethod
    def _moved(values: Values, along: dict[str, list[Along]], spread: Any, moves: Any) -> Values:
        """Values where the kept indices of every axis are moved: from the front to where they belong
        (`spread`), or from there to the front. As they are, where nothing `moves`."""
        found = dict(values)
        for name, axes in along.items():
            for axis, here in enumerate(a.kept for a in axes):
                count, at = jnp.cumsum(here), jnp.arange(len(here))
                whence = jnp.where(spread, count - 1, jnp.searchsorted(count, at + 1))
                whence = jnp.where(moves, jnp.clip(whence, 0, len(here) - 1), at)
                found[name] = jnp.take(found[name], whence, axis=axis)
        return lax.optimization_barrier(found) if found else found

    @cached_property
    def _jumps(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """`[from, interval]`: beginnings and widths of the intervals of numbers that propose, and where each
        leads; the structure itself for those where a chain stays."""
        rows = []
        for i, whence in enumerate(self.known):
            spans = {j: self._ways.spans(whence.way, to.way) for j, to in enumerate(self.known) if i != j}
            rows.append([(*span, j) for j, found in spans.items() for span in found])
            rows[-1] += [(*span, i) for span in self._ways.stays(whence.way)]
        table = np.zeros((3, len(rows), max(1, *map(len, rows))), np.uint64)
        for i, row in enumerate(rows):
            table[:, i, : len(row)] = np.array(row, np.uint64).reshape(-1, 3).T
        low, width, to = table
        return low.astype(np.uint32), np.minimum(width, _MOST_WIDTH).astype(np.uint32), to.astype(np.int32)

    @cached_property
    def _widths(self) -> np.ndarray:
        """`[from, to]`: how many numbers propose."""
        return np.array([[widths(self._ways, a.way, b.way)[0] for b in self.known] for a in self.known])

    def ready(self) -> None:
        """Have everything that the loop needs which is traced: what one structure needs is compiled while
        that of the next is traced."""
        with ExitStack() as compiling:
            for s in self.known:
                compiling.enter_context(beside(s.readying()))
        for s in self.known:
            s.ready()
        _ = self._extents, self._jumps, self._widths

    @property
    def inputs(self) -> tuple[Any, ...]:
        """What the sweeps take as arguments."""
        return tuple(s.inputs for s in self.known)

    # steps of one chain

    def step(self, state: Inside, inputs: Any) -> Inside:
        """One step; of a chain that leaves the loop, its sweep."""
        n = len(self.known)
        key_next, key_sweep, key_jump, *_ = keys = keys_of(state.rng_key)
        sweeps = [partial(self._sweep, i) for i in range(n)]
        z, diverging = lax.switch(state.index, sweeps, key_sweep, state.z, inputs)
        low, width, leads = (jnp.asarray(a)[state.index] for a in self._jumps)
        u = random.bits(key_jump, (), jnp.uint32)
        here = (u - low) < width
        known = jnp.any(here)
        to = jnp.where(known, leads[jnp.argmax(here)], state.index).astype(state.index.dtype)
        moves = to != state.index
        there, back = (jnp.asarray(self._widths)[pair] for pair in ((state.index, to), (to, state.index)))

        def half(enters: Any, carry: Any) -> Any:
            z, out, _, _ = carry
            draw = enters == 1
            at, other = jnp.where(draw, to, state.index), jnp.where(draw, state.index, to)
            rows = {n: jnp.asarray(t)[at, other] for n, t in self._extents.items()}
            met = self.meet(at, keys, z, rows, draw, (out, there, back))
            return met.z, met.score, met.taken, met.accept

        def jumped(z: Values) -> Any:
            # one program for both: the way out is a look from the other structure
            return lax.fori_loop(0, 2, half, (z, zero, no, zero))

        no, zero = jnp.zeros((), bool), jnp.zeros((), state.accept.dtype)
        stayed = z, zero, no, zero
        met = lax.cond(moves, jumped, lambda z: (z, *stayed[1:]), z) if n > 1 else stayed
        there, _, taken, accept = met
        z = jax.tree.map(lambda a, b: jnp.where(taken, a, b), there, z)
        index = jnp.where(taken, to, state.index)
        key = jnp.where(known, key_next, state.rng_key)
        return Inside(index, z, key, accept, diverging, ~known, u)

    def meet(
        self, index: Any, keys: Any, z: Values, rows: dict[str, Any], draw: Any, of: tuple[Any, Any, Any]
    ) -> Met:
        """Look at a structure from another, which shares `rows` with it, or with `draw` enter it. `keys` are
        those of the step; `of`: the score of the look that was had at the other one, and the widths of the
        intervals that propose it there and back. A look leaves the elements that both have in front."""
        out, there, back = of
        level = out + jnp.log(there.astype(out.dtype)) - jnp.log(back.astype(out.dtype))
        level = jnp.where(draw, jnp.where(jnp.isnan(level), jnp.inf, level), 0.0)
        key = jnp.where(draw, keys[4], keys[3])
        enters = [partial(self._enter, j) for j in range(len(self.known))]
        of_move = self._lots(keys[2]), random.fold_in(keys[2], 0), self._kind(keys[2])
        new, score, taken = lax.switch(index, enters, key, z, rows, of_move, draw, level)
        taken &= draw
        accept = jnp.nan_to_num(jnp.minimum(1.0, jnp.exp(score - level))).astype(out.dtype)
        return Met(new, score, taken, accept, keys[0])

    def met(self, index: Any, rng_key: Any, *given: Any) -> Met:
        """As `meet`, of a chain that has left with the key `rng_key` of the step."""
        return self.meet(index, keys_of(rng_key), *given)

    def _sweep(self, i: int, key: Any, z: Values, inputs: Any) -> tuple[Values, Any]:
        values, diverging = self.known[i].sweep(key, self._own(i, z), inputs[i])
        return self._put(z, values), diverging

    def _enter(self, j: int, key: Any, z: Values, rows: Any, of_move: Any, draw: Any, level: Any) -> Any:
        lots, key_move, (anew, whole) = of_move
        s, (kept, along) = self.known[j], self._kept(j, rows, lots, anew, whole)
        own = self._moved(self._own(j, z), along, True, draw)
        values, score, taken = s.enter(key, own, kept, draw, level, (key_move, along), anew)
        here = self._moved({n: values[n] for n in s.places}, along, False, ~draw)
        return self._put(z, here), score.astype(jnp.result_type(float)), taken

    def begin(self, key: Any, index: Any, z: Values, given: dict[str, Any]) -> tuple[Inside, Any]:
        """A chain in a structure, its values those of `z` for sites that are `given`, else drawn from the
        prior, and what is eliminated from its exact conditional; and the log density there."""
        key_next, key_in = random.split(key)

        def entered(j: int, key: Any, z: Values) -> tuple[Values, Any]:
            s, own = self.known[j], self._own(j, z)
            kept = {n: jnp.broadcast_to(given[n], p.batch) for n, p in s.left.items()}
            values, _, _ = s.enter(key, own, kept, jnp.ones((), bool), -jnp.inf)
            values = {n: jnp.where(given[n], own[n], values[n]) for n in s.places}
            return self._put(z, values), self._level(j, values)

        z, level = lax.switch(index, [partial(entered, j) for j in range(len(self.known))], key_in, z)
        no, zero = jnp.zeros((), bool), jnp.zeros((), jnp.result_type(float))
        return Inside(index, z, key_next, zero, no, no, jnp.zeros((), jnp.uint32)), level

    def _level(self, j: int, values: Values) -> Any:
        found = self.known[j].logdensity(values)
        return jnp.nan_to_num(found, nan=-jnp.inf, posinf=-jnp.inf, neginf=-jnp.inf).astype(
            jnp.result_type(float)
        )

    def records(self, state: Inside) -> Values:
        """What is kept of a chain: values with room for all, deterministic ones among them, and the number of
        its structure."""
        out = dict(state.z)
        if any(s.computed for s in self.known):
            rest = {n: jnp.zeros(r.shape, r.dtype) for n, r in self.rooms.items() if n not in out}

            def of(j: int, z: Values) -> Values:
                return self._put({**z, **rest}, self.known[j].deterministic(self._own(j, z)))

            out = lax.switch(state.index, [partial(of, j) for j in range(len(self.known))], out)
        return {**out, INDEX: state.index}

    def run(self, state: Inside, entered: Any, steps: Any, inputs: Any, rows: int) -> Any:
        """At most `steps` steps, no more than `rows`, until the chain leaves; with `entered` the first was
        made in coming here. How many were made, the state, and what is kept of each."""

        def kept(s: Inside) -> Any:
            return self.records(s), {"0.acceptance_rate": s.accept, "0.diverging": s.diverging}

        buffers = jax.tree.map(lambda a: jnp.zeros((rows, *a.shape), a.dtype), jax.eval_shape(kept, state))

        def body(carry: Any) -> Any:
            i, s, made, bufs = carry
            new = lax.cond(made, lambda s: s, lambda s: self.step(s, inputs), s)
            # a step that was not made is written over, or not read
            bufs = jax.tree.map(lambda b, v: lax.dynamic_update_index_in_dim(b, v, i, 0), bufs, kept(new))
            return i + jnp.where(new.leaves, 0, 1), new, jnp.zeros((), bool), bufs

        start = jnp.zeros((), jnp.int32), state, entered, buffers
        i, state, _, buffers = lax.while_loop(lambda c: (c[0] < steps) & ~c[1].leaves, body, start)
        return i, state, buffers


def keys_of(rng_key: Any) -> Any:
    """Those of one step: of the next, of the sweep, of what is proposed, of the look and of what enters."""
    return random.split(rng_key, 5)


@lru_cache(maxsize=4096)
def widths(ways: Ways, way: Way, other: Way) -> tuple[np.uint32, np.uint32]:
    """How many numbers propose one way from the other, there and back."""
    there, back = (sum(w for _, w in ways.spans(*pair)) for pair in ((way, other), (other, way)))
    return np.uint32(min(there, _MOST_WIDTH)), np.uint32(min(back, _MOST_WIDTH))
