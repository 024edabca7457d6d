"""The runs of this process, so that none is out of reach, nor cut off by the process's end.

Where a process ends in its own way (a script's last line, a kernel that is restarted or shut down), runs that
are going are stopped first, and have their draws on disk. A forked child has the runs' draws, and none of
their threads: to it they have ended, and it cannot go on with them.
"""

import threading
import weakref
from collections import deque
from typing import Any

from gibbsite.diagnostics.verdict.history import Runs
from gibbsite.ground.process import Wait, after_fork, at_end

# A run that nobody else holds is kept while it is going, and as one of the last that ended: what a notebook's
# name was taken from by an interrupt is among them.
_KEPT = 3
_ALL: list[weakref.ref[Any]] = []
_RECENT: deque[Any] = deque(maxlen=_KEPT)
_lock = threading.Lock()


def remember(run: Any) -> None:
    """Take note of a new run."""
    with _lock:
        _ALL[:] = [r for r in _ALL if r() is not None] + [weakref.ref(run)]
        _RECENT.append(run)


def forget(run: Any) -> None:
    """Leave a run out of `runs`: one that people did not ask for, and whoever did stops it."""
    with _lock:
        _ALL[:] = [r for r in _ALL if r() is not run]
        if run in _RECENT:
            _RECENT.remove(run)


def runs() -> Runs:
    """The runs of this process, oldest first: those going on, the last few made, and all that something still
    refers to. A list that shows itself as a table, with what changed from run to run."""
    with _lock:
        return Runs(run for run in (r() for r in _ALL) if run is not None)


def _end() -> list[Wait]:
    """Stop what is going; it is waited for until it is on disk."""
    going = [run for run in runs() if run.going]
    for run in going:
        run.leave()
    return [run.settle for run in going]


def _forked() -> None:
    """In a forked child, where another thread may have held the lock when it was made."""
    global _lock
    _lock = threading.Lock()
    for run in runs():
        run.forked()


at_end(_end)
after_fork(_forked)
