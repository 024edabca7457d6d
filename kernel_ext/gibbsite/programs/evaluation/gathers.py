"""Gathers of which little is looked up: where all rows are alike, an index is known, or one serves many."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from gibbsite.programs.evaluation.copies import IN_BOUNDS, at_full_size, materialise
from gibbsite.programs.jaxpr.compat import JaxprEqn, shape_of


def looked_up_nowhere(eqn: JaxprEqn, operand: Any, indices: Any) -> Any | None:
    """A gather that is none: from rows that are all alike, or by an index that is known; else None."""
    alike = _alike(eqn, operand)
    return _sliced(eqn, operand, indices) if alike is None else alike


def _alike(eqn: JaxprEqn, operand: Any) -> Any | None:
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


def _sliced(eqn: JaxprEqn, operand: Any, indices: Any) -> Any | None:
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
        counts = np.indices(at.shape, sparse=True)
        along = [a for a, n in enumerate(at.shape) if n == shape[d] and (at == counts[a]).all()]
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


def _same_index_for_all(
    eqn: JaxprEqn,
    operand: Any,
    indices: Any,
    lifted: list[tuple[int, int]],
    o_batch: list[int],
    i_batch: list[int],
    sizes: list[int],
) -> Any | None:
    """A gather whose index is the same all along some batch axes, as one that copies these axes whole.

    None where the output's axes would have to change their order.
    """
    dims = eqn.params["dimension_numbers"]
    rank = len(eqn.outvars[0].aval.shape)
    batch_axes = [a for a in range(rank) if a not in dims.offset_dims]
    gone = {i for _, i in lifted}
    windows = [
        d
        for d in range(operand.ndim)
        if d not in dims.collapsed_slice_dims and d not in dims.operand_batching_dims
    ]
    place = dict(zip(windows, dims.offset_dims, strict=True))
    place.update({d: batch_axes[i] for d, i in lifted})
    order = sorted(place)
    if [place[d] for d in order] != sorted(place.values()):
        return None
    numbers = lax.GatherDimensionNumbers(
        offset_dims=tuple(place[d] for d in order),
        collapsed_slice_dims=dims.collapsed_slice_dims,
        start_index_map=dims.start_index_map,
        operand_batching_dims=tuple(d for d in o_batch if d not in dict(lifted)),
        start_indices_batching_dims=tuple(i - sum(g < i for g in gone) for i in i_batch if i not in gone),
    )
    for d, _ in lifted:
        sizes = [operand.shape[d] if a == d else n for a, n in enumerate(sizes)]
    return lax.gather(
        operand,
        jnp.squeeze(indices, tuple(gone)),
        numbers,
        tuple(sizes),
        mode=eqn.params["mode"],
        fill_value=eqn.params["fill_value"],
    )


def gathered(eqn: JaxprEqn, xs: list[Any]) -> list[Any]:
    """A gather from and by arrays whose constant axes have size 1."""
    operand, indices = xs
    nowhere = looked_up_nowhere(eqn, operand, indices)
    if nowhere is not None:
        return [nowhere]
    o_shape, i_shape = shape_of(eqn.invars[0]), shape_of(eqn.invars[1])
    dims, sizes = eqn.params["dimension_numbers"], list(eqn.params["slice_sizes"])
    if 0 in o_shape or 0 in i_shape or 0 in sizes:
        return at_full_size(eqn, xs)
    operand = materialise(operand, o_shape, set(dims.start_index_map))
    indices = materialise(indices, i_shape, {len(i_shape) - 1})
    o_batch, i_batch = list(dims.operand_batching_dims), list(dims.start_indices_batching_dims)
    dropped: list[int] = []
    lifted: list[tuple[int, int]] = []
    for d, i in zip(dims.operand_batching_dims, dims.start_indices_batching_dims, strict=True):
        constant = operand.shape[d] == 1 and o_shape[d] != 1
        if constant and indices.shape[i] != 1:
            # the same slice serves the whole batch: gather from it without the batch axis
            dropped.append(d)
            o_batch.remove(d)
            i_batch.remove(i)
        elif not constant and indices.shape[i] != o_shape[d]:
            lifted.append((d, i))
    for d, n in enumerate(o_shape):
        if d not in dims.operand_batching_dims and operand.shape[d] == 1 and n != 1:
            sizes[d] = 1

    if lifted and not dropped:
        found = _same_index_for_all(eqn, operand, indices, lifted, o_batch, i_batch, sizes)
        if found is not None:
            return [found]
    for _, i in lifted:
        indices = materialise(indices, i_shape, {i})

    def renumbered(ds: Any) -> tuple[int, ...]:
        return tuple(d - sum(g < d for g in dropped) for d in ds)

    numbers = lax.GatherDimensionNumbers(
        offset_dims=dims.offset_dims,
        collapsed_slice_dims=renumbered(dims.collapsed_slice_dims),
        start_index_map=renumbered(dims.start_index_map),
        operand_batching_dims=renumbered(o_batch),
        start_indices_batching_dims=tuple(i_batch),
    )
    return [
        lax.gather(
            jnp.squeeze(operand, tuple(dropped)),
            indices,
            numbers,
            tuple(s for d, s in enumerate(sizes) if d not in dropped),
            unique_indices=eqn.params["unique_indices"],
            indices_are_sorted=eqn.params["indices_are_sorted"],
            mode=eqn.params["mode"],
            fill_value=eqn.params["fill_value"],
        )
    ]
