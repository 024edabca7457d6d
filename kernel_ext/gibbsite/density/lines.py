"""The user's own line in a traceback."""

import contextlib
import functools
import os
import sys
import traceback
from types import FrameType

import jax
import jaxlib
import numpyro

import gibbsite


def _folder(file_name: str | None) -> str:
    return os.path.dirname(os.path.abspath(file_name or "")) + os.sep


# Folders of packages, not their names: a clone of this project, tests and all, may lie in `gibbsite/`.
_FOREIGN = (
    *(_folder(package.__file__) for package in (jax, jaxlib, numpyro, gibbsite)),
    contextlib.__file__,
    functools.__file__,
    "<frozen",
)


def is_foreign(file_name: str) -> bool:
    """Whether a file belongs to a library that runs the model, rather than to the user."""
    return file_name.startswith(_FOREIGN)


def calling_line() -> tuple[str, int] | None:
    """File and line number of the innermost user frame on the stack."""
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
