"""A run and its draws → the moments that it went through, each with what `views` asks of a run."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gibbsite.diagnostics.measures.convergence import scalar_stat, worst_first
from gibbsite.diagnostics.measures.moments import SiteMoments
from gibbsite.diagnostics.measures.snapshot import History, ScalarStat, Snapshot, TraceView
from gibbsite.diagnostics.measures.thinned import Thinned

# numbers that are ranked and sorted for the course of all measures, a second or two; beyond that the moments
# tell, as they do of long runs that go on
_NUMBERS = 1_000_000
_WARMING = 6


@dataclass(frozen=True)
class Moment:
    """A run as it was after `draws` draws per chain, or, where there was none yet, after the share `warmed`
    of its warm-up. `measured` are the measures of a course, of which it tells those until then; `now` is what
    the run has come to."""

    run: Any
    now: Snapshot
    draws: int
    warmed: float
    measured: tuple[tuple[int, dict[str, ScalarStat]], ...]

    @property
    def model_name(self) -> str:
        """The model's name."""
        return self.run.model_name

    @property
    def schedule_text(self) -> str:
        """The schedule, as text."""
        return self.run.schedule_text

    def axis_labels(self, site: str) -> list[tuple[str, ...] | None]:
        """The labels along each axis of a site, where its plates have some."""
        return self.run.axis_labels(site)

    def follow(self, label: str) -> None:
        """Nothing: what a course is of is measured at each of its moments."""

    def values(self, label: str) -> np.ndarray:
        """The draws of one scalar by then, `[chain, draw]`."""
        return self.run.values(label)[:, : self.draws]

    def trace(self, label: str, max_points: int) -> TraceView:
        """The same, thinned to at most `max_points` points with the range of each."""
        thinned = Thinned(max_points)
        thinned.add(self.values(label))
        return thinned.view()

    @property
    def divergent(self) -> np.ndarray:
        """The draws by then at which any chain diverged, by number."""
        found = self.run.divergent
        return found[found < self.draws]

    def history(self) -> History:
        """R-hat and ESS as they went until then, by label."""
        until = [(draws, stats) for draws, stats in self.measured if draws <= self.draws]
        return History.of([(d, {n: (s.rhat, s.ess_bulk) for n, s in stats.items()}) for d, stats in until])

    @cached_property
    def _of_warmup(self) -> dict[str, TraceView]:
        """What is known of warm-up until then: all of it once there are draws."""

        def until(trace: TraceView) -> TraceView:
            some = slice(0, max(2, round(self.warmed * trace.draw.size)))
            return TraceView(trace.draw[some], *(v[:, some] for v in (trace.values, trace.low, trace.high)))

        return {label: until(self.run.warmup_trace(label)) for label in self.run.warmup_labels}

    @property
    def warmup_labels(self) -> tuple[str, ...]:
        """The scalars whose warm-up is known."""
        return tuple(self._of_warmup)

    def warmup_trace(self, label: str) -> TraceView:
        """One of them, until then."""
        return self._of_warmup[label]

    def snapshot(self, limit: int) -> Snapshot:
        """The state of the run then, as far as its draws tell: no times, no warnings, no verdict."""
        now = self.now
        stats = next((stats for draws, stats in self.measured if draws == self.draws), {})
        return Snapshot(
            status="sampling" if self.draws else "warmup",
            message=None,
            chains=now.chains,
            warmup_done=round(self.warmed * now.warmup_total),
            warmup_total=now.warmup_total,
            draws_done=self.draws,
            draws_total=now.draws_done,
            elapsed=np.nan,
            eta=None,
            compile_seconds=0.0,
            steps_per_second=0.0,
            divergences=(0,) * now.chains,
            chain_states=(),
            blocks=(),
            scalars=tuple(worst_first(list(stats.values()))[:limit]),
            warnings=(),
            groups=now.groups,
        )


def course(run: Any, labels: Sequence[str], moments: int) -> list[Moment]:
    """Up to `moments` moments of `run`: some of its warm-up where that is known, then such of its sampling,
    evenly spaced, the last with all draws. `labels` are the scalars that are measured at each."""
    now = run.snapshot(0)
    total = now.draws_done
    warming = [(k + 1) / _WARMING for k in range(_WARMING)] if run.warmup_labels and total else []
    at = np.unique(np.linspace(0, total, moments - len(warming) + 1).round().astype(int)[1:])
    at = at[at > 1]
    values = {label: run.values(label) for label in labels}
    exact = sum(v.shape[0] for v in values.values()) * int(at.sum()) <= _NUMBERS
    measure = _measured if exact else _streamed
    stats = {label: measure(label, v, at, run.superchains) for label, v in values.items()}
    marks = tuple((int(n), {label: of[k] for label, of in stats.items()}) for k, n in enumerate(at))
    return [
        *(Moment(run, now, 0, share, ()) for share in warming),
        *(Moment(run, now, n, 1.0, marks) for n, _ in marks),
    ]


def _measured(label: str, values: np.ndarray, at: np.ndarray, together: Any) -> list[ScalarStat]:
    """The measures of the first draws of a scalar `[chain, draw]`, of so many each time."""
    return [scalar_stat(label, label, (), values[:, :n], together) for n in at]


def _streamed(label: str, values: np.ndarray, at: np.ndarray, together: Any) -> list[ScalarStat]:
    """The same by running moments, which have no tail ESS and know nothing of superchains."""
    moments, out, before = SiteMoments(()), [], 0
    for n in at:
        moments.update(values[:, before:n].T)
        before = n
        out += moments.stats(label, [0], values.dtype.kind in "iub")
    return out
