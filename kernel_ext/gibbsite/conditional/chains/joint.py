"""Several discrete sites drawn jointly: the finest is summed out first, then drawn last.

The sites of a block must be nested: every element of a coarser site (`group[j]`, or one switch for all) meets
its own elements of the finer one (`z[j, i]`), and elements of one site meet only through coarser ones. Their
joint conditional then factorises along the finest site. Summing it out element by element leaves a table of
the coarser ones, and so on; draws go the other way: variable elimination and backward sampling (Koller and
Friedman, 2009, §9.3 and §12.1) with one table per site, sized by its elements times the product of supports.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gibbsite.conditional.chains.discrete import FiniteConditional
from gibbsite.conditional.chains.joint_chain import JointChain, joint_chain
from gibbsite.conditional.dispatch import conditional_of
from gibbsite.conditional.draws.categorical import draw_index
from gibbsite.conditional.reads.reduce import reduce_onto
from gibbsite.conditional.reads.touch import Touch
from gibbsite.density import Density
from gibbsite.density.maps.access import Affine, full_window
from gibbsite.density.terms import Term

MAX_TABLE = 2**25
"""Entries of the largest table that a block may need."""

Axes = tuple[int | None, ...]


@dataclass(frozen=True)
class JointStructure:
    """The sites of a block from the coarsest to the finest.

    `axes[i]` are the axes of the finest site that the axes of site `i` run along, in order (None for size 1);
    `terms[i]` are the terms whose finest site is `i`, each with its touch of it.
    """

    sites: tuple[FiniteConditional, ...]
    axes: tuple[Axes, ...]
    terms: tuple[tuple[Touch, ...], ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Numbers of support values."""
        return tuple(len(c.support) for c in self.sites)


def joint_structure(density: Density, conditionals: Sequence[FiniteConditional]) -> JointStructure | str:
    """How the sites of a block are nested, or in words why they cannot be drawn jointly.

    All conditionals must be of `density`.
    """
    for c in conditionals:
        if not c.structure.independent:
            return f"the elements of {c.site!r} are coupled with one another"
    order = sorted(conditionals, key=lambda c: (len(c.structure.elements), _count(c)))
    names = [c.site for c in order]
    touching: dict[int, tuple[Term, dict[str, Touch]]] = {}
    for c in order:
        for touch in c.structure.single:
            if any(a.latents() & set(names) for a in touch.accesses):
                return f"which element of {c.site!r} is read depends on another site of the block"
            touching.setdefault(id(touch.term), (touch.term, {}))[1][c.site] = touch
    links = _links(order, touching)
    if isinstance(links, str):
        return links
    axes = []
    for c in order:
        if not c.structure.elements:
            axes.append(())
        elif c is order[-1]:
            axes.append(tuple(range(len(c.structure.elements))))
        elif c.site not in links:
            return f"{c.site!r} and {names[-1]!r} meet in no term, so nothing is gained by a joint draw"
        else:
            axes.append(links[c.site])
    for (one, a), (two, b) in itertools.pairwise(zip(names, axes, strict=True)):
        if not _real(a) <= _real(b):
            return f"neither of {one!r} and {two!r} is nested in the other"
    rank = {n: i for i, n in enumerate(names)}
    terms: list[list[Touch]] = [[] for _ in order]
    for _, touches in touching.values():
        finest = max(touches, key=rank.__getitem__)
        if _mismatch(touches, rank, axes, order):
            return f"the elements of {' and '.join(map(repr, touches))} do not meet one to one"
        terms[rank[finest]].append(touches[finest])
    structure = JointStructure(tuple(order), tuple(axes), tuple(map(tuple, terms)))
    entries = int(np.prod(structure.sizes)) * max(_count(c) for c in order)
    if entries > MAX_TABLE:
        return f"its table would have {entries:,} entries; the limit is {MAX_TABLE:,}"
    return structure


def _count(c: FiniteConditional) -> int:
    return int(np.prod(c.structure.elements, dtype=np.int64))


def _real(axes: Axes) -> set[int]:
    return {a for a in axes if a is not None}


def _run(touch: Touch, elements: tuple[int, ...]) -> Axes | None:
    """The term's axes that the site's element axes run along, if the touch is that simple."""
    if len(touch.accesses) != 1 or touch.accesses[0].window != full_window(touch.term.shape):
        return None
    axes: list[int | None] = []
    for c, size in zip(touch.accesses[0].index, elements, strict=True):
        if size == 1:
            axes.append(None)
        elif not isinstance(c, Affine) or c.offset or len(c.axes) != 1 or c.coefs[c.axes[0]] != 1:
            return None
        else:
            axes.append(c.axes[0])
    return tuple(axes) if len(_real(tuple(axes))) == len(axes) - axes.count(None) else None


def _links(order: Sequence[FiniteConditional], touching: Mapping[int, Any]) -> dict[str, Axes] | str:
    """For each coarser site, which axes of the finest site its own run along, from the terms they share."""
    finest = order[-1].site
    shapes = {c.site: c.structure.elements for c in order}
    found: dict[str, Axes] = {}
    for _, touches in touching.values():
        if finest not in touches:
            continue
        fine = _run(touches[finest], shapes[finest])
        for name, touch in touches.items():
            if name == finest or not touch.accesses[0].index:
                continue
            coarse = _run(touch, shapes[name])
            if fine is None or coarse is None or not _real(coarse) <= _real(fine):
                return f"the elements of {name!r} and {finest!r} do not meet one to one"
            link = tuple(None if a is None else fine.index(a) for a in coarse)
            if found.setdefault(name, link) != link:
                return f"the elements of {name!r} and {finest!r} meet in more than one way"
    return found


def _mismatch(
    touches: Mapping[str, Touch],
    rank: Mapping[str, int],
    axes: Sequence[Axes],
    order: Sequence[FiniteConditional],
) -> bool:
    """Whether the sites of one term meet otherwise than their places along the finest site say."""
    if len(touches) == 1:
        return False
    place: dict[int, int] = {}
    for name, touch in touches.items():
        if not touch.accesses[0].index:
            if len(touch.accesses) != 1:
                return True
            continue
        run = _run(touch, order[rank[name]].structure.elements)
        if run is None:
            return True
        for term_axis, own in zip(run, axes[rank[name]], strict=True):
            if term_axis is None or own is None:
                continue
            if place.setdefault(term_axis, own) != own:
                return True
    return len(set(place.values())) != len(place)


class JointConditional:
    """The joint conditional of nested discrete sites; `sites` are drawn together, exactly."""

    def __init__(self, density: Density, structure: JointStructure):
        self.density = density
        self.structure = structure

    @property
    def sites(self) -> tuple[str, ...]:
        """From the coarsest to the finest."""
        return tuple(c.site for c in self.structure.sites)

    @property
    def reason(self) -> str:
        """Why and how, in words."""
        sizes = " × ".join(map(str, self.structure.sizes))
        return f"{' and '.join(self.sites)} are drawn jointly over {sizes} values"

    def tables(self, latents: Mapping[str, Any], data: Any) -> list[Any]:
        """Per site the logits of the terms it owns, shape `(K_1, …, K_m, *elements)`."""
        s = self.structure
        others = {n: v for n, v in latents.items() if n not in self.sites}

        def at(*values: Any) -> list[Any]:
            filled = {
                c.site: jnp.reshape(v, (1,) * len(c.structure.elements) + v.shape)
                for c, v in zip(s.sites, values, strict=True)
            }
            ev = self.density.evaluator({**others, **filled}, data)
            out = []
            for c, touches in zip(s.sites, s.terms, strict=True):
                total: Any = jnp.zeros(c.structure.elements)
                for touch in touches:
                    part = touch.term.contribution(ev.lazy(touch.term.atom), ev.full)
                    for access in touch.accesses:
                        reduced = reduce_onto(part, touch.term.shape, access, c.structure.elements, ev.full)
                        total = total + reduced
                out.append(total)
            return out

        fn: Any = at
        for i in reversed(range(len(s.sites))):
            fn = jax.vmap(fn, in_axes=tuple(0 if j == i else None for j in range(len(s.sites))))
        found = fn(*[jnp.asarray(c.support) for c in s.sites])
        count = len(s.sites)
        return [_valid(c, t, i, count) for i, (c, t) in enumerate(zip(s.sites, found, strict=True))]

    def draw(self, key: Any, latents: Mapping[str, Any], data: Any) -> dict[str, Any]:
        """One exact joint draw: values by site."""
        s = self.structure
        count = len(s.sites)
        tables = self.tables(latents, data)
        for i in reversed(range(1, count)):
            left = jax.nn.logsumexp(tables[i], axis=i, keepdims=True)
            summed = _onto(left, count, s.axes[i], s.axes[i - 1])
            tables[i - 1] = tables[i - 1] + summed
        # every table is constant along the supports of finer sites by now
        index: list[Any] = []
        out = {}
        for i, (c, k) in enumerate(zip(s.sites, jax.random.split(key, count), strict=True)):
            logits = tables[i][(*(slice(None),) * (i + 1), *(0,) * (count - i - 1))]
            for j in range(i):
                known = _spread(index[j], s.axes[j], s.axes[i], c.structure.elements)
                place = jnp.broadcast_to(known, c.structure.elements)[(None,) * (logits.ndim - known.ndim)]
                logits = jnp.take_along_axis(logits, place, axis=0)[0]
            index.append(draw_index(k, logits, c.structure.elements))
            now = latents.get(c.site, jnp.broadcast_to(jnp.asarray(c.support[0]), self._shape(c)))
            out[c.site] = c.tables.chosen(index[-1], now)
        return out

    def _shape(self, c: FiniteConditional) -> tuple[int, ...]:
        return c.structure.elements + c.support.shape[1:]


def _valid(c: FiniteConditional, table: Any, i: int, count: int) -> Any:
    """The table with −inf where the site's element cannot take the value."""
    valid = c.structure.support.valid
    if valid is None:
        return table
    shape = tuple(valid.shape[0] if j == i else 1 for j in range(count)) + valid.shape[1:]
    return jnp.where(jnp.asarray(valid).reshape(shape), table, -jnp.inf)


def _onto(table: Any, lead: int, fine: Axes, coarse: Axes) -> Any:
    """Sum the trailing axes of `table`, which run along `fine`, onto those that run along `coarse`."""
    gone = tuple(lead + n for n, a in enumerate(fine) if a is None or a not in coarse)
    table = jnp.sum(table, axis=gone)
    kept = [a for a in fine if a is not None and a in coarse]
    wanted = [a for a in coarse if a is not None]
    table = jnp.transpose(table, (*range(lead), *(lead + kept.index(a) for a in wanted)))
    sizes = iter(table.shape[lead:])
    return table.reshape(table.shape[:lead] + tuple(1 if a is None else next(sizes) for a in coarse))


def _spread(index: Any, coarse: Axes, fine: Axes, elements: tuple[int, ...]) -> Any:
    """An index per element of a coarser site as one that broadcasts over the elements of a finer one."""
    axes = [a for a in coarse if a is not None]
    index = index.reshape(tuple(n for a, n in zip(coarse, index.shape, strict=True) if a is not None))
    index = jnp.transpose(index, sorted(range(len(axes)), key=lambda n: fine.index(axes[n])))
    there = set(axes)
    return index.reshape(tuple(n if a in there else 1 for a, n in zip(fine, elements, strict=True)))


def joint_conditional(density: Density, names: Sequence[str]) -> JointConditional | JointChain | str:
    """The joint conditional of several sites of `density`, nested ones or chains, or why there is none."""
    found: list[FiniteConditional] = []
    for name in names:
        conditional = conditional_of(density, name)
        if not isinstance(conditional, FiniteConditional):
            return f"{name!r} has no finite conditional"
        found.append(conditional)
    owner = found[0].tables.density
    if any(c.tables.density is not owner for c in found):
        return "some of the sites are members of groups and some are not"
    if all(c.chain is not None for c in found):
        return joint_chain(owner, found)
    with jax.ensure_compile_time_eval():
        structure = joint_structure(owner, found)
    return structure if isinstance(structure, str) else JointConditional(owner, structure)
