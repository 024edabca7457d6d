"""How far something is that takes longer than a moment, on one line, where somebody sits before it."""

import sys
import time
from typing import Any

from gibbsite.ground.lazy_import import later

displays = later("IPython.display")

_A_MOMENT = 2.0  # seconds
_PAUSE = 0.2


class Telling:
    """Tells of `what`, of `count` pieces ("predictions at 200 of 4000 draws"): on standard error in a
    terminal, in a display of its own in a notebook, where standard error would leave an empty box."""

    def __init__(self, what: str, count: int, unit: str = "draws"):
        self._what, self._count, self._unit = what, count, unit
        self._began, self._last, self._width = time.monotonic(), 0.0, 0
        self._shown: Any = None

    def at(self, done: int) -> None:
        """So many are done; with the last of them the line goes."""
        now = time.monotonic()
        if done >= self._count:
            self._say("")
        elif now - self._began > _A_MOMENT and now - self._last > _PAUSE and _is_seen():
            self._last = now
            self._say(f"{self._what} at {done} of {self._count} {self._unit}")

    def _say(self, line: str) -> None:
        if _in_notebook():
            self._display(line)
        elif line or self._width:
            print(f"\r{line:<{self._width}}", end="" if line else "\r", file=sys.stderr, flush=True)
            self._width = len(line)

    def _display(self, line: str) -> None:
        told = {"text/plain": line}
        if self._shown is not None:
            self._shown.update(told, raw=True)
        elif line:
            self._shown = displays.display(told, raw=True, display_id=True)


def _is_seen() -> bool:
    return sys.stderr is not None and (sys.stderr.isatty() or _in_notebook())


def _in_notebook() -> bool:
    return type(sys.stderr).__module__.startswith("ipykernel")
