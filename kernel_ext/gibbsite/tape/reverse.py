"""Reverse-mode differentiation that uses nothing but the recorded list (thesis §3.3's proof of concept)."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from gibbsite.errors import TapeError
from gibbsite.tape.recording.context import Context, Step
from gibbsite.tape.recording.record import Record, Ref

if TYPE_CHECKING:
    from gibbsite.tape.tape import Tape


@dataclass(frozen=True)
class ReverseMode(Context):
    """Enters no function with a derivative of its own, so that its rule is the one that is used."""

    def enters(self, step: Step) -> bool:
        return not step.primitive.startswith("custom_")


def gradients(tape: "Tape") -> tuple[Any, ...]:
    """Gradients of the scalar that was returned with respect to the followed floating-point arguments.

    Goes backwards over the records, adding up cotangents; each record's own derivative is JAX's rule for its
    primitive at the recorded values. Arguments that are not floating-point get None. Raises `TapeError`
    without values, for a result that is not a float scalar, and for a loop on a traced predicate.
    """
    if not isinstance(tape.structure, Ref):
        raise TapeError("gradients need a function that returns one scalar that depends on its arguments")
    result = tape.value_of(tape.structure)
    if jnp.shape(result) != () or not _smooth(result):
        raise TapeError(f"gradients need one float scalar; {tape.name} returned shape {jnp.shape(result)}")
    bars: dict[int, Any] = {tape.structure.ident: jnp.ones_like(result)}
    for record in reversed(list(_steps(tape.records))):
        if any(i in bars for i in record.outputs):
            _pull(tape, record, bars)
    followed = [r for r in tape.records if r.kind == "argument" and r.outputs]
    return tuple(
        bars.get(r.outputs[0], jnp.zeros_like(r.value)) if _smooth(r.value) else None for r in followed
    )


def _steps(records: tuple[Record, ...]) -> Any:
    for r in records:
        own_rule = str(r.detail.get("primitive", "")).startswith("custom_")
        if r.children and not own_rule:
            yield from _steps(r.children)
        elif r.apply is not None:
            yield r


def _pull(tape: "Tape", record: Record, bars: dict[int, Any]) -> None:
    if record.op == "while":
        raise TapeError(f"{record.ref} is a loop on a traced predicate: no reverse pass (use a bounded loop)")
    values = [tape.value_of(o) for o in record.operands]
    at = [
        n
        for n, (o, v) in enumerate(zip(record.operands, values, strict=True))
        if isinstance(o, Ref) and _smooth(v)
    ]
    if not at:
        return
    smooth_out = [n for n, v in enumerate(record.values or ()) if _smooth(v)]

    def partial(*xs: Any) -> list[Any]:
        full = list(values)
        for n, x in zip(at, xs, strict=True):
            full[n] = x
        outs = record.apply(*full) if record.apply else []
        return [outs[n] for n in smooth_out]

    outs, pull = jax.vjp(partial, *(values[n] for n in at))
    seeds = [bars.get(record.outputs[n], jnp.zeros_like(v)) for n, v in zip(smooth_out, outs, strict=True)]
    for n, bar in zip(at, pull(seeds), strict=True):
        operand = record.operands[n]
        if isinstance(operand, Ref):
            bars[operand.ident] = bars[operand.ident] + bar if operand.ident in bars else bar


def _smooth(value: Any) -> bool:
    return hasattr(value, "dtype") and jnp.issubdtype(value.dtype, jnp.inexact)
