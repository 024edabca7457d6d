"""Two runs side by side: of one posterior, or of two models of the same data."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from gibbsite.diagnostics.measures.convergence import some_stats
from gibbsite.diagnostics.measures.snapshot import ScalarStat
from gibbsite.diagnostics.verdict.predictions import Predictions, Row, predictions, same_posterior

_ELEMENTS = 32  # of each site, evenly spaced
_CHANCE = 0.01  # of calling equal means different, over all that are compared


@dataclass(frozen=True)
class Comparison:
    """`rows` of measures; `apart` names scalars whose means differ by more than their errors explain, worst
    first, each with how many standard errors; `compared` counts those that were looked at. Of different
    models none are, and `predictions` says which predicts better."""

    rows: tuple[Row, ...]
    apart: tuple[tuple[str, float], ...]
    compared: int
    largest: float
    predictions: Predictions | None = None

    @property
    def agree(self) -> bool:
        """Whether all means agree within their errors; False where nothing could be compared."""
        return self.compared > 0 and not self.apart

    def __repr__(self) -> str:
        width = max((len(r.name) for r in self.rows), default=0)
        rows = (
            f"{r.name.ljust(width)}  {r.first:10.4g}  {r.second:10.4g}{' ✓' * (r.better > 0)}"
            for r in self.rows
        )
        told = [str(self), *rows] if self.predictions is not None else [*rows, str(self)]
        return "\n".join(told)

    def __str__(self) -> str:
        if self.predictions is not None:
            return str(self.predictions)
        if not self.compared:
            return "the estimates cannot be compared yet"
        if not self.apart:
            return (
                f"same estimates within their errors: {self.compared} means differ by at most "
                f"{self.largest:.1f} standard errors"
            )
        worst = ", ".join(f"{label} by {z:.1f} standard errors" for label, z in self.apart[:3])
        return f"estimates differ: {worst}{', …' * (len(self.apart) > 3)}"


def compare(first: Any, second: Any) -> Comparison:
    """How two ended runs did, and whether they say the same of the sites that both have; of different models,
    which predicts better, by the difference of their elpd: their estimates need not agree.

    Where labels have switched in one of them, or all its chains have one labelling of several, vectors of
    that length are compared sorted, which leaves them none, and other sites that may depend on labels not at
    all. Means are compared by their Monte Carlo
    errors, with a threshold that equal means exceed once in a hundred comparisons (Bonferroni over the
    scalars). Errors of a run that has not converged are too small: what differs then tells against that run.
    """
    rows = []
    for name, of, sign in _MEASURES:
        a, b = of(first), of(second)
        if np.isfinite(a) or np.isfinite(b):
            better = 0 if not (np.isfinite(a) and np.isfinite(b)) or a == b else int(np.sign((b - a) * sign))
            rows.append(Row(name, a, b, better))
    if not same_posterior(first, second):
        found = predictions(first, second)
        return Comparison((*found.rows, *rows), (), 0, 0.0, found)
    lengths = _switched(first) | _switched(second)
    loose = _mirrored(first) | _mirrored(second)
    mine, theirs = _means(first, second, lengths, loose), _means(second, first, lengths, loose)
    scores = {
        label: abs(a.mean - b.mean) / np.hypot(a.mcse, b.mcse)
        for label, a in mine.items()
        if (b := theirs.get(label)) is not None and np.isfinite(a.mcse) and np.isfinite(b.mcse)
    }
    scores = {label: float(z) for label, z in scores.items() if np.isfinite(z)}
    if not scores:
        return Comparison(tuple(rows), (), 0, 0.0)
    limit = float(-ndtri(_CHANCE / 2 / len(scores)))
    apart = sorted(((n, z) for n, z in scores.items() if z > limit), key=lambda pair: -pair[1])
    return Comparison(tuple(rows), tuple(apart), len(scores), max(scores.values()))


def _switched(run: Any) -> set[int]:
    """How many components there are whose labels have switched between chains."""
    told = (n for n in run.snapshot(limit=1).warnings if n.topic in ("labels", "renamed"))
    draws = (run.draws[site] for notice in told for site in notice.sites if site in run.draws)
    return {x.shape[-1] for x in draws if x.ndim == 3}


def _mirrored(run: Any) -> set[str]:
    """The sites that sorting leaves their labels, among those that change with these: a share, for one."""
    told = (n for n in run.snapshot(limit=1).warnings if n.topic == "renamed")
    return {n for notice in told for n in notice.sites if n in run.draws and run.draws[n].ndim != 3}


def _means(run: Any, other: Any, switched: set[int], loose: set[str]) -> Mapping[str, ScalarStat]:
    mine, theirs = run.draws, other.draws
    shared = {
        n: v for n, v in mine.items() if n in theirs and theirs[n].shape[2:] == v.shape[2:] and n not in loose
    }
    if switched:
        free = {n: v for n, v in shared.items() if v.dtype.kind == "f" and not switched & {*v.shape[3:]}}
        shared = {n: np.sort(v, -1) if {*v.shape[2:]} & switched else v for n, v in free.items()}
    sizes = {n: int(np.prod(v.shape[2:], dtype=int)) for n, v in shared.items()}
    elements = {
        n: np.unique(np.linspace(0, k - 1, min(k, _ELEMENTS)).round().astype(int))
        for n, k in sizes.items()
        if k
    }
    return {s.label: s for s in some_stats(shared, elements)}


def _worst(run: Any, measure: str, pick: Any) -> float:
    values = [getattr(s, measure) for s in run.snapshot(limit=60).scalars]
    values = [v for v in values if np.isfinite(v)]
    return float(pick(values)) if values else float("nan")


def _ess_per_second(run: Any) -> float:
    found = run.snapshot(limit=1).efficiency.ess_per_second
    return float("nan") if found is None else float(found)


# name, how to find it, and whether more of it is better
_MEASURES = (
    ("ESS/s", _ess_per_second, 1),
    ("lowest ESS", lambda run: _worst(run, "ess_bulk", min), 1),
    ("highest R-hat", lambda run: _worst(run, "rhat", max), -1),
    ("divergences", lambda run: float(sum(run.snapshot(limit=1).divergences)), -1),
    ("seconds, compiling apart", lambda run: float(run.elapsed - run.snapshot(limit=1).compile_seconds), -1),
)
