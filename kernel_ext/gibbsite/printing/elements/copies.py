"""Which element of which operand an element copies: slices, gathers, updates, and arrays put together."""

from collections.abc import Callable
from typing import Any

import numpy as np

from gibbsite.printing.elements.constants import Printer
from gibbsite.printing.elements.indices import Index, Span, Sym, added, bounds, moved
from gibbsite.printing.elements.text import ATOM, Opaque, Text, call, shape_of
from gibbsite.programs.jaxpr import primitives as op
from gibbsite.programs.jaxpr.compat import Literal
from gibbsite.programs.maps.access import Affine, equal_runs
from gibbsite.programs.maps.rules import moved_to

Indices = tuple[Index, ...]


def copy_rule(p: Printer, eqn: Any, atom: Any, index: Indices) -> Text:
    """What is moved by the equation's parameters alone, read where its index map says."""
    return p.write(eqn.invars[0], tuple(_along(c, index) for c in moved_to(eqn)))  # type: ignore[arg-type]


def _along(c: Affine, index: Indices) -> Index:
    return moved(index[c.axes[0]], c.offset, c.coefs[c.axes[0]]) if c.axes else c.offset


def reshape_rule(p: Printer, eqn: Any, atom: Any, index: Indices) -> Text:
    x, shape, out = eqn.invars[0], shape_of(eqn.invars[0]), shape_of(atom)
    found: list[Index] = []
    for own, others in equal_runs(shape, out):
        at = slice(others.start, others.stop)
        found += _regrouped(p, shape[own.start : own.stop], out[at], index[at])
    return p.write(x, tuple(found))


def _regrouped(p: Printer, shape: tuple[int, ...], out: tuple[int, ...], index: Indices) -> list[Index]:
    real = [(i, n) for i, n in zip(index, out, strict=True) if n != 1]
    long = [n for n in shape if n != 1]
    if long == [n for _, n in real]:
        rest = iter(i for i, _ in real)
        return [0 if n == 1 else next(rest) for n in shape]
    flat: Index | None = 0
    for i, n in real:
        flat = added(moved(flat, 0, n), i) if flat is not None and not isinstance(i, Span) else None
    if flat is None:
        raise Opaque
    parts: list[Index] = []
    for n in reversed(shape):
        parts.insert(0, _modulo(p, flat, n) if n != 1 else 0)
        flat = _quotient(p, flat, n) if n != 1 else flat
    return parts


def _modulo(p: Printer, i: Index, n: int) -> int | Sym:
    if isinstance(i, int):
        return i % n
    assert isinstance(i, Sym)
    ends = bounds(i, p.ranges)
    if ends is not None and ends[0] >= 0 and ends[1] < n:
        return i
    kept = Sym(tuple((t, c) for t, c in i.parts if c % n), i.offset % n, i.tags)
    low_high = bounds(kept, p.ranges)
    if low_high is None or low_high[0] < 0 or low_high[1] >= n:
        raise Opaque
    return kept if kept.parts else kept.offset


def _quotient(p: Printer, i: Index, n: int) -> Index:
    if isinstance(i, int):
        return i // n
    assert isinstance(i, Sym)
    rest = _modulo(p, i, n)  # raises where the parts do not divide
    removed = {t for t, _ in rest.parts} if isinstance(rest, Sym) else set()
    left = tuple((t, c // n) for t, c in i.parts if t not in removed)
    offset = (i.offset - (rest.offset if isinstance(rest, Sym) else rest)) // n
    return Sym(left, offset, i.tags) if left else offset


def concatenate_rule(p: Printer, eqn: Any, atom: Any, index: Indices) -> Text:
    axis = eqn.params["dimension"]

    def piece(x: Any) -> tuple[int, Callable[[Index], Text]]:
        return shape_of(x)[axis], lambda at: p.write(x, (*index[:axis], at, *index[axis + 1 :]))

    parts, at = [piece(x) for x in eqn.invars], index[axis]
    if (
        isinstance(at, Span)
        and (at.start, at.size, at.step) == (0, shape_of(atom)[axis], 1)
        and (
            sum(n > 1 for n, _ in parts)
            and len(parts) < 8
            and not any(isinstance(i, Span) for i in (*index[:axis], *index[axis + 1 :]))
        )
    ):
        return p.concatenated(parts, at)
    return p.pieces(parts, at, axis)


def pad_rule(p: Printer, eqn: Any, atom: Any, index: Indices) -> Text:
    x, fill = eqn.invars
    axes = [a for a, c in enumerate(eqn.params["padding_config"]) if tuple(c) != (0, 0, 0)]
    if len(axes) != 1 or min(eqn.params["padding_config"][axes[0]]) < 0:
        raise Opaque
    (axis,) = axes
    low, high, inner = eqn.params["padding_config"][axis]
    if inner:
        raise Opaque
    n = shape_of(x)[axis]
    parts = [
        (low, lambda at: p.write(fill, ())),
        (n, lambda at: p.write(x, (*index[:axis], at, *index[axis + 1 :]))),
        (high, lambda at: p.write(fill, ())),
    ]
    return p.pieces(parts, index[axis], axis)


def split_rule(p: Printer, eqn: Any, atom: Any, index: Indices) -> Text:
    axis, sizes = eqn.params["axis"], eqn.params["sizes"]
    start = int(sum(sizes[: eqn.outvars.index(atom)]))
    return p.write(eqn.invars[0], tuple(moved(i, start) if a == axis else i for a, i in enumerate(index)))


def iota_rule(p: Printer, eqn: Any, atom: Any, index: Indices) -> Text:
    n, i = shape_of(atom)[eqn.params["dimension"]], index[eqn.params["dimension"]]
    if isinstance(i, Span):
        return Text(call("arange", str(n)), ATOM, (i.tag,))
    return p.constants.write(np.arange(n), (i,))


def gather_rule(p: Printer, eqn: Any, atom: Any, index: Indices) -> Text:
    mode = str(eqn.params["mode"]).rpartition(".")[2].lower()
    return gathered(p, eqn, index, "clip" if "clip" in mode else "fill" if "fill" in mode else "", None)


def filled_gather(p: Printer, select: Any) -> tuple[Any, Any] | None:
    """The gather and the filling value of `where(index in range, gather, value)`, where that is what a
    selection was rewritten from."""
    test, other, picked = select.invars
    value = p.values.constant(other)
    eqn = None if isinstance(picked, Literal) else p.producer.get(picked)
    found: Any = None if isinstance(test, Literal) else p.producer.get(test)
    if op.of_kind(found, op.SPREADS):
        found = p.producer.get(found.invars[0])
    for kind in (op.CONJUNCTIONS, op.BOTH, op.AT_LEAST):
        if not op.of_kind(found, kind):
            return None
        if kind is not op.AT_LEAST:
            found = None if isinstance(found.invars[0], Literal) else p.producer.get(found.invars[0])
    if eqn is None or not op.of_kind(eqn, op.GATHERS) or found.invars[0] is not eqn.invars[1]:
        return None
    if value is None or not value.size or not np.array_equal(value, np.full_like(value, value.flat[0]), True):
        return None
    return eqn, value.reshape(-1)[0]


def gathered(p: Printer, eqn: Any, index: Indices, mode: str, fill: Any) -> Text:
    """An element that is picked by indices; `mode` says what those out of range read."""
    operand, indices = eqn.invars
    dims = eqn.params["dimension_numbers"]
    shape, sizes = shape_of(operand), eqn.params["slice_sizes"]
    batch = tuple(i for a, i in enumerate(index) if a not in dims.offset_dims)
    offsets = iter([index[a] for a in dims.offset_dims])
    out: list[Index] = []
    safe = turned = True
    for d in range(len(shape)):
        if d in dims.operand_batching_dims:
            out.append(batch[dims.start_indices_batching_dims[dims.operand_batching_dims.index(d)]])
            continue
        inside: Index = 0 if d in dims.collapsed_slice_dims else next(offsets)
        if d not in dims.start_index_map or sizes[d] == shape[d]:
            out.append(inside)
            continue
        start, wrapped = _start(p, indices, (*batch, dims.start_index_map.index(d)))
        both = added(start, inside)
        if both is None:
            raise Opaque
        out.append(both)
        known = p.values.component(indices, dims.start_index_map.index(d))
        safe = safe and _in_range(p, known, start, shape[d], sizes[d], wrapped)
        turned = turned and (wrapped or (known is not None and known[0] >= 0))
    if safe or not mode:
        return p.write(operand, tuple(out))
    return _with_mode(p, operand, tuple(out), mode, fill, turned)


def _start(p: Printer, indices: Any, at: Indices) -> tuple[Index, bool]:
    """An index into another array, and whether negative ones were made to count from the end, as they do
    where it will be written."""
    before, p.wrapped = p.wrapped, False
    start = p.place(indices, at)
    wrapped, p.wrapped = p.wrapped, before
    return start, wrapped


def _in_range(
    p: Printer, known: tuple[int, int] | None, start: Index, n: int, size: int, wrapped: bool
) -> bool:
    ends = bounds(start, p.ranges) or known
    return ends is not None and (-n if wrapped else 0) <= ends[0] and ends[1] + size <= n


def _with_mode(p: Printer, operand: Any, at: Indices, mode: str, fill: Any, turned: bool) -> Text:
    """What an index out of range reads, in JAX's own words: `mu.at[k].get(mode="clip")`. Negative indices
    count from the end unless they were not `turned` into such."""
    whole = p.write(operand, tuple(p.span(n) for n in shape_of(operand)))
    if len(whole.tags) != len(shape_of(operand)):
        raise Opaque
    read = p.part(p.inside(whole, ATOM) + ".at", shape_of(operand), at)
    given = "" if mode == "clip" or fill is None or np.isnan(fill) else f", fill_value={float(fill):g}"
    given += "" if turned else ", wrap_negative_indices=False"
    return Text(f'{read.text}.get(mode="{mode}"{given})', ATOM, read.tags)


def dynamic_slice_rule(p: Printer, eqn: Any, atom: Any, index: Indices) -> Text:
    x, *starts = eqn.invars
    shape, sizes = shape_of(x), eqn.params["slice_sizes"]
    out: list[Index] = []
    safe = turned = True
    for a, i in enumerate(index):
        if sizes[a] == shape[a]:
            out.append(i)
            continue
        start, wrapped = _start(p, starts[a], ())
        known = p.values.bounds(starts[a])
        both = added(start, i)
        if both is None:
            raise Opaque
        out.append(both)
        safe = safe and _in_range(p, known, start, shape[a], sizes[a], wrapped)
        turned = turned and (wrapped or (known is not None and known[0] >= 0))
    if not safe and any(sizes[a] not in (1, n) for a, n in enumerate(shape)):
        raise Opaque  # a whole window is moved into range
    return p.write(x, tuple(out)) if safe else _with_mode(p, x, tuple(out), "clip", None, turned)


def dynamic_update_slice_rule(p: Printer, eqn: Any, atom: Any, index: Indices) -> Text:
    x, new, *starts = eqn.invars
    known = [p.values.constant(s) for s in starts]
    if any(k is None for k in known):
        raise Opaque
    room = [n - m for n, m in zip(shape_of(x), shape_of(new), strict=True)]
    at = [int(np.clip(k, 0, r)) for k, r in zip(known, room, strict=True)]  # type: ignore[arg-type]
    return _updated(p, x, index, at, shape_of(new), lambda inside: p.write(new, inside))


def scatter_rule(p: Printer, eqn: Any, atom: Any, index: Indices) -> Text:
    """`x.at[k].set(…)` at a known place."""
    x, indices, new = eqn.invars
    dims, by = eqn.params["dimension_numbers"], op.of_table(eqn, op.COMBINES)
    place = p.values.constant(indices)
    if place is None or place.ndim != 1 or dims.operand_batching_dims or by in ("min", "max"):
        raise Opaque
    windows = iter(dims.update_window_dims)
    axes = [None if d in dims.inserted_window_dims else next(windows) for d in range(len(shape_of(x)))]
    sizes = tuple(1 if a is None else shape_of(new)[a] for a in axes)
    at = [0] * len(sizes)
    for k, d in enumerate(dims.scatter_dims_to_operand_dims):
        at[d] = int(place[k])
    if any(not 0 <= s <= n - m for s, m, n in zip(at, sizes, shape_of(x), strict=True)):
        raise Opaque

    def update(inside: Indices) -> Text:
        found = p.write(new, tuple(i for i, a in zip(inside, axes, strict=True) if a is not None))
        if by is None:
            return found
        before = tuple(moved(i, s) for i, s in zip(inside, at, strict=True))
        return p.infix(by, p.write(x, before), found)

    return _updated(p, x, index, at, sizes, update)


def _updated(
    p: Printer,
    x: Any,
    index: Indices,
    at: list[int],
    sizes: tuple[int, ...],
    update: Callable[[Indices], Text],
) -> Text:
    """An array of which the box of `sizes` at `at` was replaced."""
    doubtful = []
    for d, (i, s, m) in enumerate(zip(index, at, sizes, strict=True)):
        ends = bounds(i, p.ranges)
        if ends is not None and (ends[1] < s or ends[0] >= s + m):
            return p.write(x, index)
        if ends is None or ends[0] < s or ends[1] >= s + m:
            doubtful.append(d)
    if not doubtful:
        return update(tuple(moved(i, -s) for i, s in zip(index, at, strict=True)))
    if len(doubtful) > 1:
        raise Opaque
    (axis,) = doubtful
    n = shape_of(x)[axis]

    def old(start: int) -> Callable[[Index], Text]:
        return lambda i: p.write(x, (*index[:axis], moved(i, start), *index[axis + 1 :]))

    def new(i: Index) -> Text:
        inside = tuple(
            i if a == axis else moved(j, -s) for a, (j, s) in enumerate(zip(index, at, strict=True))
        )
        return update(inside)

    start, stop = at[axis], at[axis] + sizes[axis]
    parts = [(start, old(0)), (stop - start, new), (n - stop, old(stop))]
    if stop - start == 1 and n <= 64:  # a chain of updates is told element by element
        parts = [(1, new if k == start else _at(old(0), k)) for k in range(n)]
    return p.pieces(parts, index[axis], axis)


def _at(write: Callable[[Index], Text], k: int) -> Callable[[Index], Text]:
    return lambda i: write(k)
