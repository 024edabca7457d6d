"""Gathers from an operand that is the same all along the axes they index: whatever the indices, one row."""

from typing import Any

import jax.numpy as jnp
from jax import lax

from gibbsite.density.evaluation.copies import IN_BOUNDS
from gibbsite.trace.jaxpr.compat import JaxprEqn


def gathered_alike(eqn: JaxprEqn, operand: Any) -> Any | None:
    """The output with size 1 along its batch axes, where every index finds the same; else None.

    `z[t]` of a `z` that was filled with one value is that value for all `t`: nothing is looked up, and its
    derivative is no scatter.
    """
    dims, sizes = eqn.params["dimension_numbers"], eqn.params["slice_sizes"]
    shape, indexed = tuple(eqn.invars[0].aval.shape), tuple(dims.start_index_map)
    out = tuple(eqn.outvars[0].aval.shape)
    if eqn.params["mode"] not in IN_BOUNDS or dims.operand_batching_dims or 0 in out or 0 in shape:
        return None
    if not indexed or any(operand.shape[d] != 1 for d in indexed):
        return None
    x = lax.slice(operand, (0,) * len(shape), [min(n, s) for n, s in zip(operand.shape, sizes, strict=True)])
    kept = [d for d in range(len(shape)) if d not in dims.collapsed_slice_dims]
    places = dict(zip(dims.offset_dims, (x.shape[d] for d in kept), strict=True))
    return jnp.reshape(x, [places.get(a, 1) for a in range(len(out))])
