"""Where things are shown: rich displays where a front end may draw them, text in a plain terminal."""

import sys
import time
from typing import Any

from IPython.display import display

REFRESH = 0.5  # seconds between two lines of text progress


def has_front_end(shell: Any) -> bool:
    """Whether displays go to a Jupyter front end rather than to a terminal."""
    return getattr(shell, "kernel", None) is not None


def show(shell: Any, view: str, subject: Any, text: Any) -> None:
    """Display `gibbsite.views.<view>(subject)`; without a front end, or its packages, print `text`."""
    shown = None
    if has_front_end(shell):
        try:
            from gibbsite import views

            shown = getattr(views, view)(subject) if hasattr(views, view) else subject
        except ImportError as missing:
            print(f"(shown as text: {missing})", file=sys.stderr)
    if shown is None:
        print(text)
    else:
        display(shown)


def watch(shell: Any, run: Any, quiet: bool = False) -> Any:
    """Show a run until it ends, and return it. The first interrupt stops it and keeps its draws."""
    __tracebackhide__ = True
    forget = None
    if not quiet:
        if has_front_end(shell):
            show(shell, "dashboard", run, run)
        else:
            forget = run.subscribe(Lines())
    try:
        try:
            run.wait()
        except KeyboardInterrupt:
            run.stop()
            run.wait()
    finally:
        if forget is not None:
            forget()
    return run


class Lines:
    """Called with a run about once a chunk; prints a line of progress now and then."""

    def __init__(self, out: Any = None):
        self._out, self._last, self._status = out, 0.0, ""

    def __call__(self, run: Any) -> None:
        snapshot = run.snapshot()
        if snapshot.status == self._status and time.monotonic() - self._last < REFRESH:
            return
        self._last, self._status = time.monotonic(), snapshot.status
        print(progress_line(snapshot), file=self._out or sys.stdout, flush=True)


def progress_line(snapshot: Any) -> str:
    """One line that says how far a run is, and how well it does so far."""
    parts = [snapshot.status]
    if snapshot.status == "warmup":
        parts.append(f"{snapshot.warmup_done}/{snapshot.warmup_total}")
    elif snapshot.status != "compiling":
        parts.append(f"{snapshot.draws_done}/{snapshot.draws_total} draws of {snapshot.chains} chains")
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
