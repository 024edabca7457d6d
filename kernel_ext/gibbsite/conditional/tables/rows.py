"""Rows of tables, moved to where they are wanted. Rows are the last axis, of size 1 where all agree."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from gibbsite.conditional.factors.sums import sum_by


def is_identity(index: np.ndarray, n: int) -> bool:
    """Whether row `i` goes to place `i` of `n`."""
    return len(index) == n and bool(np.array_equal(index, np.arange(n)))


def rows_onto(table: Any, index: np.ndarray, n: int) -> Any:
    """Sum rows onto `n` places, row `i` onto place `index[i]`; without a scatter where they are regular."""
    if is_identity(index, n):
        return table
    lead = table.shape[:-1]
    if table.shape[-1] == 1 and len(index) != 1:
        count = np.bincount(index, minlength=n)
        times = jnp.asarray(count[:1] if np.all(count == count[0]) else count, table.dtype)
        return jnp.where(times == 0, 0, table * times)  # not -inf * 0
    if n == 1:
        return jnp.sum(table, -1, keepdims=True)
    if np.array_equal(index, index[0] + np.arange(len(index))):
        return jnp.pad(table, [(0, 0)] * len(lead) + [(int(index[0]), n - int(index[0]) - len(index))])
    if len(index) % n == 0 and np.array_equal(index, np.repeat(np.arange(n), len(index) // n)):
        return jnp.sum(table.reshape(*lead, n, -1), -1)
    if len(index) % n == 0 and np.array_equal(index, np.tile(np.arange(n), len(index) // n)):
        return jnp.sum(table.reshape(*lead, -1, n), -2)
    flat = sum_by(jnp.asarray(index), jnp.moveaxis(table, -1, 0), n)
    return jnp.moveaxis(flat, 0, -1)


def taken(table: Any, index: np.ndarray, rows: int) -> Any:
    """The rows `index` of a table that stands for `rows`."""
    if table.shape[-1] == 1 or is_identity(index, rows):
        return table
    return jnp.take(table, jnp.asarray(index), axis=-1)


def aligned(table: Any, names: Sequence[Any], order: Sequence[Any]) -> Any:
    """A table whose value axes are called `names` with an axis for each of `order`, of size 1 if new."""
    there = [n for n in order if n in names]
    table = jnp.transpose(table, (*(names.index(n) for n in there), table.ndim - 1))
    sizes = iter(table.shape)
    return table.reshape([next(sizes) if n in names else 1 for n in order] + [table.shape[-1]])
