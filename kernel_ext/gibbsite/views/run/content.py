"""What a dashboard shows at one moment, gathered from a run: the same for the live view, SVG and text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gibbsite.diagnostics.measures import series
from gibbsite.sampling.run import Run
from gibbsite.sampling.watch.course import Moment
from gibbsite.storage.names import scalar_name

RHAT_LIMIT = 1.01
ESS_PER_CHAIN = 100
MAX_CHAINS = 8
MAX_POINTS = 400
MAX_MARKS = 200
STATUS_WORDS = {
    "compiling": "compiling",
    "warmup": "warming up",
    "sampling": "sampling",
    "finished": "finished",
    "stopped": "stopped early, draws kept",
    "failed": "failed",
}
BEFORE_DRAWS = "stopped before its first draw"
PROVEN = "finished, converged"
OF_PRIOR = "finished, draws of the prior"
UNPROVEN = "finished, not converged"
ENDED = frozenset({"finished", "stopped", "failed"})


def status_of(snapshot: Any) -> tuple[str, str]:
    """The status of a run in words, and the status whose colour it has: before it draws, the stage it is at;
    a finished run whose draws cannot be used yet says so."""
    if snapshot.status == "compiling" and snapshot.stage:
        return snapshot.stage, snapshot.status
    verdict = getattr(snapshot, "verdict", None)
    if snapshot.status == "finished" and verdict is not None:
        if verdict.ok:
            return OF_PRIOR if verdict.state == "prior" else PROVEN, snapshot.status
        return (UNPROVEN, "stopped") if verdict.state == "not yet" else ("finished, but failed", "failed")
    if snapshot.status == "stopped" and not snapshot.draws_done:
        return BEFORE_DRAWS, snapshot.status
    return STATUS_WORDS[snapshot.status], snapshot.status


@dataclass(frozen=True)
class Parameter:
    """The plots of one scalar. Arrays are `[chain, …]` over the first `MAX_CHAINS` chains.

    With `warmup` they are of warm-up steps, which are no draws: there are no ranks and no autocorrelation.
    """

    label: str
    draw: np.ndarray
    values: np.ndarray
    low: np.ndarray
    high: np.ndarray
    ranks: np.ndarray
    autocorrelation: np.ndarray
    warmup: bool = False


@dataclass(frozen=True)
class Content:
    """One moment of a run."""

    model: str
    schedule: str
    snapshot: Any
    parameters: tuple[Parameter, ...]
    marks: np.ndarray
    rhat: Mapping[str, np.ndarray]
    ess: Mapping[str, np.ndarray]
    divergent: np.ndarray
    called: Mapping[str, str] = field(default_factory=dict)  # what people call the scalars of these labels

    @property
    def ess_limit(self) -> int:
        """The bulk ESS that a summary should reach before it is trusted."""
        return ESS_PER_CHAIN * (getattr(self.snapshot, "groups", 0) or self.snapshot.chains)

    @property
    def warming(self) -> bool:
        """Whether it is warm-up that is plotted."""
        return any(p.warmup for p in self.parameters)


def choose(current: Sequence[str], ranking: Sequence[str], slots: int) -> tuple[str, ...]:
    """The worst `slots` labels, but without flicker: one stays while it is among the worst `2 * slots`."""
    near = set(ranking[: 2 * slots])
    kept = [label for label in current if label in near][:slots]
    new = [label for label in ranking if label not in kept]
    chosen = (kept + new)[:slots]
    place = {label: i for i, label in enumerate(ranking)}
    # A new worst always gets in.
    if ranking and ranking[0] not in chosen:
        chosen[-1] = ranking[0]
    return tuple(chosen) if set(chosen) == set(current) else tuple(sorted(chosen, key=place.__getitem__))


def spread(scalars: Sequence[Any]) -> list[str]:
    """Labels in the order that deserves plots: the worst of each site, then the second worst of each, …

    A site with thousands of elements would fill every plot otherwise.
    """
    seen: dict[str, int] = {}
    turns = []
    for place, scalar in enumerate(scalars):
        turn = seen[scalar.site] = seen.get(scalar.site, -1) + 1
        turns.append((turn, place, scalar.label))
    return [label for _, _, label in sorted(turns)]


def gather(
    run: Run | Moment,
    labels: Sequence[str] | None,
    previous: Sequence[str] = (),
    slots: int = 3,
    limit: int = 24,
    points: int = MAX_POINTS,
) -> Content:
    """The state of `run` now, or at a moment of its course.

    Args:
        labels: parameters to plot, or None for the worst ones.
        previous: what was plotted the last time, to change it no more than needed.
        slots: how many parameters to plot.
        limit: how many scalars to list, worst first.
        points: how many a trace has at most.
    """
    for label in (labels or ())[:slots]:
        run.follow(label)
    snapshot = run.snapshot(limit)
    ranking = spread(snapshot.scalars)
    chosen = tuple(labels)[:slots] if labels is not None else choose(previous, ranking, slots)
    ready = snapshot.draws_done > 1
    history = run.history()
    marks = np.asarray(history.draw)
    keep = _thin(len(marks), MAX_MARKS)
    names = dict.fromkeys([*chosen, *ranking])
    if ready:
        parameters = tuple(_parameter(run, label, points) for label in chosen)
    else:
        parameters = _warming(run, chosen, snapshot.chains, slots)
    return Content(
        model=run.model_name,
        schedule=run.schedule_text,
        snapshot=snapshot,
        parameters=parameters,
        marks=marks[keep],
        rhat={n: np.asarray(history.rhat[n])[keep] for n in names if n in history.rhat},
        ess={n: np.asarray(history.ess[n])[keep] for n in names if n in history.ess},
        divergent=series.evenly(run.divergent) if ready else np.zeros(0, int),
        called={label: called(run, label) for label in [*(p.label for p in parameters), *ranking]},
    )


def called(run: Run | Moment, label: str) -> str:
    """`alpha[Hennepin]` where the element `alpha[3]` has a label, else the scalar's label."""
    site, _, rest = label.removesuffix("]").rpartition("[")
    index = [int(i) for i in rest.split(", ") if i.isdecimal()]
    labels = run.axis_labels(site) if site else ()
    if not index or not any(labels) or len(labels) != len(index):
        return label
    return scalar_name(site, index, labels)


def _parameter(run: Run | Moment, label: str, points: int) -> Parameter:
    trace = run.trace(label, max_points=points)
    values = np.asarray(run.values(label))
    some = slice(0, MAX_CHAINS)
    return Parameter(
        label=label,
        draw=np.asarray(trace.draw),
        values=np.asarray(trace.values)[some],
        low=np.asarray(trace.low)[some],
        high=np.asarray(trace.high)[some],
        ranks=series.rank_counts(values)[some],
        autocorrelation=series.autocorrelation(values[some]),
    )


def _warming(run: Run | Moment, chosen: Sequence[str], chains: int, slots: int) -> tuple[Parameter, ...]:
    """Warm-up so far, of the chosen scalars where they are followed, else of the first ones."""
    known = run.warmup_labels
    labels = [label for label in chosen if label in known] or list(known)[:slots]
    nothing = np.zeros((min(chains, MAX_CHAINS), 0))
    views = [(label, run.warmup_trace(label)) for label in labels]
    return tuple(
        Parameter(n, v.draw, v.values, v.low, v.high, nothing, nothing, warmup=True)
        for n, v in views
        if v.draw.size > 1
    )


def _thin(length: int, most: int) -> np.ndarray:
    """At most `most` places of a series, its last always among them."""
    if length <= most:
        return np.arange(length)
    return np.unique(np.linspace(0, length - 1, most).round().astype(int))
