"""Sites that are Gaussian together and of which some are chains along one axis: random walks,
autoregressions, levels with trends and seasons, and the coefficients beside them.

The elements of all chains at one place of the axis, or at as many neighbouring places as a term couples, are
one step; then the precision is block tridiagonal, with a border for sites that every step may read. Its
blocks are read off with Hessian products, each of which serves every third step (Curtis, Powell and Reid
1974). The border's precision given nothing of the chains is summed along the directions in which the chains
follow it: a sum of squares of residuals, where a difference of large numbers would lose what both have in
common.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gibbsite.conditional.draws.passes import looped
from gibbsite.conditional.factors.root import lost_by_holding
from gibbsite.conditional.forms.walk import Refused
from gibbsite.conditional.gaussian.squares import Rows, Squares, squares
from gibbsite.conditional.gaussian.tridiagonal import Tridiagonal, factored, half_log_det
from gibbsite.conditional.reads.reduce import exact_product
from gibbsite.conditional.reads.term_access import batch_axes, index_id
from gibbsite.conditional.update import Drawn, Update
from gibbsite.density import Density
from gibbsite.density.terms import Term, summed
from gibbsite.programs.maps.access import Affine, Component, Table

# elements of a step up to which its factorisation costs less than a dense one of the whole
MOST_WIDE = 64
# sites of fewer places are as fast without: their dense factorisation is one call
FEWEST_PLACES = 16
# elements of the border, each of which takes a Hessian product of its own
_MOST_BORDER = 64
# of the precision of a chain's level, from where on its factor is formed from rows
_MOST_LOST = 1e-3
# roundings that one of the rows' root is off by at most
_UNITS = 8.0
# Hessian products that are taken side by side
_AT_ONCE = 12


class Strand(NamedTuple):
    """A site that is part of the chains: its axis of places and its axes of independent copies."""

    site: str
    axis: int
    batch: tuple[int, ...]


class Pieces(NamedTuple):
    """A vector: of the chains `[steps, blocks, width]`, of the border `[p]`; or a row of them on a last
    axis."""

    chain: Any
    border: Any


class Strung(NamedTuple):
    """A factorised precision: of the chains, whose blocks are `diagonal` and `below`, with the square of what
    is `lost` in it, in standard deviations; what a step of the border moves these by `[steps, blocks, width,
    p]`; and the border's factor `[p, p]` given nothing of the chains."""

    diagonal: Any
    below: Any
    chain: Tridiagonal
    lost: Any
    moved: Any
    border: Any
    half_log_det: Any

    def solve(self, b: Pieces, noise: Pieces | None = None) -> Pieces:
        """The precision's inverse times a vector; with standard Normal `noise`, a draw around that."""
        y = self.chain.forward(b.chain[..., None])
        inner = self.chain.backward(y if noise is None else y + noise.chain[..., None])[..., 0]
        return self.bordered(b, inner, noise)

    def bordered(self, b: Pieces, inner: Any, noise: Pieces | None = None) -> Pieces:
        """As `solve`, where that of the chains, given nothing of the border, is `inner`."""
        if not self.border.size:
            return Pieces(inner, b.border)
        left = b.border + jnp.tensordot(b.chain, self.moved, 3)
        left = jax.scipy.linalg.solve_triangular(self.border, left, lower=True)
        left = left if noise is None else left + noise.border
        border = jax.scipy.linalg.solve_triangular(self.border, left, trans="T", lower=True)
        return Pieces(inner + exact_product(self.moved, border), border)

    def rounding(self, x: Pieces) -> Any:
        """What values of the chains lose by being held as they are, and what is lost in the factor, in
        standard deviations."""
        own = jnp.diagonal(self.diagonal, axis1=-2, axis2=-1)
        return jnp.sqrt(lost_by_holding(own, x.chain) + self.lost)

    def variances(self) -> Pieces:
        """Of each element."""
        inner = jnp.diagonal(self.chain.covariances()[0], axis1=-2, axis2=-1)
        if not self.border.size:
            return Pieces(inner, jnp.zeros(0, inner.dtype))
        spread = exact_product(self.moved, self._root.T)
        return Pieces(inner + jnp.sum(spread**2, -1), jnp.sum(self._root**2, 0))

    @property
    def _root(self) -> Any:
        """The inverse of the border's factor."""
        return jax.scipy.linalg.solve_triangular(self.border, jnp.eye(len(self.border)), lower=True)

    def lagged(self, layout: "Stringing", strand: Strand, most: int) -> list[Any]:
        """The covariances of each element of a strand with the one 0, 1, … `most` places before, no more than
        a step reaches, of the site's shape; 0 where there is none."""
        covariance = self.chain.covariances()
        moved = exact_product(self.moved, self._root.T) if self.border.size else None
        place, at = np.arange(layout.places), layout.offset(strand)
        inner = np.arange(layout.inner(strand))

        def with_one_before(lag: int) -> Any:
            before = np.maximum(place - lag, 0)
            step, other = place // layout.reach, before // layout.reach
            one, two = (at + (p % layout.reach * len(inner))[:, None] + inner for p in (place, before))
            same, beside = (c[step[:, None], :, one, two] for c in covariance)
            found = jnp.where((step == other)[:, None, None], same, beside)
            if moved is not None:
                found += jnp.sum(moved[step[:, None], :, one] * moved[other[:, None], :, two], -1)
            found = jnp.where((place >= lag)[:, None, None], found, 0.0)
            return layout.of_strand(strand, jnp.moveaxis(found, 2, 1))

        return [with_one_before(lag) for lag in range(most + 1)]

    def spread(self) -> Pieces:
        """What standard Normal numbers, on a last axis, move the elements of any one step and the border by.
        Those of a step are its own: of several steps' elements it does not say how they vary together."""
        root = jnp.linalg.cholesky(self.chain.covariances()[0])
        if not self.border.size:
            return Pieces(root, jnp.zeros((0, root.shape[-1]), root.dtype))
        inverse = self._root
        still = jnp.zeros((len(self.border), root.shape[-1]), root.dtype)
        chain = jnp.concatenate([root, exact_product(self.moved, inverse.T)], -1)
        return Pieces(chain, jnp.concatenate([still, inverse.T], -1))


@dataclass(frozen=True)
class Stringing:
    """Where the elements of sites stand: `strands` side by side in `steps` of `reach` places, `blocks` copies
    of them; then the `border` sites, one after another."""

    shapes: Mapping[str, tuple[int, ...]]
    strands: tuple[Strand, ...]
    border: tuple[str, ...]
    reach: int

    @property
    def places(self) -> int:
        return max(self.shapes[s.site][s.axis] for s in self.strands)

    @property
    def steps(self) -> int:
        return -(-self.places // self.reach)

    @property
    def blocks(self) -> int:
        first = self.strands[0]
        return int(np.prod([self.shapes[first.site][a] for a in first.batch], dtype=np.int64))

    def inner(self, s: Strand) -> int:
        """Elements of a strand in one place of one copy."""
        return int(np.prod(self.shapes[s.site], dtype=np.int64)) // (
            self.shapes[s.site][s.axis] * self.blocks
        )

    @property
    def width(self) -> int:
        return self.reach * sum(self.inner(s) for s in self.strands)

    @property
    def components(self) -> np.ndarray:
        """Which component of a place each element of a step is of, as `[width, components]` of ones and
        zeros."""
        return np.concatenate(
            [
                np.kron(np.ones((self.reach, 1)), np.eye(self.width // self.reach)[at : at + n])
                for at, n in _consecutive(self.inner(s) for s in self.strands)
            ]
        )

    def sizes(self) -> list[int]:
        """Elements of each border site."""
        return [int(np.prod(self.shapes[n], dtype=np.int64)) for n in self.border]

    def _order(self, s: Strand) -> tuple[int, ...]:
        rest = (a for a in range(len(self.shapes[s.site])) if a != s.axis and a not in s.batch)
        return (s.axis, *s.batch, *rest)

    def step_of(self, site: str) -> np.ndarray:
        """In which step of which copy the elements of a site are, as one number for each, of its shape; -1
        in the border."""
        strand = next((s for s in self.strands if s.site == site), None)
        if strand is None:
            return np.full(self.shapes[site], -1)
        place = np.indices(self.shapes[site])
        copies = tuple(self.shapes[site][a] for a in strand.batch)
        copy = np.ravel_multi_index([place[a] for a in strand.batch], copies) if copies else 0
        return place[strand.axis] // self.reach * self.blocks + copy

    def vector(self, values: Mapping[str, Any]) -> Pieces:
        """Values by site as one vector; places beyond a strand's end are zero."""
        columns = []
        for s in self.strands:
            x = jnp.transpose(values[s.site], self._order(s))
            x = x.reshape(len(x), self.blocks, -1)
            x = jnp.pad(x, ((0, self.steps * self.reach - len(x)), (0, 0), (0, 0)))
            x = jnp.moveaxis(x.reshape(self.steps, self.reach, self.blocks, -1), 1, 2)
            columns.append(x.reshape(self.steps, self.blocks, -1))
        chain = jnp.concatenate(columns, -1)
        return Pieces(
            chain, jnp.concatenate([jnp.zeros(0, chain.dtype), *(jnp.ravel(values[n]) for n in self.border)])
        )

    def values(self, x: Pieces) -> dict[str, Any]:
        """The values by site that a vector holds."""
        out = {}
        for s in self.strands:
            at, size = self.offset(s), self.reach * self.inner(s)
            part = x.chain[..., at : at + size].reshape(self.steps, self.blocks, self.reach, -1)
            part = jnp.moveaxis(part, 2, 1).reshape(self.steps * self.reach, self.blocks, -1)
            out[s.site] = self.of_strand(s, part)
        at = 0
        for n, size in zip(self.border, self.sizes(), strict=True):
            out[n] = x.border[at : at + size].reshape(self.shapes[n])
            at += size
        return out

    def offset(self, s: Strand) -> int:
        """Where a strand's elements begin in a step."""
        return self.reach * sum(self.inner(o) for o in self.strands[: self.strands.index(s)])

    def of_strand(self, s: Strand, x: Any) -> Any:
        """Values `[place, block, inner]` of a strand in its site's shape."""
        shape, order = self.shapes[s.site], self._order(s)
        x = x[: shape[s.axis]].reshape(tuple(shape[a] for a in order))
        return jnp.transpose(x, tuple(order.index(a) for a in range(len(order))))

    def __str__(self) -> str:
        along = f"{self.steps:,} steps of {self.width}"
        copies = f"{self.blocks:,} chains of " if self.blocks > 1 else ""
        beside = f", then {sum(self.sizes())} together" if self.border else ""
        return f"{copies}{along}{beside}"


class ChainedGaussian(Update):
    """The joint conditional of `sites`, certified Gaussian: a block tridiagonal precision and a border, as
    `layout` says."""

    measured = True

    def __init__(self, density: Density, sites: Sequence[str], layout: Stringing, degrees: Mapping[Any, int]):
        self.density, self.sites, self.layout = density, tuple(sites), layout
        self._degrees = degrees
        self._terms = touching = list(density.terms_reading(sites).values())
        origins = ", ".join(dict.fromkeys(t.origin for t in touching))
        named = " and ".join(self.sites)
        them = "them" if len(sites) > 1 else "it"
        self.reason = (
            f"Gaussian chain of {named}: the log density is a quadratic form of {them}, "
            f"in the terms of {origins}; one filter along the chain: {self.layout}"
        )
        n = sum(int(np.prod(t.shape, dtype=np.int64)) for t in touching)
        products = 3 * self.layout.width + 2 * sum(self.layout.sizes())
        self.cost = f"{products} Hessian products of {n:,} term elements, a filter of {self.layout}"

    @property
    def signature(self) -> str:
        return repr((type(self).__name__, self.sites, self.layout))

    def values(self, x: Pieces) -> dict[str, Any]:
        """The values by site that a vector holds, in the sites' dtypes."""
        found = self.layout.values(x)
        return {s: found[s].astype(self.density.sites[s].dtype) for s in self.sites}

    def _gradient(
        self, latents: Mapping[str, Any], data: Any, terms: Sequence[Term] | None = None
    ) -> Callable[[Pieces], Pieces]:
        """The slope of the log density, or of some of its terms, affine in the sites."""
        others = {n: v for n, v in latents.items() if n not in self.sites}
        terms = self._terms if terms is None else terms
        zero = jnp.zeros((), self._zero.chain.dtype)

        def total(x: Mapping[str, Any]) -> Any:
            return summed(terms, self.density.evaluator({**others, **x}, data), zero)

        return lambda x: self.layout.vector(jax.grad(total)(self.values(x)))

    def solved(
        self, latents: Mapping[str, Any], data: Any, held: bool = True, noise: Pieces | None = None
    ) -> tuple[Pieces, Strung]:
        """Mean, or with standard Normal `noise` a draw, and factorised precision at the values of the other
        sites.

        One step leads to the mean from wherever it starts. Values of the sites themselves, where there are
        any, only say where: beside these, nothing is lost to numbers that cancel. Where `held`, derivatives
        are those of the determinant alone, of the first order.
        """
        fixed = partial(_fixed, held)
        gradient, zero = self._gradient(latents, data), self._zero
        own = {n: jnp.where(jnp.isfinite(latents[n]), latents[n], 0) for n in self.sites if n in latents}
        known = len(own) == len(self.sites)
        place = lax.stop_gradient(self.layout.vector(own)) if known else zero
        rows = None if noise is None else self._rows(latents, data, zero)
        slope = fixed(gradient(place))
        move, factor = self._step(_curved(gradient, zero), slope, rows, held, noise, turned=known)
        if not known:  # what a step from far loses to rounding, the next takes back
            place = jax.tree.map(jnp.add, place, move)
            move = fixed(factor).solve(fixed(gradient(place)), noise)
        return jax.tree.map(jnp.add, place, move), factor

    def _step(
        self,
        curved: Callable[[Pieces], Pieces],
        slope: Pieces,
        rows: Rows | None,
        held: bool,
        noise: Pieces | None,
        turned: bool,
    ) -> tuple[Pieces, Strung]:
        """The step to the mean from where the slope of the log density is `slope`, `turned` by the noise, and
        the factorised precision: two passes along the chain, one there and one back."""
        fixed = partial(_fixed, held)
        zero = self._zero
        p, dtype = zero.border.size, zero.chain.dtype
        diagonal, below = self._blocks(curved, zero) if rows is None else rows.blocks()
        asked, eye = slope.chain[..., None], jnp.eye(p, dtype=dtype)
        if p:
            met = _side_by_side(lambda unit: curved(Pieces(zero.chain, unit)).chain, eye)
            asked = jnp.concatenate([asked, -jnp.moveaxis(met, 0, -1)], -1)
        chain, there = factored(*fixed((diagonal, below, asked)))
        lost = _lost_by_coupling(diagonal, below, self.layout.components)
        if rows is not None:
            chain, there, lost = self._mended((chain, there, lost), fixed(asked), rows)
        if noise is not None and turned:
            there = there + jnp.pad(noise.chain[..., None], ((0, 0), (0, 0), (0, 0), (0, p)))
        if held and noise is None:
            back, *covariances = chain.smoothed(there)
            log_det = half_log_det(diagonal, below, chain, (covariances[0], covariances[1]))
        else:
            back, log_det = chain.backward(there), chain.half_log_det
        moved, border = back[..., 1:], jnp.zeros((0, 0), dtype)
        if p:

            def follows(at: tuple[Any, Any]) -> Any:
                direction, unit = at
                found = curved(Pieces(direction, unit))
                return found.border + jnp.tensordot(found.chain, moved, 3)

            found = _side_by_side(follows, (jnp.moveaxis(moved, -1, 0), eye))
            border = jnp.linalg.cholesky((found + found.T) / 2)
            log_det = log_det + jnp.sum(jnp.log(jnp.diagonal(border)))
        factor = Strung(diagonal, below, chain, lost, moved, border, log_det)
        return fixed(factor).bordered(slope, back[..., 0], noise if turned else None), factor

    @cached_property
    def _squares(self) -> Squares | None:
        return squares(self.density, self._degrees, self.layout, partial(distance, self.density))

    def _rows(self, latents: Mapping[str, Any], data: Any, zero: Pieces) -> Rows | None:
        """The precision as rows; None where terms are not squares."""
        found, layout = self._squares, self.layout
        if found is None:
            return None
        others = {n: v for n, v in latents.items() if n not in self.sites}
        eye = jnp.eye(layout.width, dtype=zero.chain.dtype)
        units = jax.vmap(lambda k: jax.vmap(lambda u: self._of_third(k, u, zero))(eye))(jnp.arange(3))
        alone = _curved(self._gradient(latents, data, found.alone), zero)
        every = jax.tree.map(lambda x: jnp.sum(x, 0), units)
        blocks = jnp.moveaxis(_side_by_side(lambda u: alone(u).chain, every), 0, -1)
        return found.rows(
            lambda x: self.density.evaluator({**others, **self.values(x)}, data),
            units,
            blocks + self._beyond(zero),
        )

    def _mended(
        self, known: tuple[Tridiagonal, Any, Any], asked: Any, rows: Rows
    ) -> tuple[Tridiagonal, Any, Any]:
        """The chains' factor `L`, `L^-1 asked` and the square of what is lost in it, by rows where the
        precision's entries lose too much: most lose nothing, and the loop is not entered."""
        level = rows.level(self.layout.components)
        own = jnp.sum(jnp.diagonal(rows.blocks()[0], axis1=-2, axis2=-1), axis=0) @ self.layout.components
        error = (_UNITS * jnp.finfo(own.dtype).eps) ** 2 * jnp.max(own / level)

        def again(at: Any) -> Any:
            # what does not change in a loop would be computed before it, whether it is entered or not
            found = Rows(*(jnp.where(at[-1], 0.0, x) for x in rows)).factored()
            right = jnp.all(jnp.isfinite(found.factor)) & (error < at[2]) & (error >= 0)
            new = jax.tree.map(partial(jnp.where, right), (found, found.forward(asked), error), at[:3])
            return *new, jnp.ones((), bool)

        def needed(at: Any) -> Any:
            return (at[2] > _MOST_LOST) & ~at[-1]

        return looped(0, needed, again, (*known, jnp.zeros((), bool)))[:3]

    def _of_third(self, third: Any, unit: Any, zero: Pieces) -> Pieces:
        """A vector that is `unit` in every third step: what these reach does not overlap."""
        chosen = jnp.where((jnp.arange(3) == third)[:, None, None], unit, 0.0)
        times = -(-self.layout.steps // 3)
        every = jnp.broadcast_to(chosen, (times, 3, *zero.chain.shape[1:]))
        return Pieces(every.reshape(-1, *every.shape[2:])[: self.layout.steps], zero.border)

    def _beyond(self, zero: Pieces) -> Any:
        """One on the diagonal for places beyond the end of a strand, which meet nothing."""
        shapes = self.layout.shapes
        inside = self.layout.vector({n: jnp.ones(shapes[n], zero.chain.dtype) for n in self.sites}).chain
        return jnp.eye(self.layout.width, dtype=zero.chain.dtype) * (1.0 - inside)[..., None, :]

    @property
    def _zero(self) -> Pieces:
        layout = self.layout
        dtype = jnp.result_type(*(self.density.sites[s].dtype for s in self.sites))
        chain = jnp.zeros((layout.steps, layout.blocks, layout.width), dtype)
        return Pieces(chain, jnp.zeros(sum(layout.sizes()), dtype))

    def information(self, latents: Mapping[str, Any], data: Any) -> tuple[Any, Any, Any]:
        """Of chains without a border: the information vector `[steps, blocks, width]`, the precision's blocks
        on the diagonal `[steps, blocks, width, width]`, and those that couple a step with the one before."""
        gradient, zero = self._gradient(latents, data), self._zero
        return gradient(zero).chain, *self._blocks(_curved(gradient, zero), zero)

    def _blocks(self, curved: Callable[[Pieces], Pieces], zero: Pieces) -> tuple[Any, Any]:
        """The precision's blocks on the diagonal and below."""
        layout, width = self.layout, self.layout.width
        eye = jnp.eye(width, dtype=zero.chain.dtype)

        def columns(third: int) -> Any:
            def column(unit: Any) -> Any:
                return curved(self._of_third(third, unit, zero)).chain

            found = jnp.moveaxis(_side_by_side(column, eye), 0, -1)
            found = jnp.pad(found, ((0, -layout.steps % 3), *[(0, 0)] * 3))
            return found.reshape(-1, 3, *found.shape[1:])

        def served(before: int) -> Any:
            # by their place among three, which a derivative comes back from as fast: of a gather XLA pulls
            # back one element after another, and masks are computed anew by all that reads them
            every = jnp.stack([found[(k - before) % 3][:, k] for k in range(3)], 1)
            return every.reshape(-1, *every.shape[2:])[: layout.steps]

        found = [columns(k) for k in range(3)]
        below = served(1)
        return served(0) + self._beyond(zero), jnp.concatenate([jnp.zeros_like(below[:1]), below[1:]])

    def drawn(self, key: Any, latents: Mapping[str, Any], data: Any) -> Drawn:
        keys = jax.random.split(key) if self.layout.border else (key, key)
        z = Pieces(*(jax.random.normal(k, x.shape, x.dtype) for k, x in zip(keys, self._zero, strict=True)))
        draw, factor = self.solved(latents, data, noise=z)
        return Drawn(self.values(draw), factor.rounding(draw))


def _fixed(held: bool, x: Any) -> Any:
    """Without derivatives, where `held`."""
    return jax.tree.map(lax.stop_gradient, x) if held else x


def _lost_by_coupling(diagonal: Any, below: Any, components: np.ndarray) -> Any:
    """The largest relative error of what is known of a chain's level: couplings of places add nothing to it,
    but their rounding does. Of a component of a place at a time, `1^T P 1` is told from the rounding of P; a
    precision that is off by a part changes a variance by that part, as independent errors of its square root
    in standard deviations do."""
    whole = jnp.sum(diagonal + below + jnp.swapaxes(below, -1, -2), axis=0)
    level = jnp.sum(components * jnp.matmul(whole, components, precision="highest"), axis=-2)
    own = jnp.sum(jnp.diagonal(diagonal, axis1=-2, axis2=-1), axis=0)
    lost = jnp.finfo(own.dtype).eps * jnp.matmul(own, components, precision="highest")
    return jnp.max(lost / jnp.maximum(level, lost))


def _consecutive(sizes: Iterable[int]) -> Iterator[tuple[int, int]]:
    at = 0
    for n in sizes:
        yield at, n
        at += n


def _curved(gradient: Callable[[Pieces], Pieces], zero: Pieces) -> Callable[[Pieces], Pieces]:
    """The precision times a vector."""
    return lambda x: jax.tree.map(jnp.negative, jax.jvp(gradient, (zero,), (x,))[1])


def _side_by_side(fn: Callable[[Any], Any], xs: Any) -> Any:
    """`fn` of every row, some at a time."""
    count = len(jax.tree.leaves(xs)[0])
    return jax.vmap(fn)(xs) if count <= _AT_ONCE else lax.map(fn, xs, batch_size=_AT_ONCE)


def strung(density: Density, sites: Sequence[str]) -> Stringing:
    """How `sites` are chains along one axis; `Refused` where they are none, or too wide."""
    shapes = {s: density.sites[s].shape for s in sites}
    why = "no site of them is a chain of 16 places or more"
    for length in sorted({n for shape in shapes.values() for n in shape if n >= FEWEST_PLACES}, reverse=True):
        try:
            return _along(density, shapes, length)
        except Refused as problem:
            why = str(problem)
    raise Refused(why)


def _along(density: Density, shapes: Mapping[str, tuple[int, ...]], length: int) -> Stringing:
    """The chains of about `length` places: strands that no term couples far apart, and the others as
    border."""
    axes = {}
    for s, shape in shapes.items():
        near = [a for a, n in enumerate(shape) if 2 * abs(n - length) < FEWEST_PLACES]
        if near:
            axes[s] = near[-1] if len(near) == 1 else max(near, key=lambda a: shape[a])
    while axes:
        reach, stuck = _reach(density, axes)
        if stuck is None:
            break
        axes.pop(stuck)
    else:
        raise Refused(f"no term keeps neighbours of {length:,} places apart from the rest")
    if not any(axes[s] not in batch_axes(density, s) for s in axes):
        raise Refused("no element meets its neighbours")
    border = tuple(s for s in shapes if s not in axes)
    count = sum(int(np.prod(shapes[s], dtype=np.int64)) for s in border)
    if count > _MOST_BORDER:
        raise Refused(f"{count} elements of {' and '.join(border)} meet every step of the chain")
    batch = {s: tuple(a for a in batch_axes(density, s) if a != axes[s]) for s in axes}
    if len(axes) > 1 and not _same_copies(density, shapes, axes, batch):
        batch = dict.fromkeys(axes, ())
    found = Stringing(dict(shapes), tuple(Strand(s, axes[s], batch[s]) for s in axes), border, reach)
    if found.width > MOST_WIDE or found.steps < 3:
        raise Refused(f"{found.width} elements of {' and '.join(axes)} meet in one step of the chain")
    return found


def _same_copies(density: Density, shapes: Any, axes: Mapping[str, int], batch: Mapping[str, Any]) -> bool:
    """Whether every term reads the same copy of all chains that it reads."""
    if len({tuple(shapes[s][a] for a in batch[s]) for s in axes}) > 1:
        return False
    for term in density.terms:
        maps = density.maps[term.atom]
        read = {
            tuple(index_id(density, x.index[a]) for a in batch[s]) for s in axes if s in maps for x in maps[s]
        }
        if len(read) > 1:
            return False
    return True


def _reach(density: Density, axes: Mapping[str, int]) -> tuple[int, str | None]:
    """The largest distance between places that one term element reads; or a site that is read otherwise,
    first one whose elements do not meet, then the smallest."""
    reach, stuck = 1, []
    for term in density.terms:
        maps = density.maps[term.atom]
        found = [(s, x.index[axes[s]]) for s in axes if s in maps for x in maps[s]]
        if not found:
            continue
        apart = distance(density, [c for _, c in found])
        if apart is None:
            stuck += [s for s, _ in found]
        else:
            reach = max(reach, apart)

    def needed(s: str) -> tuple[bool, int]:
        return axes[s] not in batch_axes(density, s), int(np.prod(density.sites[s].shape, dtype=np.int64))

    return reach, min(stuck, key=needed) if stuck else None


def distance(density: Density, components: Sequence[Component]) -> int | None:
    """How far apart the places are that one element reads; None if unknown."""
    first = components[0]
    if all(
        isinstance(c, Affine) and isinstance(first, Affine) and c.coefs == first.coefs for c in components
    ):
        offsets = [c.offset for c in components if isinstance(c, Affine)]
        return max(offsets) - min(offsets)
    same = len({index_id(density, c) for c in components}) == 1
    return 0 if same and isinstance(first, Table) else None
