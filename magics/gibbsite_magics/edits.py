"""Text edits inside lines, and the way back from the edited text to the columns of the original."""

import ast
import io
import tokenize
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Edit:
    """Replace the characters `start:stop` of a line, counted from 1, by `text`, which holds no line end."""

    line: int
    start: int
    stop: int
    text: str


def apply(text: str, edits: Iterable[Edit]) -> str:
    """`text` with the edits made; they may not overlap. The number of lines stays."""
    lines = text.split("\n")
    for edit in sorted(edits, reverse=True):
        line = lines[edit.line - 1]
        lines[edit.line - 1] = line[: edit.start] + edit.text + line[edit.stop :]
    return "\n".join(lines)


def byte_column(line: str, column: int) -> int:
    """Python's parser counts columns in UTF-8 bytes, its tokenizer in characters."""
    return len(line[:column].encode())


def character_column(line: str, column: int) -> int:
    return len(line.encode()[:column].decode(errors="ignore"))


def restore_columns(tree: ast.AST, original: str, edits: Sequence[Edit]) -> None:
    """Give the nodes of `tree`, parsed from the edited text, the columns of the text before the edits.

    What stands inside inserted text gets the column where it was inserted.
    """
    lines = original.split("\n")
    by_line: dict[int, list[tuple[int, int, int]]] = {}
    for edit in sorted(edits):
        line = lines[edit.line - 1]
        span = byte_column(line, edit.start), byte_column(line, edit.stop), len(edit.text.encode())
        by_line.setdefault(edit.line, []).append(span)

    def restore(line: int, column: int) -> int:
        shift = 0
        for start, stop, length in by_line.get(line, ()):
            if column < start + shift:
                break
            if column < start + shift + length:
                return start
            shift += length - (stop - start)
        return column - shift

    for node in ast.walk(tree):
        if isinstance(node, ast.expr | ast.stmt | ast.keyword | ast.arg | ast.alias | ast.excepthandler):
            node.col_offset = restore(node.lineno, node.col_offset)
            if node.end_lineno is not None and node.end_col_offset is not None:
                node.end_col_offset = restore(node.end_lineno, node.end_col_offset)


def indent(text: str, by: str = "    ") -> str:
    """Indent code, but not the lines that lie inside a string."""
    inside: set[int] = set()
    opened: list[int] = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        kind = tokenize.tok_name[token.type]
        if kind == "STRING":
            inside.update(range(token.start[0] + 1, token.end[0] + 1))
        elif kind.endswith("STRING_START"):
            opened.append(token.start[0])
        elif kind.endswith("STRING_END"):
            inside.update(range(opened.pop() + 1, token.end[0] + 1))
    return "\n".join(
        by + line if line.strip() and number not in inside else line
        for number, line in enumerate(text.split("\n"), start=1)
    )
