"""Gathers that fill what lies out of range, as a gather in bounds and a choice."""

from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gibbsite.programs.jaxpr.compat import ClosedJaxpr, JaxprEqn
from gibbsite.programs.jaxpr.primitives import GATHERS, of_kind


def in_bounds(eqn: JaxprEqn, known: Any) -> ClosedJaxpr | None:
    """`where(the index is in range, gather at the nearest index in range, fill_value)` in place of a gather
    that gives a filling value for an index out of range, as XLA computes it; None for other equations.

    So no reader of gathers can take an element that is not read for the last one of the array.
    """
    if not of_kind(eqn, GATHERS) or eqn.params["mode"] != lax.GatherScatterMode.FILL_OR_DROP:
        return None
    if not isinstance(eqn.invars[0].aval.dtype, np.dtype):
        return None
    specs = tuple((tuple(a.aval.shape), np.dtype(a.aval.dtype)) for a in eqn.invars)
    p = eqn.params
    flags = (p["unique_indices"], p["indices_are_sorted"])
    out = tuple(eqn.outvars[0].aval.shape)
    fill = _fill_value(p["fill_value"], specs[0][1])
    return _rewritten(specs, p["dimension_numbers"], tuple(p["slice_sizes"]), flags, fill.tobytes(), out)


@lru_cache(maxsize=512)
def _rewritten(
    specs: Any, dims: Any, sizes: tuple[int, ...], flags: tuple[bool, bool], fill: bytes, out: tuple[int, ...]
) -> ClosedJaxpr:
    (shape, dtype), indexed = specs
    room = np.array([shape[d] - sizes[d] for d in dims.start_index_map], np.int64)
    batch = [a for a in range(len(out)) if a not in dims.offset_dims]
    value = np.frombuffer(fill, dtype)[0]

    def chosen(operand: Any, indices: Any) -> Any:
        limit = jnp.asarray(np.minimum(room, np.iinfo(indices.dtype).max), indices.dtype)
        inside = jnp.all((indices >= 0) & (indices <= limit), axis=-1)
        picked = lax.gather(
            operand,
            indices,
            dims,
            sizes,
            unique_indices=flags[0],
            indices_are_sorted=flags[1],
            mode=lax.GatherScatterMode.CLIP,
        )
        inside = lax.broadcast_in_dim(inside, out, batch)
        return lax.select(inside, picked, jnp.full(out, value, dtype))

    traced: Any = jax.make_jaxpr(chosen)(*[jax.ShapeDtypeStruct(*s) for s in (specs[0], indexed)])
    return traced


def _fill_value(given: Any, dtype: Any) -> np.ndarray:
    """What JAX fills with: NaN for inexact numbers, the largest or most negative integer, True."""
    if given is not None:
        return np.asarray(given, dtype)
    if np.issubdtype(dtype, np.inexact) or jnp.issubdtype(dtype, jnp.inexact):
        return np.asarray(np.nan, dtype)
    if dtype.kind == "b":
        return np.asarray(True)
    limits = np.iinfo(dtype)
    return np.asarray(limits.min if dtype.kind == "i" else limits.max, dtype)
