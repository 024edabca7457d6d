"""How far something is that takes longer than a moment, on one line, where somebody sits before it."""

import sys
import time

_A_MOMENT = 2.0  # seconds
_PAUSE = 0.2


class Telling:
    """Tells of `what`, of `count` pieces ("predictions at 200 of 4000 draws"), on standard error in a
    terminal and in a notebook."""

    def __init__(self, what: str, count: int, unit: str = "draws"):
        self._what, self._count, self._unit = what, count, unit
        self._began, self._last, self._width = time.monotonic(), 0.0, 0

    def at(self, done: int) -> None:
        """So many are done; with the last of them the line goes."""
        now = time.monotonic()
        if done >= self._count:
            self._say("")
        elif now - self._began > _A_MOMENT and now - self._last > _PAUSE and _is_seen():
            self._last = now
            self._say(f"{self._what} at {done} of {self._count} {self._unit}")

    def _say(self, line: str) -> None:
        if line or self._width:
            print(f"\r{line:<{self._width}}", end="" if line else "\r", file=sys.stderr, flush=True)
            self._width = len(line)


def _is_seen() -> bool:
    out = sys.stderr
    return out is not None and (out.isatty() or type(out).__module__.startswith("ipykernel"))
