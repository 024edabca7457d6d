"""`track`: run a function once and keep a tape of what it did."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from gibbsite.errors import TapeError
from gibbsite.trace.recording.context import Context
from gibbsite.trace.recording.python_calls import code_of
from gibbsite.trace.recording.record import Const, shape_of
from gibbsite.trace.recording.recorder import Recorder
from gibbsite.trace.tape.tape import Tape


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
    return record_run(fn, args, kwargs, Recorder(context or Context(), code_of(fn)))


def record_run(fn: Callable, args: tuple, kwargs: dict[str, Any], recorder: Recorder) -> Tape:
    """Run `fn` under a recorder made for it."""
    name = getattr(fn, "__name__", type(fn).__name__)

    def followed(path: Any, value: Any) -> Any:
        label = _label(path, fn)
        if not _follows(value):
            kept = (value,) if recorder.context.keeps_values else None
            recorder.add(
                "argument", "argument", operands=(Const(value),), values=kept, name=label, place=None
            )
            return value
        array = value if isinstance(value, jax.Array) else jax.numpy.asarray(value)
        wrapped = recorder.wrap(array)
        recorder.add(
            "argument",
            "argument",
            outputs=(wrapped.ident,),
            shapes=(shape_of(array),),
            values=recorder.kept([array]),
            name=label,
            place=None,
        )
        return wrapped

    def tape(result: Any = None) -> Tape:
        return Tape(name, tuple(recorder.root.records), result)

    call_args, call_kwargs = jax.tree_util.tree_map_with_path(followed, (args, kwargs))
    try:
        with recorder.running():
            result = fn(*call_args, **call_kwargs)
        recorder.finish(result)
    except jax.errors.UnexpectedTracerError as error:
        failure = TapeError(
            "a value recorded in an earlier run, or inside a transformation, is used outside it: the tracked "
            "function left it in a global, a list or an attribute. Return it instead"
        )
        raise _with_tape(failure, tape()) from error
    except RecursionError as error:
        failure = TapeError(
            f"{name} calls itself without end (Python's recursion limit was reached while recording). "
            f"The tape so far is the attribute `tape` of this error"
        )
        raise _with_tape(failure, tape()) from error
    except Exception as error:
        raise _with_tape(error, tape()) from error.__cause__
    plain = jax.tree.map(recorder.plain, result)
    structure = jax.tree.map(lambda v: recorder.operand(v) if recorder.is_mine(v) else Const(v), result)
    return Tape(name, tuple(recorder.root.records), plain, structure)


def _with_tape(error: BaseException, tape: Tape) -> BaseException:
    error.tape = tape  # type: ignore[attr-defined]
    error.add_note(f"gibbsite: {len(tape)} records until then are kept as the attribute `tape` of this error")
    return error


def _follows(value: Any) -> bool:
    if isinstance(value, jax.Array | float | complex):
        return True
    return isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "biufc"


def _label(path: Any, fn: Callable) -> str:
    code = code_of(fn)
    where, first, *rest = path
    if where.idx == 0:
        names: tuple[str, ...] = code.co_varnames[: code.co_argcount] if code is not None else ()
        head = str(names[first.idx]) if first.idx < len(names) else f"args[{first.idx}]"
    else:
        head = str(first.key)
    return head + jax.tree_util.keystr(tuple(rest))
