"""First-order chains: exact joint draws by forward filtering and backward sampling.

A site is a chain when the only terms that couple its elements couple neighbours along one axis; its other
axes are independent chains. Scott (2002), "Bayesian methods for hidden Markov models", §2; the parallel form
composes the filter's matrices and the backward maps by associative scans, Särkkä and García-Fernández (2021),
"Temporal parallelization of Bayesian smoothers".
"""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gibbsite.conditional.draws.categorical import draw_index, invert
from gibbsite.conditional.finite.finite import FiniteStructure, FiniteTables
from gibbsite.conditional.tables.fill import Tabulated
from gibbsite.conditional.tables.pieces import pieces_of
from gibbsite.conditional.tables.rows import rows_onto


def chain_axis(structure: FiniteStructure) -> int | None:
    """The axis of elements along which a coupled finite site is a chain, or None."""
    if structure.colours is None or structure.explicit or structure.support.valid is not None:
        return None
    axes = {a for d in structure.offsets for a, x in enumerate(d) if x}
    near = all(abs(x) <= 1 for d in structure.offsets for x in d)
    return axes.pop() if near and len(axes) == 1 else None


class ChainTables:
    """Unary and pairwise tables of a chain along `axis` at given values of all other sites.

    The chain's axis comes first: unary logits have shape `(T, *others, K)` and pairwise ones
    `(T - 1, *others, K, K)`, indexed `[t, …, value at t, value at t + 1]`; axes may have size 1 where the
    tables are constant.
    """

    def __init__(self, tables: FiniteTables, axis: int):
        self.tables, self.axis = tables, axis
        s = tables.structure
        self.length = s.elements[axis]
        shapes, supports = {s.site: s.elements}, {s.site: s.support}
        self._coupling = [
            Tabulated(tables.density, piece, supports, math.inf).source
            for t in s.joint
            for piece in pieces_of(
                tables.density, t.term, {s.site: t.accesses}, shapes, {s.site: s.support.size}
            )
            if piece.reads
        ]

    def __call__(self, latents: Mapping[str, Any], data: Any) -> tuple[Any, Any]:
        """`(unary, pairwise)` logits."""
        s, axis = self.tables.structure, self.axis
        others = {n: v for n, v in latents.items() if n != s.site}
        single, pair = self._coupled(others, data)
        unary = jnp.moveaxis(self.tables.single(latents, data) + single, 0, -1)
        unary = jnp.moveaxis(unary, axis, 0)
        pair = jnp.moveaxis(jnp.moveaxis(pair, (0, 1), (-2, -1)), axis, 0)
        return jnp.broadcast_to(unary, (self.length, *unary.shape[1:])), pair

    def _coupled(self, others: Mapping[str, Any], data: Any) -> tuple[Any, Any]:
        """What the coupling terms add: to single elements `(K, *elements)` and to pairs `(K, K, *elements)`,
        a pair standing at its first element; axes may have size 1 where the tables are constant."""
        elements, axis = self.tables.structure.elements, self.axis
        first_of = tuple(n - (a == axis) for a, n in enumerate(elements))
        single: Any = jnp.zeros((1,) * (1 + len(elements)))
        pair: Any = jnp.zeros((1,) * (2 + len(elements)))
        for source in self._coupling:
            for f, table in zip(source.factors, source.tables(others, data), strict=True):
                places = [np.unravel_index(i, elements) for i in f.index]
                if len(places) == 1:
                    single = single + _onto(table, places[0], elements)
                    continue
                one, two = places
                if np.all(one[axis] > two[axis]):
                    one, table = two, jnp.swapaxes(table, 0, 1)
                pair = pair + _onto(table, one, first_of)
        return single, pair


def _onto(table: Any, places: Sequence[np.ndarray], shape: tuple[int, ...]) -> Any:
    """Rows of a table on a last axis, added up where they stand among elements of `shape`."""
    flat = rows_onto(table, np.ravel_multi_index(tuple(places), shape), math.prod(shape))
    return flat.reshape((*table.shape[:-1], *(shape if flat.shape[-1] != 1 else (1,) * len(shape))))


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
