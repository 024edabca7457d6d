"""The line of a `%%model` cell: a name and, in parentheses, parameters with or without values."""

import ast
import difflib
import keyword
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from gibbsite.errors import ArgumentError

from gibbsite_magics.edits import character_column

PREFIX = "%%model "


@dataclass(frozen=True)
class Signature:
    """`name(parameters)` as written: `text` without `def`; `required` are the parameters without a value."""

    name: str
    text: str
    arguments: ast.arguments
    parameters: tuple[str, ...]
    required: tuple[str, ...]

    @property
    def values(self) -> dict[str, ast.expr]:
        """The expressions of the values on the line, by parameter."""
        a = self.arguments
        positional = a.posonlyargs + a.args
        found = zip(positional[len(positional) - len(a.defaults) :], a.defaults, strict=True)
        pairs = [*found, *((p, d) for p, d in zip(a.kwonlyargs, a.kw_defaults, strict=True) if d is not None)]
        return {parameter.arg: value for parameter, value in pairs}


def parse_signature(line: str) -> Signature:
    """Parse what follows `%%model`. Raises `SyntaxError` placed on the cell's first line."""
    text = line.strip().rstrip(":")
    shift = len(PREFIX) + len(line) - len(line.lstrip()) - len("def ")
    if flag := re.search(r"(?:^\w+|\))\s+(--?\w[\w-]*)[^()]*$", text):
        raise _error(
            f"a model's cell has one option, `--missing impute` (or mask, or drop), and no {flag.group(1)!r}",
            line,
            line.index(flag.group(1)),
            line.index(flag.group(1)) + len(flag.group(1)),
        )
    if not text:
        raise _error("a name is missing: '%%model mixture(x, K=3)'", line, 0, 0)
    if text.isidentifier():
        if keyword.iskeyword(text):
            raise _error(f"{text!r} is a word of Python and cannot name a model", line, 0, len(text))
        text += "()"
    source = f"def {text}: pass"
    try:
        (node,) = ast.parse(source).body
    except SyntaxError as error:
        error = _unclosed(text) or error
        error.msg = f"{error.msg}; expected a name and parameters, as in '%%model mixture(x, K=3)'"
        raise _placed(error, line, shift) from None
    if not isinstance(node, ast.FunctionDef):
        raise _error("expected a name and parameters: '%%model mixture(x, K=3)'", line, 0, len(line))
    a = node.args
    if a.vararg or a.kwarg:
        star = a.vararg or a.kwarg
        assert star is not None
        column = character_column(source, star.col_offset) + shift - len(PREFIX)
        raise _error(
            "name every argument: '*' and '**' cannot be bound", line, column, column + len(star.arg)
        )
    for part in ast.walk(a):
        if isinstance(part, ast.expr | ast.arg):
            part.col_offset += shift
            part.end_col_offset = (part.end_col_offset or 0) + shift
    parameters = tuple(p.arg for p in a.posonlyargs + a.args + a.kwonlyargs)
    signature = Signature(node.name, text, a, parameters, ())
    required = tuple(p for p in parameters if p not in signature.values)
    return Signature(node.name, text, a, parameters, required)


def bind(model: str, required: Collection[str], namespace: Mapping[str, object]) -> dict[str, object]:
    """The notebook's variables for parameters that have no value; `ArgumentError` for a missing one."""
    missing = [name for name in required if name not in namespace]
    if missing:
        name = missing[0]
        known = [n for n in namespace if not n.startswith("_") and not callable(namespace[n])]
        near = difflib.get_close_matches(name, known, n=1)
        hint = f" (there is {near[0]!r})" if near else ""
        others = f", nor {', '.join(map(repr, missing[1:]))}" if len(missing) > 1 else ""
        raise ArgumentError(
            f"{model} needs {name!r}, and the notebook has no variable {name!r}{others}{hint}: define it, or "
            f"give a value on the line, as in '%%model {model}({name}=…)'; {name}=None makes it latent"
        )
    return {name: namespace[name] for name in required}


def _unclosed(text: str) -> SyntaxError | None:
    """What is said of a bracket that is not closed, which `: pass` would hide."""
    try:
        ast.parse(text, mode="eval")
    except SyntaxError as error:
        if "never closed" in error.msg:
            error.offset, error.end_offset = (error.offset or 1) + len("def "), None
            return error
    return None


def _error(message: str, line: str, start: int, stop: int) -> SyntaxError:
    error = SyntaxError(message)
    error.lineno = error.end_lineno = 1
    error.offset, error.end_offset = start + len(PREFIX) + 1, stop + len(PREFIX) + 1
    error.text = f"{PREFIX}{line}\n"
    return error


def _placed(error: SyntaxError, line: str, shift: int) -> SyntaxError:
    error.text = f"{PREFIX}{line}\n"
    limit = len(PREFIX) + len(line) + 1
    error.offset = min(max((error.offset or 1) + shift, 1), limit)
    if error.end_offset is not None:
        error.end_offset = min(max(error.end_offset + shift, error.offset), limit)
    return error
