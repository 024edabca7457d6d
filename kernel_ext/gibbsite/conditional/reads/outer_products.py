"""Weighted sums over the elements of a term, and of outer products, onto the blocks that they read."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from gibbsite.conditional.factors.sums import exact_product, long_product, sum_by
from gibbsite.programs.maps.access import Access, Read, Shape, element_number, full_window, inside

# up to so many blocks, a product with their indicators is faster than adding row by row
_FEW = 64


def _numbers(shape: Shape, access: Access, sizes: Shape, read: Read) -> Any:
    """The number of the block that each element reads, to broadcast to `shape`; -1 outside the window."""
    flat = jnp.asarray(element_number(access.index, shape, sizes, read), jnp.int32)
    return flat if access.window == full_window(shape) else jnp.where(inside(access.window, shape), flat, -1)


def _added(numbers: Any, rows: Any, count: int) -> Any:
    """`rows` `[n, m]` added up by their block's number `[n]`: `[count, m]`."""
    if count <= _FEW:
        mine = (numbers == jnp.arange(count)[:, None]).astype(rows.dtype)
        return long_product(mine, rows) if rows.shape[1] == 1 else exact_product(mine, rows)
    return sum_by(jnp.where(numbers < 0, count, numbers), rows, count)


def sum_onto(w: Any, shape: Shape, access: Access, sizes: Shape, read: Read) -> Any:
    """The sum of `w`, of a term's `shape` with constant axes at size 1, per block; shape `sizes`."""
    numbers = _numbers(shape, access, sizes, read)
    kept = tuple(a for a in range(len(shape)) if numbers.shape[a] != 1)
    gone = tuple(a for a in range(len(shape)) if a not in kept)
    copies = int(np.prod([shape[a] for a in gone if w.shape[a] == 1], dtype=np.int64))
    w = copies * jnp.sum(w, axis=gone, keepdims=True)
    full = tuple(n if a in kept else 1 for a, n in enumerate(shape))
    rows, flat = (jnp.broadcast_to(x, full).reshape(-1) for x in (w, numbers))
    return _added(flat, rows[:, None], int(np.prod(sizes, dtype=np.int64))).reshape(sizes)


def outer_onto(w: Any, b: Any, axis: int, shape: Shape, access: Access, sizes: Shape, read: Read) -> Any:
    """The sum of `w b b^T` per block, of the vectors along `axis` of `b`: shape `(*sizes, d, d)`.

    `w` and `b` are of a term's `shape` with constant axes at size 1, `w` constant along `axis`.
    """
    d, count = shape[axis], int(np.prod(sizes, dtype=np.int64))
    numbers = _numbers(shape, access, sizes, read)
    one = tuple(1 if a == axis else n for a, n in enumerate(shape))
    flat, weight = (jnp.broadcast_to(x, one).reshape(-1) for x in (numbers, w))
    rows = jnp.moveaxis(jnp.broadcast_to(b, shape), axis, -1).reshape(-1, d)
    rows = jnp.where(weight[:, None] == 0, 0, rows)  # what is masked out may hold anything
    weighted = weight[:, None] * rows
    if count <= _FEW:
        mine = (flat[:, None] == jnp.arange(count)).astype(rows.dtype)
        left = (mine[:, :, None] * weighted[:, None, :]).reshape(len(rows), count * d)
        out = exact_product(left.T, rows).reshape(count, d, d)
    else:
        out = _added(flat, (weighted[:, :, None] * rows[:, None, :]).reshape(-1, d * d), count)
    return out.reshape(*sizes, d, d)
