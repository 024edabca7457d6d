"""The runs of this process, so that none is out of reach, nor cut off by the process's end.

Where a process ends in its own way (a script's last line, a kernel that is restarted or shut down), runs that
are going are stopped first, and have their draws on disk. A forked child has the runs' draws, and none of
their threads: to it they have ended, and it cannot go on with them.
"""

import concurrent.futures.thread
import os
import threading
import time
import weakref
from collections import deque
from typing import Any

from gibbsite.sampling.verdict.history import Runs

# A run that nobody else holds is kept while it is going, and as one of the last that ended: what a notebook's
# name was taken from by an interrupt is among them.
_KEPT = 3
_ALL: list[weakref.ref[Any]] = []
_RECENT: deque[Any] = deque(maxlen=_KEPT)
# Jupyter waits five seconds for a kernel to end before it kills it
_END_SECONDS = 4.0
_lock = threading.Lock()


def remember(run: Any) -> None:
    """Take note of a new run."""
    with _lock:
        _ALL[:] = [r for r in _ALL if r() is not None] + [weakref.ref(run)]
        _RECENT.append(run)


def runs() -> Runs:
    """The runs of this process, oldest first: those going on, the last few made, and all that something still
    refers to. A list that shows itself as a table, with what changed from run to run."""
    with _lock:
        return Runs(run for run in (r() for r in _ALL) if run is not None)


def _end() -> None:
    """Stop what is going, and wait until it is on disk."""
    going = [run for run in runs() if run.going]
    for run in going:
        run.stop()
    until = time.monotonic() + _END_SECONDS
    for run in going:
        run.settle(max(0.0, until - time.monotonic()))


def _forked() -> None:
    """In a forked child, where another thread may have held the lock when it was made."""
    global _lock
    _lock = threading.Lock()
    for run in runs():
        run.forked()


# `atexit` is too late: by then no thread pool takes work, and Zarr writes with one. The pools' own end is
# registered here, and what was registered last is called first.
_register = getattr(threading, "_register_atexit", None)
if _register is not None and concurrent.futures.thread is not None:
    _register(_end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
