"""The values of a jaxpr's variables by NumPy alone, for what is looked at once: nothing is compiled."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gibbsite.density.program.known import FOLDS
from gibbsite.trace.jaxpr.compat import Literal


class Numbers:
    """Values of variables, computed when asked for, from those `given`; None where an operation is not known
    here."""

    def __init__(self, producer: Mapping[Any, Any], given: Mapping[Any, Any]):
        self._producer = producer
        self._known: dict[Any, np.ndarray | None] = {
            v: np.asarray(x) if isinstance(getattr(x, "dtype", None), np.dtype) else None
            for v, x in given.items()
        }

    def value(self, atom: Any) -> np.ndarray | None:
        """The value of an atom."""
        if isinstance(atom, Literal):
            return np.asarray(atom.val)
        with np.errstate(all="ignore"):
            self._compute(atom)
        return self._known[atom]

    def _compute(self, target: Any) -> None:
        stack = [target]
        while stack:
            var = stack[-1]
            if var in self._known:
                stack.pop()
                continue
            eqn = self._producer.get(var)
            rule = None if eqn is None else _RULES.get(eqn.primitive.name)
            if eqn is None or rule is None or len(eqn.outvars) != 1:
                self._known[var] = None
                continue
            waiting = [a for a in eqn.invars if not isinstance(a, Literal) and a not in self._known]
            if waiting:
                stack += waiting
                continue
            self._known[var] = self._applied(rule, eqn)

    def _applied(self, rule: Callable[..., Any], eqn: Any) -> np.ndarray | None:
        operands = [np.asarray(a.val) if isinstance(a, Literal) else self._known[a] for a in eqn.invars]
        aval = eqn.outvars[0].aval
        if any(o is None for o in operands) or not isinstance(aval.dtype, np.dtype):
            return None
        found = rule(eqn.params, tuple(aval.shape), *operands)
        return None if found is None else np.asarray(found).astype(aval.dtype).reshape(aval.shape)


def _reduced(fn: Callable[..., Any]) -> Callable[..., Any]:
    return lambda p, s, x: fn(x, axis=tuple(p["axes"]))


def _cumulative(fn: Callable[..., Any]) -> Callable[..., Any]:
    def rule(p: Any, s: Any, x: np.ndarray) -> Any:
        turned = np.flip(x, p["axis"]) if p["reverse"] else x
        out = fn(turned, axis=p["axis"])
        return np.flip(out, p["axis"]) if p["reverse"] else out

    return rule


def _dot(p: Any, s: Any, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    (a_sum, b_sum), (a_batch, b_batch) = p["dimension_numbers"]
    names = iter("abcdefghijklmnopqrstuvwxyz")
    left, right = [next(names) for _ in a.shape], [next(names) for _ in b.shape]
    for i, j in zip((*a_sum, *a_batch), (*b_sum, *b_batch), strict=True):
        right[j] = left[i]
    free = [n for i, n in enumerate(left) if i not in a_sum and i not in a_batch]
    free += [n for j, n in enumerate(right) if j not in b_sum and j not in b_batch]
    out = [left[i] for i in a_batch] + free
    return np.einsum(f"{''.join(left)},{''.join(right)}->{''.join(out)}", a, b, optimize=True)


def _gather(p: Any, s: Any, x: np.ndarray, at: np.ndarray) -> np.ndarray | None:
    """Whole rows by their numbers, as `x[i]` and `x[i, j]` pick them."""
    dims, sizes = p["dimension_numbers"], p["slice_sizes"]
    axes = list(dims.start_index_map)
    if dims.operand_batching_dims or sorted(dims.collapsed_slice_dims) != sorted(axes) or not x.size:
        return None
    rest = [d for d in range(x.ndim) if d not in axes]
    if any(sizes[d] != x.shape[d] for d in rest):
        return None
    picked = tuple(np.clip(at[..., k], 0, x.shape[d] - 1) for k, d in enumerate(axes))
    out = np.transpose(x, (*axes, *rest))[picked]
    batch = [a for a in range(len(s)) if a not in dims.offset_dims]
    return np.moveaxis(out, range(out.ndim), [*batch, *dims.offset_dims])


def _cholesky(p: Any, s: Any, x: np.ndarray) -> np.ndarray:
    try:
        return np.linalg.cholesky(x)
    except np.linalg.LinAlgError:
        return np.full(x.shape, np.nan)


def _logistic(p: Any, s: Any, x: np.ndarray) -> np.ndarray:
    return 0.5 * (1 + np.tanh(0.5 * x))


_RULES: dict[str, Callable[..., Any]] = {
    **FOLDS,
    **{
        name: lambda p, s, *xs, fn=fn: fn(*xs)
        for name, fn in {
            "exp": np.exp,
            "exp2": np.exp2,
            "expm1": np.expm1,
            "log": np.log,
            "log1p": np.log1p,
            "sqrt": np.sqrt,
            "rsqrt": lambda x: 1 / np.sqrt(x),
            "cbrt": np.cbrt,
            "abs": np.abs,
            "sign": np.sign,
            "sin": np.sin,
            "cos": np.cos,
            "tanh": np.tanh,
            "square": np.square,
            "floor": np.floor,
            "ceil": np.ceil,
            "round": np.round,
            "is_finite": np.isfinite,
            "ne": np.not_equal,
            "not": np.logical_not,
            "stop_gradient": lambda x: x,
            "copy": lambda x: x,
        }.items()
    },
    "div": lambda p, s, a, b: np.broadcast_to(a / b if np.result_type(a, b).kind == "f" else a // b, s),
    "pow": lambda p, s, a, b: np.broadcast_to(np.power(a, b), s),
    "integer_pow": lambda p, s, a: a ** float(p["y"]),
    "logistic": _logistic,
    "select_n": lambda p, s, which, *cases: _selected(s, which, cases),
    "transpose": lambda p, s, a: np.transpose(a, p["permutation"]),
    "rev": lambda p, s, a: np.flip(a, p["dimensions"]),
    "expand_dims": lambda p, s, a: a.reshape(s),
    "reduce_sum": _reduced(np.sum),
    "reduce_max": _reduced(np.max),
    "reduce_min": _reduced(np.min),
    "reduce_prod": _reduced(np.prod),
    "reduce_and": _reduced(np.all),
    "reduce_or": _reduced(np.any),
    "cumsum": _cumulative(np.cumsum),
    "cumprod": _cumulative(np.cumprod),
    "cummax": _cumulative(np.maximum.accumulate),
    "dot_general": _dot,
    "gather": _gather,
    "cholesky": _cholesky,
}


def _selected(shape: Any, which: np.ndarray, cases: Any) -> np.ndarray:
    if len(cases) == 2:
        return np.broadcast_to(np.where(which.astype(bool), cases[1], cases[0]), shape)
    return np.broadcast_to(np.choose(which, cases), shape)
