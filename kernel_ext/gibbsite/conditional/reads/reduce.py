"""Sum the elements of a term onto the elements of the site that they read."""

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gibbsite.conditional.factors.sums import exact_product, long_product, sum_by
from gibbsite.programs.maps.access import Access, Affine, Read, Shape, element_number, full_window, inside


def sum_axes(x: Any, shape: Shape, axes: tuple[int, ...]) -> Any:
    """Sum over `axes` of the array of `shape` whose constant axes are held at size 1; keeps the axes."""
    if not axes:
        return x
    copies = int(np.prod([shape[a] for a in axes if x.shape[a] == 1], dtype=np.int64))
    total = jnp.sum(x, axis=axes, keepdims=True)
    return total * copies if copies != 1 else total


def _inside(x: Any, shape: Shape, access: Access) -> tuple[Any, Shape]:
    """The part of `x` inside the access's window."""
    if access.window == full_window(shape):
        return x, shape
    cut = tuple(
        slice(None) if x.shape[a] == 1 and shape[a] != 1 else slice(low, high)
        for a, (low, high) in enumerate(access.window)
    )
    return x[cut], tuple(high - low for low, high in access.window)


def _aligned(access: Access) -> tuple[int | None, ...] | None:
    """The array axis that each site axis runs along with step 1 (None: a constant index), if that is all."""
    axes: list[int | None] = []
    for c in access.index:
        if not isinstance(c, Affine) or len(c.axes) > 1:
            return None
        if c.axes and (c.coefs[c.axes[0]] != 1 or c.axes[0] in axes):
            return None
        axes.append(c.axes[0] if c.axes else None)
    return tuple(axes)


def reduce_onto(x: Any, shape: Shape, access: Access, elements: Shape, read: Read) -> Any:
    """Sum `x` onto the site's elements.

    `x` is a term's contribution, of the term's `shape` with constant axes at size 1. The result broadcasts
    against `elements`; elements that the access does not reach get 0.
    """
    axes = _aligned(access)
    if axes is not None:
        return _reduce_aligned(x, shape, access, axes, elements)
    flat = jnp.asarray(element_number(access.index, shape, elements, read), jnp.int32)
    varying = tuple(a for a in range(len(shape)) if flat.shape[a] != 1)
    x, inner = _inside(x, shape, access)
    window = tuple(slice(*access.window[a]) if a in varying else slice(None) for a in range(len(shape)))
    flat = flat[window]
    x = sum_axes(x, inner, tuple(a for a in range(len(shape)) if a not in varying))
    target = tuple(inner[a] if a in varying else 1 for a in range(len(shape)))
    total = sum_by(
        jnp.broadcast_to(flat, target).reshape(-1),
        jnp.broadcast_to(x, target).reshape(-1),
        int(np.prod(elements, dtype=np.int64)),
    )
    return total.reshape(elements)


def onto_elements(
    touches: Sequence[Any],
    bounds: Collection[Any],
    ev: Any,
    elements: Shape,
    less: Mapping[Any, Any] = MappingProxyType({}),
) -> tuple[Any, Any]:
    """What the terms of `touches` add up to on a site's elements, and apart from that those of them that are
    among `bounds` (negative outside of a support), with all values given by the evaluator `ev`. What is
    `less` of a term, by the id of its touch, is taken off its elements before they are summed."""
    total: Any = jnp.zeros((1,) * len(elements))
    outside: Any = jnp.zeros((1,) * len(elements))
    for touch in touches:
        part = touch.term.at(ev)
        if id(touch) in less:
            part = part - less[id(touch)]
        for access in touch.accesses:
            onto = reduce_onto(part, touch.term.shape, access, elements, ev.full)
            if touch.term in bounds:
                outside = outside + onto
            else:
                total = total + onto
    return total, outside


def _reduce_aligned(x: Any, shape: Shape, access: Access, axes: Any, elements: Shape) -> Any:
    x, inner = _inside(x, shape, access)
    used = [a for a in axes if a is not None]
    x = sum_axes(x, inner, tuple(a for a in range(len(shape)) if a not in used))
    order = used + [a for a in range(len(shape)) if a not in used]
    x = jnp.transpose(x, order).reshape(tuple(x.shape[a] for a in used))
    sizes = iter(x.shape)
    x = x.reshape(tuple(1 if a is None else next(sizes) for a in axes))
    # place the window's elements where the site has them
    pads, target = [], []
    for d, (component, a) in enumerate(zip(access.index, axes, strict=True)):
        assert isinstance(component, Affine)
        low = component.offset if a is None else component.offset + access.window[a][0]
        count = 1 if a is None else inner[a]
        pads.append((low, elements[d] - low - count, 0))
        target.append(count)
    if all(p == (0, 0, 0) for p in pads):
        return x
    target = tuple(n if pads[d] != (0, 0, 0) else x.shape[d] for d, n in enumerate(target))
    return jax.lax.pad(jnp.broadcast_to(x, target), jnp.zeros((), x.dtype), pads)


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
