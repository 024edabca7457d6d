"""The tape of a NumPyro model: tilde statements are records of their own (AutoGibbs, thesis §4.1)."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from numpyro import handlers
from numpyro.primitives import Messenger

from gibbsite.density.model.alone import as_columns
from gibbsite.density.model.collect import base_distribution, is_factor
from gibbsite.tape.recording.context import Context
from gibbsite.tape.recording.python_calls import code_of
from gibbsite.tape.recording.record import STATEMENTS, Record, Ref, shape_of
from gibbsite.tape.recording.recorder import Recorder
from gibbsite.tape.recording.run import record_run
from gibbsite.tape.tape import Tape


class _Seed(handlers.seed):
    """Hands out random keys off the record: they are no part of the model."""

    def __init__(self, recorder: Recorder, seed: int):
        super().__init__(rng_seed=seed)
        self.recorder = recorder

    def process_message(self, msg: dict[str, Any]) -> None:
        with self.recorder.paused():
            super().process_message(msg)


class _Statements(Messenger):
    """Notes every statement of a model on the recorder: for a tilde, its distribution, then the tilde."""

    def __init__(self, fn: Callable, recorder: Recorder):
        super().__init__(fn)
        self.recorder = recorder

    def postprocess_message(self, msg: dict[str, Any]) -> None:
        kind = msg["type"]
        if kind == "sample" and is_factor(msg["fn"]):
            term = base_distribution(msg["fn"]).log_factor
            self._add("factor", "∝", msg, [term], value=term)
        elif kind == "sample" and msg["fn"] is not None:
            made = Ref(self._distribution(msg["fn"]))
            if msg["is_observed"]:
                self._add("observation", "⩪", msg, [made, msg["value"]], value=msg["value"])
            else:
                msg["value"] = self._drawn("assumption", "~", msg, [made])
        elif kind == "deterministic" and self.recorder.is_mine(msg["value"]):
            msg["value"] = self._drawn("deterministic", ":=", msg, [msg["value"]], apply=lambda x: [x])
        elif kind == "deterministic":
            self._add("deterministic", ":=", msg, [msg["value"]], value=msg["value"])
        elif kind == "plate" and self.recorder.is_mine(msg["value"]):
            whole, some = msg["args"]
            if some is not None and some < whole:
                sizes = {"all": whole, "some": some}
                msg["value"] = self._drawn("subsample", "subsample", msg, [], detail=sizes)

    def _distribution(self, distribution: Any) -> int:
        recorder, made = self.recorder, self.recorder.fresh()
        name, parameters = _parameters(distribution)
        plain = {n: recorder.plain(v) for n, v in parameters.items()}
        kept = recorder.kept(list(plain.values()))
        recorder.add(
            "distribution",
            name,
            operands=tuple(map(recorder.operand, parameters.values())),
            outputs=(made,),
            values=None if kept is None else (None,),
            detail={} if kept is None else {"parameters": plain},
        )
        return made

    def _drawn(self, kind: str, op: str, msg: dict[str, Any], operands: list[Any], **parts: Any) -> Any:
        """The statement's value, from now on known as what this statement made."""
        wrapped = self.recorder.wrap(self.recorder.plain(msg["value"]))
        self._add(kind, op, msg, operands, msg["value"], outputs=(wrapped.ident,), **parts)
        return wrapped

    def _add(
        self, kind: str, op: str, msg: dict[str, Any], operands: list[Any], value: Any, **parts: Any
    ) -> None:
        recorder, plain = self.recorder, self.recorder.plain(value)
        notes = {n: recorder.plain(msg[n]) for n in ("scale", "mask") if msg.get(n) is not None}
        recorder.add(
            kind,
            op,
            operands=tuple(o if isinstance(o, Ref) else recorder.operand(o) for o in operands),
            shapes=(shape_of(plain),),
            values=recorder.kept([plain]),
            name=msg["name"],
            metadata=notes,
            **parts,
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
    fn: Callable, args: tuple = (), kwargs: Mapping[str, Any] | None = None, seed: int = 0
) -> Tape:
    """Everything one run of a NumPyro model does, the drawing of its latents included.

    A latent's draw is computed by records before its statement; from there on it is a value that was given,
    so that the model depends on its statements and not on a random number generator.
    """
    recorder = Recorder(Context(), code_of(fn))
    with _Seed(recorder, seed), as_columns:
        run = _Statements(fn, recorder)
        run.__name__ = getattr(fn, "__name__", "model")  # type: ignore[attr-defined]
        return record_run(run, args, dict(kwargs or {}), recorder, Tape)


def tape_of_model(
    fn: Callable, args: tuple = (), kwargs: Mapping[str, Any] | None = None, seed: int = 0
) -> Tape:
    """One run of a model, cut to what its statements depend on and numbered anew.

    Prints as AutoGibbs's listing does: `⟨4⟩ = w ~ ⟨3⟩ → [0.82 0.17]`, `⟨8⟩ = x ⩪ ⟨7⟩ ← ⟨2⟩`; also
    `⟨5⟩ = theta := ⟨4⟩ → 0.3` for a deterministic site, `⟨6⟩ = f ∝ exp(⟨5⟩)` for a factor and
    `⟨7⟩ = n ~ 3 of 6 → [3 2 4]` for the subsample of a plate. `track_model` keeps everything. Exceptions of
    the model pass through with the tape so far as their attribute `tape`.
    """
    full = track_model(fn, args, kwargs, seed)
    statements = [r for r in full.walk() if r.kind in STATEMENTS]
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
