"""Conditionals of discrete sites with finite support, whichever way their elements are coupled."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gibbsite.conditional.draws.categorical import draw_index
from gibbsite.conditional.finite.colour import colour, coupling
from gibbsite.conditional.finite.running import RunningTables, running_sums
from gibbsite.conditional.finite.threshold import threshold_logits, thresholds
from gibbsite.conditional.reads.reduce import onto_elements, reduce_onto
from gibbsite.conditional.reads.support import FiniteSupport
from gibbsite.conditional.reads.term_access import COUPLED, DENSE, SINGLE, Touch, touches
from gibbsite.density import Density
from gibbsite.density.terms import levels, summed_beyond
from gibbsite.programs.evaluation.evaluate import Evaluator
from gibbsite.programs.maps.access import component_array, inside

_UNROLL = 24
_UNROLL_EQUATIONS = 20_000

Latents = Mapping[str, Any]


@dataclass(frozen=True)
class FiniteStructure:
    """How the elements of a finite site hang together.

    `single` terms touch one element each and are tabulated in one pass. Of the others, `joint` terms couple
    elements that `colours` (one number per element, or None) separates; with `colours` None and any joint
    terms, elements are updated one after another. `explicit` says that two accesses of a term may read the
    same element.
    """

    site: str
    support: FiniteSupport
    single: tuple[Touch, ...]
    joint: tuple[Touch, ...]
    colours: np.ndarray | None
    n_colours: int
    offsets: frozenset[tuple[int, ...]]
    explicit: bool

    @property
    def elements(self) -> tuple[int, ...]:
        """Shape of the site's elements."""
        return self.support.elements

    @property
    def independent(self) -> bool:
        """Whether all elements are independent given the other sites."""
        return not self.joint


def finite_structure(density: Density, name: str, support: FiniteSupport) -> FiniteStructure:
    """Find out how the elements of the finite site `name` are coupled by the terms that touch it."""
    found = touches(density, name, len(support.elements))
    single = tuple(t for t in found if t.kind == SINGLE)
    joint = tuple(t for t in found if t.kind != SINGLE)
    one = int(np.prod(support.elements)) == 1
    if one or not joint or any(t.kind == DENSE for t in joint):
        return FiniteStructure(name, support, single, joint, None, 0, frozenset(), False)
    coupled = coupling(density, [t for t in joint if t.kind == COUPLED], support.elements)
    if coupled is None:
        return FiniteStructure(name, support, single, joint, None, 0, frozenset(), True)
    offsets, pairs, overlapping = coupled
    found_colours = colour(offsets, pairs, support.elements)
    colours, count = found_colours if found_colours else (None, 0)
    return FiniteStructure(
        name, support, single, joint, colours, count, frozenset(offsets), bool(pairs) or overlapping
    )


class FiniteTables:
    """Tabulates the terms of a finite site over its support, at given values of everything else.

    `thresholds` are the single terms that read the site through comparisons only; `filled` are the others,
    which are evaluated at every value. All methods are pure in `latents` and `data`, and work under `jit` and
    `vmap`. Logits have the support on axis 0 and may have size 1 along element axes where they are constant.
    """

    def __init__(self, density: Density, structure: FiniteStructure):
        self.density = density
        self.structure = structure
        self._values = structure.support.values
        self._elements = structure.elements
        self._event = self._values.ndim - 1

        dense = structure.colours is None and bool(structure.joint) and not self._event
        terms = tuple(t.term for t in structure.joint)
        self.sums = running_sums(density, structure.site, terms, self._elements) if dense else None
        large = structure.support.size > _UNROLL
        wide = [t for t in structure.single if large and np.prod(t.term.shape) > 1]
        self.thresholds = thresholds(density, structure.site, wide, self._values)
        dealt_with = {id(t) for found in self.thresholds for t in found.touches}
        self.filled = tuple(t for t in structure.single if id(t) not in dealt_with)
        self._bounded = any(t.term in density.bounds for t in self.filled)

    def running(self, latents: Latents, data: Any) -> RunningTables | None:
        """The sums through which the coupling terms read the site, if they read it through nothing else."""
        if self.sums is None:
            return None
        return RunningTables(self.density, self.sums, self._values, self._filled, latents, data)

    def _with(self, latents: Latents, data: Any, value: Any) -> Evaluator:
        return self.density.evaluator({**latents, self.structure.site: value}, data)

    def _filled(self, value: Any) -> Any:
        """Every element equal to `value`, as an array that is constant along the element axes."""
        return value.reshape((1,) * len(self._elements) + self._values.shape[1:])

    def single(self, latents: Latents, data: Any, level: bool = True) -> Any:
        """Logits from the terms that touch one element each, `(K, *elements)` or size 1 where constant.

        Without their `level`, all values of an element are off by one number: what a datum says of the first
        value is taken off what it says of each, so that sums of many large numbers do not round away
        by how much the values differ.
        """
        others = {n: v for n, v in latents.items() if n != self.structure.site}
        less = {} if level else self._first(others, data)

        def at(value: Any) -> Any:
            ev = self._with(others, data, self._filled(value))
            total, outside = onto_elements(self.filled, self.density.bounds, ev, self._elements, less)
            # outside of a support, a log density may be anything
            return jnp.where(outside < 0, -jnp.inf, total) if self._bounded else total

        if (
            len(self._values) <= _UNROLL
            and len(self._values) * len(self.density.producer) <= _UNROLL_EQUATIONS
        ):
            # XLA fuses separate rows into the draw; of one batched array it computes rows again and again
            logits = jnp.stack([at(value) for value in self._values])
        else:
            logits = jax.lax.optimization_barrier(jax.vmap(at)(jnp.asarray(self._values)))
        for found in self.thresholds:
            site, elements = self.structure.site, self._elements
            logits = logits + threshold_logits(self.density, found, site, elements, others, data, level)
        valid = self.structure.support.valid
        return logits if valid is None else jnp.where(jnp.asarray(valid), logits, -jnp.inf)

    def _first(self, others: Latents, data: Any) -> dict[Any, Any]:
        """By the id of a touch, what the elements of its term are where all of the site have the first value:
        of terms of which several elements read one of the site's."""
        ev, size = self._with(others, data, self._filled(self._values[0])), _count(self.structure)
        several = [
            t
            for t in self.filled
            if np.prod(t.term.shape, dtype=np.int64) > size and t.term not in self.density.bounds
        ]
        return dict(zip(map(id, several), levels((t.term for t in several), ev), strict=True))

    def joint_levels(self, latents: Latents, data: Any) -> list[Any]:
        """The levels of the terms that couple elements."""
        return levels((t.term for t in self.structure.joint), self.density.evaluator(latents, data))

    def coupled(self, latents: Latents, data: Any, which: int) -> Any:
        """Logits `(K, *elements)` of the elements of colour `which` from the terms that couple elements, less
        what these are as it is.

        All other elements keep their values; entries of other colours have no meaning.
        """
        site = self.structure.site
        now = latents[site]
        colours = jnp.asarray(self.structure.colours)
        mine = (colours == which).reshape(self._elements + (1,) * self._event)
        here = self.joint_levels(latents, data)

        def at(value: Any) -> Any:
            ev = self._with(latents, data, jnp.where(mine, self._filled(value), now))
            total: Any = jnp.zeros((1,) * len(self._elements))
            for touch, off in zip(self.structure.joint, here, strict=True):
                shape = touch.term.shape
                part = touch.term.at(ev) - off
                for n, access in enumerate(touch.accesses):
                    once = self._first_read(touch, n, ev)
                    chosen = part if once is None else jnp.where(once, jnp.broadcast_to(part, shape), 0)
                    total = total + reduce_onto(chosen, shape, access, self._elements, ev.full)
            return total

        return jax.vmap(at)(jnp.asarray(self._values))

    def _first_read(self, touch: Touch, n: int, ev: Evaluator) -> Any | None:
        """Where access `n` reads an element that no earlier access of the term reads; None for everywhere."""
        if not self.structure.explicit:
            return None
        shape = touch.term.shape
        mask: Any = None
        here = [component_array(c, shape, ev.full) for c in touch.accesses[n].index]  # type: ignore[arg-type]
        for other in touch.accesses[:n]:
            there = [component_array(c, shape, ev.full) for c in other.index]  # type: ignore[arg-type]
            same: Any = True
            for x, y in zip(here, there, strict=True):
                same = same & (x == y)
            same = same & inside(other.window, shape)
            mask = ~jnp.asarray(same) if mask is None else mask & ~jnp.asarray(same)
        return mask

    def _picked(self, index: Any) -> Any:
        """The support's values at `index`, without a gather where they are consecutive integers."""
        values = self._values
        integers = values.ndim == 1 and values.dtype.kind in "iu"
        if integers and np.array_equal(values, values[0] + np.arange(len(values))):
            return jnp.maximum(index, 0).astype(values.dtype) + values[0]
        if values.ndim == 1 and len(values) == 2:
            return jnp.where(index > 0, values[1], values[0])
        return jnp.asarray(values)[jnp.maximum(index, 0)]

    def chosen(self, index: Any, now: Any) -> Any:
        """Support values at `index`; where the index is -1 (no valid logits) the current value stays."""
        values = self._picked(index)
        keep = (index < 0).reshape(index.shape + (1,) * self._event)
        return jnp.where(keep, now, values).astype(now.dtype)


def element_logits(tables: FiniteTables, latents: Latents, data: Any) -> Any:
    """Unnormalised `(K, *elements)` logits of each element given all the rest, its own site included."""
    s = tables.structure
    base = jnp.broadcast_to(tables.single(latents, data, level=False), (s.support.size, *s.elements))
    if s.independent:
        return base
    if s.colours is not None:
        for c in range(s.n_colours):
            mine = jnp.asarray(s.colours) == c
            base = base + jnp.where(mine, tables.coupled(latents, data, c), 0)
        return base
    running = tables.running(latents, data)
    if running is not None:
        flat = jax.lax.map(lambda i: running.logits(running.sums, i), jnp.arange(_count(s)))
    else:
        flat = jax.lax.map(lambda i: _one_element(tables, latents, data, i), jnp.arange(_count(s)))
    return base + jnp.moveaxis(flat, 0, -1).reshape(base.shape)


def _count(s: FiniteStructure) -> int:
    return int(np.prod(s.elements, dtype=np.int64))


def _one_element(tables: FiniteTables, latents: Latents, data: Any, i: Any) -> Any:
    """The joint terms' total with element number `i` at each support value: shape `(K,)`."""
    s = tables.structure
    now = latents[s.site]
    event = now.shape[len(s.elements) :]
    flat = now.reshape((_count(s), *event))
    here = tables.joint_levels(latents, data)

    def at(value: Any) -> Any:
        moved = flat.at[i].set(value.astype(now.dtype)).reshape(now.shape)
        ev = tables.density.evaluator({**latents, s.site: moved}, data)
        return summed_beyond((t.term for t in s.joint), ev, here)

    return jax.vmap(at)(jnp.asarray(s.support.values))


def sweep(tables: FiniteTables, key: Any, latents: Latents, data: Any) -> tuple[Any, Any]:
    """One Gibbs update of the whole site: exact for independent elements, a full sweep for coupled ones.

    Beside the values, whether each element had a table to be drawn from: one that holds nothing but zeros, or
    something undefined, leaves its element as it is.
    """
    s = tables.structure
    shape = s.elements + s.support.values.shape[1:]
    now = latents.get(s.site, jnp.broadcast_to(jnp.asarray(s.support.values[0]), shape))
    base = tables.single(latents, data, level=False)
    if s.independent:
        index = draw_index(key, base, s.elements)
        return tables.chosen(index, now), index >= 0
    if _count(s) == 1:
        one = _one_element(tables, {**latents, s.site: now}, data, 0)
        logits = base + one.reshape((-1,) + (1,) * len(s.elements))
        index = draw_index(key, logits, s.elements)
        return tables.chosen(index, now), index >= 0
    if s.colours is not None:
        z, drawn = now, jnp.ones(s.elements, bool)
        for c, k in enumerate(jax.random.split(key, s.n_colours)):
            logits = base + tables.coupled({**latents, s.site: z}, data, c)
            index = draw_index(k, logits, s.elements)
            mine = jnp.asarray(s.colours) == c
            drawn = drawn & ((index >= 0) | ~mine)
            mine = mine.reshape(s.elements + (1,) * (z.ndim - len(s.elements)))
            z = jnp.where(mine, tables.chosen(index, z), z)
        return z, drawn
    running = tables.running({**latents, s.site: now}, data)
    if running is not None:
        return _sweep_running(tables, running, key, now, base)
    return _sweep_one_by_one(tables, key, {**latents, s.site: now}, data, base)


def _sweep_running(
    tables: FiniteTables, running: RunningTables, key: Any, now: Any, base: Any
) -> tuple[Any, Any]:
    s = tables.structure
    n = _count(s)
    table = jnp.broadcast_to(base, (s.support.size, *s.elements)).reshape(s.support.size, n)

    def step(sums: Any, at: Any) -> Any:
        i, k = at
        index = draw_index(k, table[:, i] + running.logits(sums, i), ())
        return running.after(sums, i, index), index

    _, index = jax.lax.scan(step, running.sums, (jnp.arange(n), jax.random.split(key, n)))
    index = index.reshape(s.elements)
    return tables.chosen(index, now), index >= 0


def _sweep_one_by_one(
    tables: FiniteTables, key: Any, latents: Latents, data: Any, base: Any
) -> tuple[Any, Any]:
    s = tables.structure
    n = _count(s)
    now = latents[s.site]
    table = jnp.broadcast_to(base, (s.support.size, *s.elements)).reshape(s.support.size, n)
    event = now.shape[len(s.elements) :]

    def step(z: Any, at: Any) -> Any:
        i, k = at
        logits = table[:, i] + _one_element(tables, {**latents, s.site: z}, data, i)
        flat, index = z.reshape((n, *event)), draw_index(k, logits, ())
        flat = flat.at[i].set(tables.chosen(index, flat[i]))
        return flat.reshape(z.shape), index >= 0

    z, drawn = jax.lax.scan(step, now, (jnp.arange(n), jax.random.split(key, n)))
    return z, drawn.reshape(s.elements)
