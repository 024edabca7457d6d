"""`run`, the usual name of a run, is `%run` to IPython while no variable has it: say what was meant."""

import functools
import os
from typing import Any

from IPython.core.error import UsageError


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


def _meant(shell: Any) -> str:
    from gibbsite import Model

    models = [n for n, v in shell.user_ns.items() if isinstance(v, Model) and not n.startswith("_")]
    return (
        f"the variable `run` is there once a run has begun: `run = %sample {models[-1] if models else 'm'}`"
    )
