"""What expressions over draws may say: functions and operators, as NumPy has them.

Values are arrays `[*shape, chain, draw]` or plain numbers; functions go over `shape`, never over draws.
"""

import ast
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special


@dataclass(frozen=True)
class Function:
    """A function of `takes` values: at least and at most so many; one that goes `along` takes an axis."""

    of: Callable[..., Any]
    takes: tuple[int, int] = (1, 1)
    along: bool = False


def _as_float(x: Any) -> Any:
    return np.asarray(x, np.float64)


def _each(fn: Callable[..., Any]) -> Function:
    return Function(lambda x: fn(_as_float(x)))


def _over(fn: Callable[..., Any], of: Callable[[Any], Any] = _as_float) -> Function:
    """Over all elements, or along an axis, in every draw."""

    def reduce(x: Any, axis: int | None = None) -> Any:
        x = np.asarray(x)
        return fn(of(x), axis=tuple(range(max(0, x.ndim - 2))) if axis is None else axis)

    return Function(reduce, along=True)


def _over_or_between(over: Callable[..., Any], between: Callable[..., Any]) -> Function:
    """Over all elements of one value, or between several values, element by element."""
    whole = _over(over).of

    def either(*values: Any, axis: int | None = None) -> Any:
        if len(values) == 1:
            return whole(values[0], axis)
        found = _as_float(values[0])
        for value in values[1:]:
            found = between(found, _as_float(value))
        return found

    return Function(either, (1, 20), along=True)


def _in_order(fn: Callable[..., Any]) -> Function:
    """Along the last axis, or another; of one number that number's own."""

    def along(x: Any, axis: int | None = None) -> Any:
        x = _as_float(x)
        alone = x.ndim < 3
        found = fn(x[None] if alone else x, axis=0 if alone else axis if axis is not None else x.ndim - 3)
        return found[0] if alone else found

    return Function(along, along=True)


def _at(fn: Callable[..., Any]) -> Function:
    """The place of an element, counted from 0 among all in order, or along an axis."""

    def place(x: Any, axis: int | None = None) -> Any:
        x = _as_float(x)
        return fn(x.reshape(-1, *x.shape[-2:]) if axis is None and x.ndim > 1 else x, axis=axis or 0)

    return Function(place, along=True)


def _transposed(x: Any) -> Any:
    x = np.asarray(x)
    axes = tuple(range(max(0, x.ndim - 2)))
    return x.transpose(*axes[::-1], *range(len(axes), x.ndim))


def as_matrices(a: Any, b: Any) -> Any:
    """The matrix product in every draw. Raises `ValueError` for shapes that have none."""
    a, b = _as_float(a), _as_float(b)
    if a.ndim < 3 or b.ndim < 3:
        raise ValueError("a number has no matrix product")
    a, b = (np.moveaxis(x, (-2, -1), (0, 1)) for x in (a, b))
    row, column = a.ndim == 3, b.ndim == 3
    a, b = a[..., None, :] if row else a, b[..., None] if column else b
    depth = max(a.ndim, b.ndim)  # stacks of matrices go together behind chains and draws
    a, b = (x.reshape(*x.shape[:2], *[1] * (depth - x.ndim), *x.shape[2:]) for x in (a, b))
    found = np.matmul(a, b)
    found = found[..., 0] if column else found
    found = found[..., 0] if row and column else found[..., 0, :] if row else found
    return np.moveaxis(found, (0, 1), (-2, -1))


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
    "std": _over(np.std),
    "var": _over(np.var),
    "any": _over(np.any, np.asarray),
    "all": _over(np.all, np.asarray),
    "min": _over_or_between(np.min, np.minimum),
    "max": _over_or_between(np.max, np.maximum),
    "argmin": _at(np.argmin),
    "argmax": _at(np.argmax),
    "sort": _in_order(np.sort),
    "cumsum": _in_order(np.cumsum),
    "softmax": _in_order(special.softmax),
    "transpose": Function(_transposed),
    "where": Function(np.where, (3, 3)),
}
"""By the names of NumPy and SciPy; `sd` divides by n − 1 where `std` and `var` divide by n, as NumPy's do."""

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

_MODULES = ("np", "jnp", "numpy", "jax", "math", "scipy")
_BETWEEN = {"maximum": "max", "minimum": "min"}
_ALSO = {**_BETWEEN, "sigmoid": "expit"}
_PRODUCTS = ("dot", "matmul")


def as_calls(tree: Any, sites: Collection[str]) -> Any:
    """The tree, with what NumPy writes otherwise as calls: `np.exp(x)`, `x.mean(0)`, `x.T`."""
    return _Calls(sites).visit(tree)


class _Calls(ast.NodeTransformer):
    def __init__(self, sites: Collection[str]):
        self.sites = sites

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if node.attr in CONSTANTS and self.of_module(node):
            return ast.copy_location(ast.Name(node.attr), node)
        self.generic_visit(node)
        return _called("transpose", node, [node.value]) if node.attr == "T" else node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        to, args, keywords = node.func, [*node.args], [*node.keywords]
        attribute = isinstance(to, ast.Attribute)
        said = to.attr if isinstance(to, ast.Attribute) else getattr(to, "id", "")
        name = _ALSO.get(said, said)
        if name not in FUNCTIONS and name not in _PRODUCTS:
            return node
        if isinstance(to, ast.Attribute) and not self.of_module(to):
            args = [to.value, *args]
        if name in _PRODUCTS and len(args) == 2 and not keywords:
            return ast.copy_location(ast.BinOp(args[0], ast.MatMult(), args[1]), node)
        if name not in FUNCTIONS:
            return node
        if attribute and FUNCTIONS[name].along and len(args) == 2 and not keywords and said not in _BETWEEN:
            args, keywords = args[:1], [ast.keyword("axis", args[1])]
        return _called(name, node, args, keywords)

    def of_module(self, node: ast.Attribute) -> bool:
        """Whether it is a module's, as in `np.exp` and `jax.nn.softmax`."""
        root: ast.AST = node.value
        while isinstance(root, ast.Attribute):
            root = root.value
        return isinstance(root, ast.Name) and root.id in _MODULES and root.id not in self.sites


def _called(name: str, at: ast.expr, args: list[ast.expr], keywords: Sequence[ast.keyword] = ()) -> ast.AST:
    of = ast.copy_location(ast.Name(name), getattr(at, "func", at))
    return ast.copy_location(ast.Call(of, args, [*keywords]), at)
