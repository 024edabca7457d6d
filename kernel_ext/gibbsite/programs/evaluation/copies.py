"""Gathers that wait: work is done on what is copied from, and copied afterwards.

`cholesky(cov[z])` factorises one matrix per component, not one per data point. An array whose every row is a
copy of some row of a smaller `source` is held as `Copies` for as long as equations treat its rows alike; the
rules here carry an equation over to the source. A rule returns None where the rows have to be copied first.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from gibbsite.programs.jaxpr import primitives as op
from gibbsite.programs.jaxpr.compat import JaxprEqn, bind_equation, shape_of
from gibbsite.programs.maps.access import Shape, along, clipped
from gibbsite.programs.maps.rules import moved_to

IN_BOUNDS = (lax.GatherScatterMode.CLIP, lax.GatherScatterMode.PROMISE_IN_BOUNDS)


@dataclass(frozen=True)
class Copies:
    """An array of `shape` whose axes `batch` run over copies of rows of `source`.

    `source` is `[places, *rest]`: the array's other axes, in order, of full size or of size 1 where constant.
    `rows` are the row numbers along the batch axes; arrays with equal `key` copy the same rows.
    """

    source: Any
    batch: tuple[int, ...]
    shape: Shape
    key: Any
    rows: Any = field(compare=False, repr=False)

    @property
    def rest(self) -> tuple[int, ...]:
        """The axes that are not copies."""
        return tuple(a for a in range(len(self.shape)) if a not in self.batch)

    def taken(self) -> Any:
        """The array itself, constant axes at size 1."""
        out = jnp.take(self.source, self.rows, axis=0, mode="clip")
        order = (*self.batch, *self.rest)
        return jnp.transpose(out, tuple(order.index(a) for a in range(len(order))))

    def spread(self) -> Any:
        """The source with its rest axes at full size."""
        return jnp.broadcast_to(self.source, (self.source.shape[0], *(self.shape[a] for a in self.rest)))

    def place(self, axis: int) -> int:
        """Where one of the rest axes stands in the source."""
        return 1 + self.rest.index(axis)

    def with_source(self, source: Any, batch: tuple[int, ...], shape: Shape) -> "Copies":
        """The same rows of another source."""
        return Copies(source, batch, tuple(shape), self.key, self.rows)

    def inside(self, x: Any) -> Any | None:
        """An array that broadcasts against this one, as one against the source; None where it is not the
        same for all copies."""
        if not jnp.ndim(x):
            return x
        if any(x.shape[a] != 1 for a in self.batch):
            return None
        return jnp.reshape(x, (1, *(x.shape[a] for a in self.rest)))


def copies_of(eqn: JaxprEqn, operand: Any, indices: Any) -> Copies | None:
    """A gather of whole rows as `Copies`, where there are more copies than rows."""
    dims, sizes = eqn.params["dimension_numbers"], eqn.params["slice_sizes"]
    shape, indexed = tuple(eqn.invars[0].aval.shape), tuple(dims.start_index_map)
    if eqn.params["mode"] not in IN_BOUNDS or dims.operand_batching_dims or not indexed or 0 in shape:
        return None
    kept = [d for d in range(len(shape)) if d not in indexed]
    if set(dims.collapsed_slice_dims) != set(indexed) or any(sizes[d] != shape[d] for d in kept):
        return None
    places = [shape[d] for d in indexed]
    if int(np.prod(places, dtype=np.int64)) >= int(np.prod(indices.shape[:-1], dtype=np.int64)):
        return None
    full = jnp.broadcast_to(operand, [n if d in indexed else operand.shape[d] for d, n in enumerate(shape)])
    source = jnp.transpose(full, (*indexed, *kept))
    source = jnp.reshape(source, (-1, *source.shape[len(indexed) :]))
    rows: Any = jnp.zeros((), jnp.int32)
    for i, n in enumerate(places):
        rows = rows * n + clipped(indices[..., i], n - 1).astype(jnp.int32)
    out = tuple(eqn.outvars[0].aval.shape)
    batch = tuple(a for a in range(len(out)) if a not in dims.offset_dims)
    return Copies(source, batch, out, (eqn.invars[1], tuple(places)), rows)


Rule = Callable[[JaxprEqn, list[Any]], Copies | None]


def _one(xs: list[Any]) -> Copies:
    return next(x for x in xs if isinstance(x, Copies))


def _elementwise(eqn: JaxprEqn, xs: list[Any]) -> Copies | None:
    first = _one(xs)
    operands = []
    for x in xs:
        if isinstance(x, Copies):
            same = x.key == first.key and x.batch == first.batch
            operands.append(x.source if same else None)
        else:
            operands.append(first.inside(x))
    if any(x is None for x in operands):
        return None
    shape = np.broadcast_shapes(*[x.shape for x in operands if x.ndim])
    operands = [jnp.broadcast_to(x, shape) if x.ndim and x.shape != shape else x for x in operands]
    # operands may have axes of size 1, which the equation spreads
    return first.with_source(bind_equation(eqn, operands)[0], first.batch, eqn.outvars[0].aval.shape)


def _moved(eqn: JaxprEqn, xs: list[Any]) -> Copies | None:
    """Rearranged where all that is not constant goes whole, rows among it."""
    (x, *more), shape = xs, eqn.outvars[0].aval.shape
    found = {} if more else dict(enumerate(moved_to(eqn)))
    goes = {a: c.axes[0] for a, c in found.items() if c in [along(len(shape), b) for b in range(len(shape))]}
    if any(a not in goes for a, n in enumerate(x.shape) if n != 1 or a in x.batch):
        return None
    goes |= dict(enumerate(eqn.params.get("broadcast_dimensions", ())))
    batch = tuple(goes[a] for a in x.batch)
    rest = sorted((a for a in x.rest if a in goes), key=goes.__getitem__)
    gone = [x.place(a) for a in x.rest if a not in goes]
    source = jnp.transpose(x.source, (0, *map(x.place, rest), *gone))
    sizes = {goes[a]: x.source.shape[x.place(a)] for a in rest}
    free = [sizes.get(b, 1) for b in range(len(shape)) if b not in batch]
    return x.with_source(jnp.reshape(source, (len(source), *free)), batch, shape)


def _rev(eqn: JaxprEqn, xs: list[Any]) -> Copies | None:
    (x,), dims = xs, eqn.params["dimensions"]
    if set(dims) & set(x.batch):
        return None
    return x.with_source(jnp.flip(x.spread(), tuple(x.place(a) for a in dims)), x.batch, x.shape)


def _reduce(eqn: JaxprEqn, xs: list[Any]) -> Copies | None:
    (x,) = xs
    gone = {a % len(x.shape) for a in eqn.params["axes"]}
    if gone & set(x.batch):
        return None
    kept = [a for a in range(len(x.shape)) if a not in gone]
    source = bind_equation(eqn, [x.spread()], axes=tuple(sorted(x.place(a) for a in gone)))[0]
    return x.with_source(source, tuple(kept.index(a) for a in x.batch), eqn.outvars[0].aval.shape)


def _gather(eqn: JaxprEqn, xs: list[Any]) -> Copies | None:
    """The same part of every row, such as its diagonal."""
    x, indices = xs
    if isinstance(indices, Copies) or len(x.batch) != 1 or eqn.params["mode"] not in IN_BOUNDS:
        return None
    (at,) = x.batch
    dims, sizes = eqn.params["dimension_numbers"], list(eqn.params["slice_sizes"])
    gone = (*dims.collapsed_slice_dims, *dims.operand_batching_dims)
    if at in gone or at in dims.start_index_map or sizes[at] != x.shape[at]:
        return None
    windows = [d for d in range(len(x.shape)) if d not in gone]
    out_at = dims.offset_dims[windows.index(at)]
    operand = jnp.moveaxis(x.spread(), 0, at)
    sizes[at] = operand.shape[at]
    indices = jnp.broadcast_to(indices, eqn.invars[1].aval.shape)
    (out,) = bind_equation(eqn, [operand, indices], slice_sizes=tuple(sizes))
    return x.with_source(jnp.moveaxis(out, out_at, 0), (out_at,), eqn.outvars[0].aval.shape)


def _cholesky(eqn: JaxprEqn, xs: list[Any]) -> Copies | None:
    (x,) = xs
    if set(x.batch) & {len(x.shape) - 1, len(x.shape) - 2}:
        return None
    return x.with_source(bind_equation(eqn, [x.spread()])[0], x.batch, x.shape)


def _triangular_solve(eqn: JaxprEqn, xs: list[Any]) -> Copies | None:
    first = _one(xs)
    rank = len(first.shape)
    if set(first.batch) & {rank - 1, rank - 2}:
        return None
    operands = []
    for x, atom in zip(xs, eqn.invars, strict=True):
        if isinstance(x, Copies):
            if x.key != first.key or x.batch != first.batch:
                return None
            operands.append(x.spread())
            continue
        inner = first.inside(x)
        if inner is None:
            return None
        rest = tuple(atom.aval.shape[a] for a in first.rest)
        operands.append(jnp.broadcast_to(inner, (first.source.shape[0], *rest)))
    shape = eqn.outvars[0].aval.shape
    return first.with_source(bind_equation(eqn, operands)[0], first.batch, shape)


RULES: dict[str, Rule] = {
    **dict.fromkeys(op.ELEMENTWISE - op.BARRIERS, _elementwise),
    **dict.fromkeys(op.SPREADS | op.SQUEEZES | op.RESHAPES | op.TRANSPOSES, _moved),
    **dict.fromkeys(op.REVERSES, _rev),
    **dict.fromkeys(op.TOTALS | op.PRODUCTS | op.EXTREMES, _reduce),
    **dict.fromkeys(op.GATHERS, _gather),
    **dict.fromkeys(op.FACTORS, _cholesky),
    **dict.fromkeys(op.SOLVES, _triangular_solve),
}


def materialise(x: Any, shape: Shape, axes: Any = None) -> Any:
    """Broadcast `x` to `shape`, along `axes` only if given."""
    target = tuple(n if axes is None or a in axes else x.shape[a] for a, n in enumerate(shape))
    return x if tuple(x.shape) == target else jnp.broadcast_to(x, target)


def at_full_size(eqn: JaxprEqn, xs: list[Any]) -> list[Any]:
    """An equation applied to operands at their full size."""
    return bind_equation(eqn, [materialise(x, shape_of(a)) for x, a in zip(xs, eqn.invars, strict=True)])
