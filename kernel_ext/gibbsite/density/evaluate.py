"""Evaluate parts of a flat jaxpr on demand, keeping axes along which a value is constant at size 1.

`mu[z]` with every element of `z` equal to `k` is one number per `k`, not one per data point; carrying such
arrays at size 1 ("lazy broadcasting") makes the cost of a filled factor that of its non-constant axes.
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from gibbsite.density.access import Shape
from gibbsite.density.provenance_rules import ELEMENTWISE
from gibbsite.trace.compat import ClosedJaxpr, JaxprEqn, Literal, bind_equation

_TIMES_SIZE = frozenset(["reduce_sum"])
_IN_BOUNDS = (lax.GatherScatterMode.CLIP, lax.GatherScatterMode.PROMISE_IN_BOUNDS)
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
        self._values = dict(zip(closed.jaxpr.constvars, map(jnp.asarray, closed.consts), strict=True))
        self._values.update(values)
        self._waiting: dict[Any, tuple[JaxprEqn, Any]] = {}

    def give(self, values: Mapping[Any, Any]) -> None:
        """Set variables, before anything that reads them is evaluated."""
        self._values.update(values)

    def lazy(self, atom: Any) -> Any:
        """The value of `atom`, with constant axes at size 1."""
        if isinstance(atom, Literal):
            return jnp.asarray(atom.val, getattr(atom.aval, "dtype", None))
        if atom not in self._values and atom not in self._waiting:
            self._compute(atom)
        if atom not in self._values:
            gather, source = self._waiting[atom]
            self._values[atom] = _gather(gather, [source, self.lazy(gather.invars[1])])[0]
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
            eqn = self._producer[var]
            atoms = [a for a in eqn.invars if not isinstance(a, Literal)]
            missing = [a for a in atoms if a not in self._values and a not in self._waiting]
            if missing:
                stack += missing
                continue
            if self._put_off(eqn):
                stack.pop()
                continue
            outs = _RULES.get(eqn.primitive.name, _default)(eqn, [self.lazy(a) for a in eqn.invars])
            self._values.update(zip(eqn.outvars, outs, strict=True))
            stack.pop()

    def _put_off(self, eqn: JaxprEqn) -> bool:
        """Let a gather that copies elements wait, and work on what it copies from: `log(theta[doc])` takes
        the logarithm of `theta` once, not of every copy. Whether this equation was dealt with so."""
        name = eqn.primitive.name
        if name == "gather" and eqn.params["mode"] in _IN_BOUNDS:
            source = self.lazy(eqn.invars[0])
            if source.size < eqn.outvars[0].aval.size:
                self._waiting[eqn.outvars[0]] = (eqn, source)
                return True
            return False
        if name not in ELEMENTWISE or name == "optimization_barrier":
            return False
        gather: JaxprEqn | None = None
        sources: list[Any] = []
        for atom in eqn.invars:
            if not isinstance(atom, Literal) and atom in self._waiting and atom not in self._values:
                other, source = self._waiting[atom]
                if gather is not None and not _same_gather(gather, other):
                    return False
                gather = other
                sources.append(source)
            else:
                x = self.lazy(atom)
                if x.size != 1:
                    return False
                sources.append(x)
        if gather is None:
            return False
        rank = len(gather.invars[0].aval.shape)
        sources = [jnp.reshape(x, (1,) * rank) if x.ndim and x.size == 1 else x for x in sources]
        (source,) = _elementwise(eqn, sources)
        self._waiting[eqn.outvars[0]] = (gather, source)
        return True


def _same_gather(a: JaxprEqn, b: JaxprEqn) -> bool:
    """Whether two gathers copy the same places of arrays of one shape."""
    return a is b or (
        a.invars[1] is b.invars[1]
        and _aval_shape(a.invars[0]) == _aval_shape(b.invars[0])
        and all(a.params[p] == b.params[p] for p in ("dimension_numbers", "slice_sizes", "mode"))
    )


def _default(eqn: JaxprEqn, xs: list[Any]) -> list[Any]:
    full = [materialise(x, _aval_shape(a)) for x, a in zip(xs, eqn.invars, strict=True)]
    return bind_equation(eqn, full)


def _elementwise(eqn: JaxprEqn, xs: list[Any]) -> list[Any]:
    ranked = [x.shape for x in xs if x.ndim]
    if not ranked:
        return bind_equation(eqn, xs)
    shape = np.broadcast_shapes(*ranked)
    return bind_equation(eqn, [jnp.broadcast_to(x, shape) if x.ndim and x.shape != shape else x for x in xs])


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
