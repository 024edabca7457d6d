"""Conditionals of discrete sites with finite support: independent, in a chain (filtered), or swept."""

import math
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gibbsite.conditional.conditional import Conditional
from gibbsite.conditional.draws.categorical import draw_index, invert
from gibbsite.conditional.finite.finite import (
    FiniteStructure,
    FiniteTables,
    element_logits,
    finite_structure,
    sweep,
)
from gibbsite.conditional.reads.support import finite_support
from gibbsite.conditional.reads.term_access import Touch
from gibbsite.conditional.tables.factor import pieces_of, rows_onto
from gibbsite.conditional.tables.fill import Tabulated
from gibbsite.density import Density
from gibbsite.density.explain import widenings
from gibbsite.errors import DataError
from gibbsite.ground.arguments import random_key
from gibbsite.programs.jaxpr.compat import is_traced, jit
from gibbsite.programs.maps.access import Component, Table
from gibbsite.programs.passes.for_cpu import jitted

# First-order chains: exact joint draws by forward filtering and backward sampling.
#
# A site is a chain when the only terms that couple its elements couple neighbours along one axis; its other
# axes are independent chains. Scott (2002), "Bayesian methods for hidden Markov models", §2; the parallel
# form composes the filter's matrices and the backward maps by associative scans, Särkkä and García-Fernández
# (2021), "Temporal parallelization of Bayesian smoothers".


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


def _sample_sequential(key: Any, unary: Any, pair: Any, others: tuple[int, ...]) -> Any:
    constant = pair.shape[0] == 1
    links = None if constant else pair

    def forward(alpha: Any, at: Any) -> tuple[Any, Any]:
        u, link = at
        after = jax.nn.logsumexp(alpha[..., :, None] + (pair[0] if constant else link), axis=-2) + u
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


_MOST_ORDER = 3
"""Of what is called a chain: further back reads what is coupled far apart."""


class FiniteConditional(Conditional):
    """The conditional of a discrete site with finite support."""

    def __init__(self, density: Density, site: str):
        density = density.in_deviances
        support = finite_support(density, site)
        assert support is not None
        structure = finite_structure(density, site, support)
        self.structure = structure
        self.tables = FiniteTables(density, structure)
        chain = None if structure.independent else chain_axis(structure)
        self.chain = None if chain is None else ChainTables(self.tables, chain)
        self.kind = "finite" if chain is None else "chain"
        super().__init__(density, site, _reason(self), _cost(self))

    @property
    def support(self) -> np.ndarray:
        """The K values that each element may take."""
        return self.structure.support.values

    def update(self, key: Any, latents: Mapping[str, Any], data: Any) -> Any:
        return self._told(key, latents, data)[0]

    def _told(self, key: Any, latents: Mapping[str, Any], data: Any) -> tuple[Any, Any]:
        """Values, and whether each element had a table to be drawn from."""
        if self.chain is None:
            return sweep(self.tables, key, latents, data)
        s = self.structure
        unary, pair = self.chain(latents, data)
        index = jnp.moveaxis(sample_chain(key, unary, pair), 0, self.chain.axis)
        shape = s.elements + s.support.values.shape[1:]
        now = latents.get(self.site, jnp.broadcast_to(jnp.asarray(s.support.values[0]), shape))
        return self.tables.chosen(index, now), index >= 0

    def sample(self, key: Any, state: Mapping[str, Any]) -> Any:
        """One application of the kernel, shape `site.shape`.

        An exact joint draw of the site for independent elements and chains; one full sweep over the elements
        where they are coupled otherwise. Raises `DataError` for an element that has no possible value given
        the rest; under `jit` and `vmap`, where that cannot be told, it stays as it is.
        """
        value, drawn = self._sample(random_key(key), self._latents(state), self._data)
        self._refuse(drawn)
        return value

    def logits(self, state: Mapping[str, Any]) -> Any:
        """Normalised log probabilities, shape `elements + (K,)`: each element given all the rest of `state`,
        the site's other elements included.

        Raises `DataError` for an element that has no possible value; under `jit` and `vmap`, where that
        cannot be told, its logits are NaN.
        """
        free = self.sites if self.structure.independent or not self.structure.elements else ()
        found = self._logits(self.density.state_values(state, without=free), self._data)
        if not is_traced(found):
            self._refuse(~np.isnan(np.asarray(found)).any(axis=-1))
        return found

    def _refuse(self, drawn: Any) -> None:
        """Raise where some element had no table to be drawn from."""
        if is_traced(drawn) or np.all(drawn):
            return
        at = np.argwhere(~np.asarray(drawn).reshape(self.structure.elements))
        label = self.site + (f"[{', '.join(map(str, at[0]))}]" if at.shape[1] else "")
        others = f" (and {len(at) - 1} more)" if len(at) > 1 else ""
        raise DataError(
            f"{label}{others} has no possible value given the rest of the state: each has probability zero, "
            f"or one that is undefined, in the density of {' or '.join(self.origins)}. Look at the data and "
            f"the values of {', '.join(self.blanket) or 'its prior'} there"
        )

    @property
    def signature(self) -> str:
        s = self.structure
        touches = [
            (
                t.kind,
                t.term.origin,
                t.term.shape,
                [(a.window, list(map(_fixed, a.index))) for a in t.accesses],
            )
            for t in s.single + s.joint
        ]
        arrays = [
            np.asarray(a).tobytes() for a in (s.support.values, s.support.valid, s.colours) if a is not None
        ]
        return repr((self.kind, s.elements, s.n_colours, sorted(s.offsets), s.explicit, touches, arrays))

    @property
    def fresh(self) -> tuple[str, ...]:
        """None where elements are swept, each given the others."""
        alone = self.structure.independent or not self.structure.elements
        return self.sites if alone or self.kind == "chain" else ()

    @cached_property
    def _sample(self) -> Any:
        return jitted(self._told)

    @cached_property
    def _logits(self) -> Any:
        def normalised(latents: Mapping[str, Any], data: Any) -> Any:
            shape = self.structure.elements + self.support.shape[1:]
            start = {self.site: jnp.broadcast_to(jnp.asarray(self.support[0]), shape)}
            table = element_logits(self.tables, {**start, **latents}, data)
            return jnp.moveaxis(jax.nn.log_softmax(table, axis=0), 0, -1)

        return jit(normalised)


def _fixed(component: Component) -> Any:
    """What of an index is fixed when the program is compiled; tables are read from the data at run time."""
    return ("table", component.shape) if isinstance(component, Table) else component


def _reason(c: FiniteConditional) -> str:
    s = c.structure
    k = s.support.size
    if s.independent:
        return f"finite support of {k} values; its elements are independent given the other sites"
    origins = ", ".join(dict.fromkeys(t.term.origin for t in s.joint))
    if c.kind == "chain":
        return f"finite support of {k} values; neighbours are coupled in a chain by {origins}"
    if not s.elements or int(np.prod(s.elements)) == 1:
        return f"finite support of {k} values; one element"
    if s.colours is not None:
        sweep = f"updated in {s.n_colours} colours"
        if (order := _order(s)) is not None:
            return (
                f"finite support of {k} values; coupled by {origins} in a chain of order {order}, {sweep}; "
                f"`model.marginal({s.site!r})` says what drawing it jointly takes"
            )
        return f"finite support of {k} values; coupled by {origins}, {sweep}"
    dense = [w for t in s.joint for w in widenings(c.tables.density, s.site, t.term.atom)]
    because = ", because of " + " and ".join(dict.fromkeys(map(str, dense))) if dense else ""
    return (
        f"finite support of {k} values; elements are updated one after another, coupled by {origins}{because}"
    )


def _order(s: FiniteStructure) -> int | None:
    """How many elements back a chain that is not of first order reads; None where elements far apart are
    coupled, as around a ring, or along several axes."""
    axes = {a for d in s.offsets for a, x in enumerate(d) if x}
    if s.explicit or len(axes) != 1:
        return None
    (axis,) = axes
    order = max(abs(d[axis]) for d in s.offsets)
    return order if 1 < order <= _MOST_ORDER and 2 * order <= s.elements[axis] else None


def swept_work(c: FiniteConditional) -> int:
    """Term elements that are computed while coupled elements are updated one after another, or by colours."""
    s = c.structure
    size = int(np.prod(s.elements, dtype=np.int64))
    each = s.support.size * _term_elements(c.tables.filled + s.joint)
    return each + s.support.size * size if c.tables.sums is not None else each * (s.n_colours or size)


def _cost(c: FiniteConditional) -> str:
    s = c.structure
    n = _term_elements(c.tables.filled + s.joint)
    k = s.support.size
    if c.kind == "chain":
        return f"{k}² × {n} term elements, then a filter of {c.chain.length} steps"  # type: ignore[union-attr]
    if c.tables.sums is not None:
        return f"{k} × {n} term elements, then a scan with {len(c.tables.sums.sums)} running sums"
    times = 1 if s.independent else (s.n_colours or int(np.prod(s.elements, dtype=np.int64)))
    compared = _term_elements([t for found in c.tables.thresholds for t in found.touches])
    parts = [f"{k} × {n} term elements" + (f" × {times} passes" if times > 1 else "")] if n else []
    parts += [f"{compared} term elements once, compared with thresholds"] if compared else []
    return ", and ".join(parts)


def _term_elements(touches: Sequence[Touch]) -> int:
    return sum(int(np.prod(t.term.shape, dtype=np.int64)) for t in touches)
