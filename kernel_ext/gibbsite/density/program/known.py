"""Values that are known when the program is analysed: small integer arrays made of literals.

Python indices reach the jaxpr as literals that pass through a few operations (`z[-1]` adds the length where
the index is negative), so a tiny evaluator over numpy is enough to recover them.
"""

from typing import Any

import numpy as np

MAX_KNOWN = 4096


def known_constant(value: Any) -> np.ndarray | None:
    """The value of a constant, if it is a small array of integers or Booleans."""
    kind = value.dtype.kind if isinstance(value.dtype, np.dtype) else ""
    return np.asarray(value) if kind and kind in "iub" and value.size <= MAX_KNOWN else None


def fold(eqn: Any, args: list[Any]) -> np.ndarray | None:
    """The value of an equation's output, if it is a small integer or boolean array of known operands."""
    if len(eqn.outvars) != 1:
        return None
    aval = eqn.outvars[0].aval
    shape = tuple(aval.shape)
    dtype = np.dtype(aval.dtype) if isinstance(aval.dtype, np.dtype) else None
    if dtype is None or dtype.kind not in "iub" or int(np.prod(shape)) > MAX_KNOWN:
        return None
    if any(a.known is None for a in args):
        return None
    rule = FOLDS.get(eqn.primitive.name)
    if rule is None:
        return None
    return np.asarray(rule(eqn.params, shape, *[a.known for a in args])).astype(dtype).reshape(shape)


def _broadcast(params: Any, shape: Any, x: np.ndarray) -> np.ndarray:
    target = [1] * len(shape)
    for a, d in enumerate(params["broadcast_dimensions"]):
        target[d] = x.shape[a]
    return np.broadcast_to(x.reshape(target), shape)


def _iota(params: Any, shape: Any) -> np.ndarray:
    d = params["dimension"]
    return np.broadcast_to(
        np.arange(shape[d]).reshape([-1 if a == d else 1 for a in range(len(shape))]), shape
    )


def _slice(params: Any, shape: Any, x: np.ndarray) -> np.ndarray:
    strides = params["strides"] or (1,) * x.ndim
    bounds = zip(params["start_indices"], params["limit_indices"], strides, strict=True)
    return x[tuple(slice(*b) for b in bounds)]


FOLDS: dict[str, Any] = {
    "add": lambda p, s, a, b: np.broadcast_to(a + b, s),
    "sub": lambda p, s, a, b: np.broadcast_to(a - b, s),
    "mul": lambda p, s, a, b: np.broadcast_to(a * b, s),
    "max": lambda p, s, a, b: np.broadcast_to(np.maximum(a, b), s),
    "min": lambda p, s, a, b: np.broadcast_to(np.minimum(a, b), s),
    "neg": lambda p, s, a: -a,
    "lt": lambda p, s, a, b: np.broadcast_to(a < b, s),
    "le": lambda p, s, a, b: np.broadcast_to(a <= b, s),
    "gt": lambda p, s, a, b: np.broadcast_to(a > b, s),
    "ge": lambda p, s, a, b: np.broadcast_to(a >= b, s),
    "eq": lambda p, s, a, b: np.broadcast_to(a == b, s),
    "clamp": lambda p, s, low, x, high: np.clip(x, low, high),
    "select_n": lambda p, s, which, *cases: np.broadcast_to(np.choose(which.astype(np.intp), cases), s),
    "convert_element_type": lambda p, s, a: a,
    "squeeze": lambda p, s, a: a.reshape(s),
    "reshape": lambda p, s, a: a.reshape(s),
    "broadcast_in_dim": _broadcast,
    "iota": _iota,
    "slice": _slice,
    "concatenate": lambda p, s, *xs: np.concatenate(xs, axis=p["dimension"]),
}
