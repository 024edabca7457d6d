"""Roots of precisions that keep their digits where columns nearly make up for each other.

The Cholesky factor of a sum of squares `A^T A` has no digit left where the condition of `A` is beyond the
root of the precision's: about 4000 in single precision, which the years 2018 to 2020 beside an intercept are.
A factor of `A` itself loses no more than the data do. It is found by Cholesky QR, repeated as often as it
takes, the first time with a shift (Yamamoto, Nakatsukasa, Yanagisawa and Fukaya 2015, "Roundoff error
analysis of the CholeskyQR2 algorithm"; Fukaya, Kannan, Nakatsukasa, Yamamoto and Yanagisawa 2020, "Shifted
Cholesky QR for computing the QR factorization of ill-conditioned matrices"): the factor of the sum of
squares, bad as it is, gives a basis in which the columns are less alike, and the sum of squares is formed
again there, from the columns. Where no column is alike to others, which the pivots tell, nothing is done
again.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular

from gibbsite.conditional.draws.passes import looped
from gibbsite.conditional.factors.sums import exact_product

# Cholesky factors and triangular solves of batches of small matrices, written out.
#
# A library's routine is called once per matrix, which for thousands of matrices of size 1 to 4 costs more
# than all of their arithmetic; written out, every entry is one operation over the whole batch.


_WRITTEN_OUT = 4


def cholesky(a: Any) -> Any:
    """The lower factor of matrices `[…, n, n]`; NaN where one is not positive definite."""
    n = a.shape[-1]
    if n > _WRITTEN_OUT:
        return jnp.linalg.cholesky(a)
    rows: list[list[Any]] = []
    for i in range(n):
        row: list[Any] = []
        for j in range(i):
            rest = a[..., i, j] - sum((row[k] * rows[j][k] for k in range(j)), start=jnp.zeros(()))
            row.append(rest / rows[j][j])
        pivot = a[..., i, i] - sum((x * x for x in row), start=jnp.zeros(()))
        row.append(jnp.sqrt(jnp.where(pivot > 0, pivot, jnp.nan)))
        rows.append(row)
    zero = jnp.zeros_like(a[..., 0, 0])
    return jnp.stack([jnp.stack(row + [zero] * (n - len(row)), -1) for row in rows], -2)


def forward(factor: Any, b: Any) -> Any:
    """`L^-1 b` for lower factors `[…, n, n]` and right-hand sides `[…, n, m]`."""
    n = factor.shape[-1]
    if n > _WRITTEN_OUT:
        return solve_triangular(factor, b, lower=True)
    out: list[Any] = []
    for i in range(n):
        rest = b[..., i, :]
        for j in range(i):
            rest = rest - factor[..., i, j, None] * out[j]
        out.append(rest / factor[..., i, i, None])
    return jnp.stack(out, -2)


def backward(factor: Any, b: Any) -> Any:
    """`L^-T b`, as `forward`."""
    n = factor.shape[-1]
    if n > _WRITTEN_OUT:
        return solve_triangular(factor, b, trans="T", lower=True)
    out: list[Any] = [None] * n
    for i in reversed(range(n)):
        rest = b[..., i, :]
        for j in range(i + 1, n):
            rest = rest - factor[..., j, i, None] * out[j]
        out[i] = rest / factor[..., i, i, None]
    return jnp.stack(out, -2)


def upper_product(upper: Any, b: Any, transposed: bool = False) -> Any:
    """`U b`, or `U^T b`, for upper triangular `[…, n, n]` and right-hand sides `[…, n, m]`."""
    n = upper.shape[-1]
    if n > _WRITTEN_OUT:
        return exact_product(jnp.swapaxes(upper, -1, -2) if transposed else upper, b)
    out = []
    for i in range(n):
        if transposed:
            parts = [upper[..., j, i, None] * b[..., j, :] for j in range(i + 1)]
        else:
            parts = [upper[..., i, j, None] * b[..., j, :] for j in range(i, n)]
        out.append(sum(parts[1:], start=parts[0]))
    return jnp.stack(out, -2)


# the root mean square of a number's rounding, of its unit of relative rounding: figures are spread evenly,
# and the last is worth between a half and the whole of that unit
_OF_A_UNIT = 0.2
# sums of squares, and what is subtracted from them in a factorisation, are right to some units
_UNITS = 8.0


def lost_by_holding(own: Any, x: Any) -> Any:
    """The square of what values lose by being held as they are; `own` is the precision's diagonal, of their
    shape. Errors of many values are independent: what counts is the worst direction, of two that make up for
    each other."""
    lost = _OF_A_UNIT * jnp.finfo(x.dtype).eps * x
    return 2 * jnp.max(own * lost * lost)


def lost_by_pivots(whole: Any, left: Any) -> Any:
    """The largest relative error of a column's precision given the ones before: `left` of `whole` remains."""
    return jnp.max(_UNITS * jnp.finfo(left.dtype).eps * whole / left)


def rounding_of(precision: Any, factor: Any, mean: Any) -> Any:
    """Both, of draws by a Cholesky factor `[…, n, n]` with means `[…, n]`."""
    own, pivot = (jnp.diagonal(x, axis1=-2, axis2=-1) for x in (precision, factor))
    return jnp.sqrt(lost_by_pivots(own, pivot * pivot) ** 2 + lost_by_holding(own, mean))


# the least part of a column's square that others leave: sums of squares are right to some 1e-6, so that what
# is left is right to some 1e-3
_LEAST_LEFT = 1e-3
_MOST_TIMES = 4
# of the first shift, in units of rounding for each column
_SHIFT = 8.0
# of a column's figures, in units of rounding: what is less may be rounding alone
_NOTHING = 2.0

Again = Callable[[Any], Any]
"""Forms the sum of squares of columns `A T` for a basis `T` of `A`'s own shape of small matrices."""


class Root(NamedTuple):
    """A precision as `B B^T`, with `B = T^-T L`: `lower` `[…, w, w]` is `L`, `basis` is `T`, upper
    triangular, or None for the identity. `own` `[…, w]` is the precision's diagonal."""

    lower: Any
    own: Any
    basis: Any = None

    def forward(self, b: Any) -> Any:
        """`B^-1 b` for right-hand sides `[…, w, m]`."""
        if self.basis is not None:
            b = upper_product(self.basis, b, transposed=True)
        return forward(self.lower, b)

    def backward(self, b: Any) -> Any:
        """`B^-T b`, as `forward`."""
        x = backward(self.lower, b)
        return x if self.basis is None else upper_product(self.basis, x)

    def rounding(self, x: Any) -> Any:
        """The square of what values `[…, w]` lose by being held as they are, in standard deviations."""
        if not self.lower.size:
            return jnp.zeros(())
        return lost_by_holding(self.own, x)

    @property
    def half_log_det(self) -> Any:
        """Half the logarithm of the determinant of the precision."""
        if not self.lower.size:
            return jnp.zeros(())
        found = jnp.sum(jnp.log(jnp.diagonal(self.lower, axis1=-2, axis2=-1)))
        if self.basis is None:
            return found
        return found - jnp.sum(jnp.log(jnp.diagonal(self.basis, axis1=-2, axis2=-1)))


def empty() -> Root:
    """That of nothing."""
    return Root(jnp.zeros((0, 0)), jnp.zeros((0,)))


def rooted(square: Any, again: Again | None = None, differentiable: bool = False) -> Root:
    """The root of precisions `[…, w, w]`, which `again` can form in another basis; NaN where one is not
    positive definite.

    Where it is to be `differentiable`, the precision is formed once more in the basis that was found, which
    derivatives then hold fixed: the root is one of the same precision in any basis.
    """
    lower, own = cholesky(square), jnp.diagonal(square, axis1=-2, axis2=-1)
    if again is None or square.shape[-1] < 2:
        return Root(lower, own)
    eye = jnp.broadcast_to(jnp.eye(square.shape[-1], dtype=square.dtype), square.shape)

    def needed(at: Any) -> Any:
        _, square, lower, times = at
        return jnp.any(_alike(square, lower)) & (times < _MOST_TIMES)

    def once_more(at: Any) -> Any:
        basis, square, lower, times = at
        bad = _alike(square, lower)[..., None, None]
        basis = jnp.where(bad, _straightened(basis, square, times), basis)
        square = jnp.where(bad, jax.lax.stop_gradient(again(basis)), square)
        return basis, square, jnp.where(bad, cholesky(square), lower), times + 1

    first = jax.lax.stop_gradient((eye, square, lower))
    # most precisions need it not at all
    basis, square, lower, _ = looped(0, needed, once_more, (*first, jnp.zeros((), jnp.int32)))
    lower = cholesky(again(basis)) if differentiable else lower
    # a column of which others leave no more than its figures are rounded by is made up for by them
    left, turned = (jnp.diagonal(x, axis1=-2, axis2=-1) for x in (lower, basis))
    none = jnp.any(left < _NOTHING * jnp.finfo(square.dtype).eps * turned * jnp.sqrt(own), axis=-1)
    return Root(jnp.where(none[..., None, None], jnp.nan, lower), own, basis)


def _alike(square: Any, lower: Any) -> Any:
    """Of each matrix, whether others leave too little of some column, or nothing that can be told."""
    whole, left = (jnp.diagonal(x, axis1=-2, axis2=-1) for x in (square, lower))
    return ~jnp.all(left * left >= _LEAST_LEFT * whole, axis=-1)


def _straightened(basis: Any, square: Any, times: Any) -> Any:
    """The basis, and of its columns what the ones before leave of each.

    Columns are scaled by powers of two alone, and each keeps one times itself: what a column of ones takes
    of a column of years is then subtracted without any rounding but that of the difference.
    """
    size = square.shape[-1]
    whole = jnp.diagonal(square, axis1=-2, axis2=-1)
    scale = _power_of_two(jnp.where(whole > 0, whole, 1.0) ** -0.5)
    even = square * scale[..., :, None] * scale[..., None, :]
    shift = _SHIFT * size * jnp.finfo(square.dtype).eps * 16.0**times
    eye = jnp.eye(size, dtype=square.dtype)
    step = backward(cholesky(even + shift * eye), jnp.broadcast_to(eye, square.shape))
    own = jnp.diagonal(step, axis1=-2, axis2=-1)
    step = scale[..., :, None] * step * (_power_of_two(own) / own)[..., None, :]
    return upper_product(basis, jnp.triu(step))


def _power_of_two(x: Any) -> Any:
    return jnp.exp2(jnp.round(jnp.log2(x)))
