"""Printed text → LaTeX: the table of its signs."""

import ast
import re
from collections.abc import Iterable, Mapping

from gibbsite.printing.statements.formula import ATOM, POWER, PRODUCT, SIGN, SUM, Form, Formula, Signs, infix

GREEK = frozenset(
    (
        "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau upsilon "
        "phi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega "
    ).split()
)
_PLAIN = {"\\": "\\backslash ", "^": "\\wedge ", "~": "\\sim "}
_FUNCTIONS = frozenset("exp log sin cos tan sinh cosh tanh max min".split())


def conditional_latex(text: str, names: Iterable[str]) -> str:
    """`p(site | …) ∝ factor · factor`, as printed, in LaTeX; `names` are those of sites and data."""
    return Formula(names, LATEX).conditional(text)


def name_latex(name: str) -> str:
    """Greek letters as such, single letters in italics, words upright; what follows `_` is a subscript."""
    head, *rest = name.split("_", 1)
    if head and rest and rest[0]:
        return f"{name_latex(head)}_{{{name_latex(rest[0])}}}"
    if name in GREEK:
        return f"\\{name}"
    plain = _text(name)
    return plain if len(name) == 1 else f"\\mathrm{{{plain}}}"


def _text(name: str) -> str:
    """A name without what LaTeX would take for a command."""
    return re.sub(r"[\\^~]|[#$%&_{}]", lambda found: _PLAIN.get(found[0], f"\\{found[0]}"), name)


def _upright(name: str) -> str:
    return rf"\mathrm{{{_text(name)}}}"


def _mode(how: Mapping[str, str]) -> str:
    told = [_upright(v.strip("'\"")) if n == "mode" else rf"{_upright(n)} = {v}" for n, v in how.items()]
    return f"^{{{', '.join(told)}}}"


def _number(value: object) -> str:
    if value is ...:
        return r"\ldots"
    if isinstance(value, float) and "e" in repr(value):
        mantissa, power = repr(value).split("e")
        return rf"{mantissa} \times 10^{{{int(power)}}}"
    return rf"\mathrm{{{value}}}" if isinstance(value, bool | str) else repr(value)


LATEX = Signs(
    forms={
        ast.Add: infix("+", SUM),
        ast.Sub: infix("-", SUM),
        ast.BitAnd: infix(r"\wedge", SUM),
        ast.BitOr: infix(r"\vee", SUM),
        ast.BitXor: infix(r"\oplus", SUM),
        ast.Mult: infix(r"\cdot", PRODUCT),
        ast.MatMult: infix(r"\,", PRODUCT),
        ast.Div: Form(r"\frac{{{}}}{{{}}}", (0, 0)),
        ast.FloorDiv: Form(r"\left\lfloor \frac{{{}}}{{{}}} \right\rfloor", (0, 0)),
        ast.Pow: Form("{{{}}}^{{{}}}", (ATOM, 0), POWER),
        ast.USub: Form("-{}", (PRODUCT,), SIGN - 2),
        ast.Not: Form(r"\neg {}", (SIGN,), SIGN),
        ast.Invert: Form(r"\neg {}", (SIGN,), SIGN),
        "if": Form(r"\begin{{cases}} {} & {} \\ {} \end{{cases}}", (0, 0, 0)),
        "sqrt": Form(r"\sqrt{{{}}}", (0,)),
        "abs": Form(r"\left|{}\right|", (0,)),
        "T": Form(r"{{{}}}^{{\top}}", (ATOM,), POWER),
        "sub": Form("{{{}}}_{{{}}}", (ATOM, 0)),
        "factor": Form("{}^{{{}}}", (ATOM, 0)),
        "paren": Form(r"\left({}\right)", (0,)),
        "list": Form(r"\left[{}\right]", (0,)),
    },
    compared={
        ast.Lt: "<",
        ast.LtE: r"\le",
        ast.Gt: ">",
        ast.GtE: r"\ge",
        ast.Eq: "=",
        ast.NotEq: r"\ne",
    },
    name=name_latex,
    keyword=name_latex,
    function=lambda name: f"\\{name}" if name in _FUNCTIONS else _upright(name),
    family=_upright,
    plain=str,
    number=_number,
    mode=_mode,
    product=lambda letters: rf"\prod_{{{letters}}} ",
    given=r" \mid ",
    times=r" \cdot ",
    conditional=Form(r"p\left({}\right) \;\propto\; {}", (0, 0)),
)
