"""The progress of a run as lines of text, for terminals and logs."""

import sys
import time
from typing import Any, TextIO


class Lines:
    """Subscribe it to a run: it prints a line when the status changes, and every `seconds` besides."""

    def __init__(self, out: TextIO | None = None, seconds: float = 1.0):
        self._out, self._seconds, self._last, self._status = out, seconds, 0.0, ""

    def __call__(self, run: Any) -> None:
        snapshot = run.snapshot()
        if snapshot.status == self._status and time.monotonic() - self._last < self._seconds:
            return
        self._last, self._status = time.monotonic(), snapshot.status
        print(progress_line(snapshot), file=self._out or sys.stdout, flush=True)


def progress_line(snapshot: Any) -> str:
    """One line that says how far a run is, and how well it does so far."""
    parts = [snapshot.status]
    if snapshot.status == "warmup":
        parts.append(f"{snapshot.warmup_done}/{snapshot.warmup_total}")
    elif snapshot.status != "compiling":
        parts.append(f"{snapshot.draws_done}/{snapshot.draws_total} draws in {snapshot.chains} chains")
    parts.append(f"{snapshot.elapsed:.1f} s")
    if snapshot.eta is not None and snapshot.status in ("warmup", "sampling"):
        parts.append(f"about {snapshot.eta:.0f} s left")
    divergences = sum(snapshot.divergences)
    if divergences:
        parts.append(f"{divergences} divergences")
    if snapshot.scalars and snapshot.status not in ("compiling", "warmup"):
        worst = snapshot.scalars[0]
        parts.append(f"worst: {worst.label} R-hat {worst.rhat:.3f}, ESS {worst.ess_bulk:.0f}")
    if snapshot.message:
        parts.append(snapshot.message)
    return " · ".join(parts)
