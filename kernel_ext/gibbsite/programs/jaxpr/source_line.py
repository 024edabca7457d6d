"""The line of the user's program that an equation or a record came from, "as the user wrote it"."""

import functools
import importlib.util
import linecache
import os
import re
import sys
import sysconfig
import traceback
from dataclasses import dataclass
from types import FrameType
from typing import Any

from gibbsite.programs.jaxpr.compat import equation_frames


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
        place = os.path.basename(self.file) if self.cell is None else f"In [{self.cell}]"
        return f"{place}:{self.line}"

    def __str__(self) -> str:
        return f"{self.where}: {self.text}" if self.text else self.where


# What runs a user's program rather than being it. Folders of packages, not their names, are compared: a clone
# of this project, tests and all, may lie in `gibbsite/`. Found without importing: most need not be installed.
_PACKAGES = tuple(
    "jax jaxlib numpyro numpy scipy pandas polars xarray narwhals gibbsite gibbsite_magics IPython".split()
)
_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
_TRACING = tuple(os.path.join(_PACKAGE, floor) + os.sep for floor in ("programs", "tape"))


def _folder(package: str) -> str | None:
    spec = importlib.util.find_spec(package)
    return None if spec is None or spec.origin is None else os.path.dirname(spec.origin) + os.sep


_FOLDERS = {name: folder for name in _PACKAGES if (folder := _folder(name)) is not None}
_FOREIGN = tuple(_FOLDERS.values())
_STANDARD = (sysconfig.get_path("stdlib") + os.sep, "<frozen")
_INSTALLED = re.compile(r"[\\/](site|dist)-packages[\\/]")  # lies inside the standard library's folder


@functools.cache
def is_foreign(file: str) -> bool:
    """Whether a file belongs to a library that runs the user's program, or to Python itself."""
    if file.startswith(_FOREIGN):
        return True
    return file.startswith(_STANDARD) and _INSTALLED.search(file) is None


@functools.cache
def is_jax(file: str) -> bool:
    """Whether a file is one of JAX's own."""
    return file.startswith(_FOLDERS["jax"])


@functools.cache
def is_trace(file: str) -> bool:
    """Whether a file is one of this floor's."""
    return file.startswith(_TRACING)


def line_at(file: str, number: int) -> Line:
    """The `Line` at a place, its text and cell number looked up where they are known."""
    return Line(file, number, _cell(file), linecache.getline(file, number).strip())


def at_place(place: tuple[str, int] | None) -> str:
    """` (line 4: the statement)`, for texts; nothing where the place is not known."""
    if place is None:
        return ""
    text = line_at(*place).text
    return f" (line {place[1]}{f': `{text}`' if text else ''})"


def equation_line(eqn: Any) -> tuple[str, int] | None:
    """File and line number of the innermost user frame on whose behalf `eqn` was traced."""
    return next(((f, n) for f, n in equation_frames(eqn) if not is_foreign(f)), None)


def calling_line() -> tuple[str, int] | None:
    """File and line number of the innermost user frame on the running stack."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_foreign(frame.f_code.co_filename):
        frame = frame.f_back
    return None if frame is None else (frame.f_code.co_filename, frame.f_lineno)


def user_line_of_exception(error: BaseException) -> str | None:
    """`line N: source text` of the innermost user frame of an exception."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not is_foreign(f.filename)]
    if not frames:
        return None
    last = frames[-1]
    text = f": `{last.line}`" if last.line else ""
    return f"line {last.lineno}{text}"


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
