"""Printed text → HTML, as its LaTeX looks: lines wrap around it, and no page needs anything to show it."""

import ast
import unicodedata
from collections.abc import Iterable
from html import escape

from gibbsite.density.notation.latex import (
    ATOM,
    CHOICE,
    COMPARE,
    GREEK,
    POWER,
    PRODUCT,
    SIGN,
    SUM,
    Latex,
    closed,
    split,
)

_INFIX: dict[type, tuple[str, int]] = {
    ast.Add: ("+", SUM),
    ast.Sub: ("−", SUM),
    ast.BitOr: ("∨", SUM),
    ast.BitXor: ("⊕", SUM),
    ast.Mult: ("·", PRODUCT),
    ast.MatMult: ("\u2009", PRODUCT),
    ast.Div: ("/", PRODUCT),
    ast.BitAnd: ("∧", SUM),
}
_SIGNS: dict[type, str] = {
    ast.Lt: "&lt;",
    ast.LtE: "≤",
    ast.Gt: "&gt;",
    ast.GtE: "≥",
    ast.Eq: "=",
    ast.NotEq: "≠",
}


def conditional_html(text: str, names: Iterable[str]) -> str:
    """`p(site | …) ∝ factor · factor`, as printed, in HTML: `<i>`, `<sub>` and `<sup>` alone, all else
    escaped. `names` are those of sites and data."""
    write = Html(names)
    left, right = write.marked(text).split(" ∝ ", 1)
    inside, _ = closed(left)
    value, _, given = inside.partition(" | ")
    head = write(value) + (" | " + ", ".join(map(write, split(given, ", "))) if given else "")
    return f"<i>p</i>({head}) ∝ " + " · ".join(_factor(part, write) for part in split(right, " · "))


def name_html(name: str) -> str:
    """Greek letters as such, single letters in italics, words upright; what follows `_` is a subscript."""
    head, *rest = name.split("_", 1)
    if head and rest and rest[0]:
        return f"{name_html(head)}<sub>{name_html(rest[0])}</sub>"
    if name in GREEK:
        size = "CAPITAL" if name[0].isupper() else "SMALL"
        spelt = "LAMDA" if name.lower() == "lambda" else name.upper()
        name = unicodedata.lookup(f"GREEK {size} LETTER {spelt}")
    return f"<i>{escape(name)}</i>" if len(name) == 1 and name.isalpha() else escape(name)


def _factor(part: str, write: "Html") -> str:
    sign = ""
    if part.startswith("∏["):
        letters, part = part[2:].split("] ", 1)
        sign = f"∏<sub>{', '.join(map(name_html, letters.split(', ')))}</sub>\u2009"
    part = write.marked(part)
    family = part[: part.index("(")]
    inside, rest = closed(part)
    while rest.startswith("("):  # `Affine(Normal)(x | 0, 1)`
        family += f"({inside})"
        inside, rest = closed(rest)
    value, *arguments = split(inside, " | ", 1)
    shown = write(value) + "".join(" | " + write.arguments(a) for a in arguments)
    power = f"<sup>{write(rest[2:])}</sup>" if rest else ""
    return f"{sign}{escape(family)}({shown}){power}"


class Html(Latex):
    """Writes printed expressions in HTML."""

    def _name(self, name: str) -> str:
        return name_html(self._own(name))

    def _listed(self, call: ast.Call) -> str:
        named = [f"{escape(str(k.arg))} = {self._written(k.value)[0]}" for k in call.keywords]
        return ", ".join([*(self._written(a)[0] for a in call.args), *named])

    def _in(self, node: ast.expr, level: int) -> str:
        text, own = self._written(node)
        return text if own >= level else f"({text})"

    def _index(self, node: ast.expr) -> str:
        parts = node.elts if isinstance(node, ast.Tuple) else [node]
        return ", ".join(
            escape(ast.unparse(p)) if isinstance(p, ast.Slice) else self._in(p, 0) for p in parts
        )

    def _written(self, node: ast.expr) -> tuple[str, int]:
        match node:
            case ast.Name(name):
                return self._name(name), ATOM
            case ast.Constant(value):
                return "…" if value is ... else escape(str(value)).replace("-", "−"), ATOM
            case ast.BinOp(left, ast.FloorDiv(), right):
                return f"⌊{self._in(left, PRODUCT)} / {self._in(right, ATOM)}⌋", ATOM
            case ast.BinOp(left, ast.Pow(), right):
                return f"{self._in(left, ATOM)}<sup>{self._in(right, 0)}</sup>", POWER
            case ast.BinOp(left, op, right):
                sign, level = _INFIX[type(op)]
                return f"{self._in(left, level)} {sign} {self._in(right, level + 1)}", level
            case ast.UnaryOp(ast.USub(), operand):
                return "−" + self._in(operand, PRODUCT), SIGN - 2
            case ast.UnaryOp(_, operand):
                return "¬" + self._in(operand, SIGN), SIGN
            case ast.Compare(left, ops, others):
                pairs = zip(ops, others, strict=True)
                rest = "".join(f" {_SIGNS[type(o)]} {self._in(x, SUM)}" for o, x in pairs)
                return self._in(left, SUM) + rest, COMPARE
            case ast.IfExp(test, then, other) | ast.Call(ast.Name("where"), [test, then, other]):
                tested = f"{self._in(then, COMPARE)} if {self._in(test, COMPARE)}"
                return f"{tested} else {self._in(other, CHOICE)}", CHOICE
            case ast.Call(ast.Attribute(ast.Subscript(ast.Attribute(base, "at"), index), "get"), _, how):
                told = ", ".join(f"{k.arg} = {ast.unparse(k.value)}" for k in how)
                mode = f"<sup>{escape(told)}</sup>" if told else ""
                return f"{self._in(base, ATOM)}<sub>{self._index(index)}</sub>{mode}", ATOM
            case ast.Call(ast.Name("sqrt"), [inner]):
                return f"√({self._in(inner, 0)})", ATOM
            case ast.Call(ast.Name("abs"), [inner]):
                return f"|{self._in(inner, 0)}|", ATOM
            case ast.Call(ast.Name(name)):
                return f"{escape(name)}({self._listed(node)})", ATOM
            case ast.Attribute(base, "T"):
                return f"{self._in(base, ATOM)}<sup>⊤</sup>", POWER
            case ast.Subscript(base, index):
                return f"{self._in(base, ATOM)}<sub>{self._index(index)}</sub>", ATOM
            case ast.List(elements) | ast.Tuple(elements):
                return f"[{', '.join(self._in(e, 0) for e in elements)}]", ATOM
        raise ValueError(f"no HTML for {ast.unparse(node)}")
