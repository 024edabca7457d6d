"""The table of index-map rules, one per primitive.

Structural primitives only say, per operand axis, which index an output element reads (`_exprs`); composing
that with the operand's own accesses is done in one place (`access.through`). Unknown primitives go to
`default_rule`, which is conservative on purpose. Branches and loops have theirs in `control`.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from gibbsite.programs.jaxpr.compat import JaxprEqn
from gibbsite.programs.jaxpr.primitives import (
    BARRIERS,
    COMBINES,
    CUMULATIVE,
    ELEMENTWISE,
    MATRIX,
    REDUCTIONS,
    SCATTERS,
    of_kind,
    of_table,
)
from gibbsite.programs.jaxpr.values import small
from gibbsite.programs.maps.access import (
    WHOLE,
    Affine,
    Component,
    Read,
    Shape,
    Table,
    Window,
    along,
    clipped,
    constant,
    equal_runs,
    full_window,
    known_index,
    sum_of,
    through,
)
from gibbsite.programs.maps.provenance import Arg, Provenance, blurred, merged

Rule = Callable[[JaxprEqn, list[Arg], Provenance], list[Arg]]


def moved(arg: Arg, exprs: Sequence[Component], shape: Shape, window: Window | None = None) -> dict[str, Any]:
    found = {s: through(a, exprs, shape, window, arg.shape) for s, a in arg.accesses.items()}
    return {s: t for s, t in found.items() if t}


def fold(eqn: JaxprEqn, args: list[Arg]) -> np.ndarray | None:
    """The value of an equation's output, if it is one of few integers of known operands."""
    return small(eqn, [a.known for a in args])


def shape_of(eqn: JaxprEqn, i: int = 0) -> Shape:
    return tuple(eqn.outvars[i].aval.shape)


def aligned(operand: Shape, shape: Shape) -> tuple[Component, ...]:
    """Operand and output have the same axes; size-1 operand axes are broadcast."""
    rank = len(shape)
    return tuple(along(rank, a) if n == shape[a] else constant(rank, 0) for a, n in enumerate(operand))


def _elementwise(eqn: JaxprEqn, args: list[Arg], p: Provenance) -> list[Arg]:
    known = fold(eqn, args)
    outs = []
    for i in range(len(eqn.outvars)):
        shape = shape_of(eqn, i)
        used = [args[i]] if of_kind(eqn, BARRIERS) else args
        maps = merged([moved(a, aligned(a.shape, shape), shape) for a in used if a.accesses])
        outs.append(Arg(shape, maps, None, known))
    return outs


def _structural(exprs_of: Callable[[JaxprEqn, Shape, Shape], Sequence[Component]]) -> Rule:
    def rule(eqn: JaxprEqn, args: list[Arg], p: Provenance) -> list[Arg]:
        shape = shape_of(eqn)
        maps = moved(args[0], exprs_of(eqn, args[0].shape, shape), shape) if args[0].accesses else {}
        return [Arg(shape, maps, None, fold(eqn, args))]

    return rule


def _broadcast_exprs(eqn: JaxprEqn, operand: Shape, shape: Shape) -> list[Component]:
    dims = eqn.params["broadcast_dimensions"]
    rank = len(shape)
    return [along(rank, d) if operand[a] == shape[d] else constant(rank, 0) for a, d in enumerate(dims)]


def _transpose_exprs(eqn: JaxprEqn, operand: Shape, shape: Shape) -> list[Component]:
    perm = eqn.params["permutation"]
    return [along(len(shape), perm.index(a)) for a in range(len(operand))]


def _reshape_exprs(eqn: JaxprEqn, operand: Shape, shape: Shape) -> list[Component]:
    """Row-major reshape: the operand's index per axis, as a function of the output's."""
    rank = len(shape)
    if eqn.params.get("dimensions") is not None:
        return [WHOLE] * len(operand)
    if 0 in operand or 0 in shape:
        return [constant(rank, 0)] * len(operand)
    exprs: list[Component] = [constant(rank, 0)] * len(operand)
    for of_operand, of_shape in equal_runs(operand, shape):
        ins = [a for a in of_operand if operand[a] != 1]
        outs = [b for b in of_shape if shape[b] != 1]
        if len(ins) == 1:
            coefs, stride = [0] * rank, 1
            for b in reversed(outs):
                coefs[b] = stride
                stride *= shape[b]
            exprs[ins[0]] = Affine(tuple(coefs), 0)
        elif ins:
            flat = np.arange(math.prod(operand[a] for a in ins), dtype=np.int32)
            flat = flat.reshape([shape[b] if b in outs else 1 for b in range(rank)])
            stride = 1
            for a in reversed(ins):
                exprs[a] = known_index((flat // stride) % operand[a])
                stride *= operand[a]
    return exprs


def _rev_exprs(eqn: JaxprEqn, operand: Shape, shape: Shape) -> list[Component]:
    dims = eqn.params["dimensions"]
    rank = len(shape)
    return [along(rank, a, -1, n - 1) if a in dims else along(rank, a) for a, n in enumerate(operand)]


def _slice_exprs(eqn: JaxprEqn, operand: Shape, shape: Shape) -> list[Component]:
    starts, strides = eqn.params["start_indices"], eqn.params["strides"] or (1,) * len(shape)
    rank = len(shape)
    return [along(rank, a, strides[a], starts[a]) for a in range(len(operand))]


def _tile_exprs(eqn: JaxprEqn, operand: Shape, shape: Shape) -> list[Component]:
    grid = np.indices(shape, np.int32, sparse=True)
    return [known_index(grid[a] % max(n, 1)) for a, n in enumerate(operand)]


def _without(axes: str) -> Callable[[JaxprEqn, Shape, Shape], list[Component]]:
    """The operand's index where the parameter `axes` tells which of its axes the output lacks."""

    def exprs(eqn: JaxprEqn, operand: Shape, shape: Shape) -> list[Component]:
        gone = {a % len(operand) for a in eqn.params[axes]}
        kept = [a for a in range(len(operand)) if a not in gone]
        return [
            (WHOLE if operand[a] != 1 else constant(len(shape), 0))
            if a in gone
            else along(len(shape), kept.index(a))
            for a in range(len(operand))
        ]

    return exprs


def _mixed(rank: int, *axes: int) -> list[Component]:
    """Every element along `axes`, and along the others the one at the same place."""
    return [WHOLE if a - rank in axes or a in axes else along(rank, a) for a in range(rank)]


def _fft_exprs(eqn: JaxprEqn, operand: Shape, shape: Shape) -> list[Component]:
    return _mixed(len(operand), *range(-len(eqn.params["fft_lengths"]), 0))


def _cumulative_exprs(eqn: JaxprEqn, operand: Shape, shape: Shape) -> list[Component]:
    return _mixed(len(operand), eqn.params["axis"])


def _reduction(eqn: JaxprEqn, args: list[Arg], p: Provenance) -> list[Arg]:
    return _structural(_without("axes"))(eqn, args, p) * len(eqn.outvars)


def _sort(eqn: JaxprEqn, args: list[Arg], p: Provenance) -> list[Arg]:
    shape = shape_of(eqn)
    maps = merged([moved(a, _mixed(len(shape), eqn.params["dimension"]), shape) for a in args])
    return [Arg(shape, maps) for _ in eqn.outvars]


def _top_k(eqn: JaxprEqn, args: list[Arg], p: Provenance) -> list[Arg]:
    exprs = _mixed(len(args[0].shape), eqn.params.get("axis", -1))
    return [Arg(shape_of(eqn, i), moved(args[0], exprs, shape_of(eqn, i))) for i in range(len(eqn.outvars))]


def _shifted(rank: int, axis: int, by: int) -> list[Component]:
    return [along(rank, a, 1, by if a == axis else 0) for a in range(rank)]


def _concatenate(eqn: JaxprEqn, args: list[Arg], p: Provenance) -> list[Arg]:
    shape, axis = shape_of(eqn), eqn.params["dimension"]
    maps, start = [], 0
    for arg in args:
        size = arg.shape[axis]
        window = tuple((start, start + size) if a == axis else (0, n) for a, n in enumerate(shape))
        if size:
            maps.append(moved(arg, _shifted(len(shape), axis, -start), shape, window))
        start += size
    return [Arg(shape, merged(maps), None, fold(eqn, args))]


def _split(eqn: JaxprEqn, args: list[Arg], p: Provenance) -> list[Arg]:
    axis, start, outs = eqn.params["axis"], 0, []
    for i, size in enumerate(eqn.params["sizes"]):
        shape = shape_of(eqn, i)
        outs.append(Arg(shape, moved(args[0], _shifted(len(shape), axis, start), shape)))
        start += size
    return outs


def _pad(eqn: JaxprEqn, args: list[Arg], p: Provenance) -> list[Arg]:
    shape = shape_of(eqn)
    exprs: list[Component] = []
    window = list(full_window(shape))
    for a, (low, _, interior) in enumerate(eqn.params["padding_config"]):
        size = args[0].shape[a]
        if interior:
            exprs.append(WHOLE)
            continue
        exprs.append(along(len(shape), a, 1, -low))
        window[a] = (max(0, low), min(shape[a], low + size))
    maps = [] if any(low >= high for low, high in window) else [moved(args[0], exprs, shape, tuple(window))]
    maps.append(moved(args[1], [], shape))
    return [Arg(shape, merged(maps))]


def _scalar_index(arg: Arg, rank: int, high: int) -> Component:
    """A scalar start index, clamped to `[0, high]`, as a component over an array of `rank` axes."""
    if arg.known is not None:
        return constant(rank, int(np.clip(int(arg.known), 0, high)))
    var = arg.var

    def value(read: Read) -> Any:
        return clipped(jnp.reshape(read(var), (1,) * rank), high)

    return Table(("scalar", var, rank, high), (1,) * rank, arg.latents, value)


def _plus(start: Component, axis: int, shape: Shape) -> Component:
    """`start + o[axis]`."""
    return sum_of([(1, start), (1, along(len(shape), axis))], 0, shape)


def _dynamic_slice(eqn: JaxprEqn, args: list[Arg], p: Provenance) -> list[Arg]:
    shape = shape_of(eqn)
    operand, starts = args[0], args[1:]
    exprs = [
        _plus(_scalar_index(s, len(shape), operand.shape[a] - shape[a]), a, shape)
        for a, s in enumerate(starts)
    ]
    maps = [moved(operand, exprs, shape)] + [moved(s, [], shape) for s in starts]
    return [Arg(shape, merged(maps))]


def _dynamic_update_slice(eqn: JaxprEqn, args: list[Arg], p: Provenance) -> list[Arg]:
    shape = shape_of(eqn)
    operand, update, starts = args[0], args[1], args[2:]
    maps = [moved(operand, aligned(operand.shape, shape), shape)] + [moved(s, [], shape) for s in starts]
    exprs: list[Component] = []
    window = list(full_window(shape))
    for a, s in enumerate(starts):
        room = shape[a] - update.shape[a]
        if room == 0 or s.known is not None:
            start = 0 if room == 0 else int(np.clip(int(s.known), 0, room))  # type: ignore[arg-type]
            exprs.append(along(len(shape), a, 1, -start))
            window[a] = (start, start + update.shape[a])
        else:
            exprs.append(WHOLE)
    maps.append(moved(update, exprs, shape, tuple(window)))
    return [Arg(shape, merged(maps))]


def _gather(eqn: JaxprEqn, args: list[Arg], p: Provenance) -> list[Arg]:
    shape = shape_of(eqn)
    operand, indices = args
    dims, sizes = eqn.params["dimension_numbers"], eqn.params["slice_sizes"]
    rank = len(shape)
    batch_axes = [a for a in range(rank) if a not in dims.offset_dims]
    # index arrays: all axes but the last (the index vector) are batch axes, in order
    index_axis = {a: batch_axes[a] for a in range(len(indices.shape) - 1)}
    kept = [
        d
        for d in range(len(operand.shape))
        if d not in dims.collapsed_slice_dims and d not in dims.operand_batching_dims
    ]
    exprs: list[Component] = []
    for d, size in enumerate(operand.shape):
        parts: list[Component] = []
        if d in dims.operand_batching_dims:
            axis = dims.start_indices_batching_dims[dims.operand_batching_dims.index(d)]
            parts.append(along(rank, index_axis[axis]))
        if d in dims.start_index_map:
            parts.append(
                _gathered_index(indices, dims.start_index_map.index(d), index_axis, shape, size - sizes[d])
            )
        if d in kept and shape[dims.offset_dims[kept.index(d)]] != 1:
            parts.append(along(rank, dims.offset_dims[kept.index(d)]))
        exprs.append(sum_of([(1, c) for c in parts], 0, shape) if parts else constant(rank, 0))
    maps = [moved(operand, exprs, shape)]
    if indices.accesses:
        flow: list[Component] = [along(rank, index_axis[a]) for a in range(len(indices.shape) - 1)]
        last = indices.shape[-1]
        flow.append(constant(rank, 0) if last == 1 else WHOLE)
        maps.append(moved(indices, flow, shape))
    return [Arg(shape, merged(maps))]


def _gathered_index(indices: Arg, k: int, index_axis: dict[int, int], shape: Shape, high: int) -> Component:
    rank = len(shape)
    target = [1] * rank
    for a, axis in index_axis.items():
        target[axis] = indices.shape[a]
    if high == 0:
        return constant(rank, 0)
    if indices.known is not None:
        array = np.clip(np.asarray(indices.known, np.int64)[..., k], 0, high).astype(np.int32)
        return known_index(array.reshape(target))
    var = indices.var

    def value(read: Read) -> Any:
        return clipped(jnp.reshape(jnp.asarray(read(var))[..., k], target), high)

    return Table(("gather", var, k, tuple(target), high), tuple(target), indices.latents, value)


def _scatter(eqn: JaxprEqn, args: list[Arg], p: Provenance) -> list[Arg]:
    shape = shape_of(eqn)
    operand, indices, updates = args
    dims = eqn.params["dimension_numbers"]
    rank = len(shape)
    maps = [moved(operand, aligned(operand.shape, shape), shape)]
    kept = [
        d for d in range(rank) if d not in dims.inserted_window_dims and d not in dims.operand_batching_dims
    ]
    window = list(full_window(shape))
    exprs: list[Component] = [WHOLE if n != 1 else constant(rank, 0) for n in updates.shape]
    batch_axes = [a for a in range(len(updates.shape)) if a not in dims.update_window_dims]
    single = indices.known is not None and indices.known.size == indices.shape[-1]
    position = np.asarray(indices.known).reshape(-1) if single else None
    for d in range(rank):
        at = dims.scatter_dims_to_operand_dims.index(d) if d in dims.scatter_dims_to_operand_dims else None
        if d in kept:
            axis = dims.update_window_dims[kept.index(d)]
            size = updates.shape[axis]
            if at is None or (position is not None and 0 <= position[at] <= shape[d] - size):
                start = 0 if at is None or position is None else int(position[at])
                exprs[axis] = along(rank, d, 1, -start)
                window[d] = (start, start + size)
        elif d in dims.operand_batching_dims:
            axis = batch_axes[dims.scatter_indices_batching_dims[dims.operand_batching_dims.index(d)]]
            exprs[axis] = along(rank, d)
        elif position is not None and at is not None and 0 <= position[at] < shape[d]:
            window[d] = (int(position[at]), int(position[at]) + 1)
    maps.append(moved(updates, exprs, shape, tuple(window)))
    if indices.accesses:
        maps.append(blurred([indices], shape, p.site_shapes))
    return [Arg(shape, merged(maps))]


def _dot_general(eqn: JaxprEqn, args: list[Arg], p: Provenance) -> list[Arg]:
    shape = shape_of(eqn)
    rank = len(shape)
    (contract, batch) = eqn.params["dimension_numbers"]
    maps = []
    free_start = len(batch[0])
    for side, arg in enumerate(args[:2]):
        exprs: list[Component] = [constant(rank, 0)] * len(arg.shape)
        free = [a for a in range(len(arg.shape)) if a not in contract[side] and a not in batch[side]]
        for out_axis, a in enumerate(batch[side]):
            exprs[a] = along(rank, out_axis)
        for n, a in enumerate(free):
            exprs[a] = along(rank, free_start + n)
        for a in contract[side]:
            exprs[a] = WHOLE if arg.shape[a] != 1 else constant(rank, 0)
        free_start += len(free)
        maps.append(moved(arg, exprs, shape))
    return [Arg(shape, merged(maps))]


def _matrix(eqn: JaxprEqn, args: list[Arg], p: Provenance) -> list[Arg]:
    outs = []
    for i in range(len(eqn.outvars)):
        shape = shape_of(eqn, i)
        maps = []
        for arg in args:
            lead = len(arg.shape) - 2
            if lead < 0 or len(shape) < lead or arg.shape[:lead] != shape[:lead]:
                maps.append(blurred([arg], shape, p.site_shapes))
                continue
            exprs: list[Component] = [*(along(len(shape), a) for a in range(lead)), WHOLE, WHOLE]
            maps.append(moved(arg, exprs, shape))
        outs.append(Arg(shape, merged(maps)))
    return outs


def _triangular_solve(eqn: JaxprEqn, args: list[Arg], p: Provenance) -> list[Arg]:
    """Each column (or row, from the right) of the solution depends on that one of the right-hand side."""
    shape = shape_of(eqn)
    rank = len(shape)
    lead: list[Component] = [along(rank, a) for a in range(rank - 2)]
    rows, columns = along(rank, rank - 2), along(rank, rank - 1)
    solved = [*lead, WHOLE, columns] if eqn.params["left_side"] else [*lead, rows, WHOLE]
    maps = [moved(args[0], [*lead, WHOLE, WHOLE], shape), moved(args[1], solved, shape)]
    return [Arg(shape, merged(maps))]


def _iota(eqn: JaxprEqn, args: list[Arg], p: Provenance) -> list[Arg]:
    return [Arg(shape_of(eqn), {}, None, fold(eqn, args))]


def default_rule(eqn: JaxprEqn, args: list[Arg], p: Provenance) -> list[Arg]:
    """A primitive that no rule knows: outputs depend on everything that the inputs depend on."""
    sites = frozenset().union(*(a.latents for a in args)) if args else frozenset()
    if sites:
        p.blockers.append((eqn, sites))
    return [
        Arg(shape_of(eqn, i), blurred(args, shape_of(eqn, i), p.site_shapes)) for i in range(len(eqn.outvars))
    ]


MOVED: dict[str, Callable[[JaxprEqn, Shape, Shape], list[Component]]] = {
    "broadcast_in_dim": _broadcast_exprs,
    "transpose": _transpose_exprs,
    "squeeze": _without("dimensions"),
    "reshape": _reshape_exprs,
    "rev": _rev_exprs,
    "slice": _slice_exprs,
    "tile": _tile_exprs,
}
"""What moves elements by its parameters alone, for all that asks where to: see `moved_to`."""


def moved_to(eqn: JaxprEqn) -> list[Component]:
    """Per axis of the operand the index at which an element of the result reads it, of what is in `MOVED`."""
    return of_table(eqn, MOVED)(eqn, tuple(eqn.invars[0].aval.shape), shape_of(eqn))


RULES: dict[str, Rule] = {
    **{name: _structural(exprs) for name, exprs in MOVED.items()},
    **dict.fromkeys(ELEMENTWISE, _elementwise),
    **dict.fromkeys(REDUCTIONS, _reduction),
    **dict.fromkeys(CUMULATIVE, _structural(_cumulative_exprs)),
    **dict.fromkeys(MATRIX, _matrix),
    "fft": _structural(_fft_exprs),
    "split": _split,
    "sort": _sort,
    "top_k": _top_k,
    "concatenate": _concatenate,
    "triangular_solve": _triangular_solve,
    "pad": _pad,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "gather": _gather,
    **dict.fromkeys(SCATTERS | COMBINES.keys(), _scatter),
    "dot_general": _dot_general,
    "iota": _iota,
}


def rule_of(eqn: JaxprEqn) -> Rule:
    """The rule of an equation's primitive."""
    return of_table(eqn, RULES, default_rule)
