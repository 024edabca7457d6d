"""Two ways of writing the same expression: plain text and LaTeX."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

_GREEK = frozenset(
    (
        "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau upsilon "
        "phi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega "
    ).split()
)


@dataclass(frozen=True)
class Notation:
    """Plain text: `mu[z[n]]`, `Normal(x[n] | mu[z[n]], 1)`."""

    times: str = " · "
    given: str = " | "
    proportional: str = " ∝ "

    def name(self, name: str) -> str:
        """A site's or argument's name."""
        return name

    def subscript(self, base: str, indices: Sequence[str]) -> str:
        """An element of an array."""
        return f"{base}[{', '.join(indices)}]" if indices else base

    def call(self, fn: str, args: str) -> str:
        """A function or distribution applied to arguments."""
        return f"{fn}({args})"

    def power(self, base: str, exponent: str) -> str:
        """A power."""
        return f"{base}**{exponent}"

    def bracketed(self, text: str) -> str:
        """An operand that binds less than its surroundings."""
        return f"({text})"

    def piecewise(self, then: str, condition: str, otherwise: str) -> str:
        """One value where a condition holds and another elsewhere."""
        return f"{then} if {condition} else {otherwise}"

    def product(self, indices: Sequence[str]) -> str:
        """A product sign over index letters."""
        return f"∏[{', '.join(indices)}] " if indices else ""

    def infix(self, left: str, op: str, right: str) -> str:
        """A binary operation."""
        return f"{left}{op}{right}" if op == "/" else f"{left} {op} {right}"


# what a name holds that LaTeX would take for a command
_SIGNS = {"\\": "\\backslash ", "^": "\\wedge ", "~": "\\sim "}


class Latex(Notation):
    """LaTeX, without the dollar signs."""

    def name(self, name: str) -> str:
        """Greek letters as such, single letters in italics, words upright."""
        head, *rest = name.split("_", 1)
        if rest and rest[0]:
            return f"{self.name(head)}_{{{self.name(rest[0])}}}"
        if name in _GREEK:
            return f"\\{name}"
        plain = re.sub(r"[\\^~]|[#$%&_{}]", lambda found: _SIGNS.get(found[0], f"\\{found[0]}"), name)
        return plain if len(name) == 1 else f"\\mathrm{{{plain}}}"

    def subscript(self, base: str, indices: Sequence[str]) -> str:
        """An element of an array, as a subscript."""
        if not indices:
            return base
        inner = ", ".join(indices)
        return f"{{{base}}}_{{{inner}}}" if "_" in base else f"{base}_{{{inner}}}"

    def call(self, fn: str, args: str) -> str:
        """A function or distribution, upright."""
        return f"\\mathrm{{{fn}}}\\left({args}\\right)"

    def power(self, base: str, exponent: str) -> str:
        """A power."""
        return f"{{{base}}}^{{{exponent}}}"

    def piecewise(self, then: str, condition: str, otherwise: str) -> str:
        """One value where a condition holds and another elsewhere."""
        return f"{then} \\;\\mathrm{{if}}\\; {condition} \\;\\mathrm{{else}}\\; {otherwise}"

    def product(self, indices: Sequence[str]) -> str:
        """A product sign over index letters."""
        return f"\\prod_{{{', '.join(indices)}}} " if indices else ""

    def infix(self, left: str, op: str, right: str) -> str:
        """A binary operation."""
        signs = {"*": "\\cdot", "@": "", "<=": "\\le", ">=": "\\ge", "==": "=", "!=": "\\ne"}
        return f"{left} {signs.get(op, op)} {right}"


TEXT = Notation()
LATEX = Latex(" \\cdot ", " \\mid ", " \\;\\propto\\; ")
