"""Cholesky factors and triangular solves of batches of small matrices, written out.

A library's routine is called once per matrix, which for thousands of matrices of size 1 to 4 costs more than
all of their arithmetic; written out, every entry is one operation over the whole batch.
"""

from typing import Any

import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular

from gibbsite.conditional.factors.sums import exact_product

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
