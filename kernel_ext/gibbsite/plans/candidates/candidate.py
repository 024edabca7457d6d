"""A schedule that was weighed: what it promises, what a trial found, what decided, and what came of it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Candidate:
    """A schedule that a model could have, as `text`, and which rewrite made it.

    `work` is that of a sweep, a count of operations which is the same on every machine. `times` are the
    least and the most integrated autocorrelation time, in sweeps, that are predicted for the site that moves
    least, and `measured` what a trial found; `slowest` names the tie that decides. `refused` says what kept
    it from being weighed; `chosen` is whether it is the model's schedule, and `because` then the one reason.
    """

    text: str
    rewrite: str
    work: float = math.nan
    times: tuple[float, float] = (math.nan, math.nan)
    measured: float | None = None
    slowest: str = ""
    refused: str = ""
    chosen: bool = False
    because: str = ""

    @property
    def predicted(self) -> float:
        """Effective draws per million operations: between what the least and the most time give, their
        geometric mean."""
        return 1e6 / (self.work * math.sqrt(self.times[0] * self.times[1]))

    @property
    def efficiency(self) -> float:
        """Effective draws per million operations, as measured where a trial tells, else as predicted."""
        return self.predicted if self.measured is None else 1e6 / (self.work * self.measured)

    def outcome(self, times: float | None, per_second: float | None) -> Mapping[str, Any]:
        """What was predicted beside what came of it in a run: `times`, the integrated autocorrelation time
        of its slowest number, in sweeps, and effective draws `per_second`. Of a unit of work a nanosecond is
        expected, for four chains."""
        each = None if math.isnan(self.work) else 4e3 * self.efficiency
        predicted = {"times": self.times, "tried": self.measured, "ess_per_second": each}
        return {
            "schedule": self.text,
            "predicted": predicted,
            "measured": {"times": times, "ess_per_second": per_second},
        }

    def __str__(self) -> str:
        if self.refused:
            return f"{self.text}: not offered: {self.refused}"
        if math.isnan(self.work):
            return f"{self.text}: {self.because}"
        low, high = self.times
        between = f"{low:.1f}" if high < 1.05 * low else f"{low:.1f} to {high:.0f}"
        told = f"time of the slowest {between} predicted"
        if self.measured is not None:
            told = f"time of the slowest {self.measured:.1f} as tried"
        head = f"{self.text}: {self.efficiency:.3g} effective draws per million operations"
        why = self.because or self.slowest
        return f"{head} ({self.work:,.0f} a sweep, {told}{f'; {why}' if why else ''})"


def told(candidates: tuple[Candidate, ...], most: int = 4) -> list[str]:
    """The chosen one and the next, a line each; nothing where there was nothing to choose."""
    weighed = [c for c in candidates if not c.refused]
    if len(weighed) < 2:
        return []
    first, *rest = weighed[:most]
    return [f"chosen: {first}", *(f"weighed: {c}" for c in rest)]
