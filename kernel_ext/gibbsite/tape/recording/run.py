"""Run a function under a recorder, and hand over what it left."""

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import numpy as np

from gibbsite.errors import TapeError
from gibbsite.tape.recording.python_calls import code_of
from gibbsite.tape.recording.record import Const, shape_of
from gibbsite.tape.recording.recorder import Recorder

T = TypeVar("T")


def record_run(
    fn: Callable, args: tuple, kwargs: dict[str, Any], recorder: Recorder, make: Callable[..., T]
) -> T:
    """Run `fn` under a recorder made for it.

    `make(name, records, result, structure)` gives what is returned, a `Tape`; exceptions of `fn` carry one as
    their attribute `tape`.
    """
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

    def tape() -> T:
        return make(name, tuple(recorder.root.records), None, None)

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
    return make(name, tuple(recorder.root.records), plain, structure)


def _with_tape(error: BaseException, tape: Any) -> BaseException:
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
