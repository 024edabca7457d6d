"""Evaluate parts of a flat jaxpr on demand, keeping axes along which a value is constant at size 1.

`mu[z]` with every element of `z` equal to `k` is one number per `k`, not one per data point; carrying such
arrays at size 1 ("lazy broadcasting") makes the cost of a filled factor that of its non-constant axes.
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from gibbsite.density.evaluation.copies import RULES as COPY_RULES
from gibbsite.density.evaluation.copies import Copies, copies_of
from gibbsite.density.evaluation.known import MOST, known, sliced
from gibbsite.density.evaluation.uniform import gathered_alike
from gibbsite.density.maps.access import Shape
from gibbsite.trace.jaxpr.compat import ClosedJaxpr, JaxprEqn, Literal, bind_equation
from gibbsite.trace.jaxpr.primitives import ELEMENTWISE

_SMALL = 64
_TIMES_SIZE = frozenset(["reduce_sum"])
_IDEMPOTENT = frozenset(["reduce_max", "reduce_min", "reduce_and", "reduce_or"])


def _aval_shape(atom: Any) -> Shape:
    return tuple(np.shape(atom.val)) if isinstance(atom, Literal) else tuple(atom.aval.shape)


def materialise(x: Any, shape: Shape, axes: Any = None) -> Any:
    """Broadcast `x` to `shape`, along `axes` only if given."""
    target = tuple(n if axes is None or a in axes else x.shape[a] for a, n in enumerate(shape))
    return x if tuple(x.shape) == target else jnp.broadcast_to(x, target)


class Evaluator:
    """Values of a flat jaxpr's variables, computed when asked for and at most once.

    `values` gives the known variables (inputs, or any others that are to be overridden), each of its
    variable's rank with axes of full size or size 1.
    """

    def __init__(self, closed: ClosedJaxpr, producer: Mapping[Any, JaxprEqn], values: Mapping[Any, Any]):
        self._producer = producer
        self._values = dict(zip(closed.jaxpr.constvars, map(_constant, closed.consts), strict=True))
        self._values.update(values)
        self._waiting: dict[Any, Copies] = {}

    def give(self, values: Mapping[Any, Any]) -> None:
        """Set variables, before anything that reads them is evaluated."""
        self._values.update(values)

    def lazy(self, atom: Any) -> Any:
        """The value of `atom`, with constant axes at size 1."""
        if isinstance(atom, Literal):
            return np.asarray(atom.val, getattr(atom.aval, "dtype", None))
        if atom not in self._values and atom not in self._waiting:
            self._compute(atom)
        if atom not in self._values:
            self._values[atom] = self._waiting[atom].taken()
        return self._values[atom]

    def full(self, atom: Any) -> Any:
        """The value of `atom` at its whole shape."""
        return materialise(self.lazy(atom), _aval_shape(atom))

    def _compute(self, target: Any) -> None:
        stack = [target]
        while stack:
            var = stack[-1]
            if var in self._values or var in self._waiting:
                stack.pop()
                continue
            if 0 in _aval_shape(var):  # what has no element needs nothing, not even what is unknown
                self._values[var] = np.zeros(_aval_shape(var), var.aval.dtype)
                stack.pop()
                continue
            eqn = self._producer[var]
            atoms = [a for a in eqn.invars if not isinstance(a, Literal)]
            missing = [a for a in atoms if a not in self._values and a not in self._waiting]
            if missing:
                stack += missing
                continue
            if self._put_off(eqn):
                stack.pop()
                continue
            xs = [self.lazy(a) for a in eqn.invars]
            outs = known(eqn, xs) or _RULES.get(eqn.primitive.name, _default)(eqn, xs)
            self._values.update(zip(eqn.outvars, outs, strict=True))
            stack.pop()

    def _put_off(self, eqn: JaxprEqn) -> bool:
        """Let a gather that copies rows wait, and work on what it copies from: `log(theta[doc])` takes the
        logarithm of `theta` once, not of every copy. Whether this equation was dealt with so."""
        name = eqn.primitive.name
        if name in COPY_RULES and any(self._waits(a) for a in eqn.invars):
            found = COPY_RULES[name](
                eqn, [self._waiting[a] if self._waits(a) else self.lazy(a) for a in eqn.invars]
            )
        elif name == "gather" and _looked_up_nowhere(eqn, *map(self.lazy, eqn.invars)) is None:
            found = copies_of(eqn, *map(self.lazy, eqn.invars))
        else:
            return False
        if found is not None:
            self._waiting[eqn.outvars[0]] = found
        return found is not None

    def _waits(self, atom: Any) -> bool:
        return not isinstance(atom, Literal) and atom in self._waiting and atom not in self._values


def _constant(value: Any) -> Any:
    """Few integers stay as they are, for `known`."""
    if np.size(value) <= MOST and jnp.issubdtype(jnp.result_type(value), jnp.integer):
        return np.asarray(value)
    return jnp.asarray(value)


def _looked_up_nowhere(eqn: JaxprEqn, operand: Any, indices: Any) -> Any | None:
    """A gather that is none: from rows that are all alike, or by an index that is known; else None."""
    alike = gathered_alike(eqn, operand)
    return sliced(eqn, operand, indices) if alike is None else alike


def _default(eqn: JaxprEqn, xs: list[Any]) -> list[Any]:
    full = [materialise(x, _aval_shape(a)) for x, a in zip(xs, eqn.invars, strict=True)]
    return bind_equation(eqn, full)


def _elementwise(eqn: JaxprEqn, xs: list[Any]) -> list[Any]:
    ranked = [x.shape for x in xs if x.ndim]
    if not ranked:
        return bind_equation(eqn, xs)
    shape = np.broadcast_shapes(*ranked)
    # predicates may be scalars
    grown = [x.ndim or _aval_shape(a) for x, a in zip(xs, eqn.invars, strict=True)]
    xs = [jnp.broadcast_to(x, shape) if g and x.shape != shape else x for x, g in zip(xs, grown, strict=True)]
    return bind_equation(eqn, xs)


def _matrix(eqn: JaxprEqn, xs: list[Any]) -> list[Any]:
    """A factorisation: once for all matrices of a batch that are the same."""
    (x,), shape = xs, _aval_shape(eqn.invars[0])
    return bind_equation(eqn, [materialise(x, shape, {len(shape) - 1, len(shape) - 2})])


def _triangular_solve(eqn: JaxprEqn, xs: list[Any]) -> list[Any]:
    (a, b), shape = xs, _aval_shape(eqn.invars[1])
    rank = len(shape)
    a = materialise(a, _aval_shape(eqn.invars[0]), {rank - 1, rank - 2})
    b = materialise(b, shape, {rank - 2 if eqn.params["left_side"] else rank - 1})
    shared = [d for d in range(rank - 2) if a.shape[d] == 1 and b.shape[d] != 1]
    b = materialise(b, shape, {d for d in range(rank - 2) if a.shape[d] != 1})
    # right-hand sides of one matrix stand beside each other, so that it is solved with once
    long = rank - 1 if eqn.params["left_side"] else rank - 2
    kept = [d for d in range(rank - 2) if d not in shared]
    columns = (*shared, long)
    last = (rank - 2, *columns) if long == rank - 1 else (*columns, rank - 1)
    flat = jnp.transpose(b, (*kept, *last))
    many = int(np.prod([b.shape[d] for d in columns], dtype=np.int64))
    tail = (b.shape[rank - 2], many) if long == rank - 1 else (many, b.shape[rank - 1])
    flat = jnp.reshape(flat, (*(b.shape[d] for d in kept), *tail))
    a = jnp.squeeze(a, tuple(shared))
    size = a.shape[-1]
    if size <= _SMALL and many > size:
        # threads of a library's solver cost more than these small products
        eye = jnp.broadcast_to(jnp.eye(size, dtype=a.dtype), a.shape)
        (inverse,) = bind_equation(eqn, [a, eye])
        out = inverse @ flat if long == rank - 1 else flat @ inverse
    else:
        (out,) = bind_equation(eqn, [a, flat])
    out = jnp.reshape(out, (*(b.shape[d] for d in kept), *(b.shape[d] for d in last)))
    placed = (*kept, *last)
    return [jnp.transpose(out, tuple(placed.index(d) for d in range(rank)))]


def _dot_general(eqn: JaxprEqn, xs: list[Any]) -> list[Any]:
    """Rows and columns that are all the same are multiplied once; so are matrices of a batch."""
    (left, right), (l_shape, r_shape) = xs, map(_aval_shape, eqn.invars)
    (l_sum, r_sum), (l_batch, r_batch) = eqn.params["dimension_numbers"]
    varies = [(i, j) for i, j in zip(l_batch, r_batch, strict=True) if left.shape[i] != right.shape[j]]
    left = materialise(left, l_shape, {*l_sum, *(i for i, _ in varies)})
    right = materialise(right, r_shape, {*r_sum, *(j for _, j in varies)})
    return bind_equation(eqn, [left, right])


def _broadcast(eqn: JaxprEqn, xs: list[Any]) -> list[Any]:
    rank = len(eqn.outvars[0].aval.shape)
    shape = [1] * rank
    for a, d in enumerate(eqn.params["broadcast_dimensions"]):
        shape[d] = xs[0].shape[a]
    return [jnp.reshape(xs[0], shape)]


def _transpose(eqn: JaxprEqn, xs: list[Any]) -> list[Any]:
    return [jnp.transpose(xs[0], eqn.params["permutation"])]


def _squeeze(eqn: JaxprEqn, xs: list[Any]) -> list[Any]:
    return [jnp.squeeze(xs[0], tuple(eqn.params["dimensions"]))]


def _reshape(eqn: JaxprEqn, xs: list[Any]) -> list[Any]:
    (x,), operand, out = xs, _aval_shape(eqn.invars[0]), tuple(eqn.outvars[0].aval.shape)
    if eqn.params.get("dimensions") is not None or 0 in operand:
        return _default(eqn, xs)
    target, broaden = list(out), set()
    i = j = 0
    while i < len(operand) or j < len(out):
        i0, j0, left, right = i, j, 1, 1
        if i < len(operand):
            left, i = operand[i], i + 1
        if j < len(out):
            right, j = out[j], j + 1
        while left != right:
            if left < right:
                left, i = left * operand[i], i + 1
            else:
                right, j = right * out[j], j + 1
        real = [a for a in range(i0, i) if operand[a] != 1]
        constant = [a for a in real if x.shape[a] == 1]
        if real and constant == real:
            target[j0:j] = [1] * (j - j0)
        else:
            broaden |= set(constant)
    return [jnp.reshape(materialise(x, operand, broaden), target)]


def _slice(eqn: JaxprEqn, xs: list[Any]) -> list[Any]:
    (x,), operand, out = xs, _aval_shape(eqn.invars[0]), tuple(eqn.outvars[0].aval.shape)
    if 0 in out:
        return _default(eqn, xs)
    strides = eqn.params["strides"] or (1,) * len(out)
    starts, limits, steps = [], [], []
    for a, n in enumerate(operand):
        constant = x.shape[a] == 1 and n != 1
        starts.append(0 if constant else eqn.params["start_indices"][a])
        limits.append(1 if constant else eqn.params["limit_indices"][a])
        steps.append(1 if constant else strides[a])
    return [lax.slice(x, starts, limits, steps)]


def _reduce(eqn: JaxprEqn, xs: list[Any]) -> list[Any]:
    (x,), operand = xs, _aval_shape(eqn.invars[0])
    axes = tuple(a % len(operand) for a in eqn.params["axes"])
    copies = 1
    if eqn.primitive.name in _TIMES_SIZE:
        copies = int(np.prod([operand[a] for a in axes if x.shape[a] == 1], dtype=np.int64))
    (out,) = bind_equation(eqn, [x])
    return [out * jnp.asarray(copies, out.dtype) if copies != 1 else out]


def _concatenate(eqn: JaxprEqn, xs: list[Any]) -> list[Any]:
    axis = eqn.params["dimension"]
    xs = [materialise(x, _aval_shape(a), {axis}) for x, a in zip(xs, eqn.invars, strict=True)]
    rest = np.broadcast_shapes(*[(*x.shape[:axis], 1, *x.shape[axis + 1 :]) for x in xs])
    return [
        lax.concatenate(
            [jnp.broadcast_to(x, (*rest[:axis], x.shape[axis], *rest[axis + 1 :])) for x in xs], axis
        )
    ]


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


def _gather(eqn: JaxprEqn, xs: list[Any]) -> list[Any]:
    operand, indices = xs
    nowhere = _looked_up_nowhere(eqn, operand, indices)
    if nowhere is not None:
        return [nowhere]
    o_shape, i_shape = _aval_shape(eqn.invars[0]), _aval_shape(eqn.invars[1])
    dims, sizes = eqn.params["dimension_numbers"], list(eqn.params["slice_sizes"])
    if 0 in o_shape or 0 in i_shape or 0 in sizes:
        return _default(eqn, xs)
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


_RULES: dict[str, Callable[[JaxprEqn, list[Any]], list[Any]]] = {
    **dict.fromkeys(ELEMENTWISE - {"optimization_barrier"}, _elementwise),
    **dict.fromkeys(_TIMES_SIZE | _IDEMPOTENT, _reduce),
    **dict.fromkeys(["cholesky", "lu", "qr", "eigh", "svd"], _matrix),
    "triangular_solve": _triangular_solve,
    "dot_general": _dot_general,
    "broadcast_in_dim": _broadcast,
    "transpose": _transpose,
    "squeeze": _squeeze,
    "reshape": _reshape,
    "slice": _slice,
    "concatenate": _concatenate,
    "gather": _gather,
}


def evaluate_lazily(eqn: JaxprEqn, xs: list[Any]) -> list[Any]:
    """One equation applied to other operands; constant axes at size 1 before and after."""
    return _RULES.get(eqn.primitive.name, _default)(eqn, xs)


def producers(closed: ClosedJaxpr) -> dict[Any, JaxprEqn]:
    """Which equation computes each variable."""
    return {v: e for e in closed.jaxpr.eqns for v in e.outvars}
