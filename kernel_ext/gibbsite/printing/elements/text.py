"""Pieces of written expressions: their operators, how tightly these bind, and how texts are put together."""

from collections.abc import Sequence
from dataclasses import dataclass

from gibbsite.programs.jaxpr.compat import shape_of as shape_of

ATOM, POWER, PRODUCT, SUM, BITS, COMPARE, CHOICE = range(6, -1, -1)
"""How tightly they bind, as in Python: `&` and `|` less than sums, and each other not by habit."""

INFIX = {
    "add": ("+", SUM),
    "add_any": ("+", SUM),
    "sub": ("-", SUM),
    "mul": ("*", PRODUCT),
    "div": ("/", PRODUCT),
    "floor_div": ("//", PRODUCT),
    "lt": ("<", COMPARE),
    "le": ("<=", COMPARE),
    "gt": (">", COMPARE),
    "ge": (">=", COMPARE),
    "eq": ("==", COMPARE),
    "ne": ("!=", COMPARE),
    "and": ("&", BITS),
    "or": ("|", BITS),
    "xor": ("^", BITS),
}


CALLS = {
    "logistic": "sigmoid",
    "is_finite": "isfinite",
    "sign": "sign",
    "rem": "rem",
    "erf_inv": "erfinv",
    **{
        n: n
        for n in (
            "exp exp2 log log1p expm1 sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh sqrt "
            "cbrt abs max min floor ceil round digamma erf erfc nextafter bessel_i0e bessel_i1e igamma "
            "igammac lgamma regularized_incomplete_beta polygamma zeta shift_left shift_right_arithmetic "
            "population_count"
        ).split()
    },
}
"""Functions of elements, by the name under which they are printed."""

REDUCTIONS = {
    "reduce_sum": "sum",
    "reduce_max": "max",
    "reduce_min": "min",
    "reduce_prod": "prod",
    "reduce_and": "all",
    "reduce_or": "any",
    "argmax": "argmax",
    "argmin": "argmin",
}

ALONG = {"cumsum": "cumsum", "cumprod": "cumprod", "cummax": "cummax", "cummin": "cummin", "sort": "sort"}
"""Functions of a whole axis whose elements are read one by one."""


@dataclass(frozen=True)
class Text:
    """What was written: its outermost operation's level, and the free axes that its value has, in order."""

    text: str
    level: int = ATOM
    tags: tuple[int, ...] = ()


class Opaque(Exception):
    """An array that has no short form."""


def longest(texts: Sequence[Text]) -> tuple[int, ...]:
    """The free axes of what an operation on aligned texts gives."""
    return max((t.tags for t in texts), key=len, default=())


TIMES, GIVEN, PROPORTIONAL = " · ", " | ", " ∝ "


def subscript(base: str, indices: Sequence[str]) -> str:
    """An element of an array."""
    return f"{base}[{', '.join(indices)}]" if indices else base


def call(fn: str, args: str) -> str:
    """A function or distribution applied to arguments."""
    return f"{fn}({args})"


def product(indices: Sequence[str]) -> str:
    """A product sign over index letters."""
    return f"∏[{', '.join(indices)}] " if indices else ""


def infix(left: str, op: str, right: str) -> str:
    """A binary operation."""
    return f"{left}{op}{right}" if op == "/" else f"{left} {op} {right}"
