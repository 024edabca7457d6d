"""How printed expressions are put together from texts: `mu[z[n]]`, `Normal(x[n] | mu[z[n]], 1)`."""

from collections.abc import Sequence

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
