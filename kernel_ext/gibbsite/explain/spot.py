"""Where in the user's program an exception arose: line, columns, and the values that the names there have."""

import ast
import inspect
import linecache
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from types import FrameType
from typing import Any

import numpyro.distributions as dist

from gibbsite.errors import GibbsiteError
from gibbsite.programs.jaxpr.source_line import is_foreign


@dataclass(frozen=True)
class Spot:
    """A piece `code` of a line of a program, from column `start` to `end` of the `text`; `values` are those
    of the names that are known there."""

    file: str
    line: int
    text: str
    start: int
    end: int
    values: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def code(self) -> str:
        """The piece itself."""
        return self.text[self.start : self.end]

    @property
    def told(self) -> str:
        """`line 3: the statement`."""
        return f"line {self.line}: `{self.text.strip()}`"


def spot_of(error: BaseException) -> Spot | None:
    """The innermost place of an exception that is the user's own; None where there is none."""
    trace, found = error.__traceback__, None
    while trace is not None:
        if not is_foreign(trace.tb_frame.f_code.co_filename):
            found = trace
        trace = trace.tb_next
    if found is None:
        return None
    frame, code = found.tb_frame, found.tb_frame.f_code
    line, end_line, start, end = next(islice(code.co_positions(), found.tb_lasti // 2, None), (None,) * 4)
    line = line or found.tb_lineno
    text = linecache.getline(code.co_filename, line).rstrip("\n")
    if start is None or end is None or end_line != line:
        start, end = _whole(text)
    else:
        start, end = (len(text.encode()[:n].decode(errors="ignore")) for n in (start, end))
    unread = getattr(frame.f_globals, "live", {})  # of a model's function, whose names are captured
    return Spot(code.co_filename, line, text, start, end, {**unread, **frame.f_globals, **frame.f_locals})


def spot_of_message(error: GibbsiteError) -> Spot | None:
    """The place that an error of ours names, with the columns of the argument or the piece it is about."""
    if error.place is None:
        return None
    file, line = error.place
    text = linecache.getline(file, line).rstrip("\n")
    start, end = _argument(text, error.part) or _piece(text, error.part) or _whole(text)
    return Spot(file, line, text, start, end)


def foreign_tables(spot: Spot) -> dict[str, Any]:
    """The tables and columns of pandas, polars and the like that the line names."""
    found = {n: spot.values.get(n) for n in dict.fromkeys(re.findall(r"[A-Za-z_]\w*", spot.text))}
    return {n: v for n, v in found.items() if type(v).__module__.partition(".")[0] in _TABLES}


def is_shown(frame: FrameType) -> bool:
    """Whether a frame is at a statement that shows something to people: it prints, logs, warns or raises."""
    file, line = frame.f_code.co_filename, frame.f_lineno
    try:
        tree = ast.parse("".join(linecache.getlines(file, frame.f_globals)))
    except SyntaxError:  # a cell of a notebook, with its magics
        return _SHOWS.search(linecache.getline(file, line)) is not None
    at = [n for n in ast.walk(tree) if isinstance(n, ast.stmt) and n.lineno <= line <= (n.end_lineno or 0)]
    if not at:  # no source
        return _SHOWS.search(" ".join(frame.f_code.co_names)) is not None
    last = max(n.lineno for n in at)
    return any(_shows(n) for n in at if n.lineno == last)  # perhaps several of one line


def _shows(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Raise | ast.Assert):
        return True
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and _SHOWS.search(ast.unparse(call.func)) is not None


_SHOWS = re.compile(r"\b(print|pprint|display|warn|debug|info|warning|error|write|log(ging|ger)?)\b")

_TABLES = ("pandas", "polars", "xarray", "pyarrow")


def _whole(text: str) -> tuple[int, int]:
    return len(text) - len(text.lstrip()), len(text.rstrip())


def _piece(text: str, part: str | None) -> tuple[int, int] | None:
    at = text.find(part) if part else -1
    return (at, at + len(part)) if part and at >= 0 else None


def _argument(text: str, name: str | None) -> tuple[int, int] | None:
    """The columns of the argument `name` of the distribution that a line samples from."""
    body = text.rstrip().rstrip(":")
    shift = body.find("~") + 1
    rest = body[shift:]
    shift += len(rest) - len(rest.lstrip())
    try:
        tree = ast.parse(rest.strip())
    except SyntaxError:
        return None
    for call in (n for n in ast.walk(tree) if isinstance(n, ast.Call)):
        family = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        for value in [k.value for k in call.keywords if k.arg == name] or _positional(family, call, name):
            if value.end_col_offset is not None and value.lineno == value.end_lineno == 1:
                return shift + value.col_offset, shift + value.end_col_offset
    return None


def _positional(family: str, call: ast.Call, name: str | None) -> list[ast.expr]:
    made = getattr(dist, family, None)
    if made is None or name is None:
        return []
    parameters = list(inspect.signature(made).parameters)
    return call.args[parameters.index(name) :][:1] if name in parameters else []


Told = tuple[type[GibbsiteError], str, str]
"""The kind of an error, its heading of the catalogue, and its sentence."""

Rule = Callable[[BaseException, Spot, Mapping[str, Any]], Told | None]
"""The exception, where it arose, and what is known (the sizes of `plates`); None where it does not fit."""


def made(spot: Spot, kind: type[GibbsiteError], entry: str, sentence: str) -> GibbsiteError:
    """An error about a place, under its heading of the catalogue."""
    return kind(f"{sentence} ({spot.told})").at((spot.file, spot.line), entry, spot.code)
