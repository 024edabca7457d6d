"""Printed text → LaTeX: the one text that is printed, read as an expression and set in mathematical signs."""

import ast
import keyword
import re
from collections.abc import Iterable

GREEK = frozenset(
    (
        "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau upsilon "
        "phi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega "
    ).split()
)
ATOM, POWER, SIGN, PRODUCT, SUM, COMPARE, CHOICE = range(6, -1, -1)
_INFIX: dict[type, tuple[str, int]] = {
    ast.Add: ("+", SUM),
    ast.Sub: ("-", SUM),
    ast.BitAnd: (r"\wedge", SUM),
    ast.BitOr: (r"\vee", SUM),
    ast.BitXor: (r"\oplus", SUM),
    ast.Mult: (r"\cdot", PRODUCT),
    ast.MatMult: (r"\,", PRODUCT),
}
_SIGNS: dict[type, str] = {
    ast.Lt: "<",
    ast.LtE: r"\le",
    ast.Gt: ">",
    ast.GtE: r"\ge",
    ast.Eq: "=",
    ast.NotEq: r"\ne",
}
_PLAIN = {"\\": "\\backslash ", "^": "\\wedge ", "~": "\\sim "}
_FUNCTIONS = frozenset("exp log sin cos tan sinh cosh tanh max min".split())


def name_latex(name: str) -> str:
    """Greek letters as such, single letters in italics, words upright; what follows `_` is a subscript."""
    head, *rest = name.split("_", 1)
    if head and rest and rest[0]:
        return f"{name_latex(head)}_{{{name_latex(rest[0])}}}"
    if name in GREEK:
        return f"\\{name}"
    plain = name_text(name)
    return plain if len(name) == 1 else f"\\mathrm{{{plain}}}"


def conditional_latex(text: str, names: Iterable[str]) -> str:
    """`p(site | …) ∝ factor · factor`, as printed, in LaTeX; `names` are those of sites and data."""
    write = Latex(names)
    left, right = write.marked(text).split(" ∝ ", 1)
    inside, _ = closed(left)
    value, _, given = inside.partition(" | ")
    head = write(value) + (r" \mid " + ", ".join(map(write, split(given, ", "))) if given else "")
    factors = []
    for part in split(right, " · "):
        sign = ""
        if part.startswith("∏["):
            letters, part = part[2:].split("] ", 1)
            sign = rf"\prod_{{{letters}}} "
        factors.append(sign + factor_latex(part, write))
    return rf"p\left({head}\right) \;\propto\; " + r" \cdot ".join(factors)


def factor_latex(text: str, write: "Latex") -> str:
    """`Normal(x[n] | mu[z[n]], 1)**w`, or `exp(name)`."""
    text = write.marked(text)
    family = text[: text.index("(")]
    inside, rest = closed(text)
    while rest.startswith("("):  # `Affine(Normal)(x | 0, 1)`
        family += f"({inside})"
        inside, rest = closed(rest)
    value, *arguments = split(inside, " | ", 1)
    shown = write(value) + "".join(r" \mid " + write.arguments(a) for a in arguments)
    power = f"^{{{write(rest[2:])}}}" if rest else ""
    return rf"\mathrm{{{name_text(family)}}}\left({shown}\right){power}"


class Latex:
    """Writes printed expressions in LaTeX; `names` that are no identifiers are taken as they are."""

    def __init__(self, names: Iterable[str]):
        strange = [n for n in names if keyword.iskeyword(n) or not (n.isidentifier() or _element(n))]
        self._strange = sorted(strange, key=len, reverse=True)

    def __call__(self, text: str) -> str:
        """An expression."""
        return self._written(ast.parse(self.marked(text), mode="eval").body)[0]

    def arguments(self, text: str) -> str:
        """The arguments of a distribution."""
        call = ast.parse(f"f({self.marked(text)})", mode="eval").body
        assert isinstance(call, ast.Call)
        return self._listed(call)

    def marked(self, text: str) -> str:
        """The text with identifiers in place of names that are none, so that it can be taken apart."""
        text = text.replace("…", "...")
        for k, name in enumerate(self._strange):
            text = re.sub(rf"(?<![\w.]){re.escape(name)}(?!\w)", f"strange_{k}_", text)
        return text

    def _name(self, name: str) -> str:
        return name_latex(self._own(name))

    def _own(self, name: str) -> str:
        """A name as it is in the model."""
        found = re.fullmatch(r"strange_(\d+)_", name)
        return self._strange[int(found[1])] if found else name

    def _listed(self, call: ast.Call) -> str:
        named = [f"{name_latex(str(k.arg))} = {self._written(k.value)[0]}" for k in call.keywords]
        return ", ".join([*(self._written(a)[0] for a in call.args), *named])

    def _in(self, node: ast.expr, level: int) -> str:
        """Inside something that binds as `level`."""
        text, own = self._written(node)
        return text if own >= level else rf"\left({text}\right)"

    def _written(self, node: ast.expr) -> tuple[str, int]:
        match node:
            case ast.Name(name):
                return self._name(name), ATOM
            case ast.Constant(value):
                return _number(value), ATOM
            case ast.BinOp(left, ast.Div(), right):
                return rf"\frac{{{self._in(left, 0)}}}{{{self._in(right, 0)}}}", ATOM
            case ast.BinOp(left, ast.FloorDiv(), right):
                inner = rf"\frac{{{self._in(left, 0)}}}{{{self._in(right, 0)}}}"
                return rf"\left\lfloor {inner} \right\rfloor", ATOM
            case ast.BinOp(left, ast.Pow(), right):
                return f"{{{self._in(left, ATOM)}}}^{{{self._in(right, 0)}}}", POWER
            case ast.BinOp(left, op, right):
                sign, level = _INFIX[type(op)]
                return f"{self._in(left, level)} {sign} {self._in(right, level + 1)}", level
            case ast.UnaryOp(ast.USub(), operand):
                return "-" + self._in(operand, PRODUCT), SIGN - 2
            case ast.UnaryOp(_, operand):
                return r"\neg " + self._in(operand, SIGN), SIGN
            case ast.Compare(left, ops, others):
                pairs = zip(ops, others, strict=True)
                rest = "".join(f" {_SIGNS[type(o)]} {self._in(x, SUM)}" for o, x in pairs)
                return self._in(left, SUM) + rest, COMPARE
            case ast.IfExp(test, then, other) | ast.Call(ast.Name("where"), [test, then, other]):
                rows = rf"{self._in(then, 0)} & {self._in(test, 0)} \\ {self._in(other, 0)}"
                return rf"\begin{{cases}} {rows} \end{{cases}}", ATOM
            case ast.Call(ast.Attribute(ast.Subscript(ast.Attribute(base, "at"), index), "get"), _, how):
                told = ", ".join(_how(k.arg, k.value) for k in how)
                return rf"{{{self._in(base, ATOM)}}}_{{{self._index(index)}}}^{{{told}}}", ATOM
            case ast.Call(ast.Name("sqrt"), [inner]):
                return rf"\sqrt{{{self._in(inner, 0)}}}", ATOM
            case ast.Call(ast.Name("abs"), [inner]):
                return rf"\left|{self._in(inner, 0)}\right|", ATOM
            case ast.Call(ast.Name(name)):
                shown = f"\\{name}" if name in _FUNCTIONS else rf"\mathrm{{{name_text(name)}}}"
                return rf"{shown}\left({self._listed(node)}\right)", ATOM
            case ast.Attribute(base, "T"):
                return rf"{{{self._in(base, ATOM)}}}^{{\top}}", POWER
            case ast.Subscript(base, index):
                return f"{{{self._in(base, ATOM)}}}_{{{self._index(index)}}}", ATOM
            case ast.List(elements) | ast.Tuple(elements):
                return rf"\left[{', '.join(self._in(e, 0) for e in elements)}\right]", ATOM
        raise ValueError(f"no LaTeX for {ast.unparse(node)}")

    def _index(self, node: ast.expr) -> str:
        parts = node.elts if isinstance(node, ast.Tuple) else [node]
        return ", ".join(ast.unparse(p) if isinstance(p, ast.Slice) else self._in(p, 0) for p in parts)


def name_text(name: str) -> str:
    """A name without what LaTeX would take for a command."""
    return re.sub(r"[\\^~]|[#$%&_{}]", lambda found: _PLAIN.get(found[0], f"\\{found[0]}"), name)


def _how(name: str | None, value: ast.expr) -> str:
    word = value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else None
    if name == "mode" and word is not None:
        return rf"\mathrm{{{word}}}"
    return rf"\mathrm{{{name_text(str(name))}}} = {ast.unparse(value)}"


def _number(value: object) -> str:
    if value is ...:
        return r"\ldots"
    if isinstance(value, float) and "e" in repr(value):
        mantissa, power = repr(value).split("e")
        return rf"{mantissa} \times 10^{{{int(power)}}}"
    return rf"\mathrm{{{value}}}" if isinstance(value, bool | str) else repr(value)


def _element(name: str) -> bool:
    """Whether a site's name is that of an element: `s[0]`."""
    return re.fullmatch(r"[^\W\d]\w*(\[\d+\])+", name) is not None


def closed(text: str) -> tuple[str, str]:
    """What stands in the first pair of parentheses, and what follows it."""
    start, depth = text.index("("), 0
    for k in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[k], 0)
        if not depth:
            return text[start + 1 : k], text[k + 1 :]
    raise ValueError(text)


def split(text: str, sign: str, times: int = -1) -> list[str]:
    """The parts between signs that stand in no bracket."""
    out, depth, last = [], 0, 0
    for k, c in enumerate(text):
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(c, 0)
        if not depth and text.startswith(sign, k) and times:
            out.append(text[last:k])
            last, times = k + len(sign), times - 1
    return [*out, text[last:]]
