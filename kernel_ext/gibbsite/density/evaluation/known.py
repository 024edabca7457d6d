"""Index arithmetic that no argument enters is done while the program is made, and gathers by it are slices.

`beta[arange(J), z]` with `z` filled with `k` is `beta[:, k]`: nothing is looked up, and where its derivative
is pulled back nothing is scattered.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from gibbsite.density.evaluation.copies import IN_BOUNDS
from gibbsite.trace.jaxpr.compat import JaxprEqn
from gibbsite.trace.jaxpr.primitives import OF_ELEMENTS

MOST = 4096
"""Numbers of an array that is kept in the program itself."""


def known(eqn: JaxprEqn, xs: list[Any]) -> list[np.ndarray] | None:
    """The outputs of an equation on known integers, constant axes at size 1; None for any other."""
    if len(eqn.outvars) != 1 or not all(isinstance(x, np.ndarray) and x.dtype.kind in "biu" for x in xs):
        return None
    aval, name = eqn.outvars[0].aval, eqn.primitive.name
    if not isinstance(aval.dtype, np.dtype) or aval.dtype.kind not in "biu":  # keys have dtypes of JAX's own
        return None
    out: Any = None
    if name in OF_ELEMENTS:
        with np.errstate(all="ignore"):
            out = OF_ELEMENTS[name](*xs)
    elif name == "iota":
        axis, rank = eqn.params["dimension"], len(aval.shape)
        if aval.shape[axis] <= MOST:
            out = np.arange(aval.shape[axis]).reshape([-1 if a == axis else 1 for a in range(rank)])
    elif name == "broadcast_in_dim":
        shape = [1] * len(aval.shape)
        for a, d in enumerate(eqn.params["broadcast_dimensions"]):
            shape[d] = xs[0].shape[a]
        out = xs[0].reshape(shape)
    elif name == "squeeze":
        out = np.squeeze(xs[0], tuple(eqn.params["dimensions"]))
    elif name in ("reshape", "slice") and xs[0].size == 1:
        out = xs[0].reshape((1,) * len(aval.shape))
    elif name == "concatenate":
        axis, sizes = eqn.params["dimension"], [a.aval.shape for a in eqn.invars]
        rest = np.broadcast_shapes(*[(*x.shape[:axis], 1, *x.shape[axis + 1 :]) for x in xs])
        if int(np.prod(rest)) <= MOST:
            parts = [
                np.broadcast_to(x, (*rest[:axis], s[axis], *rest[axis + 1 :]))
                for x, s in zip(xs, sizes, strict=True)
            ]
            out = np.concatenate(parts, axis)
    return None if out is None or out.size > MOST else [np.asarray(out, aval.dtype)]


def sliced(eqn: JaxprEqn, operand: Any, indices: Any) -> Any | None:
    """A gather by known indices that are fixed, or run along an axis as the operand does, as a slice with its
    axes placed where the output has them; None for any other."""
    dims, sizes = eqn.params["dimension_numbers"], eqn.params["slice_sizes"]
    shape, rank = tuple(eqn.invars[0].aval.shape), len(eqn.outvars[0].aval.shape)
    indexed = tuple(dims.start_index_map)
    if not isinstance(indices, np.ndarray) or eqn.params["mode"] not in IN_BOUNDS or 0 in shape:
        return None
    beside = [d for d in range(len(shape)) if d not in indexed]
    if dims.operand_batching_dims or set(dims.collapsed_slice_dims) != set(indexed):
        return None
    if any(sizes[d] != shape[d] for d in beside):
        return None
    batch = [a for a in range(rank) if a not in dims.offset_dims]
    place = dict(zip(beside, dims.offset_dims, strict=True))
    for column, d in enumerate(indexed):
        at = indices[..., min(column, indices.shape[-1] - 1)]
        if np.all(at == at.reshape(-1)[0]):
            start = int(np.clip(at.reshape(-1)[0], 0, shape[d] - 1)) if operand.shape[d] != 1 else 0
            operand = lax.slice_in_dim(operand, start, start + 1, axis=d)
            continue
        along = [a for a, n in enumerate(at.shape) if n == shape[d] and np.array_equal(_running(at, a), at)]
        if len(along) != 1:
            return None
        place[d] = batch[along[0]]
    if len(set(place.values())) < len(place):
        return None
    order = sorted(place, key=place.__getitem__)
    moved = jnp.transpose(operand, (*order, *(d for d in indexed if d not in place)))
    out = [1] * rank
    for d in order:
        out[place[d]] = operand.shape[d]
    return jnp.reshape(moved, out)


def _running(like: np.ndarray, axis: int) -> np.ndarray:
    """An array of that shape that counts along an axis."""
    return np.broadcast_to(
        np.arange(like.shape[axis]).reshape([-1 if a == axis else 1 for a in range(like.ndim)]), like.shape
    )
