"""From the text of a `%%model` cell to a function, the arguments it is bound to, and its plain source."""

import ast
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import CodeType
from typing import Any

from gibbsite.errors import ArgumentError, ModelError

from gibbsite_magics.edits import indent
from gibbsite_magics.rewrite import rewrite, show_line
from gibbsite_magics.signature import PREFIX, Signature, bind, parse_signature
from gibbsite_magics.vocabulary import import_lines, vocabulary


@dataclass(frozen=True)
class Definition:
    """What a cell defines: `fn(*args, **kwargs)` runs the model, `source` is its plain NumPyro text."""

    name: str
    fn: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    source: str


def cell_text(line: str, body: str) -> str:
    """The whole cell as its writer sees it; what is compiled here has the line numbers of this text."""
    return f"{PREFIX}{line}\n{body}"


def split_flag(line: str) -> tuple[str, str | None]:
    """The line of a cell without `--missing impute` at its end, and what that says; None without it."""
    found = re.search(r"\s+--missing[ =]+(\w+)\s*$", line)
    return (line[: found.start()], found.group(1)) if found else (line, None)


def define(line: str, body: str, namespace: dict[str, Any], filename: str) -> Definition:
    """Compile a cell in either form.

    In the function form the cell runs in `namespace`, as any cell does, except that the model's name keeps
    the value it had. Raises `SyntaxError` placed in the cell, `ArgumentError` for an argument that cannot be
    found.
    """
    body = "\n" + body.replace("\r\n", "\n")  # the cell's first line is the magic's
    try:
        signature = parse_signature(line)
        form = _function_form if _is_function_form(body, signature.name) else _tilde_form
        run = form(signature, body, filename)
    except SyntaxError as error:
        error.filename = filename
        raise
    return run(namespace)


def _is_function_form(body: str, name: str) -> bool:
    try:
        tree = ast.parse(body)
    except SyntaxError:
        return False
    return any(isinstance(node, ast.FunctionDef) and node.name == name for node in tree.body)


def _tilde_form(signature: Signature, body: str, filename: str) -> Callable[[dict[str, Any]], Definition]:
    rewritten = rewrite(body, signature.parameters)
    function = ast.FunctionDef(
        name=signature.name,
        args=signature.arguments,
        body=rewritten.statements,
        decorator_list=[],
        lineno=1,
        col_offset=0,
    )
    names = [n for n in ast.walk(function) if isinstance(n, ast.Name)]
    local = {n.id for n in names if not isinstance(n.ctx, ast.Load)} | set(signature.parameters)
    free = {n.id for n in names} - local
    _compile(_maker(function, []), body, filename)  # so that errors come before anything runs

    def run(namespace: dict[str, Any]) -> Definition:
        # The notebook's own names win. The rest become cells of a closure: the function's globals are the
        # notebook's, as these are when the model is made.
        words = sorted({"numpyro"} | {n for n in free & set(vocabulary()) if n not in namespace})
        made: dict[str, Any] = {}
        exec(_compile(_maker(function, words), body, filename), namespace, made)
        fn = made["make"](*(vocabulary()[w].value for w in words))
        fn.__code__ = fn.__code__.replace(co_qualname=signature.name)
        fn.__qualname__, fn.__module__ = signature.name, namespace.get("__name__", "__main__")
        source = "\n".join(
            [*import_lines(set(words)), "", f"def {signature.text}:", indent(rewritten.text), ""]
        )
        return Definition(signature.name, fn, *arguments(fn, signature.name, {}, namespace), source)

    return run


def _maker(function: ast.FunctionDef, words: list[str]) -> ast.Module:
    """`def make(*words): def function…; return function`."""
    parameters = ast.arguments(
        posonlyargs=[], args=[ast.arg(w) for w in words], kwonlyargs=[], kw_defaults=[], defaults=[]
    )
    returned = ast.Return(ast.Name(function.name, ast.Load()))
    maker = ast.FunctionDef(name="make", args=parameters, body=[function, returned], decorator_list=[])
    return ast.fix_missing_locations(ast.Module([maker], []))


def _function_form(signature: Signature, body: str, filename: str) -> Callable[[dict[str, Any]], Definition]:
    name = signature.name
    code = _compile(ast.parse(body), body, filename)

    def run(namespace: dict[str, Any]) -> Definition:
        before = {name: namespace[name]} if name in namespace else {}
        try:
            exec(code, namespace)
            fn = namespace[name]
        finally:
            namespace.pop(name, None)
            namespace.update(before)
        if not callable(fn):
            raise ModelError(
                f"the cell leaves {name!r} bound to {type(fn).__name__}, not to the model's function"
            )
        values = {
            parameter: eval(compile(ast.Expression(value), filename, "eval"), namespace)
            for parameter, value in signature.values.items()
        }
        values |= bind(name, signature.required, namespace)
        return Definition(name, fn, *arguments(fn, name, values, namespace), body.strip("\n") + "\n")

    return run


def _compile(module: ast.Module, body: str, filename: str) -> CodeType:
    try:
        return compile(module, filename, "exec")
    except SyntaxError as error:  # what only the compiler sees: `break` outside of a loop
        raise show_line(error, body) from None


def arguments(
    fn: Callable[..., Any], name: str, values: Mapping[str, Any], namespace: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments for `fn`: the values given, its defaults, and the notebook's variables for what is left."""
    parameters = inspect.signature(fn).parameters.values()
    named = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    extra = set(values) - {p.name for p in named}
    if extra and not any(p.kind is p.VAR_KEYWORD for p in parameters):
        raise ArgumentError(
            f"the function {name!r} has no argument {sorted(extra)[0]!r}; it has "
            + (", ".join(repr(p.name) for p in named) or "none")
        )
    required = [p.name for p in named if p.default is p.empty and p.name not in values]
    bound = {p.name: p.default for p in named} | dict(values) | bind(name, required, namespace)
    args = tuple(bound.pop(p.name) for p in named if p.kind is p.POSITIONAL_ONLY)
    return args, bound
