"""Printed statements and conditionals, turned back into numbers.

The texts are read as Python: index letters and sites are names, `a if c else b` is a choice, and calls are
NumPy's functions and NumPyro's distributions. `Model texts` that hold `f(…)` claim nothing and are skipped by
whoever asks.
"""

import ast
import itertools
import re
from typing import Any

import jax
import numpy as np
import numpyro.distributions as dist
from gibbsite.density import rerolled
from gibbsite.printing.elements.expression import argument_names
from gibbsite.printing.statements.statement import arguments_of
from scipy import special

from helpers.readers.in_numpy import in_numpy


def _two(one: Any, two: Any) -> Any:
    return lambda *xs, **k: two(*xs) if len(xs) == 2 else one(*xs, **k)


def _read(
    x: Any, index: Any, mode: str, fill_value: float = np.nan, wrap_negative_indices: bool = True
) -> Any:
    """`x.at[index].get(mode=…)`, as JAX reads it."""
    head, *rest = index if isinstance(index, tuple) else (index,)
    head = head + len(x) if head < 0 and wrap_negative_indices else head
    if mode == "fill" and not 0 <= head < len(x):
        return np.full(x[(0, *rest)].shape, fill_value)
    return x[(np.clip(head, 0, len(x) - 1), *rest)]


def _nearest(index: Any, ends: tuple[int, int]) -> Any:
    """Signed first: what counts without a sign cannot be compared with an end below zero."""
    return index if index is None else np.clip(np.asarray(index, np.int64), *ends)


def _item(x: Any, index: Any) -> Any:
    """`x[index]`, where a place out of range reads the nearest one, as in JAX."""
    if isinstance(x, _Numbered) or not np.ndim(x):
        return x[index]
    several = index if isinstance(index, tuple) else (index,)
    ends = [(-n, n - 1) for n in x.shape]
    return x[tuple(_nearest(i, e) for i, e in zip(several, ends, strict=False))]


def _number(x: Any) -> Any:
    return np.asarray(x).astype(int) if np.asarray(x).dtype == bool else x


FUNCTIONS: dict[str, Any] = {
    "number": _number,
    **{
        n: getattr(np, n) for n in "exp log log1p expm1 sqrt sin cos tan tanh cbrt abs where sum prod".split()
    },
    **{
        n: getattr(np, n) for n in "clip cumsum cumprod sort eye diag full arange isfinite sign floor".split()
    },
    **{
        n: getattr(np, n)
        for n in "trunc int8 int16 int32 int64 uint8 uint16 uint32 all any argmax argmin concatenate".split()
    },
    **{n: getattr(special, n) for n in ("erf", "erfc", "erfinv", "gammaln", "digamma")},
    "max": _two(np.max, np.maximum),
    "min": _two(np.min, np.minimum),
    "cummax": np.maximum.accumulate,
    "cummin": np.minimum.accumulate,
    "rem": np.fmod,
    "sigmoid": special.expit,
    "cholesky": np.linalg.cholesky,
    "choose": lambda which, *cases: cases[which],
    "Truncated": dist.TruncatedDistribution,
    "array": np.asarray,
    "item": _item,
    "read": _read,
    "lgamma": special.gammaln,
    **{n: getattr(dist, n) for n in dist.__all__ if n[0].isupper()},
}


class _Numbered:
    """The sites `z1`, `z2`, … under the name `z`: counted from `first`."""

    def __init__(self, values: Any, first: int):
        self.values, self.first = values, first

    def __getitem__(self, index: Any) -> Any:
        head, *rest = index if isinstance(index, tuple) else (index,)
        return self.values[(head - self.first, *rest)]


class Reader:
    """Numbers for texts about `density`, a density as it was built, at a state."""

    def __init__(self, density: Any, state: dict[str, Any]):
        self.density = density
        self.state = density.state_values(state)
        kinds = ("log_prob", "observed", "deterministic", "parameters")
        asked = {kind: density.outputs[kind] for kind in kinds}

        def read(state: dict[str, Any], data: tuple[Any, ...]) -> Any:
            return jax.tree.map(density.evaluator(state, data).full, asked)

        numbers = in_numpy(read, self.state, tuple(density.arguments.arrays))
        self.log_prob, self.parameters = numbers["log_prob"], numbers["parameters"]
        names = argument_names(density)
        values = dict(zip(names, map(np.asarray, density.arguments.arrays), strict=True))
        values.update({**numbers["observed"], **numbers["deterministic"]})
        values.update({n: np.asarray(v) for n, v in self.state.items()})
        for group, names in density.groups.items():
            values[group] = np.stack([values[n] for n in names])
        grouped = rerolled(density)
        for group, names in grouped.members.items():
            if group not in values:
                digits = names[0][len(group) :].strip("_[]")
                values[group] = _Numbered(np.stack([values[n] for n in names]), int(digits))
        values.update(density.constants)
        self.members = {**grouped.members, **density.groups}
        self.values = values
        self.code: dict[str, Any] = {}

    def number(self, text: str, letters: dict[str, int]) -> Any:
        """The value of an expression."""
        if text not in self.code:
            self.code[text] = self._compiled(text)
        with np.errstate(over="ignore"):  # narrow integers wrap around
            return eval(self.code[text], {"__builtins__": {}, **FUNCTIONS, **self.env, **letters})

    @property
    def env(self) -> dict[str, Any]:
        return {_ident(n, k): v for k, (n, v) in enumerate(self.values.items())}

    def _compiled(self, text: str) -> Any:
        shown = text.strip()
        order = list(self.values)
        for name in sorted(order, key=len, reverse=True):
            member = (
                "[" in name and name.split("[")[0] in self.values and name not in self.density.arguments.names
            )
            if not name.isidentifier() and not member:
                shown = re.sub(rf"(?<![\w'.]){re.escape(name)}(?!\w)", _ident(name, order.index(name)), shown)
        tree = _Arrays().visit(ast.parse(shown, mode="eval"))
        return compile(ast.fix_missing_locations(tree), text, "eval")

    def log_factors(self, text: str, places: list[dict[str, int]]) -> np.ndarray:
        """The logs of `Normal(x[n] | mu[z[n]], 1)**w`, or of `exp(name)`, at several places."""
        if text.startswith("exp(") and " | " not in text:
            return np.array([self.log_prob[text[4:-1]].sum()])
        inside, rest = _closed(text)
        family = text[: text.index("(")]
        value, _, args = inside.partition(" | ")
        site = next(n for n in sorted(self.values, key=len, reverse=True) if value.startswith(n))
        member = next((m[0] for g, m in self.members.items() if site == g or site in m), site)
        event = self.density.parameter_event_dims.get(member, {})
        columns: dict[str, list[Any]] = {}
        for at in places:
            given, named = self.number(f"call({args})", {**at, "call": lambda *a, **k: (a, k)})  # type: ignore[dict-item]
            for n, v in {**dict(zip(arguments_of(family), given, strict=False)), **named}.items():
                if event.get(n):
                    shape = self.parameters[member][n].shape
                    v = np.broadcast_to(np.asarray(v, float), shape[len(shape) - event[n] :])
                columns.setdefault(n, []).append(v)
        values = np.stack([self.number(value, at) for at in places])
        if any(isinstance(v[0], dist.Distribution) for v in columns.values()):
            rows = [FUNCTIONS[family](**{n: v[k] for n, v in columns.items()}) for k in range(len(places))]
            lp = [d.log_prob(v) for d, v in zip(rows, values, strict=True)]
        else:
            given = {n: np.stack(v) for n, v in columns.items()}
            lp = in_numpy(lambda x, p: FUNCTIONS[family](**p).log_prob(x), values, given)
        weight = [float(self.number(rest[2:], at)) if rest.startswith("**") else 1.0 for at in places]
        return np.array([0.0 if w == 0 else w * float(x) for w, x in zip(weight, lp, strict=True)])

    def log_conditional(self, text: str, at: dict[str, int]) -> float:
        """The log of the right side of `p(…) ∝ …`, letters of the left side at `at`."""
        total = 0.0
        for part in _split(text.split(" ∝ ", 1)[1], " · "):
            over: list[str] = []
            if part.startswith("∏["):
                inside, part = part[2:].split("] ", 1)
                over = inside.split(", ")
            ranges = [self.range(part, letter) for letter in over]
            places = [{**at, **dict(zip(over, p, strict=True))} for p in itertools.product(*ranges)]
            total += float(self.log_factors(part, places).sum())
        return total

    def range(self, part: str, letter: str) -> range:
        """The places that a letter stands for, from the factor's own value: `x[n]`."""
        value = _closed(part)[0].partition(" | ")[0]
        site = next(n for n in sorted(self.values, key=len, reverse=True) if value.startswith(n))
        axis = value[len(site) + 1 : -1].split(", ").index(letter)
        array = self.values[site]
        if isinstance(array, _Numbered):
            first = array.first if axis == 0 else 0
            return range(first, first + array.values.shape[axis])
        return range(array.shape[axis])


class _Arrays(ast.NodeTransformer):
    """Lists are arrays, but for those that `concatenate` takes."""

    def visit_Call(self, node: ast.Call) -> Any:
        if isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            at = node.func.value
            assert isinstance(at, ast.Subscript) and isinstance(at.value, ast.Attribute)
            given = [self.visit(at.value.value), self.visit(at.slice)]
            return ast.Call(ast.Name("read", ast.Load()), given, node.keywords)
        if isinstance(node.func, ast.Name) and node.func.id == "concatenate":
            (given,) = node.args
            assert isinstance(given, ast.List)
            given.elts = [self.visit(e) for e in given.elts]
            return node
        return self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        if any(isinstance(n, ast.Slice) for n in ast.walk(node.slice)):
            return self.generic_visit(node)
        return ast.Call(ast.Name("item", ast.Load()), [self.visit(node.value), self.visit(node.slice)], [])

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        """Comparisons count as 0 and 1."""
        found = self.generic_visit(node)
        assert isinstance(found, ast.BinOp)
        if isinstance(found.op, ast.Add | ast.Sub | ast.Mult):
            found.left, found.right = (
                ast.Call(ast.Name("number", ast.Load()), [side], []) for side in (found.left, found.right)
            )
        return found

    def visit_List(self, node: ast.List) -> Any:
        elements = ast.List([self.visit(e) for e in node.elts], node.ctx)
        return ast.Call(ast.Name("array", ast.Load()), [elements], [])


def _ident(name: str, k: int) -> str:
    return name if name.isidentifier() else f"_v{k}_"


def _closed(text: str) -> tuple[str, str]:
    """What stands in the first pair of parentheses, and what follows it."""
    start = text.index("(")
    depth = 0
    for k in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[k], 0)
        if not depth:
            return text[start + 1 : k], text[k + 1 :]
    raise ValueError(text)


def _split(text: str, sign: str) -> list[str]:
    out, depth, last = [], 0, 0
    for k, c in enumerate(text):
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(c, 0)
        if not depth and text.startswith(sign, k):
            out.append(text[last:k])
            last = k + len(sign)
    return [*out, text[last:]]
