"""The factor of a chain's precision from what is squared in its terms, not from the sums of these squares.

Neighbours that hang together closely have a precision of large entries, beside whose rounding what the data
say of the chain's level is lost, however the precision is factorised. The rows `a` of which it is the sum
`a a^T` have entries that are its root, and lose nothing: an orthogonal transformation of the rows of one step
after another gives the same factor (Golub 1965; along a chain: Bierman 1977, "Factorization methods for
discrete sequential estimation").
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gibbsite.conditional.gaussian.curvature import Peeled, peeled, weight_of
from gibbsite.conditional.gaussian.tridiagonal import Tridiagonal
from gibbsite.density import Density
from gibbsite.density.terms import Term
from gibbsite.programs.evaluation.evaluate import Evaluator
from gibbsite.programs.maps.access import Access, Affine, component_array, inside

_MOST_ROWS = 16
_MOST_WIDE = 8
"""Of a step: its factor is formed by one library call, and its own rows are written out."""


class Rows(NamedTuple):
    """A precision as the sum of `sign a a^T`: of rows that couple a step with the one before it `[steps,
    blocks, rows, 2 width]`, the earlier step first, with their `sign` `[steps, blocks, rows]`; and what else
    each step adds `[steps, blocks, width, width]`."""

    coupled: Any
    sign: Any
    own: Any

    def blocks(self) -> tuple[Any, Any]:
        """The sum's blocks on the diagonal, and those that couple a step with the one before."""
        width = self.own.shape[-1]
        earlier, later = self.coupled[..., :width], self.coupled[..., width:]
        signed = later * self.sign[..., None]
        moved = _squared(earlier * self.sign[..., None], earlier)
        moved = jnp.concatenate([moved[1:], jnp.zeros_like(moved[:1])])
        return self.own + moved + _squared(signed, later), _squared(signed, earlier)

    def factored(self) -> Tridiagonal:
        """The factor of their sum; not a number where some part of it is no square."""
        width = self.own.shape[-1]
        zero = jnp.zeros_like(self.own[0])
        rows = jnp.where(self.sign[..., None] < 0, jnp.nan, self.coupled)
        own = jnp.swapaxes(_root(self.own), -1, -2)

        def step(before: Any, at: Any) -> tuple[Any, Any]:
            coupled, own = at
            whole = jnp.concatenate(
                [coupled, jnp.concatenate([before, zero], -1), jnp.concatenate([zero, own], -1)], -2
            )
            root = jnp.linalg.qr(whole, mode="r")
            sign = jnp.sign(jnp.diagonal(root, axis1=-2, axis2=-1))
            root = jnp.swapaxes(root * sign[..., None], -1, -2)
            return jnp.swapaxes(root[..., width:, width:], -1, -2), root[..., :width]

        eye = jnp.broadcast_to(jnp.eye(width, dtype=self.own.dtype), zero.shape)
        last, found = jax.lax.scan(step, eye, (rows, own))
        factor = jnp.concatenate([found[1:, ..., :width, :], jnp.swapaxes(last, -1, -2)[None]])
        return Tridiagonal(factor, found[..., width:, :])

    def level(self, components: Any) -> Any:
        """What is known of the level of each of the `components` `[width, n]` of places: `[blocks, n]`."""
        both = np.concatenate([components, components])
        moved = jnp.square(jnp.matmul(self.coupled, both, precision="highest")) * self.sign[..., None]
        own = jnp.sum(components * jnp.matmul(self.own, components, precision="highest"), axis=-2)
        return jnp.sum(moved, axis=(0, 2)) + jnp.sum(own, axis=0)


class _Coupled(NamedTuple):
    """A term of squares that couples places: of its `element`s that read any, flat, `later` is the last step
    that each reads."""

    term: Term
    peeled: Peeled
    element: np.ndarray
    later: np.ndarray


@dataclass(frozen=True, eq=False)
class Squares:
    """The terms of some chains as rows: those that couple places, squares of affine functions each; and the
    others. `at` `[steps, blocks, rows]` is where a row stands among those of all terms, one after another;
    beyond them where there is none."""

    density: Density
    coupled: tuple[_Coupled, ...]
    alone: tuple[Term, ...]
    at: np.ndarray

    def rows(self, evaluated: Callable[[Any], Evaluator], units: Any, own: Any) -> Rows:
        """The rows, with `evaluated` at vectors of the chains and `units` `[3, width]` of these, of each
        third step; `own` `[steps, blocks, width, width]` is the precision of what couples no places."""
        zero = jax.tree.map(lambda x: jnp.zeros_like(x[0, 0]), units)
        ev, width, every = evaluated(zero), own.shape[-1], []
        for c in self.coupled:
            weight = jnp.broadcast_to(weight_of(c.term, c.peeled, ev), c.term.shape).reshape(-1)[c.element]

            def slope(unit: Any, c: _Coupled = c) -> Any:
                found = jax.jvp(lambda x: evaluated(x).full(c.peeled.left), (zero,), (unit,))[1]
                return jnp.broadcast_to(found, c.term.shape).reshape(-1)[c.element]

            slopes = jax.vmap(jax.vmap(slope))(units)
            # not `jnp.select`, which looks for the first that is true: XLA does that while it compiles
            third = [np.broadcast_to(np.int32((c.later - 1 + side) % 3), slopes[0].shape) for side in (0, 1)]
            sides = [jax.lax.select_n(at, *slopes) for at in third]
            row = jnp.concatenate(sides) * jnp.sqrt(2.0 * jnp.abs(weight))
            every.append((jnp.where(weight == 0, 0.0, row).T, -jnp.sign(weight)))
        rows = jnp.concatenate([*(r for r, _ in every), jnp.zeros((1, 2 * width), own.dtype)])
        sign = jnp.concatenate([*(s for _, s in every), jnp.zeros(1, own.dtype)])
        return Rows(rows[self.at], sign[self.at], own)


def _squared(a: Any, b: Any) -> Any:
    """`a^T b` of `[…, rows, width]`."""
    return jnp.sum(a[..., :, None] * b[..., None, :], axis=-3)


def _root(a: Any) -> Any:
    """A lower root of matrices `[…, n, n]` that may be singular: a pivot of rounding alone counts as zero."""
    n = a.shape[-1]
    columns: list[Any] = []
    for j in range(n):
        rest = a[..., :, j] - sum((c * c[..., j, None] for c in columns), start=jnp.zeros(()))
        rest = jnp.where(np.arange(n) < j, 0.0, rest)
        pivot, lost = rest[..., j, None], n * jnp.finfo(a.dtype).eps * a[..., j, j, None]
        root = jnp.sqrt(jnp.where(pivot < -8 * lost, jnp.nan, pivot))
        columns.append(jnp.where(pivot <= lost, jnp.where(pivot < -8 * lost, jnp.nan, 0.0), rest / root))
    return jnp.stack(columns, -1)


def squares(density: Density, degrees: Mapping[Any, int], layout: Any, apart: Any) -> Squares | None:
    """How the terms of chains are squares; None where one that couples places is none, or where it stands is
    not known before the run.

    `degrees` as certified; `apart` tells how far apart the places are that an element of a term reads.
    """
    coupled, alone, stands = [], [], []
    strands = {s.site: s for s in layout.strands}
    if layout.width > _MOST_WIDE:
        return None
    for term in density.terms:
        maps = density.maps[term.atom]
        found = [(strands[n], a) for n in maps if n in strands for a in maps[n]]
        if not found or degrees[term.atom] < 2:
            continue
        if apart([a.index[s.axis] for s, a in found]) == 0:
            alone.append(term)
            continue
        product = peeled(density, degrees, term)
        where = _where(layout, term, found)
        if product is None or product.left is not product.right or where is None:
            return None
        element, later, block = where
        coupled.append(_Coupled(term, product, element, later))
        stands.append(later * layout.blocks + block)
    step = np.concatenate([np.zeros(0, np.int64), *stands])
    count = np.bincount(step, minlength=layout.steps * layout.blocks)
    most = int(count.max())
    if not 0 < most <= _MOST_ROWS:
        return None
    order, first = np.argsort(step, kind="stable"), np.cumsum(count) - count
    at = np.full((len(count), most), len(step))
    at[step[order], np.arange(len(step)) - first[step[order]]] = order
    return Squares(density, tuple(coupled), tuple(alone), at.reshape(layout.steps, layout.blocks, most))


def _where(layout: Any, term: Term, found: Any) -> tuple[np.ndarray, ...] | None:
    """Of a term's elements that read any place, flat: their numbers, and the last step and the copy that each
    reads; None where these are not known."""
    later, block = np.full(term.shape, -1), np.zeros(term.shape, np.int64)
    for strand, access in found:
        if not all(isinstance(access.index[a], Affine) for a in (strand.axis, *strand.batch)):
            return None
        here = np.broadcast_to(inside(access.window, term.shape), term.shape)
        later = np.where(here, np.maximum(later, _index(access, strand.axis, term) // layout.reach), later)
        copy: Any = 0
        for a in strand.batch:
            copy = copy * layout.shapes[strand.site][a] + _index(access, a, term)
        block = np.where(here, copy, block)
    element = np.flatnonzero(later >= 0)
    return element, later.reshape(-1)[element], block.reshape(-1)[element]


def _index(access: Access, axis: int, term: Term) -> np.ndarray:
    component = access.index[axis]
    assert isinstance(component, Affine)
    return np.asarray(component_array(component, term.shape, lambda v: v))
