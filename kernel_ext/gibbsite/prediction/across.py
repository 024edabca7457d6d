"""A prediction from draws of several structures: each draw's from the ordinary model of its structure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from gibbsite.diagnostics.predictive.parts import Part, joined
from gibbsite.errors import ModelError
from gibbsite.prediction.prediction import Prediction

_APART = 1_000_003
"""Between the seeds of structures, so that no two draws share their random numbers."""
_TOLD = 3


def across(
    parts: Sequence[Part],
    one: Callable[[Part, int], Prediction],
    wanted: int | None,
    seed: int,
    prior: bool = False,
) -> Prediction:
    """What `one(part, seed)` predicts for each of the `parts`, in the run's own order of draws, of which
    `wanted` per chain, evenly spaced, are taken: sites that all of these have, in one shape; `prior`:
    draws are those of the prior. Raises `ModelError` where outcomes are other ones, or of other shapes."""
    parts = _thinned(parts, wanted)
    found = [one(part, seed + _APART * i) for i, part in enumerate(parts)]
    first = found[0]
    arrays = joined(parts, [p.draws for p in found])
    outcomes = tuple(n for n in first.outcomes if n in arrays)
    lost = {n for p in found for n in p.outcomes} - {*outcomes}
    if lost or not outcomes:
        raise ModelError(
            f"{', '.join(sorted(lost))} has other elements in some structures than in others: predict from "
            "one structure at a time, model.structure(…)"
        )
    shares = [np.mean(part.there) for part in parts if part.there is not None]
    probs = {
        n: np.tensordot(shares, np.stack([p.probs[n] for p in found]), 1)
        for n, v in first.probs.items()
        if n in arrays and all(n in p.probs and np.shape(p.probs[n]) == np.shape(v) for p in found)
    }

    def expected() -> Mapping[str, np.ndarray]:
        return joined(parts, [p.expected for p in found])

    notes = [] if prior else list(dict.fromkeys(said for p in found for said in p.note.split("; ")))
    many = f"{len(parts)} structures" if len(parts) > 1 else "one structure"
    told = ["the prior, before any data"] * prior + [
        f"{many}, each draw in its own",
        *notes[:_TOLD],
        *["…"] * (len(notes) > _TOLD),
    ]
    run = None if first.facts.pairs is None else first.facts.pairs[0]
    count = sum(int(np.sum(part.there)) for part in parts if part.there is not None)
    facts = replace(first.facts, outcomes=outcomes, seed=seed, pairs=(run, seed, (), count))
    facts = replace(facts, group="prior_predictive") if prior else facts
    return Prediction(
        arrays, probs, "; ".join(told), facts, joined(parts, [p.known for p in found]), expected
    )


def _thinned(parts: Sequence[Part], wanted: int | None) -> Sequence[Part]:
    steps = 0 if parts[0].there is None else parts[0].there.shape[1]
    if wanted is None or wanted >= steps:
        return parts
    at = np.linspace(0, steps - 1, wanted).round().astype(int)
    taken, out = np.zeros(steps, bool), []
    taken[at] = True
    for part in parts:
        there = np.asarray(part.there)
        kept = np.broadcast_to(taken, there.shape)[there]
        if kept.any():
            draws = {n: v[:, kept] for n, v in part.draws.items()}
            out.append(replace(part, draws=draws, there=there[:, at]))
    return out
