"""The name that a line of the cell is about to bind: `run` in `run = %sample mixture`.

An interrupt ends the line before Python binds it, and a run must not be out of reach then.
"""

import ast
import linecache
import sys
from types import FrameType
from typing import Any


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
