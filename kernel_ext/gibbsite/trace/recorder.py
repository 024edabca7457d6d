"""Runs a function and records what it does: JAX primitives, nested calls, and what Python decided."""

import inspect
import sys
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import CodeType, FrameType
from typing import Any

import jax
import numpy as np

from gibbsite.errors import TapeError
from gibbsite.trace.compat import (
    ClosedJaxpr,
    JaxprEqn,
    Literal,
    RecordedValue,
    RecordingTrace,
    bind_primitive,
    closed_call_body,
    current_trace,
    equation_frames,
    is_traced,
    outside,
    recording,
    stage_custom,
)
from gibbsite.trace.context import Context, Step
from gibbsite.trace.record import Const, Record, Ref
from gibbsite.trace.source_line import is_foreign, is_jax

LIMIT = 200  # nested user calls; Python's own limit comes at about a thousand frames of JAX's
_KINDS = {"cond": "branch", "scan": "loop", "while": "loop"}
_FOLDED = ("<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>")


@dataclass
class _Open:
    """A call that is running: its records so far."""

    index: tuple[int, ...]
    records: list[Record] = field(default_factory=list)
    frame: FrameType | None = None
    code: CodeType | None = None
    library: bool = False  # a function of JAX's that the user called
    live: bool = False  # whether it has a place among its parent's records
    decision: tuple[int, ...] | None = None
    result: Any = None

    def next_index(self) -> tuple[int, ...]:
        return (*self.index, len(self.records) + 1)


class Recorder:
    """Collects the records of one run."""

    def __init__(self, context: Context, code: CodeType | None = None):
        self.context = context
        self.trace = RecordingTrace(self)
        self.parent = current_trace()
        self.root = _Open((), live=True)
        self.stack = [self.root]
        self._code = code
        self._user: dict[CodeType, bool] = {}
        self._count = 0
        self._root_seen = False

    # values

    def fresh(self) -> int:
        """A number for a new value."""
        self._count += 1
        return self._count

    def wrap(self, value: Any, ident: int | None = None) -> RecordedValue:
        """`value` as the program sees it from now on."""
        return RecordedValue(self.trace, value, self.fresh() if ident is None else ident)

    def mine(self, value: Any) -> bool:
        """Whether a value belongs to this run; raises `TapeError` for one leaked from another."""
        if not isinstance(value, RecordedValue):
            return False
        if value._trace is self.trace:
            return True
        if value._trace is self.parent:
            return False
        raise TapeError(
            "a value recorded in an earlier run is used in this one: the tracked function left it in a "
            "global, a list or an attribute. Return it instead"
        )

    def operand(self, value: Any) -> Ref | Const:
        """How a record names a value."""
        return Ref(value.ident) if self.mine(value) else Const(value)

    def plain(self, value: Any) -> Any:
        """The value as the computation around the recording sees it."""
        return value.value if self.mine(value) else value

    # records

    def add(self, kind: str, op: str, **parts: Any) -> Record:
        """Append a record to the call that is running."""
        self._materialise()
        here = self.stack[-1]
        parts.setdefault("place", self._place())
        record = Record(here.next_index(), kind, op, decision=here.decision, **parts)
        here.records.append(record)
        return record

    def _place(self) -> tuple[str, int] | None:
        for call in reversed(self.stack):
            if call.frame is not None and not call.library:
                return call.frame.f_code.co_filename, call.frame.f_lineno
        return None

    def _materialise(self) -> None:
        """Give running Python calls their places, now that something is recorded in them."""
        if len(self.stack) > LIMIT:
            names = [c.code.co_name for c in self.stack if c.code is not None and not c.library]
            raise TapeError(
                f"{names[-1] if names else 'the function'} is nested more than {LIMIT} calls deep: a "
                f"recursion that does not end? Track it with arguments for which it does"
            )
        for parent, call in zip(self.stack, self.stack[1:], strict=False):
            if call.live:
                continue
            call.index, call.live, call.decision = parent.next_index(), True, parent.decision
            if call.library:
                continue
            for name, value in _arguments(call.frame):
                shapes = (_shape(value),) if self._is_array(value) else ()
                call.records.append(
                    Record(
                        call.next_index(),
                        "argument",
                        "argument",
                        operands=(self.operand(value),) if self._is_array(value) else (Const(value),),
                        shapes=shapes,
                        values=self.kept([self.plain(value)]),
                        name=name,
                        place=(call.frame.f_code.co_filename, call.frame.f_code.co_firstlineno)
                        if call.frame
                        else None,
                    )
                )

    def _is_array(self, value: Any) -> bool:
        return isinstance(value, RecordedValue) and value._trace is self.trace

    def kept(self, values: Sequence[Any]) -> tuple[Any, ...] | None:
        """Values as records keep them: none where the context or a surrounding `jit` forbids it."""
        if not self.context.keeps_values or any(map(is_traced, values)):
            return None
        return tuple(values)

    def decided(self, value: RecordedValue) -> None:
        """Python asked for a concrete value: what follows depends on it."""
        if is_traced(value.value) or not _asked_by_user():
            return
        asking = []
        while self.stack[-1].library and not self.stack[-1].records:  # `__bool__` itself
            asking.append(self.stack.pop())
        # JAX asks twice for one `if`; the place tells that from a second question about the same value
        last = self.stack[-1].records[-1] if self.stack[-1].records else None
        asked, place = (Ref(value.ident),), self._place()
        if last is None or (last.kind, last.operands, last.place) != ("decision", asked, place):
            record = self.add("decision", "decide", operands=asked, values=self.kept([value.value]))
            for call in reversed(self.stack):
                call.decision = record.index
                if not call.library:
                    break
        self.stack += reversed(asking)

    # JAX

    def primitive(self, primitive: Any, values: list[Any], params: Any) -> Any:
        """One primitive of the running function."""
        outs = self._run(primitive, [(self.operand(v), self.plain(v)) for v in values], params, None)
        wrapped = [self.wrap(v, i) for i, v in outs]
        return wrapped if primitive.multiple_results else wrapped[0]

    def custom(self, bind: Callable, values: list[Any]) -> list[Any]:
        """A function with derivatives of its own: staged, so that its derivative rule is kept."""
        with outside(self.parent):
            closed = stage_custom(bind, [self.plain(v) for v in values])
        pairs = [(self.operand(v), self.plain(v)) for v in values]
        return [self.wrap(v, i) if i else v for i, v in self._body(closed, pairs)]

    def _run(
        self, primitive: Any, operands: list, params: Any, eqn: JaxprEqn | None
    ) -> list[tuple[int, Any]]:
        """Run one primitive on (operand, value) pairs; returns (number, value) pairs."""
        name = primitive.name
        body = closed_call_body(eqn or _Equation(primitive, params))
        branch = name == "cond" and not is_traced(operands[0][1])
        kind = "call" if body is not None else _KINDS.get(name, "primitive")

        def apply(*xs: Any) -> list[Any]:
            return bind_primitive(primitive, xs, params)

        plain = tuple(v for _, v in operands)
        shown = name
        if body is not None and kind == "call":
            shown = str(params.get("name") or _name_of(body) or name).strip("_")
        step = Step(
            kind, name if name.startswith("custom_") else shown, len(self.root_index()) + 1, plain, apply
        )
        detail: dict[str, Any] = {}
        if name == "cond":
            detail["branches"] = params["branches"]
            if branch:
                last = len(params["branches"]) - 1
                detail["taken"] = taken = min(max(int(operands[0][1]), 0), last)
                body, inner = params["branches"][taken], operands[1:]
        elif kind == "loop":
            detail["params"] = params
        if body is not None:
            detail["primitive"] = name
            detail["body"] = body
        inner = operands[1:] if name == "cond" else operands
        before = self.context.before(step)
        self._materialise()
        opened = _Open(self.stack[-1].next_index(), live=True, decision=self.stack[-1].decision)
        whole = not (body is not None and self.context.enters(step))
        if whole or not self.context.keeps_values:
            with outside(self.parent):
                values = apply(*plain)
            pairs = [(self.fresh(), v) for v in values]
        else:
            self.stack.append(opened)
            try:
                records = self._body(body, inner) if body is not None else []
                pairs = self._outputs(records, [o for o, _ in inner])
            finally:
                self.stack.pop()
        values = self.context.replaces(step, [v for _, v in pairs])
        replaced = [a is not b for (_, a), b in zip(pairs, values, strict=True)]
        pairs = [(self.fresh() if r else i, v) for (i, _), v, r in zip(pairs, values, replaced, strict=True)]
        notes = self.context.notes(step, values, before)
        if any(replaced):
            notes = {**notes, "replaced": tuple(replaced)}
        parts = {} if eqn is None else {"place": _place_of(eqn) or self._place()}
        if self.context.keeps(step):
            self.add(
                kind,
                shown,
                operands=tuple(o for o, _ in operands),
                outputs=tuple(i for i, _ in pairs),
                shapes=tuple(_shape(v) for _, v in pairs),
                values=self.kept(values),
                children=tuple(opened.records),
                metadata=notes,
                detail=detail,
                apply=apply,
                **parts,
            )
        return pairs

    def _outputs(self, pairs: list[tuple[int, Any]], inputs: list[Ref | Const]) -> list[tuple[int, Any]]:
        """Outputs of a call as values of its own: one that is a literal, an input or a twin is copied."""
        taken = {0, *(o.ident for o in inputs if isinstance(o, Ref))}
        made = {i for r in self.stack[-1].records for i in r.outputs}
        found = []
        for ident, value in pairs:
            if ident in taken or ident not in made:
                source = Ref(ident) if ident else Const(value)
                ident = self.fresh()
                self.add(
                    "primitive",
                    "copy",
                    operands=(source,),
                    outputs=(ident,),
                    shapes=(_shape(value),),
                    values=self.kept([value]),
                    apply=lambda x: [jax.numpy.asarray(x)],
                )
            taken.add(ident)
            found.append((ident, value))
        return found

    def root_index(self) -> tuple[int, ...]:
        """The place of the call that is running."""
        self._materialise()
        return self.stack[-1].index

    def _body(self, closed: ClosedJaxpr, operands: list) -> list[tuple[int, Any]]:
        """Run a jaxpr equation by equation; its inputs keep their numbers, so nesting needs no renaming."""
        jaxpr = closed.jaxpr
        env: dict[Any, tuple[Ref | Const, Any]] = dict(zip(jaxpr.invars, operands, strict=True))
        for var, value in zip(jaxpr.constvars, closed.consts, strict=True):
            env[var] = (self.operand(value), self.plain(value))

        def read(atom: Any) -> tuple[Ref | Const, Any]:
            return (Const(atom.val), atom.val) if isinstance(atom, Literal) else env[atom]

        for eqn in jaxpr.eqns:
            pairs = self._run(eqn.primitive, [read(a) for a in eqn.invars], eqn.params, eqn)
            env.update({v: (Ref(i), x) for v, (i, x) in zip(eqn.outvars, pairs, strict=True)})
        outs = [read(a) for a in jaxpr.outvars]
        return [(o.ident if isinstance(o, Ref) else 0, v) for o, v in outs]

    # Python

    @contextmanager
    def running(self) -> Any:
        """Record everything that runs in this thread until the end of the block."""
        before = sys.getprofile()
        try:
            with recording(self.trace):
                sys.setprofile(self._profile)
                yield self
        finally:
            sys.setprofile(before)
            while len(self.stack) > 1:
                self._close(None)
            self.trace.invalidate()

    def _profile(self, frame: FrameType, event: str, arg: Any) -> None:
        if event not in ("call", "return"):
            return
        code = frame.f_code
        user = self._user.get(code)
        if user is None:
            user = not is_foreign(code.co_filename) and code.co_name not in _FOLDED
            self._user[code] = user
        if not user:
            self._library(frame, event, arg)
            return
        if event == "call":
            if code is self._code and not self._root_seen:
                self._root_seen, self.root.frame, self.root.code = True, frame, code
                return
            self.stack.append(_Open((), frame=frame, code=code))
        elif self.stack[-1].frame is frame and len(self.stack) > 1:
            self._close(arg)

    def _library(self, frame: FrameType, event: str, arg: Any) -> None:
        """Functions of JAX's count as calls where the user calls them, so that a line reads as written."""
        if event == "return":
            if self.stack[-1].frame is frame and len(self.stack) > 1:
                self._close(arg)
            return
        caller = frame.f_back
        if caller is None or self.stack[-1].frame is not caller or self.stack[-1].library:
            return
        if is_jax(frame.f_code.co_filename) and current_trace() is self.trace:
            self.stack.append(_Open((), frame=frame, code=frame.f_code, library=True))

    def _close_library(self, call: _Open, parent: _Open, result: Any) -> None:
        if len(call.records) == 1 and call.records[0].kind != "decision":
            parent.records.append(moved(call.records[0], call.index))
            return
        leaves = [v for v in jax.tree.leaves(result) if self._is_array(v)]
        made = {i for r in call.records for i in r.outputs}
        reads = dict.fromkeys(i for r in call.records for i in r.reads if i not in made)
        outs = dict.fromkeys(v.ident for v in leaves if v.ident in made)
        if not outs:  # nothing that others read: no call worth a name
            start = len(parent.records)
            for n, r in enumerate(call.records, start + 1):
                parent.records.append(moved(r, (*parent.index, n)))
            return
        by_ident = {v.ident: v for v in leaves}
        parent.records.append(
            Record(
                call.index,
                "call",
                _library_name(call.frame),
                operands=tuple(self._library_operands(call.frame, reads)),
                outputs=tuple(outs),
                shapes=tuple(_shape(by_ident[i]) for i in outs),
                values=self.kept([by_ident[i].value for i in outs]),
                place=_caller(parent.frame) if not parent.library else None,
                decision=parent.decision,
                children=tuple(call.records),
                detail={"library": True},
            )
        )

    def _library_operands(self, frame: FrameType | None, reads: dict[int, None]) -> list[Ref | Const]:
        """What a library's function was called with, in the caller's order; what it only closes over last."""
        if frame is None:
            return [Ref(i) for i in reads]
        code, values = frame.f_code, frame.f_locals
        count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & inspect.CO_VARARGS)
        given = jax.tree.leaves([values[n] for n in code.co_varnames[:count] if n in values])
        constants = _library_name(frame) == "getitem"
        ordered: list[Ref | Const] = []
        for value in given:
            if self._is_array(value):
                if value.ident in reads and Ref(value.ident) not in ordered:
                    ordered.append(Ref(value.ident))
            elif constants and isinstance(value, int):
                ordered.append(Const(value))
        return ordered + [Ref(i) for i in reads if Ref(i) not in ordered]

    def _close(self, result: Any) -> None:
        call = self.stack.pop()
        if not call.live:
            return
        parent = self.stack[-1]
        if call.library:
            self._close_library(call, parent, result)
            return
        leaves = [v for v in jax.tree.leaves(result) if self._is_array(v)] if result is not None else []
        self._return(call, result, leaves)
        name = call.code.co_name if call.code else "call"
        arguments = tuple(r.operands[0] for r in call.records if r.kind == "argument")
        parent.records.append(
            Record(
                call.index,
                "call",
                name,
                operands=arguments,
                outputs=tuple(v.ident for v in leaves),
                shapes=tuple(_shape(v) for v in leaves),
                values=self.kept([v.value for v in leaves]) if leaves else _static(result),
                place=_caller(parent.frame),
                decision=parent.decision,
                children=tuple(call.records),
                detail={"python": True},
            )
        )

    def _return(self, call: _Open, result: Any, leaves: list[RecordedValue]) -> None:
        call.records.append(
            Record(
                call.next_index(),
                "return",
                "return",
                operands=tuple(Ref(v.ident) for v in leaves),
                shapes=tuple(_shape(v) for v in leaves),
                values=self.kept([v.value for v in leaves]) if leaves else _static(result),
                decision=call.decision,
                place=_caller(call.frame),
            )
        )

    def finish(self, result: Any) -> None:
        """Record what the tracked function returned."""
        leaves = [v for v in jax.tree.leaves(result) if self._is_array(v)]
        self._return(self.root, result, leaves)


@dataclass(frozen=True)
class _Equation:
    """What `closed_call_body` asks of an equation."""

    primitive: Any
    params: Any


_QUESTIONS = frozenset("__bool__ __int__ __float__ __complex__ __index__ __array__ tolist item".split())


def _asked_by_user() -> bool:
    """Whether it is the user's own line that wants a concrete value, not a check inside a library."""
    frame: FrameType | None = sys._getframe(1)
    inner = ""
    while frame is not None and is_foreign(frame.f_code.co_filename):
        inner, frame = frame.f_code.co_name, frame.f_back
    return inner in _QUESTIONS


def _name_of(body: ClosedJaxpr) -> str | None:
    return getattr(body.jaxpr.debug_info, "func_name", None)


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


def moved(record: Record, index: tuple[int, ...]) -> Record:
    """A record and what is inside, at another place."""
    children = tuple(moved(c, (*index, n)) for n, c in enumerate(record.children, 1))
    return replace(record, index=index, children=children)


def _static(result: Any) -> tuple[Any, ...] | None:
    return (result,) if isinstance(result, int | float | bool | str | np.generic | np.ndarray) else None


def _caller(frame: FrameType | None) -> tuple[str, int] | None:
    return None if frame is None else (frame.f_code.co_filename, frame.f_lineno)


def _place_of(eqn: JaxprEqn) -> tuple[str, int] | None:
    return next(((f, n) for f, n in equation_frames(eqn) if not is_foreign(f)), None)


def _shape(value: Any) -> tuple[tuple[int, ...], str]:
    aval = jax.typeof(value)
    return tuple(getattr(aval, "shape", ())), str(getattr(aval, "dtype", type(value).__name__))


def _arguments(frame: FrameType | None) -> list[tuple[str, Any]]:
    if frame is None:
        return []
    code, values = frame.f_code, frame.f_locals
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return [(n, values[n]) for n in names if n in values]


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
