"""Evaluate parts of a flat jaxpr on demand, keeping axes along which a value is constant at size 1.

`mu[z]` with every element of `z` equal to `k` is one number per `k`, not one per data point; carrying such
arrays at size 1 ("lazy broadcasting") makes the cost of a filled factor that of its non-constant axes.
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from gibbsite.programs.evaluation.copies import RULES as COPY_RULES
from gibbsite.programs.evaluation.copies import Copies, at_full_size, copies_of, materialise
from gibbsite.programs.evaluation.gathers import gathered, looked_up_nowhere
from gibbsite.programs.jaxpr import primitives as op
from gibbsite.programs.jaxpr.compat import ClosedJaxpr, JaxprEqn, Literal, bind_equation, shape_of
from gibbsite.programs.jaxpr.primitives import of_kind, of_table
from gibbsite.programs.jaxpr.values import FEW
from gibbsite.programs.jaxpr.walker import OnDemand
from gibbsite.programs.maps.access import equal_runs

_SMALL = 64


class Evaluator:
    """Values of a flat jaxpr's variables, computed when asked for and at most once.

    `values` gives the known variables (inputs, or any others that are to be overridden), each of its
    variable's rank with axes of full size or size 1.
    """

    def __init__(self, closed: ClosedJaxpr, producer: Mapping[Any, JaxprEqn], values: Mapping[Any, Any]):
        consts = dict(zip(closed.jaxpr.constvars, map(_constant, closed.consts), strict=True))
        self._values: OnDemand[Any] = OnDemand(producer, _leaf, self._results)
        self.give(consts)
        self.give(values)

    def give(self, values: Mapping[Any, Any]) -> None:
        """Set variables, before anything that reads them is evaluated."""
        self._values.found.update(values)

    def lazy(self, atom: Any) -> Any:
        """The value of `atom`, with constant axes at size 1."""
        value = self._values(atom)
        if isinstance(value, Copies):
            value = self._values.found[atom] = value.taken()
        return value

    def full(self, atom: Any) -> Any:
        """The value of `atom` at its whole shape."""
        return materialise(self.lazy(atom), shape_of(atom))

    def _results(self, eqn: JaxprEqn, xs: list[Any]) -> list[Any]:
        waiting = self._put_off(eqn, xs)
        if waiting is not None:
            return [waiting]
        xs = [self.lazy(a) for a in eqn.invars]
        return _folded(eqn, xs) or evaluate_lazily(eqn, xs)

    def _put_off(self, eqn: JaxprEqn, xs: list[Any]) -> Copies | None:
        """Let a gather that copies rows wait, and work on what it copies from: `log(theta[doc])` takes the
        logarithm of `theta` once, not of every copy."""
        rule = of_table(eqn, COPY_RULES)
        if rule is not None and any(isinstance(x, Copies) for x in xs):
            return rule(eqn, xs)
        if of_kind(eqn, op.GATHERS):
            plain = [self.lazy(a) for a in eqn.invars]
            return copies_of(eqn, *plain) if looked_up_nowhere(eqn, *plain) is None else None
        return None


def _leaf(atom: Any) -> Any | None:
    """What is known of itself; what has no element needs nothing, not even what is unknown."""
    if isinstance(atom, Literal):
        return np.asarray(atom.val, getattr(atom.aval, "dtype", None))
    shape = shape_of(atom)
    return np.zeros(shape, atom.aval.dtype) if 0 in shape else None


def _constant(value: Any) -> Any:
    """Few integers stay as they are, for `_folded`."""
    if np.size(value) <= FEW and jnp.issubdtype(jnp.result_type(value), jnp.integer):
        return np.asarray(value)
    return jnp.asarray(value)


def _folded(eqn: JaxprEqn, xs: list[Any]) -> list[np.ndarray] | None:
    """The outputs of an equation on known integers, done while the program is made; None for any other."""
    if len(eqn.outvars) != 1 or not all(isinstance(x, np.ndarray) and x.dtype.kind in "biu" for x in xs):
        return None
    aval, of_elements = eqn.outvars[0].aval, of_table(eqn, op.OF_ELEMENTS)
    if not isinstance(aval.dtype, np.dtype) or aval.dtype.kind not in "biu":  # keys have dtypes of JAX's own
        return None
    out: Any = None
    if of_elements is not None:
        with np.errstate(all="ignore"):
            out = of_elements(*xs)
    elif of_kind(eqn, op.COUNTS):
        axis, rank = eqn.params["dimension"], len(aval.shape)
        if aval.shape[axis] <= FEW:
            out = np.arange(aval.shape[axis]).reshape([-1 if a == axis else 1 for a in range(rank)])
    elif of_kind(eqn, op.SPREADS, op.SQUEEZES):
        (out,) = evaluate_lazily(eqn, xs)
    elif of_kind(eqn, op.RESHAPES, op.SLICES) and xs[0].size == 1:
        out = xs[0].reshape((1,) * len(aval.shape))
    elif of_kind(eqn, op.JOINS):
        axis, sizes = eqn.params["dimension"], [a.aval.shape for a in eqn.invars]
        rest = np.broadcast_shapes(*[(*x.shape[:axis], 1, *x.shape[axis + 1 :]) for x in xs])
        if int(np.prod(rest)) <= FEW:
            parts = [
                np.broadcast_to(x, (*rest[:axis], s[axis], *rest[axis + 1 :]))
                for x, s in zip(xs, sizes, strict=True)
            ]
            out = np.concatenate(parts, axis)
    return None if out is None or out.size > FEW else [np.asarray(out, aval.dtype)]


def _elementwise(eqn: JaxprEqn, xs: list[Any]) -> list[Any]:
    ranked = [x.shape for x in xs if x.ndim]
    if not ranked:
        return bind_equation(eqn, xs)
    shape = np.broadcast_shapes(*ranked)
    # predicates may be scalars
    grown = [x.ndim or shape_of(a) for x, a in zip(xs, eqn.invars, strict=True)]
    xs = [jnp.broadcast_to(x, shape) if g and x.shape != shape else x for x, g in zip(xs, grown, strict=True)]
    return bind_equation(eqn, xs)


def _matrix(eqn: JaxprEqn, xs: list[Any]) -> list[Any]:
    """A factorisation: once for all matrices of a batch that are the same."""
    (x,), shape = xs, shape_of(eqn.invars[0])
    return bind_equation(eqn, [materialise(x, shape, {len(shape) - 1, len(shape) - 2})])


def _triangular_solve(eqn: JaxprEqn, xs: list[Any]) -> list[Any]:
    (a, b), shape = xs, shape_of(eqn.invars[1])
    rank = len(shape)
    a = materialise(a, shape_of(eqn.invars[0]), {rank - 1, rank - 2})
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
    (left, right), (l_shape, r_shape) = xs, map(shape_of, eqn.invars)
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
    return [xs[0].reshape(shape)]


def _reshape(eqn: JaxprEqn, xs: list[Any]) -> list[Any]:
    (x,), operand, out = xs, shape_of(eqn.invars[0]), tuple(eqn.outvars[0].aval.shape)
    if eqn.params.get("dimensions") is not None or 0 in operand:
        return at_full_size(eqn, xs)
    target, broaden = list(out), set()
    for ins, outs in equal_runs(operand, out):
        real = [a for a in ins if operand[a] != 1]
        constant = [a for a in real if x.shape[a] == 1]
        if real and constant == real:
            target[outs.start : outs.stop] = [1] * len(outs)
        else:
            broaden |= set(constant)
    return [jnp.reshape(materialise(x, operand, broaden), target)]


def _slice(eqn: JaxprEqn, xs: list[Any]) -> list[Any]:
    (x,), operand, out = xs, shape_of(eqn.invars[0]), tuple(eqn.outvars[0].aval.shape)
    if 0 in out:
        return at_full_size(eqn, xs)
    strides = eqn.params["strides"] or (1,) * len(out)
    starts, limits, steps = [], [], []
    for a, n in enumerate(operand):
        constant = x.shape[a] == 1 and n != 1
        starts.append(0 if constant else eqn.params["start_indices"][a])
        limits.append(1 if constant else eqn.params["limit_indices"][a])
        steps.append(1 if constant else strides[a])
    return [lax.slice(x, starts, limits, steps)]


def _reduce(eqn: JaxprEqn, xs: list[Any]) -> list[Any]:
    (x,), operand = xs, shape_of(eqn.invars[0])
    axes = tuple(a % len(operand) for a in eqn.params["axes"])
    copies = 1
    if of_kind(eqn, op.TOTALS):
        copies = int(np.prod([operand[a] for a in axes if x.shape[a] == 1], dtype=np.int64))
    (out,) = bind_equation(eqn, [x])
    return [out * jnp.asarray(copies, out.dtype) if copies != 1 else out]


def _concatenate(eqn: JaxprEqn, xs: list[Any]) -> list[Any]:
    axis = eqn.params["dimension"]
    xs = [materialise(x, shape_of(a), {axis}) for x, a in zip(xs, eqn.invars, strict=True)]
    rest = np.broadcast_shapes(*[(*x.shape[:axis], 1, *x.shape[axis + 1 :]) for x in xs])
    return [
        lax.concatenate(
            [jnp.broadcast_to(x, (*rest[:axis], x.shape[axis], *rest[axis + 1 :])) for x in xs], axis
        )
    ]


_RULES: dict[str, Callable[[JaxprEqn, list[Any]], list[Any]]] = {
    **dict.fromkeys(op.ELEMENTWISE - op.BARRIERS, _elementwise),
    **dict.fromkeys(op.TOTALS | op.EXTREMES | op.ALL_OR_ANY, _reduce),
    **dict.fromkeys(op.DECOMPOSES, _matrix),
    **dict.fromkeys(op.SOLVES, _triangular_solve),
    **dict.fromkeys(op.CONTRACTS, _dot_general),
    **dict.fromkeys(op.SPREADS, _broadcast),
    **dict.fromkeys(op.TRANSPOSES, lambda eqn, xs: [jnp.transpose(xs[0], eqn.params["permutation"])]),
    **dict.fromkeys(op.SQUEEZES, lambda eqn, xs: [xs[0].squeeze(tuple(eqn.params["dimensions"]))]),
    **dict.fromkeys(op.RESHAPES, _reshape),
    **dict.fromkeys(op.SLICES, _slice),
    **dict.fromkeys(op.JOINS, _concatenate),
    **dict.fromkeys(op.GATHERS, gathered),
}


def evaluate_lazily(eqn: JaxprEqn, xs: list[Any]) -> list[Any]:
    """One equation applied to other operands; constant axes at size 1 before and after."""
    return of_table(eqn, _RULES, at_full_size)(eqn, xs)
