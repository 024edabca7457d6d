"""Expressions over draws: `mu[1] - mu[0]`, `tau > 5`, `mean(theta)`. Parsed, checked and evaluated without
running any Python: only what stands in the tables here can be said.
"""

import ast
import difflib
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gibbsite.errors import ExpressionError
from gibbsite.sampling.derived.functions import (
    BINARY,
    COMPARE,
    CONSTANTS,
    FUNCTIONS,
    UNARY,
    as_calls,
    as_matrices,
)

MOST_TEXT, MOST_DEPTH, MOST_ELEMENTS = 1000, 100, 100_000
_BARE_LABEL = re.compile(r"(\w+)\[([^\W\d]\w* [\w .]*)\]")
_QUOTED = re.compile(r"`([^`\n]+)`")


@dataclass(frozen=True)
class Shape:
    """What an expression may say of one site: its shape, per axis the labels of its elements, if any, and
    what the `values` 0, 1, … are called, if anything, and whether they have an order."""

    shape: tuple[int, ...]
    labels: Sequence[Sequence[str] | None]
    values: Sequence[str] = ()
    ordered: bool = True


@dataclass(frozen=True)
class Expression:
    """A parsed expression. `sites` are those that it reads; `shape` is that of its value in one draw;
    `called` is what its values 0, 1, … stand for, if anything."""

    text: str
    sites: tuple[str, ...]
    shape: tuple[int, ...]
    tree: Any
    called: tuple[str, ...] = ()
    may_be_absent: ClassVar[bool] = False

    @property
    def indexes(self) -> bool:
        """Whether it names elements by their places or labels."""
        return any(isinstance(node, ast.Subscript) for node in ast.walk(self.tree))

    def of(self, draws: Mapping[str, np.ndarray]) -> np.ndarray:
        """Its value at draws `[chain, draw, …]` by site: `[chain, draw, *shape]`, numbers or truth values."""
        value = self.within(draws)
        return np.broadcast_to(value, (*value.shape[:2], *self.shape))

    def within(self, draws: Mapping[str, np.ndarray], beyond: float = np.nan) -> np.ndarray:
        """The same of draws that may have fewer elements along an axis: of the shape that it has there, with
        `beyond` for those that it names. Raises `ExpressionError` where shapes do not go together then."""
        leading = next((np.shape(draws[n])[:2] for n in self.sites), (0, 0))
        # with the axes of a site first, expressions broadcast as arrays of one draw do
        turned = {n: np.moveaxis(np.asarray(draws[n]), (0, 1), (-2, -1)) for n in self.sites}
        with np.errstate(all="ignore"):
            value = np.asarray(_Evaluate(self.text, self.text, turned, beyond).visit(self.tree))
        full = np.broadcast_to(value, (*np.shape(value)[:-2], *leading))
        return np.moveaxis(full, (-2, -1), (0, 1))


def parse(text: str, sites: Mapping[str, Shape]) -> Expression:
    """The expression `text` over `sites`. A name that is no identifier stands in backquotes: `` `arm/mu` ``;
    but `b[0]`, where nothing is called `b`, may stand as it is.

    Raises `ExpressionError`, which shows the place, for what does not parse, names that do not exist, indices
    that do not fit, and everything that is no arithmetic.
    """
    text = " ".join(text.split())
    if not text:
        raise ExpressionError("an expression is needed, such as mu[1] - mu[0]", "")
    if len(text) > MOST_TEXT:
        raise ExpressionError(f"the expression is longer than {MOST_TEXT} characters", text[:60] + "…")
    plain, names = _unquoted(text, sites)
    try:
        tree = ast.parse(plain, mode="eval").body
    except SyntaxError as problem:
        at = min((problem.offset or len(text)) - 1, len(text) - 1)
        label = _BARE_LABEL.search(text)
        hint = f"; labels stand in quotes: {label[1]}['{label[2]}']" if label else ""
        raise ExpressionError(f"this is no expression: {problem.msg}{hint}", text, at) from None
    except (ValueError, MemoryError, RecursionError, OverflowError):
        what = "this is no expression: it is nested too deeply, or has odd characters"
        raise ExpressionError(what, text) from None
    checked = _Check(text, plain, sites, names)
    checked.depth(tree)
    tree = as_calls(tree, {names.get(n, n) for n in sites})
    called = tuple(map(str, checked.called(tree)))
    called = () if numbers_of(called) else called
    tree = checked.numbered(tree)
    if not checked.read:
        what = "the expression reads no site, so it says nothing of the draws"
        raise ExpressionError(what, text, 0, len(text))
    shape = checked.shape_of(tree)
    size = int(np.prod(shape, dtype=np.int64))
    if not 0 < size <= MOST_ELEMENTS:
        many = "no elements" if size == 0 else f"more than {MOST_ELEMENTS} elements"
        raise ExpressionError(f"its value has shape {shape}: {many}", text, 0, len(text))
    return Expression(text, tuple(sorted(checked.read)), shape, tree, called)


def _unquoted(text: str, sites: Collection[str]) -> tuple[str, dict[str, str]]:
    """The text with names in backquotes, and indexed ones, as identifiers of the same length, so that places
    stay right."""
    names: dict[str, str] = {}

    def stand_in(match: re.Match[str]) -> str:
        name = "_" * (len(match[0]) - len(str(len(names)))) + str(len(names))
        names[name] = match[1]
        return name

    indexed = [re.escape(n) for n in sites if "[" in n and n.partition("[")[0] not in sites]
    plain = _QUOTED.sub(stand_in, text)
    return (re.sub(rf"(?<!\w)({'|'.join(indexed)})", stand_in, plain) if indexed else plain), names


class _Visitor:
    """Calls the method named after a node's kind; there is none for what may not be said."""

    def __init__(self, text: str, plain: str):
        self.text, self.plain = text, plain

    def visit(self, node: ast.AST) -> Any:
        return getattr(self, type(node).__name__, self.refused)(node)

    def refused(self, node: Any) -> Any:
        known = ", ".join(FUNCTIONS)
        self.fail(f"only arithmetic, comparisons, indices and functions may be used here ({known})", node)

    def fail(self, message: str, node: Any) -> Any:
        # places are counted in bytes
        start = len(self.plain.encode()[: getattr(node, "col_offset", 0)].decode(errors="ignore"))
        end = getattr(node, "end_col_offset", None)
        stop = start + 1 if end is None else len(self.plain.encode()[:end].decode(errors="ignore"))
        raise ExpressionError(message, self.text, start, stop - start)


class _Numbered(ast.AST):
    """`codes` of what is called by the numbers `own`, as these numbers."""

    _fields = ("codes",)

    def __init__(self, codes: Any, own: Sequence[float]):
        super().__init__()
        self.codes, self.own = codes, own
        ast.copy_location(self, codes)


class _Check(_Visitor):
    """Names, labels and operators against the tables; indices by label become numbers."""

    def __init__(self, text: str, plain: str, sites: Mapping[str, Shape], names: Mapping[str, str]):
        super().__init__(text, plain)
        self.sites, self.names, self.read = sites, names, set()

    def Attribute(self, node: ast.Attribute) -> None:
        self.fail(f"attributes cannot be read here ({', '.join(FUNCTIONS)} may be called)", node)

    def depth(self, node: ast.AST, at: int = 0) -> None:
        """Refuse what is nested deeper than any formula: without recursion beyond that depth."""
        if at > MOST_DEPTH:
            self.fail(f"the expression is nested more than {MOST_DEPTH} deep", node)
        for child in ast.iter_child_nodes(node):
            self.depth(child, at + 1)

    def Constant(self, node: ast.Constant) -> ast.AST:
        if isinstance(node.value, bool) or not isinstance(node.value, int | float):
            self.fail(f"only numbers may be written out, not {str(node.value)[:20]!r}", node)
        return node

    def Name(self, node: ast.Name) -> ast.AST:
        name = self.names.get(node.id, node.id)
        if name in self.sites:
            self.read.add(name)
            return ast.copy_location(ast.Name(name), node)
        if name in CONSTANTS:
            return node
        if name in FUNCTIONS:
            self.fail(f"{name} is a function: {name}(…)", node)
        self.unknown(name, "site", [*self.sites, *FUNCTIONS], node)
        return node

    def unknown(self, name: str, kind: str, known: Sequence[str], node: ast.AST) -> None:
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
        plain = [n for n in known if (len(n) < 30 and kind == "function") or n not in FUNCTIONS]
        hint = f"; did you mean {near[0]}?" if near else f" (there are {', '.join(plain[:40])})"
        self.fail(f"no {kind} is called {name!r}{hint}", node)

    def UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        if type(node.op) not in UNARY:
            self.refused(node)
        node.operand = self.number_of(node.operand)
        return node

    def BinOp(self, node: ast.BinOp) -> ast.AST:
        if type(node.op) not in BINARY and not isinstance(node.op, ast.MatMult):
            self.refused(node)
        node.left, node.right = self.number_of(node.left), self.number_of(node.right)
        return node

    def numbered(self, node: Any) -> Any:
        """A part that stands for what it is called, where that is by numbers."""
        own = numbers_of(called) if (called := self.called(node)) else None
        return self.visit(node) if own is None else _Numbered(self.visit(node), own)

    def number_of(self, node: Any) -> Any:
        """A part of arithmetic: of categories by name there is none, but of two, which are 0 and 1."""
        called = self.called(node)
        if len(called) > 2 and not all(map(_is_number, called)):
            name = ast.unparse(node.value if isinstance(node, ast.Subscript) else node)
            name, some = self.names.get(name, name), ", ".join(map(str, called[:4]))
            self.fail(
                f"{name} is one of {some}{', …' * (len(called) > 4)}, which are no numbers; compare it, as "
                f"in mean({name} == {str(called[0])!r})",
                node,
            )
        return self.numbered(node)

    def BoolOp(self, node: ast.BoolOp) -> ast.AST:
        node.values = [self.visit(v) for v in node.values]
        return node

    def Compare(self, node: ast.Compare) -> ast.AST:
        for op in node.ops:
            if type(op) not in COMPARE:
                self.refused(node)
        sides = [node.left, *node.comparators]
        called = next((c for c in map(self.called, sides) if c), ())
        loose = next(
            (s for s in map(self.site_of, sides) if s and s in self.sites and not self.sites[s].ordered), ""
        )
        if loose and any(not isinstance(op, ast.Eq | ast.NotEq) for op in node.ops):
            some = ", ".join(map(str, called[:4])) + ", …" * (len(called) > 4)
            self.fail(
                f"{loose} is one of {some}, to which nobody gave an order: compare it by == and !=, or give "
                "the column one, `pd.Categorical(…, ordered=True)`",
                node,
            )
        node.left, *node.comparators = [self.compared(side, called) for side in sides]
        return node

    def called(self, node: Any) -> Sequence[str]:
        """What the values are called of the site that a side of a comparison is, or an element of; the
        elements of that whose largest or smallest it says."""
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("argmax", "argmin") and node.args:
            return self.elements_called(node)
        name = self.site_of(node)
        return self.sites[name].values if name is not None and name in self.sites else ()

    def elements_called(self, node: ast.Call) -> Sequence[str]:
        """What the elements are called among which a place is asked for. Refused where a place may be taken
        for an element's own number."""
        of, function = node.args[0], node.func.id  # type: ignore[attr-defined]
        at = next((self.number(k.value) for k in node.keywords if k.arg == "axis"), None)
        name = self.site_of(of) if isinstance(of, ast.Name) else None
        if name in self.sites:
            labels = self.sites[name].labels  # type: ignore[index]
            axis = 0 if at is None and len(labels) == 1 else at
            if axis is not None and -len(labels) <= axis < len(labels):
                places = self.sites[name].shape[axis]  # type: ignore[index]
                return labels[axis] or tuple(map(str, range(places)))
        within = {self.site_of(part) for part in ast.walk(of) if isinstance(part, ast.Name)}
        for one in sorted(n for n in within if n in self.sites):  # type: ignore[type-var]
            for called in self.sites[one].labels:  # type: ignore[index]
                if called is not None and numbers_of(called) is not None:
                    asked = f"{function}({one})"
                    self.fail(f"which of {', '.join(called[:3])}, …? Ask it of a site: {asked}", node)
        return ()

    def site_of(self, node: Any) -> str | None:
        """The site that a side of a comparison is, or an element of."""
        inner = node.value if isinstance(node, ast.Subscript) else node
        return self.names.get(inner.id, inner.id) if isinstance(inner, ast.Name) else None

    def compared(self, node: Any, called: Sequence[str]) -> Any:
        """A side of a comparison; what is no site is the name of a value there: `kind == "rural"`."""
        label = getattr(node, "id", None) or getattr(node, "value", None)
        label = self.names.get(label, label) if isinstance(label, str) else None
        if not called or label is None or label in self.sites:
            return self.numbered(node)
        if label not in called:
            self.unknown(label, "value", list(called), node)
        at = list(called).index(label)
        return ast.copy_location(ast.Constant(at if (own := numbers_of(called)) is None else own[at]), node)

    def IfExp(self, node: ast.IfExp) -> ast.AST:
        node.test = self.visit(node.test)
        node.body, node.orelse = self.number_of(node.body), self.number_of(node.orelse)
        return node

    def Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Attribute):
            self.Attribute(node.func)
        if not isinstance(node.func, ast.Name):
            self.refused(node)
        name = node.func.id  # type: ignore[attr-defined]
        if name not in FUNCTIONS:
            self.unknown(name, "function", list(FUNCTIONS), node.func)
        axis = [k.value for k in node.keywords if k.arg == "axis" and FUNCTIONS[name].along]
        if len(axis) != len(node.keywords) or any(isinstance(a, ast.Starred) for a in node.args):
            also = " and an axis" if FUNCTIONS[name].along else ""
            self.fail(
                f"{name} takes values{also or ' alone'}, as in {name}(theta{', axis=0' * bool(also)})", node
            )
        for k, at in zip(node.keywords, axis, strict=True):
            k.value = ast.copy_location(ast.Constant(self.number(at)), at)
        least, most = FUNCTIONS[name].takes
        if not least <= len(node.args) <= most:
            many = f"{least}" if least == most else f"{least} or more"
            self.fail(f"{name} takes {many} value{'s' * (most != 1)}, not {len(node.args)}", node)
        node.args = [self.number_of(a) for a in node.args]
        return node

    def Subscript(self, node: ast.Subscript) -> ast.AST:
        name = ast.unparse(node.value)
        node.value = self.visit(node.value)  # type: ignore[assignment]
        site = self.sites.get(node.value.id) if isinstance(node.value, ast.Name) else None
        if site is None:
            shape = self.shape_of(node.value)
            site = Shape(shape, [None] * len(shape))
        else:
            name = node.value.id  # type: ignore[attr-defined]
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        shape = site.shape
        if len(parts) > len(shape):
            what = f"has shape {shape}: {len(parts)} indices are too many" if shape else "has no elements"
            self.fail(f"{name} {what}", node)
        index = [self.index(part, a, site, name) for a, part in enumerate(parts)]
        node.slice = ast.Constant(tuple(index))  # type: ignore[arg-type]
        return node

    def shape_of(self, node: ast.AST) -> tuple[int, ...]:
        """Of the value in one draw of a part that is checked."""
        one = {n: np.zeros((*self.sites[n].shape, 1, 1), np.float32) for n in self.read}
        with np.errstate(all="ignore"):
            return np.shape(_Evaluate(self.text, self.plain, one).visit(node))[:-2]

    def index(self, node: ast.AST, axis: int, site: Any, name: str) -> int | slice:
        """A number, a label (`"Choate"`, or `Choate`), or a slice of numbers."""
        size, labels = site.shape[axis], site.labels[axis] if axis < len(site.labels) else None
        if isinstance(node, ast.Slice):
            ends = [None if v is None else self.number(v) for v in (node.lower, node.upper, node.step)]
            if ends[2] == 0:
                self.fail("a slice cannot have step 0", node)
            return slice(*ends)
        label = node.id if isinstance(node, ast.Name) else getattr(node, "value", None)
        if isinstance(label, str):
            label = self.names.get(label, label)
            if labels is None:
                self.fail(f"axis {axis} of {name} has no labels; its indices are 0 to {size - 1}", node)
            known: list[str] = list(labels or ())
            if label not in known:
                self.unknown(label, f"element of {name}", known, node)
            return known.index(label)
        at = self.number(node)
        if labels is not None and (own := numbers_of(labels)) is not None:
            if at in own:  # as summaries and tables call it
                return own.index(at)
            if at >= 0:
                self.unknown(str(at), f"element of {name}", list(labels), node)
        if not -size <= at < size:
            self.fail(f"{name} has {size} elements along axis {axis}; its indices are 0 to {size - 1}", node)
        return at

    def number(self, node: ast.AST) -> int:
        sign = 1
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            sign, node = -1, node.operand
        value = getattr(node, "value", None)
        if not isinstance(node, ast.Constant) or type(value) is not int:
            self.fail("an index is a whole number, a label in quotes, or a slice", node)
        return sign * value  # type: ignore[operator, return-value]


def numbers_of(labels: Sequence[str]) -> list[float] | None:
    """What elements or values are called, where that is by numbers other than their places."""
    if not all(map(_is_number, labels)):
        return None
    own = [float(t) for t in labels]
    return own if own != list(range(len(own))) else None


def at_codes(codes: Any, own: Sequence[float]) -> np.ndarray:
    """The numbers that codes are called by; NaN for NaN."""
    return np.interp(codes, np.arange(len(own)), own)


def _is_number(label: Any) -> bool:
    try:
        float(label)
    except ValueError:
        return False
    return True


class _Evaluate(_Visitor):
    """The value of a checked tree, in floating point: no number grows beyond 64 bits."""

    def __init__(self, text: str, plain: str, values: Mapping[str, np.ndarray], beyond: float = np.nan):
        super().__init__(text, plain)
        self.values, self.beyond = values, beyond

    def within(self, value: Any, node: ast.AST) -> Any:
        """Refuse intermediate values that are far larger than what is shown of them."""
        if int(np.prod(np.shape(value)[:-2], dtype=np.int64)) > 10 * MOST_ELEMENTS:
            self.fail("this part has too many elements", node)
        return value

    def Constant(self, node: ast.Constant) -> Any:
        try:
            return np.float64(node.value)  # type: ignore[arg-type]
        except OverflowError:
            return np.float64(np.inf)

    def Name(self, node: ast.Name) -> Any:
        return self.values[node.id] if node.id in self.values else np.float64(CONSTANTS[node.id])

    def _Numbered(self, node: _Numbered) -> Any:
        return at_codes(self.visit(node.codes), node.own)

    def Subscript(self, node: Any) -> Any:
        value, index = self.visit(node.value), node.slice.value
        if all(-n <= i < n for i, n in zip(index, value.shape, strict=False) if isinstance(i, int)):
            return value[index]
        # checked against the largest structure of a run: an element that this one lacks
        sizes = [
            len(range(*i.indices(n)))
            for i, n in zip(index, value.shape, strict=False)
            if not isinstance(i, int)
        ]
        return np.full((*sizes, *value.shape[len(index) :]), self.beyond)

    def UnaryOp(self, node: ast.UnaryOp) -> Any:
        return UNARY[type(node.op)](self.visit(node.operand))

    def BinOp(self, node: ast.BinOp) -> Any:
        left, right = self.visit(node.left), self.visit(node.right)
        if isinstance(node.op, ast.MatMult):
            try:
                return self.within(as_matrices(left, right), node)
            except ValueError:
                shapes = " and ".join(str(np.shape(v)[:-2]) for v in (left, right))
                self.fail(f"shapes {shapes} have no matrix product", node)
        return self.within(self.joined(BINARY[type(node.op)], node, left, right), node)

    def BoolOp(self, node: ast.BoolOp) -> Any:
        join = np.logical_and if isinstance(node.op, ast.And) else np.logical_or
        found = self.visit(node.values[0])
        for value in node.values[1:]:
            found = self.joined(join, node, found, self.visit(value))
        return found

    def Compare(self, node: ast.Compare) -> Any:
        left, found = self.visit(node.left), None
        for op, other in zip(node.ops, node.comparators, strict=True):
            right = self.visit(other)
            holds = self.joined(COMPARE[type(op)], node, left, right)
            found = holds if found is None else np.logical_and(found, holds)
            left = right
        return found

    def IfExp(self, node: ast.IfExp) -> Any:
        return self.joined(np.where, node, *map(self.visit, (node.test, node.body, node.orelse)))

    def Call(self, node: ast.Call) -> Any:
        function = FUNCTIONS[node.func.id]  # type: ignore[attr-defined]
        values = [self.visit(a) for a in node.args]
        if not node.keywords:
            return self.within(self.joined(function.of, node, *values), node)
        axis, axes = node.keywords[0].value.value, max(0, np.ndim(values[0]) - 2)  # type: ignore[attr-defined]
        if len(values) != 1 or not -axes <= axis < axes:
            self.fail(f"there is no axis {axis} of shape {np.shape(values[0])[:-2]}", node)
        return self.within(function.of(values[0], axis=axis % axes), node)

    def joined(self, fn: Any, node: ast.AST, *values: Any) -> Any:
        shapes = [np.shape(v)[:-2] for v in values]
        try:
            np.broadcast_shapes(*shapes)
        except ValueError:
            self.fail(f"shapes {' and '.join(map(str, shapes))} do not go together", node)
        return fn(*values)
