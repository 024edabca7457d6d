"""The name that a line of the cell is about to bind: `run` in `run = %sample mixture`.

An interrupt ends the line before Python binds it, and a run must not be out of reach then. And before there
is one, the usual name is `%run` to IPython: what was meant is said.
"""

import ast
import functools
import linecache
import os
import sys
from types import FrameType
from typing import Any

from IPython.core.error import UsageError


def name_to_bind(shell: Any, magic: str) -> str | None:
    """The one name that the statement of the user's cell which calls the line magic `magic` is assigned
    to."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals is not shell.user_ns:
        frame = frame.f_back
    if frame is None:
        return None
    text = "".join(linecache.getlines(frame.f_code.co_filename))
    try:
        body = ast.parse(text).body
    except SyntaxError:  # IPython has compiled it, so this is not the cell's text
        return None
    for node in ast.walk(ast.Module(body, [])):
        if isinstance(node, ast.Assign) and node.lineno <= frame.f_lineno <= (node.end_lineno or node.lineno):
            (target, *others), call = node.targets, node.value
            calls = isinstance(call, ast.Call) and ast.unparse(call.func).endswith("run_line_magic")
            named = calls and call.args and ast.unparse(call.args[0]) == repr(magic)  # type: ignore[union-attr]
            if named and not others and isinstance(target, ast.Name):
                return target.id
    return None


def explain_run(shell: Any) -> None:
    """Let IPython's `%run` name the way to a `Run` where it is called without a file, or with one that is not
    there; all else it does as before."""
    original = shell.find_line_magic("run")
    if original is None or hasattr(original, "explains"):
        return

    @functools.wraps(original)
    def run(line: str = "", *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        try:
            return original(line, *args, **kwargs)
        except Exception as error:
            if not _no_file(line):
                raise
            what = (
                f"there is no file {line.strip()!r}" if line.strip() else "%run, IPython's own, needs a file"
            )
            told = UsageError(f"{what}; {_meant(shell)}")
            raise told from error

    run.explains = True  # type: ignore[attr-defined]
    shell.register_magic_function(run, "line", "run")


def _no_file(line: str) -> bool:
    words = line.split()
    named = len(words) == 1 and words[0].isidentifier()
    return not words or (named and not any(os.path.exists(words[0] + end) for end in ("", ".py", ".ipynb")))


def models_in(shell: Any) -> dict[str, Any]:
    """The models among the variables of a notebook, by name."""
    from gibbsite import Model

    return {n: v for n, v in shell.user_ns.items() if isinstance(v, Model) and not n.startswith("_")}


def _meant(shell: Any) -> str:
    models = list(models_in(shell))
    return (
        f"the variable `run` is there once a run has begun: `run = %sample {models[-1] if models else 'm'}`"
    )
