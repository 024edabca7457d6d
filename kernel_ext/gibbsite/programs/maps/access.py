"""Index maps: which elements of a site each element of an array depends on.

An `Access` says, for every element `o` of an array, which element of the site is read: per site axis an
`Affine` function of `o`, an entry of a `Table` of indices, or the `WHOLE` axis. A window limits the access to
a box of elements. An array's dependence on a site is a small set of accesses; it is an over-approximation,
so "not in the set" is a proof of independence and "in the set" is not a proof of dependence.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np

Shape = tuple[int, ...]
Window = tuple[tuple[int, int], ...]
Read = Callable[[Any], Any]


@dataclass(frozen=True)
class Affine:
    """The index `sum(coefs[a] * o[a]) + offset` of the element at position `o`."""

    coefs: tuple[int, ...]
    offset: int

    @property
    def axes(self) -> tuple[int, ...]:
        """The array axes along which the index changes."""
        return tuple(a for a, c in enumerate(self.coefs) if c)


@dataclass(frozen=True)
class Table:
    """An index read from an integer array, which has the array's rank and size 1 where it is constant.

    `value(read)` computes the array from the jaxpr's variables. `latents` names the latent sites that the
    indices depend on (`mu[z]`); empty means they come from data or constants alone. Tables are equal when
    they were derived in the same way (`key`).
    """

    key: Any
    shape: Shape
    latents: frozenset[str]
    value: Callable[[Read], Any] = field(compare=False, repr=False)

    @property
    def axes(self) -> tuple[int, ...]:
        """The array axes along which the index may change."""
        return tuple(a for a, n in enumerate(self.shape) if n != 1)


@dataclass(frozen=True)
class Whole:
    """Every index along the site's axis."""


WHOLE = Whole()
Component = Affine | Table | Whole


@dataclass(frozen=True)
class Access:
    """One index per site axis, valid for the elements of the array inside `window`."""

    index: tuple[Component, ...]
    window: Window

    @property
    def single(self) -> bool:
        """Whether each element of the array reads exactly one element of the site through this access."""
        return not any(isinstance(c, Whole) for c in self.index)

    def latents(self) -> frozenset[str]:
        """The latent sites that the indices themselves depend on."""
        tables = [c.latents for c in self.index if isinstance(c, Table)]
        return frozenset().union(*tables)


Accesses = tuple[Access, ...]


def disjoint(accesses: Sequence[Access]) -> bool:
    """Whether no element of an array reads through two of its accesses."""
    return all(
        any(ah <= bl or bh <= al for (al, ah), (bl, bh) in zip(a.window, b.window, strict=True))
        for i, a in enumerate(accesses)
        for b in accesses[:i]
    )


MAX_ACCESSES = 16
_MOST_STATIC = 2**16


def full_window(shape: Shape) -> Window:
    """The window that holds every element of an array."""
    return tuple((0, n) for n in shape)


def constant(rank: int, offset: int) -> Affine:
    """The same index for every element."""
    return Affine((0,) * rank, offset)


def along(rank: int, axis: int, coef: int = 1, offset: int = 0) -> Affine:
    """The index `coef * o[axis] + offset`."""
    return Affine(tuple(coef if a == axis else 0 for a in range(rank)), offset)


def equal_runs(operand: Shape, shape: Shape) -> Iterator[tuple[range, range]]:
    """The shortest runs of axes on both sides of a reshape whose sizes have equal products; none is 0."""
    i = j = 0
    while i < len(operand) or j < len(shape):
        i0, j0, left, right = i, j, 1, 1
        if i < len(operand):
            left, i = operand[i], i + 1
        if j < len(shape):
            right, j = shape[j], j + 1
        while left != right:
            if left < right:
                left, i = left * operand[i], i + 1
            else:
                right, j = right * shape[j], j + 1
        yield range(i0, i), range(j0, j)


def of_site(shape: Shape) -> Accesses:
    """The accesses of a site's own array: each element reads itself."""
    return (Access(tuple(along(len(shape), a) for a in range(len(shape))), full_window(shape)),)


def everything(site_rank: int, shape: Shape) -> Accesses:
    """Every element may depend on all of the site."""
    return (Access((WHOLE,) * site_rank, full_window(shape)),)


def static_table(array: np.ndarray) -> Table:
    """A table of indices that are known when the program is analysed."""
    return Table(("static", array.shape, array.tobytes()), array.shape, frozenset(), lambda read: array)


def is_static(component: Component) -> bool:
    """Whether an index is known when the program is analysed."""
    return isinstance(component, Affine) or (isinstance(component, Table) and component.key[0] == "static")


def _unread(var: Any) -> Any:
    raise AssertionError("a static index reads no variable")


def affine_of(array: np.ndarray) -> Affine | None:
    """The affine function of its position that an integer array equals, if there is one."""
    if not array.size:
        return Affine((0,) * array.ndim, 0)
    start = int(array.reshape(-1)[0])
    coefs = [0] * array.ndim
    expected = np.full((1,) * array.ndim, start)
    for a, n in enumerate(array.shape):
        if n > 1:
            coefs[a] = int(np.take(array, 1, axis=a).reshape(-1)[0]) - start
            steps = np.arange(n).reshape([-1 if b == a else 1 for b in range(array.ndim)])
            expected = expected + coefs[a] * steps
    return Affine(tuple(coefs), start) if np.array_equal(expected, array) else None


def known_index(array: np.ndarray) -> Component:
    """An index known when the program is analysed: affine where it can be, else a table."""
    return affine_of(array) or static_table(array)


def component_array(component: Affine | Table, shape: Shape, read: Read) -> Any:
    """The indices of a component as an integer array that broadcasts against `shape`."""
    if isinstance(component, Table):
        return component.value(read)
    array = np.full((1,) * len(shape), component.offset, np.int32)
    for a in component.axes:
        steps = np.arange(shape[a], dtype=np.int32) * component.coefs[a]
        array = array + steps.reshape(tuple(-1 if b == a else 1 for b in range(len(shape))))
    return array


def element_number(index: Sequence[Component], shape: Shape, sizes: Shape, read: Read) -> Any:
    """The number, among elements of shape `sizes`, of the one at `index`, to broadcast to `shape`."""
    flat: Any = np.zeros((1,) * len(shape), np.int32)
    for c, n in zip(index, sizes, strict=True):
        flat = flat * n + component_array(c, shape, read)  # type: ignore[arg-type]
    return flat


def inside(window: Window, shape: Shape) -> np.ndarray:
    """Which elements of an array of `shape` lie in a window, to broadcast to `shape`."""
    out = np.ones((1,) * len(shape), bool)
    for a, (low, high) in enumerate(window):
        if (low, high) != (0, shape[a]):
            place = np.arange(shape[a]).reshape([-1 if b == a else 1 for b in range(len(shape))])
            out = out & (place >= low) & (place < high)
    return out


def clipped(index: Any, high: int) -> Any:
    """An index array clipped to `0 … high`, in a type that holds both."""
    index = jnp.asarray(index)
    return jnp.clip(index.astype(jnp.int32) if index.dtype.itemsize < 4 else index, 0, high)


def sum_of(terms: Sequence[tuple[int, Component]], offset: int, shape: Shape) -> Component:
    """`sum(coef * component) + offset` as one component over an array of `shape`."""
    if any(isinstance(c, Whole) for _, c in terms):
        return WHOLE
    if all(isinstance(c, Affine) for _, c in terms):
        coefs = [0] * len(shape)
        for k, c in terms:
            offset += k * c.offset  # type: ignore[union-attr]
            for a in range(len(shape)):
                coefs[a] += k * c.coefs[a]  # type: ignore[union-attr]
        return Affine(tuple(coefs), offset)
    if len(terms) == 1 and terms[0][0] == 1 and offset == 0:
        return terms[0][1]
    parts = [(k, c) for k, c in terms if not isinstance(c, Whole)]
    axes = {a for _, c in parts for a in c.axes}

    def value(read: Read) -> Any:
        total: Any = offset
        for k, c in parts:
            total = total + k * component_array(c, shape, read)
        return total

    return Table(
        ("sum", tuple(parts), offset, shape),
        tuple(n if a in axes else 1 for a, n in enumerate(shape)),
        frozenset().union(*(c.latents for _, c in parts if isinstance(c, Table))),
        value,
    )


def _look_up(table: Table, exprs: Sequence[Component], shape: Shape) -> Component:
    """`table` read at the positions that `exprs` give per axis of the table."""
    used = [exprs[a] for a in table.axes]
    if len(table.shape) == len(shape) and all(
        exprs[a] == along(len(shape), a) and shape[a] == table.shape[a] for a in table.axes
    ):
        return table
    if any(isinstance(e, Whole) for e in used):
        return WHOLE
    axes = {a for e in used for a in e.axes}  # type: ignore[union-attr]
    at = tuple(exprs[a] if n != 1 else None for a, n in enumerate(table.shape))

    def value(read: Read) -> Any:
        array = jnp.asarray(table.value(read))
        positions = tuple(0 if e is None else component_array(e, shape, read) for e in at)  # type: ignore[arg-type]
        out = array[positions] if positions else array
        return jnp.reshape(out, out_shape) if np.ndim(out) != len(shape) else out

    out_shape = tuple(n if a in axes else 1 for a, n in enumerate(shape))
    if all(is_static(c) for c in (table, *used)) and np.prod(out_shape, dtype=np.int64) <= _MOST_STATIC:
        # outside its window an access says nothing, and may point anywhere
        positions = tuple(
            0 if e is None else np.clip(component_array(e, shape, _unread), 0, n - 1)  # type: ignore[arg-type]
            for e, n in zip(at, table.shape, strict=True)
        )
        found = np.asarray(table.value(_unread))[positions]
        return known_index(np.broadcast_to(np.reshape(found, found.shape or (1,) * len(shape)), out_shape))
    latents = table.latents.union(*(e.latents for e in used if isinstance(e, Table)))
    return Table(("look up", table.key, at, shape), out_shape, latents, value)


def _window_through(window: Window, exprs: Sequence[Component], shape: Shape) -> Window | None:
    """The part of the output that can read inside `window` of the operand; None if there is none."""
    out = list(full_window(shape))
    for (low, high), expr in zip(window, exprs, strict=True):
        if not isinstance(expr, Affine) or len(expr.axes) > 1:
            continue  # cannot be said: keep the output's whole range, which is sound
        if not expr.axes:
            if not low <= expr.offset < high:
                return None
            continue
        (axis,) = expr.axes
        step, shift = expr.coefs[axis], expr.offset
        ends = sorted((low - shift, high - 1 - shift), reverse=step < 0)
        first, last = -(-ends[0] // step), ends[1] // step
        out[axis] = (max(out[axis][0], first), min(out[axis][1], last + 1))
    return None if any(low >= high for low, high in out) else tuple(out)


def through(
    accesses: Accesses,
    exprs: Sequence[Component],
    shape: Shape,
    window: Window | None = None,
    operand: Shape | None = None,
) -> Accesses:
    """The accesses of an output whose element reads the operand's element at `exprs`.

    `exprs` holds one component per operand axis, over an output of `shape`; `window` limits the output
    elements that read the operand at all. With `operand`, its shape, indices stay within the site also where
    a table leads out of an access's window: there an access says nothing, and reads what is nearest.
    """
    if operand is not None and any(_leads_out(a.window, exprs, operand) for a in accesses):
        found = _picked(accesses, exprs, shape)
        if found is not None:
            return found if window is None else tuple(_limited(found, window))
    out = []
    for access in accesses:
        box = _window_through(access.window, exprs, shape)
        if box is None:
            continue
        at = exprs if operand is None else _kept_inside(access.window, exprs, operand, shape)
        index: list[Component] = []
        for component in access.index:
            if isinstance(component, Affine):
                terms = [(component.coefs[a], at[a]) for a in component.axes]
                index.append(sum_of(terms, component.offset, shape))
            elif isinstance(component, Table):
                index.append(_look_up(component, at, shape))
            else:
                index.append(WHOLE)
        out.append(Access(tuple(index), box))
    return tuple(out if window is None else _limited(out, window))


def _limited(accesses: Iterable[Access], window: Window) -> Iterator[Access]:
    """What accesses read inside a window, which it may be nothing."""
    for access in accesses:
        both = zip(access.window, window, strict=True)
        box = tuple((max(a, c), min(b, d)) for (a, b), (c, d) in both)
        if not any(low >= high for low, high in box):
            yield Access(access.index, box)


def _by_table(expr: Component) -> bool:
    """Whether an index is one that no window of the output can follow."""
    return isinstance(expr, Table) or (isinstance(expr, Affine) and len(expr.axes) > 1)


def _leads_out(window: Window, exprs: Sequence[Component], operand: Shape) -> bool:
    return any(_by_table(e) and part != (0, n) for part, e, n in zip(window, exprs, operand, strict=True))


def _kept_inside(
    window: Window, exprs: Sequence[Component], operand: Shape, shape: Shape
) -> Sequence[Component]:
    """`exprs` with tables that stay in the window."""
    found: list[Component] = []
    for (low, high), expr, n in zip(window, exprs, operand, strict=True):
        if not _by_table(expr) or (low, high) == (0, n):
            found.append(expr)
            continue
        assert isinstance(expr, Affine | Table)
        if is_static(expr) and np.prod(shape, dtype=np.int64) <= _MOST_STATIC:
            found.append(known_index(np.clip(component_array(expr, shape, _unread), low, high - 1)))
            continue

        def value(read: Read, expr: Any = expr, low: int = low, high: int = high) -> Any:
            return jnp.clip(component_array(expr, shape, read), low, high - 1)

        latents = expr.latents if isinstance(expr, Table) else frozenset()
        sizes = tuple(n if a in expr.axes else 1 for a, n in enumerate(shape))
        found.append(Table(("within", expr, low, high, shape), sizes, latents, value))
    return found


def _picked(accesses: Accesses, exprs: Sequence[Component], shape: Shape) -> Accesses | None:
    """Several accesses as one, where each output element is known to read by one of them at most; None where
    that is not known."""
    if np.prod(shape, dtype=np.int64) > _MOST_STATIC or not all(map(is_static, exprs)):
        return None
    if not disjoint(accesses) or not all(is_static(c) for a in accesses for c in a.index):
        return None
    at = [np.broadcast_to(component_array(e, shape, _unread), shape) for e in exprs]  # type: ignore[arg-type]
    reads = np.zeros(shape, bool)
    index: list[Any] = [np.zeros(shape, np.int32) for _ in accesses[0].index]
    for access in accesses:
        here = np.ones(shape, bool)
        for (low, high), p in zip(access.window, at, strict=True):
            here &= (p >= low) & (p < high)
        for i, component in enumerate(access.index):
            index[i] = np.where(here, _at(component, at), index[i])
        reads |= here
    if not reads.any():
        return ()
    first = np.unravel_index(np.argmax(reads), shape)
    index = [_narrow(np.where(reads, v, v[first])) for v in index]  # what reads nothing may point anywhere
    places = np.nonzero(reads)
    return (Access(tuple(map(known_index, index)), tuple((int(p.min()), int(p.max()) + 1) for p in places)),)


def _at(component: Any, positions: Sequence[np.ndarray]) -> Any:
    """A known index of an access at positions of its array, which may lie outside."""
    if isinstance(component, Affine):
        return component.offset + sum(c * p for c, p in zip(component.coefs, positions, strict=True))
    array = np.asarray(component.value(_unread))
    return array[tuple(np.clip(p, 0, n - 1) for p, n in zip(positions, array.shape, strict=True))]


def _narrow(array: np.ndarray) -> np.ndarray:
    """An array at size 1 along axes where it is constant."""
    for axis in range(array.ndim):
        one = np.take(array, [0], axis)
        array = one if np.array_equal(np.broadcast_to(one, array.shape), array) else array
    return array


def _joined(a: Window, b: Window) -> Window | None:
    """The union of two windows where it is a box again."""
    differ = [i for i in range(len(a)) if a[i] != b[i]]
    if not differ:
        return a
    if len(differ) == 1:
        i = differ[0]
        (al, ah), (bl, bh) = a[i], b[i]
        if al <= bh and bl <= ah:
            return (*a[:i], (min(al, bl), max(ah, bh)), *a[i + 1 :])
    if all(x[0] <= y[0] and x[1] >= y[1] for x, y in zip(a, b, strict=True)):
        return a
    if all(y[0] <= x[0] and y[1] >= x[1] for x, y in zip(a, b, strict=True)):
        return b
    return None


def union(*several: Accesses) -> Accesses:
    """All accesses together, merged where one box can say the same; too many become everything."""
    out: list[Access] = []
    for access in (a for accesses in several for a in accesses):
        for i, other in enumerate(out):
            window = _joined(other.window, access.window) if other.index == access.index else None
            if window is not None:
                out[i] = Access(other.index, window)
                break
        else:
            out.append(access)
    if len(out) > MAX_ACCESSES:
        shape = tuple(max(a.window[i][1] for a in out) for i in range(len(out[0].window)))
        low = tuple(min(a.window[i][0] for a in out) for i in range(len(out[0].window)))
        box = tuple(zip(low, shape, strict=True))
        return (Access((WHOLE,) * len(out[0].index), box),)
    return tuple(out)
