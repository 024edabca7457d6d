"""The tape of a NumPyro model: tilde statements are records of their own (AutoGibbs, thesis §4.1)."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import jax
from numpyro import handlers
from numpyro.primitives import Messenger

from gibbsite.trace.context import Context
from gibbsite.trace.record import Record, Ref
from gibbsite.trace.recorder import Recorder, code_of
from gibbsite.trace.tape import Tape
from gibbsite.trace.track import record_run


class _Statements(Messenger):
    """Notes every `sample` statement on the recorder: its distribution, then the tilde."""

    def __init__(self, fn: Callable, recorder: Recorder):
        super().__init__(fn)
        self.recorder = recorder

    def postprocess_message(self, msg: dict[str, Any]) -> None:
        if msg["type"] != "sample" or msg["fn"] is None:
            return
        recorder, made = self.recorder, self.recorder.fresh()
        name, parameters = _parameters(msg["fn"])
        plain_parameters = {n: recorder.plain(v) for n, v in parameters.items()}
        kept = recorder.kept(list(plain_parameters.values()))
        recorder.add(
            "distribution",
            name,
            operands=tuple(map(recorder.operand, parameters.values())),
            outputs=(made,),
            values=None if kept is None else (None,),
            detail={} if kept is None else {"parameters": plain_parameters},
        )
        value, site = msg["value"], msg["name"]
        plain = recorder.plain(value)
        shape = (tuple(jax.numpy.shape(plain)), str(jax.numpy.result_type(plain)))
        if msg["is_observed"]:
            operands = (Ref(made), recorder.operand(value))
            recorder.add(
                "observation",
                "⩪",
                operands=operands,
                shapes=(shape,),
                values=recorder.kept([plain]),
                name=site,
            )
            return
        msg["value"] = wrapped = recorder.wrap(plain)
        recorder.add(
            "assumption",
            "~",
            operands=(Ref(made),),
            outputs=(wrapped.ident,),
            shapes=(shape,),
            values=recorder.kept([plain]),
            name=site,
        )


def _parameters(distribution: Any) -> tuple[str, dict[str, Any]]:
    base = distribution
    while hasattr(base, "base_dist") and not getattr(base, "arg_constraints", None):
        base = base.base_dist
    names = [n for n in base.arg_constraints if n in base.__dict__]
    name = type(base).__name__
    for suffix in ("Probs", "Logits"):
        name = name.removesuffix(suffix)
    return name, {n: base.__dict__[n] for n in names}


def track_model(
    fn: Callable,
    args: tuple = (),
    kwargs: Mapping[str, Any] | None = None,
    seed: int = 0,
    *,
    context: Context | None = None,
) -> Tape:
    """Everything one run of a NumPyro model does, the drawing of its latents included."""
    recorder = Recorder(context or Context(), code_of(fn))
    with handlers.seed(rng_seed=seed):
        run = _Statements(fn, recorder)
        run.__name__ = getattr(fn, "__name__", "model")  # type: ignore[attr-defined]
        return record_run(run, args, dict(kwargs or {}), recorder)


def tape_of_model(
    fn: Callable,
    args: tuple = (),
    kwargs: Mapping[str, Any] | None = None,
    seed: int = 0,
    *,
    context: Context | None = None,
) -> Tape:
    """One run of a model, cut to what its random variables depend on and numbered anew.

    Prints as AutoGibbs's listing does: `⟨4⟩ = w ~ ⟨3⟩ → [0.82 0.17]`, `⟨8⟩ = x ⩪ ⟨7⟩ ← ⟨2⟩`. `track_model`
    keeps everything. Exceptions of the model pass through with the tape so far as their attribute `tape`.
    """
    full = track_model(fn, args, kwargs, seed, context=context)
    statements = [r for r in full.walk() if r.kind in ("assumption", "observation")]
    return renumbered(full.slice(*statements)) if statements else full


def renumbered(tape: Tape) -> Tape:
    """A slice without gaps in its numbers."""
    places: dict[tuple[int, ...], tuple[int, ...]] = {}

    def assign(records: tuple[Record, ...], head: tuple[int, ...]) -> None:
        for n, r in enumerate(records, 1):
            places[r.index] = (*head, n)
            assign(r.children, places[r.index])

    def move(r: Record) -> Record:
        decision = None if r.decision is None else places.get(r.decision)
        return replace(
            r, index=places[r.index], decision=decision, children=tuple(move(c) for c in r.children)
        )

    assign(tape.records, ())
    return replace(tape, records=tuple(move(r) for r in tape.records))


__all__ = ["renumbered", "tape_of_model", "track_model"]
