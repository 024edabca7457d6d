"""Codes of categories that a model compares with a text: Python answers False, and nothing says so."""

import ast
import dis
import linecache
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import CodeType
from typing import Any

from gibbsite.errors import DataError


def check_texts(fn: Callable[..., Any], labels: Mapping[str, Sequence[str]]) -> None:
    """Refuse `df.kind == "rural"` where the column's texts have become codes; raises `DataError`.

    An array and a text are never equal, so that the comparison is a plain False and its data are lost. Looked
    at are comparisons that name the column, as a line of the function's source has them.
    """
    code = getattr(fn, "__code__", None)
    if code is None or not labels:
        return
    for line, piece, test in _comparisons(code):
        sides = [test.left, *test.comparators]
        for one, other in zip(sides, sides[::-1], strict=True):
            name, texts = _argument(one), _texts(other)
            if name in labels and texts:
                told = f"{name} holds categories, of which the model gets the codes"
                where = (code.co_filename, line)
                raise DataError(f"{told}: {_cure(one, name, texts, labels[name])}").at(
                    where, "index-of-another-type", piece
                )


def _comparisons(code: CodeType) -> Iterator[tuple[int, str, ast.Compare]]:
    """Line, text and tree of the comparisons of a function and of those inside it."""
    for step in dis.get_instructions(code):
        at = step.positions
        if step.opname not in ("COMPARE_OP", "CONTAINS_OP") or at is None or at.lineno is None:
            continue
        text = linecache.getline(code.co_filename, at.lineno).encode()
        piece = text[at.col_offset : at.end_col_offset].decode(errors="ignore")
        try:
            tree = ast.parse(piece, mode="eval").body if at.lineno == at.end_lineno else None
        except SyntaxError:
            continue
        if isinstance(tree, ast.Compare) and len(tree.ops) == 1:
            yield at.lineno, piece, tree
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _comparisons(constant)


def _argument(node: ast.expr) -> str:
    """An argument or a column of one as `labels` are called: `g`, `df['g']`."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}[{node.attr!r}]"
    return ast.unparse(node)


def _texts(node: ast.expr) -> list[str]:
    parts = node.elts if isinstance(node, ast.List | ast.Tuple | ast.Set) else [node]
    return [p.value for p in parts if isinstance(p, ast.Constant) and isinstance(p.value, str)]


def _cure(one: ast.expr, name: str, texts: Sequence[str], known: Sequence[str]) -> str:
    if unknown := [t for t in texts if t not in known]:
        return f"none of them is {unknown[0]!r}; it has {', '.join(map(repr, known))}"
    codes = [f"{known.index(t)} for {t!r}" for t in texts]
    if len(texts) > 1:
        return f"compare with them, {', '.join(codes)}"
    return f"{codes[0]}, so write `{ast.unparse(one)} == {known.index(texts[0])}`"
