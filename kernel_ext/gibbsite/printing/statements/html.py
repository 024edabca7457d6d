"""Printed text → HTML, as its LaTeX looks: lines wrap around it, and no page needs anything to show it."""

import ast
import unicodedata
from collections.abc import Iterable, Mapping
from html import escape

from gibbsite.printing.statements.formula import (
    ATOM,
    CHOICE,
    COMPARE,
    POWER,
    PRODUCT,
    SIGN,
    SUM,
    Form,
    Formula,
    Signs,
    infix,
)
from gibbsite.printing.statements.latex import GREEK


def conditional_html(text: str, names: Iterable[str]) -> str:
    """`p(site | …) ∝ factor · factor`, as printed, in HTML: `<i>`, `<sub>` and `<sup>` alone, all else
    escaped. `names` are those of sites and data."""
    return Formula(names, HTML).conditional(text)


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


def _mode(how: Mapping[str, str]) -> str:
    told = ", ".join(f"{n} = {v}" for n, v in how.items())
    return f"<sup>{escape(told)}</sup>" if told else ""


def _product(letters: str) -> str:
    return f"∏<sub>{', '.join(map(name_html, letters.split(', ')))}</sub>\u202f"  # no line ends there


HTML = Signs(
    forms={
        ast.Add: infix("+", SUM),
        ast.Sub: infix("−", SUM),
        ast.BitOr: infix("∨", SUM),
        ast.BitXor: infix("⊕", SUM),
        ast.Mult: infix("·", PRODUCT),
        ast.MatMult: infix("\u2009", PRODUCT),
        ast.Div: infix("/", PRODUCT),
        ast.BitAnd: infix("∧", SUM),
        ast.FloorDiv: Form("⌊{} / {}⌋", (PRODUCT, ATOM)),
        ast.Pow: Form("{}<sup>{}</sup>", (ATOM, 0), POWER),
        ast.USub: Form("−{}", (PRODUCT,), SIGN - 2),
        ast.Not: Form("¬{}", (SIGN,), SIGN),
        ast.Invert: Form("¬{}", (SIGN,), SIGN),
        "if": Form("{} if {} else {}", (COMPARE, COMPARE, CHOICE), CHOICE),
        "sqrt": Form("√({})", (0,)),
        "abs": Form("|{}|", (0,)),
        "T": Form("{}<sup>⊤</sup>", (ATOM,), POWER),
        "sub": Form("{}<sub>{}</sub>", (ATOM, 0)),
        "factor": Form("{}<sup>{}</sup>", (ATOM, 0)),
        "paren": Form("({})", (0,)),
        "list": Form("[{}]", (0,)),
    },
    compared={ast.Lt: "&lt;", ast.LtE: "≤", ast.Gt: "&gt;", ast.GtE: "≥", ast.Eq: "=", ast.NotEq: "≠"},
    name=name_html,
    keyword=escape,
    function=escape,
    family=escape,
    plain=escape,
    number=lambda value: "…" if value is ... else escape(str(value)).replace("-", "−"),
    mode=_mode,
    product=_product,
    given=" | ",
    times=" · ",
    conditional=Form("<i>p</i>({}) ∝ {}", (0, 0)),
)
