"""First-order chains: exact joint draws by forward filtering and backward sampling.

A site is a chain when the only terms that couple its elements couple neighbours along one axis; its other
axes are independent chains. Scott (2002), "Bayesian methods for hidden Markov models", §2; the parallel form
composes the filter's matrices and the backward maps by associative scans, Särkkä and García-Fernández (2021),
"Temporal parallelization of Bayesian smoothers".
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gibbsite.conditional.draws.categorical import draw_index, invert
from gibbsite.conditional.finite.finite import FiniteStructure, FiniteTables
from gibbsite.conditional.finite.frontier import Frontier, frontier
from gibbsite.conditional.reads.reduce import reduce_onto
from gibbsite.conditional.reads.term_access import Touch
from gibbsite.programs.maps.access import Access, Affine, Window


@dataclass(frozen=True)
class Link:
    """One term of a chain: accesses restricted to boxes where it reads a neighbouring pair (`early` is the
    access to the pair's first element), and boxes where it reads one element only."""

    touch: Touch
    pairs: tuple[Access, ...]
    singles: tuple[Access, ...]


@dataclass(frozen=True)
class ChainStructure:
    """The chain's axis among the element axes, and its coupling terms."""

    axis: int
    links: tuple[Link, ...]


def chain_structure(structure: FiniteStructure) -> ChainStructure | None:
    """The chain that a coupled finite site forms, or None."""
    if structure.colours is None or structure.explicit or structure.support.valid is not None:
        return None
    axes = {a for d in structure.offsets for a, x in enumerate(d) if x}
    if len(axes) != 1 or any(abs(x) > 1 for d in structure.offsets for x in d):
        return None
    (axis,) = axes
    links = [_link(touch, axis) for touch in structure.joint]
    if any(link is None for link in links):
        return None
    return ChainStructure(axis, tuple(link for link in links if link is not None))


def _shift(access: Access, axis: int) -> int:
    component = access.index[axis]
    assert isinstance(component, Affine)
    return component.offset


def _link(touch: Touch, axis: int) -> Link | None:
    shifts = sorted({_shift(a, axis) for a in touch.accesses})
    coefs = {a.index[axis].coefs for a in touch.accesses}  # type: ignore[union-attr]
    if len(shifts) != 2 or shifts[1] != shifts[0] + 1 or len(coefs) != 1 or len(touch.accesses) != 2:
        return None
    early, late = sorted(touch.accesses, key=lambda a: _shift(a, axis))
    box = tuple((max(a, c), min(b, d)) for (a, b), (c, d) in zip(early.window, late.window, strict=True))
    if any(low >= high for low, high in box):
        return None
    singles = []
    for access in (early, late):
        rest = _without(access.window, box)
        if rest is None:
            return None
        singles += [Access(access.index, w) for w in rest]
    return Link(touch, (Access(early.index, box),), tuple(singles))


def _without(window: Window, box: Window) -> list[Window] | None:
    """The boxes of `window` outside `box`, which lies inside it; None unless they differ along one axis."""
    differ = [i for i in range(len(window)) if window[i] != box[i]]
    if not differ:
        return []
    if len(differ) > 1:
        return None
    (i,) = differ
    parts = [(window[i][0], box[i][0]), (box[i][1], window[i][1])]
    return [(*window[:i], part, *window[i + 1 :]) for part in parts if part[0] < part[1]]


class ChainTables:
    """Unary and pairwise tables of a chain at given values of all other sites.

    The chain's axis comes first: unary logits have shape `(T, *others, K)` and pairwise ones
    `(T - 1, *others, K, K)`, indexed `[t, …, value at t, value at t + 1]`; axes may have size 1 where the
    tables are constant.
    """

    def __init__(self, tables: FiniteTables, chain: ChainStructure):
        self.tables = tables
        self.chain = chain
        self.length = tables.structure.elements[chain.axis]
        self.frontiers = self._frontiers()

    def _frontiers(self) -> list[Frontier] | None:
        """Where to fill each coupling term; None where some term has to be filled through the site."""
        s = self.tables.structure
        if s.support.values.ndim != 1:
            return None
        axis = self.chain.axis
        found = [
            frontier(self.tables.density, s.site, link.touch, link.pairs[0], axis)
            for link in self.chain.links
        ]
        return None if any(f is None for f in found) else [f for f in found if f is not None]

    def __call__(self, latents: Mapping[str, Any], data: Any) -> tuple[Any, Any]:
        """`(unary, pairwise)` logits."""
        elements, axis = self.tables.structure.elements, self.chain.axis
        k = self.tables.structure.support.size
        single, pair = self.coupling(latents, data)
        unary = jnp.moveaxis(self.tables.single(latents, data) + single, 0, -1)
        unary = jnp.moveaxis(unary, axis, 0)
        pair = jnp.moveaxis(jnp.moveaxis(pair, (0, 1), (-2, -1)), axis, 0)
        unary = jnp.broadcast_to(unary, (self.length, *unary.shape[1:]))
        if pair.shape[0] != 1:
            pair = pair[: self.length - 1]
        assert unary.ndim == len(elements) + 1 and pair.shape[-1] == k
        return unary, pair

    def coupling(self, latents: Mapping[str, Any], data: Any) -> tuple[Any, Any]:
        """What the coupling terms add: to single elements `(K, *elements)` and to pairs `(K, K, *elements)`,
        a pair standing at its first element; axes may have size 1 where the tables are constant."""
        linked = self._linked if self.frontiers is None else self._linked_at_frontiers
        return linked(latents, data)

    def _linked_at_frontiers(self, latents: Mapping[str, Any], data: Any) -> tuple[Any, Any]:
        """`coupling` with copies of the site filled; what is constant along the chain stays at size 1."""
        s = self.tables.structure
        values = jnp.asarray(s.support.values)
        others = {n: v for n, v in latents.items() if n != s.site}
        frontiers = self.frontiers
        assert frontiers is not None

        def pair_at(first: Any, second: Any) -> Any:
            total: Any = jnp.zeros((1,) * len(s.elements))
            for link, cut in zip(self.chain.links, frontiers, strict=True):
                term, (access,) = link.touch.term, link.pairs
                ev = self.tables.density.evaluator(others, data)
                for filled, variables in ((first, cut.early), (second, cut.late)):
                    ev.give({v: jnp.full((1,) * v.aval.ndim, filled, v.aval.dtype) for v in variables})
                part = term.contribution(ev.lazy(term.atom), ev.full)
                total = total + self._of_pairs(part, term.shape, access, ev.full)
            return total

        def single_at(value: Any) -> Any:
            ev = self.tables._with(others, data, self.tables._filled(value))
            total: Any = jnp.zeros((1,) * len(s.elements))
            for link in self.chain.links:
                term = link.touch.term
                if link.singles:
                    part = term.contribution(ev.lazy(term.atom), ev.full)
                    for access in link.singles:
                        total = total + reduce_onto(part, term.shape, access, s.elements, ev.full)
            return total

        pair = jax.vmap(jax.vmap(pair_at, (None, 0)), (0, None))(values, values)
        return jax.vmap(single_at)(values), pair

    def _of_pairs(self, part: Any, shape: tuple[int, ...], access: Access, read: Any) -> Any:
        s, axis = self.tables.structure, self.chain.axis
        component = access.index[axis]
        assert isinstance(component, Affine)
        if not component.axes:  # one pair alone, which needs no copies along the chain
            return reduce_onto(part, shape, access, s.elements, read)
        (along,) = component.axes
        low, high = access.window[along]
        if part.shape[along] != 1 or high - low != self.length - 1:
            return reduce_onto(part, shape, access, s.elements, read)
        window = tuple((low, low + 1) if a == along else w for a, w in enumerate(access.window))
        one = reduce_onto(part, shape, Access(access.index, window), s.elements, read)
        place = low + component.offset
        return jax.lax.slice_in_dim(one, place, place + 1, axis=axis)

    def _linked(self, latents: Mapping[str, Any], data: Any) -> tuple[Any, Any]:
        """`coupling` with the site filled with two values in turn."""
        s, axis = self.tables.structure, self.chain.axis
        values = jnp.asarray(s.support.values)
        shape = tuple(self.length if a == axis else 1 for a in range(len(s.elements)))
        even = (jnp.arange(self.length) % 2 == 0).reshape(shape)
        even_fill = even.reshape(shape + (1,) * (values.ndim - 1))
        others = {n: v for n, v in latents.items() if n != s.site}

        def at(on_even: Any, on_odd: Any) -> tuple[Any, Any]:
            fill = jnp.where(even_fill, self.tables._filled(on_even), self.tables._filled(on_odd))
            ev = self.tables._with(others, data, fill)
            single: Any = jnp.zeros((1,) * len(s.elements))
            pair: Any = jnp.zeros((1,) * len(s.elements))
            for link in self.chain.links:
                term = link.touch.term
                part = term.contribution(ev.lazy(term.atom), ev.full)
                for access in link.singles:
                    single = single + reduce_onto(part, term.shape, access, s.elements, ev.full)
                for access in link.pairs:
                    pair = pair + reduce_onto(part, term.shape, access, s.elements, ev.full)
            return single, pair

        single, pair = jax.vmap(jax.vmap(at, (None, 0)), (0, None))(values, values)
        # tables are indexed [value at even places, value at odd places]; turn that into [first, second]
        single = jnp.where(even, single[:, 0], single[0, :])
        return single, jnp.where(even, pair, jnp.swapaxes(pair, 0, 1))


def sample_chain(key: Any, unary: Any, pair: Any, parallel: bool | None = None) -> Any:
    """Support indices of shape `(T, *others)` drawn exactly from the chain's joint distribution.

    `parallel` uses associative scans: `O(log T)` steps and `O(T K^3)` work. By default the platform that the
    program is compiled for decides: CPUs go step by step, accelerators in parallel.
    """
    length, k = unary.shape[0], unary.shape[-1]
    others = np.broadcast_shapes(unary.shape[1:-1], pair.shape[1:-2])
    unary = jnp.broadcast_to(unary, (length, *others, k))
    if length == 1:
        return draw_index(key, jnp.moveaxis(unary[0], -1, 0), others)[None]
    ways = {False: _sample_sequential, True: _sample_parallel}
    if parallel is not None:
        return ways[parallel](key, unary, pair, others)
    by_platform = {"cpu": partial(ways[False], others=others), "default": partial(ways[True], others=others)}
    return jax.lax.platform_dependent(key, unary, pair, **by_platform)


def _filter_step(alpha: Any, link: Any) -> Any:
    """`log sum_k exp(alpha[k] + link[k, k'])`."""
    return jax.nn.logsumexp(alpha[..., :, None] + link, axis=-2)


def _sample_sequential(key: Any, unary: Any, pair: Any, others: tuple[int, ...]) -> Any:
    constant = pair.shape[0] == 1
    links = None if constant else pair

    def forward(alpha: Any, at: Any) -> tuple[Any, Any]:
        u, link = at
        after = _filter_step(alpha, pair[0] if constant else link) + u
        top = jnp.max(after, axis=-1, keepdims=True)
        return after - jnp.where(jnp.isfinite(top), top, 0), alpha

    last, before = jax.lax.scan(forward, unary[0], (unary[1:], links))
    k_last, k_rest = jax.random.split(key)
    z_last = draw_index(k_last, jnp.moveaxis(last, -1, 0), others)
    uniforms = jax.random.uniform(k_rest, (unary.shape[0] - 1, *others), unary.dtype)

    def backward(z: Any, at: Any) -> tuple[Any, Any]:
        alpha, link, u = at
        column = _column(pair[0] if constant else link, z, others)
        drawn = invert(u, jnp.moveaxis(alpha + column, -1, 0))
        return drawn, drawn

    _, path = jax.lax.scan(backward, z_last, (before, links, uniforms), reverse=True)
    return jnp.concatenate([path, z_last[None]])


def _column(link: Any, z: Any, others: tuple[int, ...]) -> Any:
    """`link[..., :, z]`."""
    k = link.shape[-1]
    full = jnp.broadcast_to(link, (*others, k, k))
    return jnp.take_along_axis(full, jnp.maximum(z, 0)[..., None, None], axis=-1)[..., 0]


def _sample_parallel(key: Any, unary: Any, pair: Any, others: tuple[int, ...]) -> Any:
    length, k = unary.shape[0], unary.shape[-1]
    steps = jnp.broadcast_to(pair, (length - 1, *others, k, k)) + unary[1:, ..., None, :]

    def times(a: Any, b: Any) -> Any:
        # less their largest entry, which says nothing: of 10^6 steps single precision would keep no digit
        product = jax.nn.logsumexp(a[..., :, :, None] + b[..., None, :, :], axis=-2)
        top = jnp.max(product, axis=(-2, -1), keepdims=True)
        return product - jnp.where(jnp.isfinite(top), top, 0)

    products = jax.lax.associative_scan(times, steps)
    after = jax.nn.logsumexp(unary[0][..., :, None] + products, axis=-2)
    alphas = jnp.concatenate([unary[:1], after])
    k_last, k_rest = jax.random.split(key)
    z_last = draw_index(k_last, jnp.moveaxis(alphas[-1], -1, 0), others)
    # for every step, the value drawn at t for each possible value at t + 1
    logits = alphas[:-1, ..., :, None] + jnp.broadcast_to(pair, (length - 1, *others, k, k))
    uniforms = jax.random.uniform(k_rest, (length - 1, *others, 1), unary.dtype)
    maps = invert(jnp.broadcast_to(uniforms, (length - 1, *others, k)), jnp.moveaxis(logits, -2, 0))

    def compose(later: Any, earlier: Any) -> Any:
        return jnp.take_along_axis(earlier, jnp.maximum(later, 0), axis=-1)

    composed = jax.lax.associative_scan(compose, maps, reverse=True)
    path = jnp.take_along_axis(composed, jnp.maximum(z_last, 0)[None, ..., None], axis=-1)[..., 0]
    return jnp.concatenate([path, z_last[None]])
