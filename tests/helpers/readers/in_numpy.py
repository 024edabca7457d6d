"""JAX functions evaluated by NumPy: nothing is compiled, whatever shapes come.

A few hundred operations on small arrays take NumPy a millisecond; XLA would spend ten on compiling each of a
new shape. Primitives without a rule here are JAX's own, one by one.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from gibbsite.programs.jaxpr.compat import (
    ClosedJaxpr,
    bind_equation,
    closed_call_body,
    platform_default,
    scan_inputs,
)
from gibbsite.programs.jaxpr.walker import walk
from scipy import special


def in_numpy(fn: Callable[..., Any], *args: Any) -> Any:
    """`fn(*args)` as NumPy arrays, operation by operation; Python may not decide on values."""
    closed, shape = jax.make_jaxpr(fn, return_shape=True)(*args)
    return jax.tree.unflatten(jax.tree.structure(shape), _evaluated(closed, jax.tree.leaves(args)))


def _evaluated(closed: ClosedJaxpr, operands: Sequence[Any]) -> list[Any]:
    given = [x if _is_key(x) else np.asarray(x) for x in operands]
    with np.errstate(all="ignore"):
        return walk(closed.jaxpr, closed.consts, given, RULES, _default, lambda v: v)


def _is_key(x: Any) -> bool:
    return jax.dtypes.issubdtype(getattr(x, "dtype", None), jax.dtypes.prng_key)


def _default(eqn: Any, xs: list[Any]) -> list[Any]:
    body = closed_call_body(eqn) or platform_default(eqn)
    if body is not None:
        return _evaluated(body, xs if closed_call_body(eqn) else xs[1:])
    name, out = eqn.primitive.name, eqn.outvars[0].aval
    if name in ELEMENTWISE:
        return [np.asarray(ELEMENTWISE[name](*xs), out.dtype)]
    if name in REDUCTIONS:
        return [np.asarray(REDUCTIONS[name](np.asarray(xs[0]), axis=tuple(eqn.params["axes"])), out.dtype)]
    if name in RESHAPES:
        return [np.reshape(xs[0], out.shape)]
    return [x if _is_key(x) else np.asarray(x) for x in bind_equation(eqn, xs)]


def _choice(eqn: Any, xs: list[Any]) -> list[Any]:
    which, *cases = xs
    return [np.choose(np.asarray(which, int), cases)]


def _broadcast(eqn: Any, xs: list[Any]) -> list[Any]:
    shape, axes = eqn.params["shape"], eqn.params["broadcast_dimensions"]
    wide = [1] * len(shape)
    for a, n in zip(axes, np.shape(xs[0]), strict=True):
        wide[a] = n
    return [np.broadcast_to(np.reshape(xs[0], wide), shape)]


def _sliced(eqn: Any, xs: list[Any]) -> list[Any]:
    p = eqn.params
    strides = p["strides"] or [None] * len(p["start_indices"])
    ends = zip(p["start_indices"], p["limit_indices"], strides, strict=True)
    return [np.asarray(xs[0])[tuple(slice(*e) for e in ends)]]


def _iota(eqn: Any, xs: list[Any]) -> list[Any]:
    p = eqn.params
    wide = [-1 if a == p["dimension"] else 1 for a in range(len(p["shape"]))]
    return [
        np.broadcast_to(np.arange(p["shape"][p["dimension"]], dtype=p["dtype"]).reshape(wide), p["shape"])
    ]


def _scan(eqn: Any, xs: list[Any]) -> list[Any]:
    p = eqn.params
    n, carried = scan_inputs(p)
    k = n + carried
    consts, carry, rows = xs[:n], xs[n:k], xs[k:]
    order = range(p["length"] - 1, -1, -1) if p["reverse"] else range(p["length"])
    found: list[Any] = [None] * p["length"]
    for t in order:
        outs = _evaluated(p["jaxpr"], [*consts, *carry, *(x[t] for x in rows)])
        carry, found[t] = outs[:carried], outs[carried:]
    avals = [v.aval for v in eqn.outvars[carried:]]
    stacked = [np.stack(c) if c else np.zeros(a.shape, a.dtype) for c, a in _columns(found, avals)]
    return [*carry, *stacked]


def _columns(found: list[Any], avals: list[Any]) -> list[tuple[list[Any], Any]]:
    return [([row[i] for row in found], a) for i, a in enumerate(avals)]


def _cond(eqn: Any, xs: list[Any]) -> list[Any]:
    branches = eqn.params["branches"]
    if platform_default(eqn) is not None:
        return _default(eqn, xs)
    return _evaluated(branches[int(np.clip(xs[0], 0, len(branches) - 1))], xs[1:])


def _while(eqn: Any, xs: list[Any]) -> list[Any]:
    p = eqn.params
    n, k = p["cond_nconsts"], p["cond_nconsts"] + p["body_nconsts"]
    asked, made, carry = xs[:n], xs[n:k], xs[k:]
    while bool(_evaluated(p["cond_jaxpr"], [*asked, *carry])[0]):
        carry = _evaluated(p["body_jaxpr"], [*made, *carry])
    return carry


def _divided(eqn: Any, xs: list[Any]) -> list[Any]:
    if eqn.outvars[0].aval.dtype.kind in "iu":
        return [np.asarray(bind_equation(eqn, xs)[0])]
    return [np.asarray(np.divide(*xs), eqn.outvars[0].aval.dtype)]


def _clamped(low: Any, x: Any, high: Any) -> Any:
    return np.minimum(np.maximum(x, low), high)


ELEMENTWISE: dict[str, Callable[..., Any]] = {
    "add": np.add, "add_any": np.add, "sub": np.subtract, "mul": np.multiply, "neg": np.negative,
    "sign": np.sign, "floor": np.floor, "ceil": np.ceil, "exp": np.exp, "log": np.log, "log1p": np.log1p,
    "expm1": np.expm1, "tanh": np.tanh, "logistic": special.expit, "sqrt": np.sqrt, "abs": np.abs,
    "rsqrt": lambda x: 1 / np.sqrt(x), "square": np.square, "sin": np.sin, "cos": np.cos,
    "pow": np.power, "max": np.maximum, "min": np.minimum, "rem": np.fmod, "clamp": _clamped,
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "not": np.bitwise_not, "is_finite": np.isfinite, "convert_element_type": lambda x: x,
    "stop_gradient": lambda x: x, "copy": lambda x: x, "copy_p": lambda x: x,
    "lgamma": special.gammaln, "erf": special.erf, "erfc": special.erfc, "erf_inv": special.erfinv,
}  # fmt: skip
REDUCTIONS: dict[str, Callable[..., Any]] = {
    "reduce_sum": np.sum, "reduce_prod": np.prod, "reduce_max": np.max, "reduce_min": np.min,
    "reduce_and": np.all, "reduce_or": np.any,
}  # fmt: skip
RESHAPES = frozenset(["reshape", "squeeze", "expand_dims"])
RULES: dict[str, Any] = {
    "select_n": _choice,
    "broadcast_in_dim": _broadcast,
    "slice": _sliced,
    "iota": _iota,
    "scan": _scan,
    "cond": _cond,
    "while": _while,
    "div": _divided,
    "transpose": lambda eqn, xs: [np.transpose(xs[0], eqn.params["permutation"])],
    "concatenate": lambda eqn, xs: [np.concatenate(xs, eqn.params["dimension"])],
    "integer_pow": lambda eqn, xs: [np.asarray(xs[0] ** eqn.params["y"], eqn.outvars[0].aval.dtype)],
    "optimization_barrier": lambda eqn, xs: list(xs),
}
