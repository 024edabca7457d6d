"""The source of the branch of a Python `if` that a run did not take."""

import ast
import functools
import linecache
import textwrap

from gibbsite.tape.recording.record import Record


def untaken(record: Record) -> str | None:
    """What a decision left out, as it was written; None where it left out nothing, or that is not known."""
    value = record.value
    if record.kind != "decision" or record.place is None or str(getattr(value, "dtype", "")) != "bool":
        return None
    file, line = record.place
    return _other(tuple(linecache.getlines(file)), line, bool(value))


@functools.lru_cache(64)
def _other(lines: tuple[str, ...], line: int, value: bool) -> str | None:
    at = [c for c in _choices("".join(lines)) if c.test.lineno <= line <= (c.test.end_lineno or line)]
    if len(at) != 1:
        return None  # which of them asked is not known
    (choice,) = at
    taken = _outcome(choice.test, value)
    if taken is None:
        return None
    left = choice.orelse if taken else choice.body
    nodes = left if isinstance(left, list) else [left]
    return _text(lines, nodes) if nodes else None


def _outcome(test: ast.expr, value: bool) -> bool | None:
    """What a test came to after a value in it did; None where that leaves it open."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = _outcome(test.operand, value)
        return None if inner is None else not inner
    if isinstance(test, ast.BoolOp):
        ends = isinstance(test.op, ast.Or)  # the value that ends the question
        plain = not any(isinstance(v, ast.BoolOp | ast.UnaryOp) for v in test.values)
        return value if plain and value == ends else None
    chain = isinstance(test, ast.Compare) and len(test.ops) > 1
    return None if chain and value else value


@functools.lru_cache(16)
def _choices(source: str) -> tuple[ast.If | ast.IfExp | ast.While, ...]:
    try:
        tree = ast.parse(source)
    except SyntaxError:  # a cell with magics in it
        return ()
    return tuple(n for n in ast.walk(tree) if isinstance(n, ast.If | ast.IfExp | ast.While))


def _text(lines: tuple[str, ...], nodes: list) -> str:
    first, last = nodes[0], nodes[-1]
    if isinstance(first, ast.expr):
        return ast.unparse(first)
    head = " " * first.col_offset + lines[first.lineno - 1][first.col_offset :]  # `if c: y = 1` on one line
    whole = "".join((head, *lines[first.lineno : last.end_lineno]))
    return "; ".join(part.rstrip() for part in textwrap.dedent(whole).splitlines() if part.strip())
