"""LaTeX as Gibbsite writes it, read back as Python: `{\\mu}_{{z}_{n}}` is `mu[z[n]]`."""

import ast
import re

_TOKEN = re.compile(
    r"\\left\\lfloor|\\right\\rfloor|\\left[(\[|]|\\right[)\]|]|\\begin\{cases\}|\\end\{cases\}|\\\\|\\[a-zA-Z]+|"
    r"\\[,;#$%&_{}]|\d+\.?\d*|\s+|."
)
_SUMS = {"+": "+", "-": "-", r"\wedge": "&", r"\vee": "|", r"\oplus": "^"}
_PRODUCTS = {r"\cdot": "*", r"\,": "@"}
_COMPARED = {"<": "<", r"\le": "<=", ">": ">", r"\ge": ">=", "=": "==", r"\ne": "!="}


class _Where(ast.NodeTransformer):
    """`where(c, a, b)` and `a if c else b` are the same cases."""

    def visit_Call(self, node):
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "where":
            test, then, other = node.args
            return ast.IfExp(test, then, other)
        return node


def shape_of(text: str) -> str:
    """The structure of printed Python: equal for texts that say the same."""
    tree = _Where().visit(ast.parse(text.replace("…", "..."), mode="eval"))
    return ast.dump(tree)


def python_of(latex: str) -> str:
    """The Python that a piece of LaTeX was made from, in more parentheses."""
    reader = _Reader([t for t in _TOKEN.findall(latex) if not t.isspace()])
    out = reader.comparison()
    assert reader.at == len(reader.tokens), (latex, reader.tokens[reader.at :])
    return out


class _Reader:
    def __init__(self, tokens: list[str]):
        self.tokens, self.at = tokens, 0

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, *wanted: str) -> str:
        token = self.peek()
        assert not wanted or token in wanted, (token, wanted, self.tokens)
        self.at += 1
        return token

    def skip(self, token: str) -> bool:
        found = self.peek() == token
        self.at += found
        return found

    def comparison(self) -> str:
        out = self.sum()
        while self.peek() in _COMPARED:
            out += f" {_COMPARED[self.take()]} {self.sum()}"
        return out

    def sum(self) -> str:
        out = f"(-{self.product()})" if self.skip("-") else self.product()
        while self.peek() in _SUMS:
            out = f"({out} {_SUMS[self.take()]} {self.product()})"
        return out

    def product(self) -> str:
        out = self.signed()
        while self.peek() in _PRODUCTS:
            out = f"({out} {_PRODUCTS[self.take()]} {self.signed()})"
        return out

    def signed(self) -> str:
        return f"(~{self.signed()})" if self.skip(r"\neg") else self.atom()

    def braced(self) -> str:
        self.take("{")
        out = self.comparison()
        self.take("}")
        return out

    def raw(self) -> str:
        """What stands between braces, as it is."""
        self.take("{")
        depth, out = 1, ""
        while depth:
            token = self.take()
            depth += {"{": 1, "}": -1}.get(token, 0)
            space = " " if re.search(r"\\[a-z]+$", out) and token[0].isalnum() else ""  # `\ge t`
            out += space + token if depth else ""
        return out

    def listed(self, *ends: str) -> str:
        out: list[str] = []
        while self.peek() not in ends:
            out.append(self.argument())
            if not self.skip(",") and self.skip(r"\mid"):
                out.append("GIVEN")
        self.take(*ends)
        return ", ".join(out)

    def argument(self) -> str:
        start = self.at
        name = self.name() if re.match(r"\\|[a-zA-Z]", self.peek()) and self.peek() != r"\left(" else ""
        if name and self.skip("="):
            return f"{name}={self.comparison()}"
        self.at = start
        return self.comparison()

    def name(self) -> str:
        token = self.take()
        out = re.sub(r"\\(.)", r"\1", self.raw()) if token == r"\mathrm" else token.lstrip("\\")
        while self.peek() == "_":
            self.take()
            self.take("{")
            out += "_" + self.name()
            self.take("}")
        return out

    def indices(self) -> str:
        raw = self.raw()
        return ", ".join(p if ":" in p else python_of(p) for p in _parts(raw))

    def atom(self) -> str:
        token = self.peek()
        if token == "{":
            base = self.braced()
            if self.skip("_"):
                index = self.indices()
                if self.peek() == "^" and self.tokens[self.at + 2] == r"\mathrm":
                    return f"{base}.at[{index}].get({self.how()})"
                return f"{base}[{index}]"
            self.take("^")
            if self.tokens[self.at + 1] == r"\top":
                self.raw()
                return f"{base}.T"
            return f"({base} ** {self.braced()})"
        if token[0].isdigit():
            self.take()
            if not self.skip(r"\times"):
                return token
            self.take("10")
            self.take("^")
            return repr(float(f"{token}e{self.raw()}"))
        if token == r"\frac":
            self.take()
            return f"({self.braced()} / {self.braced()})"
        if token == r"\left\lfloor":
            self.take()
            self.take(r"\frac")
            out = f"({self.braced()} // {self.braced()})"
            self.take(r"\right\rfloor")
            return out
        if token == r"\sqrt":
            self.take()
            return f"sqrt({self.braced()})"
        if token == r"\ldots":
            self.take()
            return "..."
        if token == r"\left(":
            self.take()
            out = self.comparison()
            self.take(r"\right)")
            return f"({out})"
        if token == r"\left[":
            self.take()
            return f"[{self.listed(chr(92) + 'right]')}]"
        if token == r"\left|":
            self.take()
            out = self.comparison()
            self.take(r"\right|")
            return f"abs({out})"
        if token == r"\begin{cases}":
            self.take()
            then = self.comparison()
            self.take("&")
            test = self.comparison()
            self.take("\\\\")
            other = self.comparison()
            self.take(r"\end{cases}")
            return f"({then} if {test} else {other})"
        name = self.name()
        return f"{name}({self.listed(chr(92) + 'right)')})" if self.skip(r"\left(") else name

    def how(self) -> str:
        self.take("^")
        given = []
        for part in self.raw().replace(r"\mathrm", "").split(","):
            name, _, value = part.partition("=")
            name = re.sub(r"\\(.)", r"\1", name.strip().strip("{}"))
            given.append(f"{name}={value.strip()}" if value else f'mode="{name}"')
        return ", ".join(given)


def _parts(raw: str) -> list[str]:
    """The indices between commas that stand in no braces."""
    out, depth, last = [], 0, 0
    for k, c in enumerate(raw):
        depth += {"{": 1, "}": -1, "(": 1, ")": -1, "[": 1, "]": -1}.get(c, 0)
        if c == "," and not depth and (k == 0 or raw[k - 1] != "\\"):
            out.append(raw[last:k])
            last = k + 1
    return [*out, raw[last:]]
