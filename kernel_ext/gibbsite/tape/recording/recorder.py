"""The recorder of one run: it numbers values, keeps the open calls and appends records to them.

`Equations` turns what JAX does into records, `PythonCalls` what Python does; both write through this.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any

import jax
import numpy as np

from gibbsite.errors import TapeError
from gibbsite.programs.jaxpr.compat import (
    RecordedValue,
    RecordingTrace,
    current_trace,
    innermost,
    is_traced,
    sent_to,
)
from gibbsite.tape.recording.context import Context, Step
from gibbsite.tape.recording.equations import Equations
from gibbsite.tape.recording.python_calls import PythonCalls, arguments_of, constants_of, needs_value
from gibbsite.tape.recording.record import Const, Record, Ref, shape_of

LIMIT = 200  # open calls; Python's own limit comes at about a thousand frames of JAX's


@dataclass
class OpenCall:
    """A call that is running: its records so far, and the constants they read."""

    index: tuple[int, ...]
    frame: FrameType | None = None
    code: CodeType | None = None
    library: bool = False  # a function of JAX's that the user called
    live: bool = False  # whether it has a place among its parent's records
    decision: tuple[int, ...] | None = None
    records: list[Record] = field(default_factory=list)
    constants: dict[int, tuple[Any, int]] = field(default_factory=dict)  # by `id`: the array, its number

    def next_index(self) -> tuple[int, ...]:
        """The place of its next record."""
        return (*self.index, len(self.records) + 1)


class Recorder:
    """Collects the records of one run of a function whose code is `code`."""

    def __init__(self, context: Context, code: CodeType | None = None):
        self.context = context
        self.around = current_trace()
        self.trace = RecordingTrace(self)
        self.root = OpenCall((), live=True)
        self.stack = [self.root]
        self._equations = Equations(self)
        self._calls = PythonCalls(self, code)
        self._count = 0

    # values

    def fresh(self) -> int:
        """A number for a new value."""
        self._count += 1
        return self._count

    def wrap(self, value: Any, ident: int | None = None) -> RecordedValue:
        """`value` as the program sees it from now on."""
        return RecordedValue(self.trace, value, self.fresh() if ident is None else ident)

    def is_mine(self, value: Any) -> bool:
        """Whether a value belongs to this run."""
        return isinstance(value, RecordedValue) and value._trace is self.trace

    def found_in(self, value: Any) -> list[RecordedValue]:
        """The values of this run in a tree, also under `vmap` or a derivative."""
        inner = (innermost(leaf) for leaf in jax.tree.leaves(value))
        return [leaf for leaf in inner if self.is_mine(leaf)]

    def operand(self, value: Any) -> Ref | Const:
        """How a record names a value; `TapeError` for one that leaked from another run."""
        if self.is_mine(value):
            return Ref(value.ident)
        if isinstance(value, RecordedValue) and value._trace is not self.around:
            raise TapeError(
                "a value recorded in an earlier run is used in this one: the tracked function left it in a "
                "global, a list or an attribute. Return it instead"
            )
        return self._constant(value) if _is_array(value) else Const(value)

    def plain(self, value: Any) -> Any:
        """The value as the computation around the recording sees it."""
        return value.value if self.is_mine(value) else value

    def kept(self, values: Sequence[Any]) -> tuple[Any, ...] | None:
        """Values as records keep them: none where the context or a surrounding `jit` forbids it."""
        if not self.context.keeps_values or any(map(is_traced, values)):
            return None
        return tuple(values)

    def _constant(self, value: Any) -> Ref | Const:
        """An array that the program holds gets a record where it is first read."""
        with self.without_pending():
            known = self.known_constant(value)
            if known is not None:
                return known
            step = Step("constant", "constant", self.depth, (value,), _same, "constant")
            before = self.context.before(step)
            notes = self.context.notes(step, [value], before)
            if not self.context.keeps(step):
                return Const(value)
            ident = self.fresh()
            self.stack[-1].constants[id(value)] = (value, ident)
            self.add(
                "constant",
                "constant",
                operands=(Const(value),),
                outputs=(ident,),
                shapes=(shape_of(value),),
                values=self.kept([value]),
                name=self._calls.name_of(value),
                metadata=notes,
                apply=_same,
            )
            return Ref(ident)

    def known_constant(self, value: Any) -> Ref | None:
        """The record of a constant among the open calls."""
        found = (call.constants[id(value)] for call in reversed(self.stack) if id(value) in call.constants)
        return next((Ref(ident) for _, ident in found), None)

    # records

    @property
    def depth(self) -> int:
        """How deep the next record lies; 1 at the top."""
        self._place_calls()
        return len(self.stack[-1].index) + 1

    def add(self, kind: str, op: str, **parts: Any) -> Record:
        """Append a record to the call that is running."""
        self._place_calls()
        here = self.stack[-1]
        parts.setdefault("place", self.line())
        record = Record(here.next_index(), kind, op, decision=here.decision, **parts)
        here.records.append(record)
        return record

    def open(self, frame: FrameType, library: bool = False) -> None:
        """A Python function begins to run; it has no place until something is recorded in it."""
        self.stack.append(OpenCall((), frame=frame, code=frame.f_code, library=library))

    def line(self) -> tuple[str, int] | None:
        """File and line number that the user's innermost open call has reached."""
        for call in reversed(self.stack):
            if call.frame is not None and not call.library:
                return call.frame.f_code.co_filename, call.frame.f_lineno
        return None

    @contextmanager
    def without_pending(self) -> Iterator[None]:
        """Records go to the user's call, not to a function of JAX's that has recorded nothing yet."""
        pending = []
        while self.stack[-1].library and not self.stack[-1].records:
            pending.append(self.stack.pop())
        try:
            yield
        finally:
            self.stack += reversed(pending)

    def _place_calls(self) -> None:
        """Give running calls their places, now that something is recorded in them."""
        if len(self.stack) > LIMIT:
            names = [c.code.co_name for c in self.stack if c.code is not None and not c.library]
            raise TapeError(
                f"{names[-1] if names else 'the function'} is nested more than {LIMIT} calls deep: a "
                f"recursion that does not end? Track it with arguments for which it does"
            )
        for n in range(1, len(self.stack)):
            parent, call = self.stack[n - 1], self.stack[n]
            if call.live:
                continue
            if call.library:  # what it is called with stands before it
                inner, self.stack[n:] = self.stack[n:], []
                for value in constants_of(call.frame):
                    self.operand(value)
                self.stack += inner
            call.index, call.live, call.decision = parent.next_index(), True, parent.decision
            if not call.library:
                for name, value in arguments_of(call.frame):
                    call.records.append(self._argument(call, name, value))

    def _argument(self, call: OpenCall, name: str, value: Any) -> Record:
        code, inner = call.code, innermost(value)
        mine = self.is_mine(inner)
        if is_traced(inner) and not mine:
            inner = str(jax.typeof(inner))  # of another transformation: not ours to hold
        return Record(
            call.next_index(),
            "argument",
            "argument",
            operands=(self.operand(inner) if mine else Const(inner),),
            shapes=(shape_of(value),) if mine else (),
            values=self.kept([self.plain(inner)]),
            name=name,
            place=None if code is None else (code.co_filename, code.co_firstlineno),
        )

    def decided(self, value: RecordedValue) -> None:
        """Python asked for a concrete value: what follows depends on it."""
        if is_traced(value.value) or not needs_value():
            return
        with self.without_pending():  # `__bool__` itself
            last = self.stack[-1].records[-1] if self.stack[-1].records else None
            asked, line = (Ref(value.ident),), self.line()
            # JAX asks twice for one `if`; the line tells that from a second question about the same value
            if last is not None and (last.kind, last.operands, last.place) == ("decision", asked, line):
                return
            record = self.add("decision", "decide", operands=asked, values=self.kept([value.value]))
            for call in reversed(self.stack):
                call.decision = record.index
                if not call.library:
                    break

    # what runs

    def primitive(self, primitive: Any, values: list[Any], params: Any) -> Any:
        """One primitive of the running function."""
        sys.setprofile(None)  # the hook would look at every call that recording itself makes
        try:
            return self._equations.primitive(primitive, values, params)
        finally:
            sys.setprofile(self._calls.hook)

    def custom(self, bind: Callable, values: list[Any]) -> list[Any]:
        """One function with derivatives of its own."""
        sys.setprofile(None)
        try:
            return self._equations.custom(bind, values)
        finally:
            sys.setprofile(self._calls.hook)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Record everything that runs in this thread until the end of the block."""
        before = sys.getprofile()
        try:
            with sent_to(self.trace):
                sys.setprofile(self._calls.hook)
                yield
        finally:
            sys.setprofile(before)
            while len(self.stack) > 1:  # an exception
                self._calls.close(None)
            self.trace.invalidate()

    def paused(self) -> Any:
        """Context manager: what runs in the block is no part of the record."""
        return sent_to(self.around)

    @contextmanager
    def call(self) -> Iterator[OpenCall]:
        """Records in the block are those of a call whose own record follows it."""
        self._place_calls()
        here = self.stack[-1]
        opened = OpenCall(here.next_index(), live=True, decision=here.decision)
        self.stack.append(opened)
        try:
            yield opened
        finally:
            self.stack.pop()

    def finish(self, result: Any) -> None:
        """Record what the tracked function returned."""
        self._calls.record_return(self.root, result)


def _is_array(value: Any) -> bool:
    """Whether a constant deserves a record: a literal is as well read where it stands."""
    return isinstance(value, jax.Array | np.ndarray) and not is_traced(value) and value.size != 1


def _same(value: Any) -> list[Any]:
    return [value]
