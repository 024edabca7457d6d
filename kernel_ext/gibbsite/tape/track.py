"""`track`: run a function once and keep a tape of what it did."""

from collections.abc import Callable
from typing import Any

from gibbsite.errors import TapeError
from gibbsite.tape.recording.context import Context
from gibbsite.tape.recording.python_calls import code_of
from gibbsite.tape.recording.recorder import Recorder
from gibbsite.tape.recording.run import record_run
from gibbsite.tape.tape import Tape


def track(fn: Callable, *args: Any, context: Context | None = None, **kwargs: Any) -> Tape:
    """Run `fn(*args, **kwargs)` once and return its `Tape`.

    Arrays, floats and random keys (also inside tuples, lists and dicts) are followed as values; other
    arguments are constants of the run. Python may branch, loop and recurse on followed values: each such
    decision is a record. `context`, such as `DepthLimit(2) | Timing()`, says what is entered, kept, noted and
    replaced.

    Exceptions of `fn` pass through with the tape so far as their attribute `tape`; `TapeError` is raised for
    a recursion that does not end and for values leaked from an earlier run.
    """
    if not callable(fn):
        raise TapeError(f"track takes a function and its arguments; got {type(fn).__name__}")
    return record_run(fn, args, kwargs, Recorder(context or Context(), code_of(fn)), Tape)
