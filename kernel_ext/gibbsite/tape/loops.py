"""Iterations of recorded loops, unrolled when somebody asks."""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import jax

from gibbsite.errors import TapeError
from gibbsite.programs.jaxpr.compat import ClosedJaxpr, jaxpr_as_fun, scan_inputs
from gibbsite.tape.recording.context import Context
from gibbsite.tape.recording.python_calls import code_of
from gibbsite.tape.recording.record import Record
from gibbsite.tape.recording.recorder import Recorder
from gibbsite.tape.recording.run import record_run

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
