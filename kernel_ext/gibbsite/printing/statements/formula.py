"""Printed text, read as an expression → mathematical signs: one visitor, whatever the signs are."""

import ast
import keyword
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from html import escape
from typing import NamedTuple

ATOM, POWER, SIGN, PRODUCT, SUM, COMPARE, CHOICE = range(6, -1, -1)


class Form(NamedTuple):
    """How an operation is written: `text` with a place for each operand, as tightly as each must bind there
    (`inner`), and how tightly the whole binds."""

    text: str
    inner: tuple[int, ...]
    level: int = ATOM


def infix(sign: str, level: int) -> Form:
    """A left-associative operator."""
    return Form(f"{{}} {sign} {{}}", (level, level + 1), level)


def _infixes(*signs: str) -> dict[type | str, Form]:
    """Of sum, difference, the logical ones, product, and product of matrices."""
    sums = ast.Add, ast.Sub, ast.BitAnd, ast.BitOr, ast.BitXor
    levels = {**dict.fromkeys(sums, SUM), ast.Mult: PRODUCT, ast.MatMult: PRODUCT}
    return {kind: infix(sign, level) for (kind, level), sign in zip(levels.items(), signs, strict=True)}


@dataclass(frozen=True)
class Signs:
    """What formulas are written in: `forms` by type of operator or by name ("if", "sqrt", "abs", "T", "sub",
    "sup", "paren", "list"), what stands for comparisons, and how names and the rest are spelt."""

    forms: Mapping[type | str, Form]
    compared: Mapping[type, str]
    name: Callable[[str], str]
    keyword: Callable[[str], str]
    function: Callable[[str], str]
    family: Callable[[str], str]
    plain: Callable[[str], str]
    number: Callable[[object], str]
    mode: Callable[[Mapping[str, str]], str]  # of a gather, what it does out of range
    product: Callable[[str], str]  # over these letters
    given: str
    times: str
    conditional: Form

    def set(self, form: type | str, *parts: str) -> str:
        """The parts in their places."""
        return self.forms[form].text.format(*parts)


class Formula:
    """Writes printed expressions in `signs`; `names` that are no identifiers are taken as they are."""

    def __init__(self, names: Iterable[str], signs: Signs):
        strange = [n for n in names if keyword.iskeyword(n) or not (n.isidentifier() or _element(n))]
        self._strange = sorted(strange, key=len, reverse=True)
        self._signs = signs

    def __call__(self, text: str) -> str:
        """An expression."""
        return self._written(ast.parse(self._marked(text), mode="eval").body)[0]

    def conditional(self, text: str) -> str:
        """`p(site | …) ∝ factor · factor`."""
        s = self._signs
        left, right = self._marked(text).split(" ∝ ", 1)
        inside, _ = closed(left)
        value, _, given = inside.partition(" | ")
        head = self(value) + (s.given + ", ".join(map(self, split(given, ", "))) if given else "")
        return s.conditional.text.format(head, s.times.join(map(self.factor, split(right, " · "))))

    def factor(self, text: str) -> str:
        """`∏[n] Normal(x[n] | mu[z[n]], 1)**w`, or `exp(name)`."""
        s, sign, text = self._signs, "", self._marked(text)
        if text.startswith("∏["):
            letters, text = text[2:].split("] ", 1)
            sign = s.product(letters)
        family = text[: text.index("(")]
        inside, rest = closed(text)
        while rest.startswith("("):  # `Affine(Normal)(x | 0, 1)`
            family += f"({inside})"
            inside, rest = closed(rest)
        value, *arguments = split(inside, " | ", 1)
        shown = s.set("paren", self(value) + "".join(s.given + self._arguments(a) for a in arguments))
        whole = s.family(family) + shown
        return sign + (s.set("factor", whole, self(rest[2:])) if rest else whole)

    def _arguments(self, text: str) -> str:
        """The arguments of a distribution; those not shown may follow named ones: `2, concentration=1, …`."""
        calls = [ast.parse(f"f({part})", mode="eval").body for part in split(self._marked(text), ", ")]
        return ", ".join(self._listed(call) for call in calls if isinstance(call, ast.Call))

    def _marked(self, text: str) -> str:
        """The text with identifiers in place of names that are none, so that it can be taken apart."""
        text = text.replace("…", "...")
        for k, name in enumerate(self._strange):
            text = re.sub(rf"(?<![\w.]){re.escape(name)}(?!\w)", f"strange_{k}_", text)
        return text

    def _own(self, name: str) -> str:
        """A name as it is in the model."""
        found = re.fullmatch(r"strange_(\d+)_", name)
        return self._strange[int(found[1])] if found else name

    def _listed(self, call: ast.Call) -> str:
        named = [f"{self._signs.keyword(str(k.arg))} = {self._written(k.value)[0]}" for k in call.keywords]
        return ", ".join([*(self._written(a)[0] for a in call.args), *named])

    def _in(self, node: ast.expr, level: int) -> str:
        """Inside something that binds as `level`."""
        text, own = self._written(node)
        return text if own >= level else self._signs.set("paren", text)

    def _set(self, kind: type | str, *operands: ast.expr | str) -> tuple[str, int]:
        form = self._signs.forms[kind]
        parts = [
            o if isinstance(o, str) else self._in(o, level)
            for o, level in zip(operands, form.inner, strict=True)
        ]
        return form.text.format(*parts), form.level

    def _written(self, node: ast.expr) -> tuple[str, int]:
        s = self._signs
        match node:
            case ast.Name(name):
                return s.name(self._own(name)), ATOM
            case ast.Constant(value):
                return s.number(value), ATOM
            case ast.BinOp(left, op, right) if type(op) in s.forms:
                return self._set(type(op), left, right)
            case ast.UnaryOp(op, operand) if type(op) in s.forms:
                return self._set(type(op), operand)
            case ast.Compare(left, ops, others):
                pairs = zip(ops, others, strict=True)
                rest = "".join(f" {s.compared[type(o)]} {self._in(x, SUM)}" for o, x in pairs)
                return self._in(left, SUM) + rest, COMPARE
            case ast.IfExp(test, then, other) | ast.Call(ast.Name("where"), [test, then, other]):
                return self._set("if", then, test, other)
            case ast.Call(ast.Attribute(ast.Subscript(ast.Attribute(base, "at"), index), "get"), _, how):
                text, level = self._set("sub", base, self._index(index))
                return text + s.mode({str(k.arg): ast.unparse(k.value) for k in how}), level
            case ast.Call(ast.Name("sqrt" | "abs" as name), [inner]):
                return self._set(name, inner)
            case ast.Call(ast.Name(name)):
                return s.function(name) + s.set("paren", self._listed(node)), ATOM
            case ast.Attribute(base, "T"):
                return self._set("T", base)
            case ast.Subscript(base, index):
                return self._set("sub", base, self._index(index))
            case ast.List(elements) | ast.Tuple(elements):
                return self._set("list", ", ".join(self._in(e, 0) for e in elements))
        raise ValueError(f"no signs for {ast.unparse(node)}")

    def _index(self, node: ast.expr) -> str:
        parts = node.elts if isinstance(node, ast.Tuple) else [node]
        return ", ".join(
            self._signs.plain(ast.unparse(p)) if isinstance(p, ast.Slice) else self._in(p, 0) for p in parts
        )


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


def _parted(name: str) -> tuple[str, list[str]]:
    """A name and its subscripts: `b_age_sex` has two of a letter, `mean_1` one of a word. Of words in a row
    (`log_sigma`, `seen_if_there`) none belongs below another."""
    head, *rest = name.split("_")
    letter = len(head) == 1 or head in GREEK
    below = all(rest) and (letter or (len(rest) == 1 and len(rest[0]) < 3))
    return (head, rest) if head and below else (name, [])


def name_latex(name: str) -> str:
    """Greek letters as such, single letters in italics, words upright, subscripts where `_parted` has any."""
    head, below = _parted(name)
    if below:
        return f"{name_latex(head)}_{{{', '.join(map(name_latex, below))}}}"
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
        **_infixes("+", "-", r"\wedge", r"\vee", r"\oplus", r"\cdot", r"\,"),
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
    compared={ast.Lt: "<", ast.LtE: r"\le", ast.Gt: ">", ast.GtE: r"\ge", ast.Eq: "=", ast.NotEq: r"\ne"},
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


def conditional_html(text: str, names: Iterable[str]) -> str:
    """`p(site | …) ∝ factor · factor`, as printed, in HTML: `<i>`, `<sub>` and `<sup>` alone, all else
    escaped. `names` are those of sites and data."""
    return Formula(names, HTML).conditional(text)


def name_html(name: str) -> str:
    """As `name_latex`."""
    head, below = _parted(name)
    if below:
        return f"{name_html(head)}<sub>{', '.join(map(name_html, below))}</sub>"
    if name in GREEK:
        size = "CAPITAL" if name[0].isupper() else "SMALL"
        spelt = "LAMDA" if name.lower() == "lambda" else name.upper()
        name = unicodedata.lookup(f"GREEK {size} LETTER {spelt}")
    return f"<i>{escape(name)}</i>" if len(name) == 1 and name.isalpha() else escape(name)


def _html_mode(how: Mapping[str, str]) -> str:
    told = ", ".join(f"{n} = {v}" for n, v in how.items())
    return f"<sup>{escape(told)}</sup>" if told else ""


def _product(letters: str) -> str:
    return f"∏<sub>{', '.join(map(name_html, letters.split(', ')))}</sub>\u202f"  # no line ends there


HTML = Signs(
    forms={
        **_infixes("+", "−", "∧", "∨", "⊕", "·", "\u2009"),
        ast.Div: infix("/", PRODUCT),
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
    mode=_html_mode,
    product=_product,
    given=" | ",
    times=" · ",
    conditional=Form("<i>p</i>({}) ∝ {}", (0, 0)),
)
