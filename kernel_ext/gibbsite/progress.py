"""The progress of a run as lines of text, for terminals and logs."""

import sys
import time
from typing import Any, TextIO

from gibbsite.views.run.content import ENDED, gather, status_of
from gibbsite.views.run.words import progress, text


class Lines:
    """Subscribe it to a run: it prints a line when the status changes, one every `seconds` besides, and at
    the end what the dashboard would show, in words. `stamped` lines begin with the time."""

    def __init__(self, out: TextIO | None = None, seconds: float = 1.0, stamped: bool = False):
        self._out, self._seconds, self._stamped = out, seconds, stamped
        self._last, self._status = 0.0, ""

    def __call__(self, run: Any) -> None:
        if run.status == self._status and time.monotonic() - self._last < self._seconds:
            return
        snapshot = run.snapshot(limit=1)
        self._last, self._status = time.monotonic(), snapshot.status
        self.say(text(gather(run, labels=())) if snapshot.status in ENDED else progress_line(snapshot))

    def say(self, line: str) -> None:
        """Print it, at once."""
        stamp = time.strftime("%Y-%m-%d %H:%M:%S ") if self._stamped else ""
        print(f"{stamp}{line}", file=self._out or sys.stdout, flush=True)


def progress_line(snapshot: Any) -> str:
    """One line that says how far a run is, and how well it does so far."""
    line = f"{status_of(snapshot)[0]} · {progress(snapshot)}"
    if not snapshot.scalars:
        return line
    worst = snapshot.scalars[0]
    return f"{line} · worst: {worst.label} R-hat {worst.rhat:.3f}, ESS {worst.ess_bulk:.0f}"
