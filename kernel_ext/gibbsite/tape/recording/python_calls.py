"""What Python does during a recorded run: the user's calls, and JAX's functions as the user calls them.

A profile hook sees every call and return in the thread. A call gets a record only once something is recorded
inside, so that plain Python costs little and leaves nothing behind.
"""

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from gibbsite.programs.jaxpr.compat import RecordedValue, current_trace, innermost, is_traced
from gibbsite.programs.jaxpr.source_line import is_foreign, is_jax, is_trace
from gibbsite.tape.recording.record import Const, Record, Ref, shape_of

if TYPE_CHECKING:
    from gibbsite.tape.recording.recorder import OpenCall, Recorder

_FOLDED = ("<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>")
_WITH_LITERALS = ("getitem", "pow", "rpow")  # calls that cannot be read without their integers
_QUESTIONS = frozenset("__bool__ __int__ __float__ __complex__ __index__ __array__ tolist item".split())


class PythonCalls:
    """Opens and closes the calls of a recorder whose function has the code `code`."""

    def __init__(self, recorder: "Recorder", code: CodeType | None):
        self._recorder = recorder
        self._code = code
        self._user: dict[CodeType, bool] = {}

    def hook(self, frame: FrameType, event: str, arg: Any) -> None:
        """The profile hook; it runs at every call and return, so the common cases come first."""
        stack = self._recorder.stack
        running = stack[-1]
        if event == "return":
            if running.frame is frame and len(stack) > 1:
                self.close(arg)
            return
        if event != "call":
            return
        code = frame.f_code
        user = self._user.get(code)
        if user is None:
            user = not is_foreign(code.co_filename) and code.co_name not in _FOLDED
            self._user[code] = user
        if user:
            root = self._recorder.root
            if code is self._code and root.code is None:
                root.frame, root.code = frame, code
            else:
                self._recorder.open(frame)
        elif not running.library and running.frame is not None and running.frame is frame.f_back:
            self._library(frame)

    def _library(self, frame: FrameType) -> None:
        """Functions of JAX's count as calls where the user calls them, so that a line reads as written."""
        if is_jax(frame.f_code.co_filename) and current_trace() is self._recorder.trace:
            self._recorder.open(frame, library=True)

    def close(self, result: Any) -> None:
        """The innermost call has returned `result`; None also after an exception."""
        recorder = self._recorder
        call = recorder.stack.pop()
        if not call.live:
            return
        parent = recorder.stack[-1]
        if call.library:
            self._close_library(call, parent, result)
            return
        leaves = self.record_return(call, result)
        parent.records.append(
            Record(
                call.index,
                "call",
                call.code.co_name if call.code else "call",
                operands=tuple(r.operands[0] for r in call.records if r.kind == "argument"),
                outputs=tuple(v.ident for v in leaves),
                shapes=tuple(shape_of(v) for v in leaves),
                values=recorder.kept([v.value for v in leaves]) if leaves else _static(result),
                place=_line(parent.frame),
                decision=parent.decision,
                children=tuple(call.records),
                detail={"python": True},
            )
        )

    def record_return(self, call: "OpenCall", result: Any) -> list[RecordedValue]:
        """Append the return of a call; the values that it returns."""
        recorder = self._recorder
        leaves = recorder.found_in(result)
        call.records.append(
            Record(
                call.next_index(),
                "return",
                "return",
                operands=tuple(Ref(v.ident) for v in leaves),
                shapes=tuple(shape_of(v) for v in leaves),
                values=recorder.kept([v.value for v in leaves]) if leaves else _static(result),
                decision=call.decision,
                place=_line(call.frame),
            )
        )
        return leaves

    def _close_library(self, call: "OpenCall", parent: "OpenCall", result: Any) -> None:
        recorder = self._recorder
        if len(call.records) == 1 and call.records[0].kind != "decision":
            (only,), name = call.records, _library_name(call.frame)
            named = name != only.op and only.kind == "primitive" and hasattr(jax.numpy, name)
            detail = {**only.detail, "written": name} if named else only.detail
            self._lift([replace(only, detail=detail) if named else only], parent)
            return
        leaves = recorder.found_in(result)
        made = {i for r in call.records for inner in r.walk() for i in inner.outputs}
        reads = dict.fromkeys(i for r in call.records for i in r.reads if i not in made)
        outs = {v.ident: v for v in leaves if v.ident in made}
        if not outs:  # nothing that others read: no call worth a name
            self._lift(call.records, parent)
            return
        parent.records.append(
            Record(
                call.index,
                "call",
                _library_name(call.frame),
                operands=tuple(self._operands(call.frame, reads)),
                outputs=tuple(outs),
                shapes=tuple(shape_of(v) for v in outs.values()),
                values=recorder.kept([v.value for v in outs.values()]),
                place=_line(parent.frame) if not parent.library else None,
                decision=parent.decision,
                children=tuple(call.records),
                detail={"library": True},
            )
        )

    def _lift(self, records: list[Record], parent: "OpenCall") -> None:
        """Records of a call that gets none of its own become its parent's."""
        start = len(parent.records)
        places = {r.index: (*parent.index, n) for n, r in enumerate(records, start + 1)}
        parent.records += [moved(r, places[r.index], places) for r in records]
        parent.decision = _remapped(parent.decision, places)

    def _operands(self, frame: FrameType | None, reads: dict[int, None]) -> list[Ref | Const]:
        """What a library's function was called with, in the caller's order; what it only closes over last."""
        literals = int if _library_name(frame) in _WITH_LITERALS else ()
        ordered: list[Ref | Const] = []
        for value in _given(frame):
            if isinstance(value, literals):
                ordered.append(Const(value))
                continue
            found = (
                Ref(value.ident) if self._recorder.is_mine(value) else self._recorder.known_constant(value)
            )
            if found is not None and found.ident in reads and found not in ordered:
                ordered.append(found)
        return ordered + [Ref(i) for i in reads if Ref(i) not in ordered]

    def name_of(self, value: Any) -> str | None:
        """The variable under which the user's innermost open call sees a constant; None for none."""
        for call in reversed(self._recorder.stack):
            if call.frame is None or call.library:
                continue
            code, frame = call.frame.f_code, call.frame
            for name in (*code.co_freevars, *code.co_varnames):
                if frame.f_locals.get(name) is value:
                    return name
            return next((n for n in code.co_names if frame.f_globals.get(n) is value), None)
        return None


def needs_value() -> bool:
    """Whether the run goes on differently for another value: the user's line wants it, or JAX does for it.

    Not so where a library merely checks (NumPyro its arguments), or JAX asks whether there is a value at all.
    """
    frame: FrameType | None = sys._getframe(1)
    inner = ""
    only_jax = True
    while frame is not None and is_foreign(frame.f_code.co_filename):
        inner, file = frame.f_code.co_name, frame.f_code.co_filename
        if inner == "is_concrete":
            return False
        only_jax = only_jax and (is_jax(file) or is_trace(file))
        frame = frame.f_back
    return only_jax or inner in _QUESTIONS


def arguments_of(frame: FrameType | None, rest: bool = False) -> list[tuple[str, Any]]:
    """Names and values of what the running function of a frame was called with; with the `rest`, its
    `*args`."""
    if frame is None:
        return []
    code, values = frame.f_code, frame.f_locals
    count = code.co_argcount + code.co_kwonlyargcount + (rest and bool(code.co_flags & inspect.CO_VARARGS))
    return [(n, values[n]) for n in code.co_varnames[:count] if n in values]


def constants_of(frame: FrameType | None) -> list[jax.Array]:
    """Arrays that the running function of a frame was called with and that the program holds."""
    return [v for v in _given(frame) if isinstance(v, jax.Array) and not is_traced(v)]


def _given(frame: FrameType | None) -> list[Any]:
    given = [value for _, value in arguments_of(frame, rest=True)]
    return list(map(innermost, jax.tree.leaves(given)))


def code_of(fn: Callable) -> CodeType | None:
    """The code object of the function that the user wrote, under wrappers."""
    seen: Any = fn
    for _ in range(50):
        seen = inspect.unwrap(seen) if callable(seen) else seen
        inner = getattr(seen, "fn", None) or getattr(seen, "func", None)
        if inner is None or not callable(inner):
            break
        seen = inner
    return getattr(seen, "__code__", None)


Place = tuple[int, ...]


def moved(record: Record, index: Place, places: Mapping[Place, Place]) -> Record:
    """A record and what is inside, at another place; decisions are found where `places` moved them."""
    children = tuple(moved(c, (*index, n), places) for n, c in enumerate(record.children, 1))
    return replace(record, index=index, children=children, decision=_remapped(record.decision, places))


def _remapped(decision: Place | None, places: Mapping[Place, Place]) -> Place | None:
    for n in range(1, len(decision or ()) + 1):
        assert decision is not None
        if decision[:n] in places:
            return (*places[decision[:n]], *decision[n:])
    return decision


def _library_name(frame: FrameType | None) -> str:
    if frame is None:
        return "call"
    name = frame.f_code.co_name
    if name == "<genexpr>":  # an array that is unpacked
        return "item"
    if name == "op":
        return str(frame.f_locals.get("name", name)).strip("_")
    if name in ("reraise_with_filtered_traceback", "cache_miss", "wrapper", "fun"):
        inner = frame.f_locals.get("fun", frame.f_locals.get("f"))
        name = getattr(inner, "__name__", name)
    return name.strip("_")


def _static(result: Any) -> tuple[Any, ...] | None:
    return (result,) if isinstance(result, int | float | bool | str | np.generic | np.ndarray) else None


def _line(frame: FrameType | None) -> tuple[str, int] | None:
    return None if frame is None else (frame.f_code.co_filename, frame.f_lineno)
