"""The line of the user's program that an equation or a record came from, "as the user wrote it"."""

import contextlib
import functools
import linecache
import os
import re
import sys
from dataclasses import dataclass
from types import FrameType
from typing import Any

import jax
import jaxlib

import gibbsite
from gibbsite.trace.compat import equation_frames


@dataclass(frozen=True)
class Line:
    """A place in a program: `file`, `line` (from 1), notebook `cell` number or None, `text` or ""."""

    file: str
    line: int
    cell: int | None
    text: str

    @property
    def where(self) -> str:
        """`In [3]:2` in a notebook, `model.py:12` in a file."""
        return f"In [{self.cell}]:{self.line}" if self.cell is not None else f"{_base(self.file)}:{self.line}"

    def __str__(self) -> str:
        return f"{self.where}: {self.text}" if self.text else self.where


def _base(file: str) -> str:
    return os.path.basename(file)


def _folder(file: str | None) -> str:
    return os.path.dirname(os.path.abspath(file or "")) + os.sep


_LIBRARIES = os.path.dirname(_folder(jax.__file__).rstrip(os.sep)) + os.sep
_JAX = _folder(jax.__file__)
_FOREIGN = (
    *(_folder(package.__file__) for package in (jax, jaxlib, gibbsite)),
    _LIBRARIES,
    contextlib.__file__,
    functools.__file__,
    "<frozen",
)


def is_foreign(file: str) -> bool:
    """Whether a file belongs to a library that runs the user's program."""
    return file.startswith(_FOREIGN)


def is_jax(file: str) -> bool:
    """Whether a file is one of JAX's own."""
    return file.startswith(_JAX)


def line_at(file: str, number: int) -> Line:
    """The `Line` at a place, its text and cell number looked up where they are known."""
    return Line(file, number, _cell(file), linecache.getline(file, number).strip())


def user_line(eqn: Any) -> Line | None:
    """The innermost user line on whose behalf `eqn` was traced; None where there is none."""
    for file, number in equation_frames(eqn):
        if not is_foreign(file):
            return line_at(file, number)
    return None


def user_frames(stop: FrameType | None = None) -> list[FrameType]:
    """User frames on the running stack, innermost first, down to but without the frame `stop`."""
    found: list[FrameType] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame is not stop:
        if not is_foreign(frame.f_code.co_filename):
            found.append(frame)
        frame = frame.f_back
    return found


def _cell(file: str) -> int | None:
    plain = re.match(r"<ipython-input-(\d+)-", file)
    if plain:
        return int(plain.group(1))
    # ipykernel compiles a cell under a temporary name and keeps the number beside it
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    compile_ = getattr(shell, "compile", None)
    names = getattr(compile_, "_filename_map", None) or {}
    return names.get(file)
