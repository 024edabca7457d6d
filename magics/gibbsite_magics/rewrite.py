"""Turn the body of a tilde cell into the plain NumPyro function it stands for.

One set of text edits does it, none of which adds or removes a line of the body: the text with the edits is
what `model.source` shows, and parsed, with columns mapped back, it is what runs. So the two cannot differ,
and tracebacks point into the cell as the user wrote it.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gibbsite_magics.edits import Edit, apply, byte_column, character_column, restore_columns
from gibbsite_magics.said import find_slip
from gibbsite_magics.tilde import Tilde, find_tildes

Function = ast.FunctionDef | ast.AsyncFunctionDef
Functions = tuple[Function, ...]


@dataclass(frozen=True)
class Body:
    """The rewritten body: `statements` to run, with positions in the cell, and `text` to show."""

    statements: list[ast.stmt]
    text: str


def rewrite(body: str, parameters: Sequence[str]) -> Body:
    """Rewrite `body`; empty lines in front of it give it the line numbers of its cell.

    Raises `SyntaxError`, with line and column in the cell, for what is no Python and for a misplaced `~`.
    """
    try:
        tildes = find_tildes(body)
        # `=` for each `~` keeps every column, so what the parser says about the text is true of the cell.
        tree = ast.parse(apply(body, [Edit(t.tilde[0], t.tilde[1], t.tilde[1] + 1, "=") for t in tildes]))
        _refuse_odd_bodies(tree, body)
        lines = body.split("\n")
        sampled = {(t.start[0], byte_column(lines[t.start[0] - 1], t.start[1])) for t in tildes}
        if (slip := find_slip(tree, parameters, sampled)) is not None:
            raise syntax_error(slip.sentence, slip.node, body)
        edits, prologue = _plan(tree, body, tildes, parameters)
        edited = apply(body, edits)
        rewritten = ast.parse(edited)
    except SyntaxError as error:
        raise show_line(error, body) from None
    restore_columns(rewritten, body, edits)
    statements, lines = list(rewritten.body), edited.split("\n")
    if prologue:
        before, after = _opening(tree)
        opening = ast.parse("\n".join(prologue)).body
        for node in (n for statement in opening for n in ast.walk(statement)):
            ast.copy_location(node, rewritten.body[0])
        statements[before:before] = opening
        lines[after:after] = prologue
    return Body(statements, "\n".join(lines).strip("\n"))


def show_line(error: SyntaxError, text: str) -> SyntaxError:
    """Let the error show its line as the user wrote it, not as it was parsed."""
    lines = text.split("\n")
    error.lineno = min(error.lineno or 1, len(lines))
    error.text = lines[error.lineno - 1] + "\n"
    if re.match(r"\s*(numpyro\.)?plate\(.*:\s*$", error.text):
        error.msg = "a plate is opened with `with`: `with plate('n', len(y)):`"
        error.offset = len(error.text) - len(error.text.lstrip()) + 1
        error.end_offset = None
    elif re.search(r"~.*\)\s*,\s*obs\s*=", error.text):
        error.msg = (
            "what stands before '~' is observed where it is an argument of the model; other values are "
            "observed by `numpyro.sample('…', …, obs=…)`"
        )
    return error


def syntax_error(message: str, node: ast.expr | ast.stmt, text: str) -> SyntaxError:
    """A `SyntaxError` at a node that was parsed from `text`."""
    lines = text.split("\n")
    error = SyntaxError(message)
    error.lineno, error.end_lineno = node.lineno, node.end_lineno
    error.offset = character_column(lines[node.lineno - 1], node.col_offset) + 1
    if node.end_lineno is not None and node.end_col_offset is not None:
        error.end_offset = character_column(lines[node.end_lineno - 1], node.end_col_offset) + 1
    return error


def _refuse_odd_bodies(tree: ast.Module, body: str) -> None:
    if not tree.body:
        error = SyntaxError("the cell holds no statement, only a model's name")
        error.lineno, error.offset = body.count("\n") + 1, 1
        raise error
    for node, functions in _walk(tree):
        if isinstance(node, ast.Yield | ast.YieldFrom | ast.Await) and not functions:
            raise syntax_error("a model is a plain function: it cannot 'yield' or 'await'", node, body)


def _walk(node: ast.AST, functions: Functions = ()) -> Iterator[tuple[ast.AST, Functions]]:
    """All nodes below `node`, each with the functions around it, innermost last."""
    for child in ast.iter_child_nodes(node):
        yield child, functions
        yield from _walk(child, (*functions, child) if isinstance(child, Function) else functions)


def _opening(tree: ast.Module) -> tuple[int, int]:
    """Where lines may be put first: before which statement, after which line. A docstring stays first."""
    if ast.get_docstring(tree, clean=False) is not None and len(tree.body) > 1:
        end = tree.body[0].end_lineno or 1
        if tree.body[1].lineno > end:
            return 1, end
    first = tree.body[0]
    return 0, min([first.lineno, *(d.lineno for d in getattr(first, "decorator_list", ()))]) - 1


def _plan(
    tree: ast.Module, body: str, tildes: Sequence[Tilde], parameters: Sequence[str]
) -> tuple[list[Edit], list[str]]:
    """The edits that turn each `~` into a call, and the lines that make the containers of indexed sites."""
    lines = body.split("\n")
    assignments: dict[tuple[int, int], tuple[ast.Assign, Functions]] = {}
    stored: dict[str, tuple[int, int]] = {}
    names = set(parameters)
    for node, functions in _walk(tree):
        if isinstance(node, ast.Assign):
            assignments.setdefault((node.lineno, node.col_offset), (node, functions))
        elif isinstance(node, ast.Name):
            names.add(node.id)
            if isinstance(node.ctx, ast.Store):
                at = (node.lineno, node.col_offset)
                stored[node.id] = min(at, stored.get(node.id, at))
    edits: list[Edit] = []
    prologue: list[str] = []
    containers: dict[str, str] = {}  # indexed name → the name of the dict that its sites are written to
    for tilde in tildes:
        line, column = tilde.start
        key = line, byte_column(lines[line - 1], column)
        node, functions = assignments[key]
        _check(node, body)
        inner = (
            {a.arg for a in ast.walk(functions[-1].args) if isinstance(a, ast.arg)} if functions else set()
        )
        given = tilde.name in parameters and tilde.name not in inner
        if (table_column := _column(tilde, node)) is not None and (given or tilde.column):
            edits += _column_call(tilde, table_column, given and not functions, node, lines, body)
            continue
        if not tilde.indexed:
            if given and functions:
                raise syntax_error(
                    f"{tilde.name!r} is an argument of the model: observe it outside of the function "
                    f"{functions[-1].name!r}",
                    node,
                    body,
                )
            # `x ~ Normal(x, q)` in a step: the next state, drawn from the last; no data are their own mean
            again = any(isinstance(n, ast.Name) and n.id == tilde.name for n in ast.walk(node.value))
            seen = given or (tilde.name in inner and not again)
            observed = f", obs={tilde.name}" if seen else ""
            edits += _call(tilde, ast.unparse(ast.Constant(tilde.name)), observed, lines)
            continue
        if tilde.name in inner:
            raise syntax_error(
                f"{tilde.name!r} is an argument of the function {functions[-1].name!r}: its elements "
                "cannot be sites",
                node,
                body,
            )
        if tilde.name not in containers:
            containers[tilde.name] = tilde.name
            if given:
                containers[tilde.name] = _unused(f"{tilde.name}_sites", names)
                prologue += [
                    f"{containers[tilde.name]} = {{}}",
                    f"{tilde.name} = {containers[tilde.name]} if {tilde.name} is None else {tilde.name}",
                ]
            elif stored.get(tilde.name, key) >= key:
                prologue.append(f"{tilde.name} = {{}}")
        target, container = node.targets[0], containers[tilde.name]
        assert isinstance(target, ast.Subscript)
        observed = ""
        if given:
            edits.append(Edit(line, column, tilde.name_end[1], container))
            element = f"{tilde.name}[{ast.unparse(target.slice)}]"
            observed = f", obs=None if {tilde.name} is {container} else {element}"
        edits += _call(tilde, _site_name(tilde.name, target.slice), observed, lines)
    return edits, prologue


def _column(tilde: Tilde, node: ast.Assign) -> str | None:
    """The column of a table that a statement samples: `df.y ~ …`, `df["y"] ~ …`."""
    index = getattr(node.targets[0], "slice", None)
    text = index.value if isinstance(index, ast.Constant) else None
    return tilde.column or (text if isinstance(text, str) else None)


def _column_call(
    tilde: Tilde, column: str, given: bool, node: ast.Assign, lines: list[str], body: str
) -> list[Edit]:
    """The site is called as the column is; the table goes on with what the statement returns."""
    if not given:
        raise syntax_error(
            f"{tilde.name!r} is no argument of the model: to observe a column, give the table in "
            f"the parentheses "
            f"and write the statement outside of any function; a latent site has a plain name",
            node.targets[0],
            body,
        )
    line, start = tilde.start
    name = ast.unparse(ast.Constant(column)).replace("'", '"')
    read = f"{tilde.name}.{column}" if tilde.column else f"{tilde.name}[{name}]"
    space = "" if lines[line - 1][tilde.tilde[1] + 1 : tilde.tilde[1] + 2].isspace() else " "
    opening = f"{tilde.name} = {tilde.name} | {{{name}: numpyro.sample({name},{space}"
    return [
        Edit(line, start, tilde.tilde[1] + 1, opening),
        Edit(tilde.end[0], tilde.end[1], tilde.end[1], f", obs={read})}}"),
    ]


def _call(tilde: Tilde, site: str, observed: str, lines: list[str]) -> list[Edit]:
    line, column = tilde.tilde
    space = "" if lines[line - 1][column + 1 : column + 2].isspace() else " "
    site = f'"{site[1:-1]}"' if site.startswith("'") and '"' not in site else site
    site = f'f"{site[2:-1]}"' if site.startswith("f'") and '"' not in site else site
    return [
        Edit(line, column, column + 1, f"= numpyro.sample({site},{space}"),
        Edit(tilde.end[0], tilde.end[1], tilde.end[1], f"{observed})"),
    ]


def _site_name(name: str, index: ast.expr) -> str:
    """The expression for the name of an indexed site: `"s[0]"`, `f"s[{i}]"`, `f"s[{i},{j}]"`."""
    parts: list[ast.expr] = [ast.Constant(f"{name}[")]
    for i, part in enumerate(index.elts if isinstance(index, ast.Tuple) else [index]):
        parts.append(ast.Constant("," if i else ""))
        if isinstance(part, ast.Constant):
            parts.append(ast.Constant(str(part.value)))
        else:
            parts.append(ast.FormattedValue(part, -1))
    parts.append(ast.Constant("]"))
    if all(isinstance(part, ast.Constant) for part in parts):
        return ast.unparse(ast.Constant("".join(str(p.value) for p in parts if isinstance(p, ast.Constant))))
    return ast.unparse(ast.JoinedStr(parts))


def _check(node: ast.Assign, body: str) -> None:
    if len(node.targets) > 1:
        raise syntax_error("one '~' statement samples one site; '=' cannot follow it", node.targets[1], body)
    if isinstance(node.value, ast.Tuple | ast.Starred):
        raise syntax_error("one distribution is needed after '~', not several values", node.value, body)
    target = node.targets[0]
    if isinstance(target, ast.Subscript):
        parts = target.slice.elts if isinstance(target.slice, ast.Tuple) else [target.slice]
        if any(isinstance(part, ast.Slice | ast.Starred) for part in parts):
            raise syntax_error(
                "an indexed '~' samples one element: an index is needed, not a slice; a part of an array is "
                f"observed by `numpyro.sample('…', {ast.unparse(node.value)}, obs={ast.unparse(target)})`",
                target,
                body,
            )


def _unused(name: str, names: set[str]) -> str:
    while name in names:
        name += "_"
    names.add(name)
    return name
