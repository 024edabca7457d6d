"""Factorised precisions that are block tridiagonal: chains in time that is linear in their length.

The block Cholesky factorisation is the information form of the Kalman filter, substitution backwards that of
the smoother (Rue 2001, "Fast sampling of Gaussian Markov random fields"; Frühwirth-Schnatter 1994). The
blocks of the covariance on the diagonal and beside it come by the recursion of Takahashi, Fagan and Chen
(1973).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from gibbsite.conditional.factors.root import backward, cholesky, forward

_WRITTEN_OUT = 4


def _transposed(a: Any) -> Any:
    return jnp.swapaxes(a, -1, -2)


class Tridiagonal(NamedTuple):
    """The factor of a precision of `steps` blocks in each of `blocks` chains: `factor` `[steps, blocks,
    width, width]`, lower triangular on the diagonal, and `link` of the same shape, what couples a step with
    the one before it (zero for the first). Vectors are `[steps, blocks, width, k]`."""

    factor: Any
    link: Any

    def solve(self, b: Any) -> Any:
        """The precision's inverse times `b`."""
        return self.backward(self.forward(b))

    def forward(self, b: Any) -> Any:
        """`L^-1 b`."""

        def step(before: Any, at: Any) -> tuple[Any, Any]:
            factor, link, v = at
            solved = forward(factor, v - _product(link, before))
            return solved, solved

        return lax.scan(step, jnp.zeros_like(b[0]), (*self, b))[1]

    def backward(self, b: Any) -> Any:
        """`L^-T b`; of standard Normal numbers, a draw with mean zero."""

        def step(carry: Any, at: Any) -> tuple[Any, Any]:
            later, link = carry
            factor, own, y = at
            x = backward(factor, y - _product(_transposed(link), later))
            return (x, own), x

        last = jnp.zeros_like(b[0]), jnp.zeros_like(self.link[0])
        return lax.scan(step, last, (*self, b), reverse=True)[1]

    @property
    def half_log_det(self) -> Any:
        """Half the logarithm of the determinant of the precision."""
        return jnp.sum(jnp.log(jnp.diagonal(self.factor, axis1=-2, axis2=-1)))

    def covariances(self) -> tuple[Any, Any]:
        """The covariance of each step, and with the step before it (zero for the first), `[steps, blocks,
        width, width]`."""
        return self.smoothed(self.factor[..., :0])[1:]

    def smoothed(self, b: Any) -> tuple[Any, Any, Any]:
        """`L^-T b` and `covariances`, in one pass."""
        # what needs no neighbour is done for all steps at once
        eye = jnp.broadcast_to(jnp.eye(self.factor.shape[-1], dtype=self.factor.dtype), self.factor.shape)
        root = forward(self.factor, eye)
        link = jnp.concatenate([self.link[1:], jnp.zeros_like(self.link[:1])])
        gain = backward(self.factor, _transposed(link))  # what a unit of the next step moves each by

        def step(later: tuple[Any, Any], at: Any) -> tuple[Any, Any]:
            spread, x = later
            own, gain, solved = at
            beside = -_product(spread, _transposed(gain))
            own = own - _product(gain, beside)
            own = (own + _transposed(own)) / 2
            solved = solved - _product(gain, x)
            return (own, solved), (own, beside, solved)

        alone, solved = _product(_transposed(root), root), backward(self.factor, b)
        last = jnp.zeros_like(alone[0]), jnp.zeros_like(solved[0])
        _, (own, beside, solved) = lax.scan(step, last, (alone, gain, solved), reverse=True)
        # `beside` stands at the earlier of its two steps
        return solved, own, jnp.concatenate([jnp.zeros_like(beside[:1]), beside[:-1]])


def _product(a: Any, b: Any) -> Any:
    """`a @ b`; of small matrices written out, so that a step of a loop is one operation and not many."""
    n = a.shape[-1]
    if n > _WRITTEN_OUT:
        return jnp.matmul(a, b, precision=lax.Precision.HIGHEST)
    parts = [a[..., :, k, None] * b[..., k, None, :] for k in range(n)]
    return sum(parts[1:], start=parts[0])


def factored(diagonal: Any, below: Any, b: Any) -> tuple[Tridiagonal, Any]:
    """The factor `L` of a precision, and `L^-1 b`, in one pass.

    `diagonal` and `below` are `[steps, blocks, width, width]`, where `below[t]` couples step `t` with step
    `t - 1` and `below[0]` is zero; NaN where that is not positive definite.
    """

    def step(before: tuple[Any, Any], at: Any) -> tuple[Any, Any]:
        factor, solved = before
        own, b, v = at
        # the factor's block below the diagonal: b L^-T
        link = _transposed(forward(factor, _transposed(b)))
        factor = cholesky(own - _product(link, _transposed(link)))
        solved = forward(factor, v - _product(link, solved))
        return (factor, solved), (factor, link, solved)

    eye = jnp.broadcast_to(jnp.eye(diagonal.shape[-1], dtype=diagonal.dtype), diagonal.shape[1:])
    _, (factor, link, solved) = lax.scan(step, (eye, jnp.zeros_like(b[0])), (diagonal, below, b))
    return Tridiagonal(factor, link), solved


def half_log_det(diagonal: Any, below: Any, factor: Tridiagonal, covariances: tuple[Any, Any]) -> Any:
    """Half the logarithm of the determinant of a precision, whose `factor` and `covariances` are known: with
    its gradient by these.

    The gradient is right forwards and backwards, the value's second derivatives are not there.
    """
    return _half_log_det(diagonal, below, *jax.tree.map(lax.stop_gradient, (factor, covariances)))


# not as a sum with what is zero but for its gradient: XLA would compute that anew in the sum
@jax.custom_jvp
def _half_log_det(diagonal: Any, below: Any, factor: Tridiagonal, covariances: tuple[Any, Any]) -> Any:
    return factor.half_log_det


@_half_log_det.defjvp
def _slope(primals: Any, tangents: Any) -> tuple[Any, Any]:
    own, beside = primals[3]
    return _half_log_det(*primals), jnp.sum(own * tangents[0]) / 2 + jnp.sum(beside * tangents[1])
