"""What expressions over draws may say: operators, constants and functions.

Values are arrays `[*shape, chain, draw]` or plain numbers; reductions are over `shape`, never over draws.
"""

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special


@dataclass(frozen=True)
class Function:
    """A function of `takes` values: at least and at most so many."""

    of: Callable[..., Any]
    takes: tuple[int, int] = (1, 1)


def _as_float(x: Any) -> Any:
    return np.asarray(x, np.float64)


def _each(fn: Callable[..., Any]) -> Function:
    return Function(lambda x: fn(_as_float(x)))


def _over(fn: Callable[..., Any]) -> Function:
    """Over all elements of a site, in every draw."""

    def reduce(x: Any) -> Any:
        x = np.asarray(x)
        return fn(_as_float(x), axis=tuple(range(max(0, x.ndim - 2))))

    return Function(reduce)


def _over_or_between(over: Callable[..., Any], between: Callable[..., Any]) -> Function:
    """Over all elements of one value, or between several values, element by element."""
    whole = _over(over).of

    def either(*values: Any) -> Any:
        if len(values) == 1:
            return whole(values[0])
        found = _as_float(values[0])
        for value in values[1:]:
            found = between(found, _as_float(value))
        return found

    return Function(either, (1, 20))


def _arithmetic(fn: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *values: fn(*map(_as_float, values))


FUNCTIONS: dict[str, Function] = {
    "exp": _each(np.exp),
    "log": _each(np.log),
    "log1p": _each(np.log1p),
    "log10": _each(np.log10),
    "sqrt": _each(np.sqrt),
    "abs": _each(np.abs),
    "sign": _each(np.sign),
    "round": _each(np.round),
    "floor": _each(np.floor),
    "sin": _each(np.sin),
    "cos": _each(np.cos),
    "tanh": _each(np.tanh),
    "expit": _each(special.expit),
    "logit": _each(special.logit),
    "sum": _over(np.sum),
    "prod": _over(np.prod),
    "mean": _over(np.mean),
    "median": _over(np.median),
    "sd": _over(lambda x, axis: np.std(x, axis=axis, ddof=1)),
    "any": Function(lambda x: np.any(x, axis=tuple(range(max(0, np.ndim(x) - 2))))),
    "all": Function(lambda x: np.all(x, axis=tuple(range(max(0, np.ndim(x) - 2))))),
    "min": _over_or_between(np.min, np.minimum),
    "max": _over_or_between(np.max, np.maximum),
    "where": Function(np.where, (3, 3)),
}
CONSTANTS = {"pi": np.pi, "e": np.e, "inf": np.inf}
UNARY: dict[type, Callable[..., Any]] = {
    ast.USub: _arithmetic(np.negative),
    ast.UAdd: _arithmetic(np.positive),
    ast.Not: np.logical_not,
    ast.Invert: np.logical_not,
}
BINARY: dict[type, Callable[..., Any]] = {
    ast.Add: _arithmetic(np.add),
    ast.Sub: _arithmetic(np.subtract),
    ast.Mult: _arithmetic(np.multiply),
    ast.Div: _arithmetic(np.divide),
    ast.FloorDiv: _arithmetic(np.floor_divide),
    ast.Mod: _arithmetic(np.mod),
    ast.Pow: _arithmetic(np.power),
    ast.BitAnd: np.logical_and,
    ast.BitOr: np.logical_or,
}
COMPARE: dict[type, Callable[..., Any]] = {
    ast.Lt: np.less,
    ast.LtE: np.less_equal,
    ast.Gt: np.greater,
    ast.GtE: np.greater_equal,
    ast.Eq: np.equal,
    ast.NotEq: np.not_equal,
}
