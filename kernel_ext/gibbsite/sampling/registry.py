"""The runs of this process, so that none is out of reach."""

import threading
import weakref
from collections import deque
from typing import Any

# A run that nobody else holds is kept while it is going, and as one of the last that ended: what a notebook's
# name was taken from by an interrupt is among them.
_KEPT = 3
_LOCK = threading.Lock()
_ALL: list[weakref.ref[Any]] = []
_RECENT: deque[Any] = deque(maxlen=_KEPT)


def remember(run: Any) -> None:
    """Take note of a new run."""
    with _LOCK:
        _ALL[:] = [r for r in _ALL if r() is not None] + [weakref.ref(run)]
        _RECENT.append(run)


def runs() -> list[Any]:
    """The runs of this process, oldest first: those going on, the last few made, and all that something still
    refers to."""
    with _LOCK:
        return [run for run in (r() for r in _ALL) if run is not None]
