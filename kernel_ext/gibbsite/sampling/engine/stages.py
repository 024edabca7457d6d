"""What a run is at, by name, and how long each stage has taken."""

import threading
import time
from collections.abc import Callable

ANALYSING, TRACING, COMPILING, STARTING = "analysing", "tracing", "compiling", "finding starts"
WARMING, SAMPLING = "warming up", "sampling"


class Stages:
    """Written by the threads that do the work, read by any."""

    def __init__(self) -> None:
        self._spent: dict[str, float] = {}
        self._now: tuple[str, float] | None = None

    @property
    def now(self) -> str | None:
        """The stage of this moment; None before the first and after the last."""
        current = self._now
        return None if current is None else current[0]

    def enter(self, name: str | None) -> None:
        """Begin a stage, or go on with it; None ends the last one."""
        before, at = self._now, time.monotonic()
        if before is not None:
            if before[0] == name:
                return
            self.add(before[0], at - before[1])
        self._now = None if name is None else (name, at)

    def add(self, name: str, seconds: float) -> None:
        """Count time that was spent before the run was there."""
        self._spent = {**self._spent, name: self._spent.get(name, 0.0) + seconds}

    def seconds(self) -> dict[str, float]:
        """Seconds by stage, in the order of their beginning, up to this moment."""
        spent, current = self._spent, self._now
        if current is None:
            return dict(spent)
        name, since = current
        return {**spent, name: spent.get(name, 0.0) + time.monotonic() - since}


class Ticker:
    """Calls `tick` every `seconds` from a thread of its own, for as long as the context lasts: a clock that
    is looked at moves, whatever the run is at."""

    def __init__(self, tick: Callable[[], object], seconds: float = 1.0):
        self._tick, self._seconds, self._over = tick, seconds, threading.Event()

    def __enter__(self) -> "Ticker":
        self._thread = threading.Thread(target=self._run, name="gibbsite clock", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(self._seconds)

    def _run(self) -> None:
        while not self._over.wait(self._seconds):
            self._tick()
