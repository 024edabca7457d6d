"""Cutting a tape to what some of its records need."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import jax

from gibbsite.errors import TapeError
from gibbsite.programs.jaxpr.compat import ClosedJaxpr, jaxpr_as_fun, scan_inputs
from gibbsite.tape.queries import nearest_controls
from gibbsite.tape.recording.context import Context
from gibbsite.tape.recording.python_calls import code_of
from gibbsite.tape.recording.record import Record
from gibbsite.tape.recording.recorder import Recorder
from gibbsite.tape.recording.run import record_run

if TYPE_CHECKING:
    from gibbsite.tape.tape import Tape

Place = tuple[int, ...]


def cut(tape: "Tape", wanted: Sequence[Record], control: bool, inside: bool) -> "Tape":
    """Keeps places as they are, so that the slice has gaps."""
    keep = _needed_inside(tape, wanted, control) if inside else _needed_at_top(tape, wanted, control)

    def kept(records: Iterable[Record]) -> tuple[Record, ...]:
        return tuple(_pruned(r) if inside else r for r in records if r.index in keep)

    def _pruned(r: Record) -> Record:
        return replace(r, children=kept(r.children)) if r.children else r

    return replace(tape, records=kept(tape.records))


def _needed_at_top(tape: "Tape", wanted: Sequence[Record], control: bool) -> set[Place]:
    """Top-level records, each with everything that it holds."""
    keep = {r.index[:1] for r in wanted}
    queue = [tape[place] for place in keep]
    while queue:
        for inner in queue.pop().walk():
            for r in _sources(tape, inner, control):
                if r.index[:1] not in keep:
                    keep.add(r.index[:1])
                    queue.append(tape[r.index[:1]])
    return keep


def _needed_inside(tape: "Tape", wanted: Sequence[Record], control: bool) -> set[Place]:
    """Records at any depth, the calls around them, and the arguments of those calls that are read."""
    keep: set[Place] = set()
    queue = list(wanted)
    for record in wanted:  # a call that is wanted is wanted for what it returns
        queue += [maker for i in record.outputs if (maker := tape.makers.get(i)) is not None]
    while queue:
        record = queue.pop()
        if record.index in keep:
            continue
        keep.add(record.index)
        queue += [tape[record.index[:n]] for n in range(1, len(record.index))]  # the calls around
        if not record.children:
            queue += _sources(tape, record, control)
        elif control:
            queue += nearest_controls(tape, record)
    for record in tape.walk():  # a call's arguments and return only name values
        names_only = record.kind in ("argument", "return") and not record.outputs
        if names_only and record.index[:-1] in keep:
            made = all(i not in tape.makers or tape.makers[i].index in keep for i in record.reads)
            if made:
                keep.add(record.index)
    return keep


def _sources(tape: "Tape", record: Record, control: bool) -> list[Record]:
    found = [maker for i in record.reads if (maker := tape.makers.get(i)) is not None]
    return found + nearest_controls(tape, record) if control else found


T = TypeVar("T")


def iterations(record: Record, values: Callable[[Any], list[Any]], make: Callable[..., T]) -> Iterator[T]:
    """One tape per iteration, made by `make`; its first arguments are the loop's constants, then what is
    carried."""
    if record.kind != "loop":
        raise TapeError(f"{record.ref} is a {record.kind}, not a loop: only loops have iterations")
    params, operands = record.detail["params"], values(record.operands)
    return _scan(params, operands, make) if record.op == "scan" else _while(params, operands, make)


def _body(make: Callable[..., T], closed: Any, name: str, *args: Any) -> T:
    run = jaxpr_as_fun(closed if isinstance(closed, ClosedJaxpr) else ClosedJaxpr(closed, ()))

    def step(*xs: Any) -> Any:
        return run(*xs)

    step.__name__ = name
    return record_run(step, args, {}, Recorder(Context(), code_of(step)), make)


def _scan(params: Any, operands: list[Any], make: Callable[..., Any]) -> Iterator[Any]:
    split, carried = scan_inputs(params)
    consts, carry, xs = operands[:split], operands[split : split + carried], operands[split + carried :]
    times = range(params["length"])
    for t in reversed(times) if params["reverse"] else times:
        tape = _body(make, params["jaxpr"], f"scan[{t}]", *consts, *carry, *(x[t] for x in xs))
        carry = list(tape.result[:carried])
        yield tape


def _while(params: Any, operands: list[Any], make: Callable[..., Any]) -> Iterator[Any]:
    tests, bodies = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
    go_on = jaxpr_as_fun(params["cond_jaxpr"])
    carry, t = operands[bodies:], 0
    while bool(jax.device_get(go_on(*operands[:tests], *carry)[0])):
        tape = _body(make, params["body_jaxpr"], f"while[{t}]", *operands[tests:bodies], *carry)
        carry, t = list(tape.result), t + 1
        yield tape
