"""A store under a run → what a person is told of it: how old its last commit is, whether the disk will do."""

import shutil
import time
from typing import Any

from gibbsite.diagnostics.measures.snapshot import Notice, Stored
from gibbsite.ground.process import readable


def stored(store: Any, left: float) -> Stored | None:
    """What is on disk of a run that has `left` bytes still to come, as they are in memory; None without a
    store. They are taken to shrink on disk as much as the draws before them."""
    if store is None:
        return None
    try:
        free = shutil.disk_usage(store.path).free
    except OSError:  # the folder is gone: the next commit tells
        free = None
    age = None if store.committed is None else time.monotonic() - store.committed
    return Stored(store.place, age, round(left * store.shrinks_to), free)


def store_notices(found: Stored | None, error: Exception | None) -> tuple[Notice, ...]:
    """Of a store that cannot be written to, and of a disk that will not hold what is still to come."""
    if error is not None:
        return (Notice(str(error), ""),)
    if found is None or found.free is None or found.wanted < found.free:
        return ()
    return (
        Notice(
            f"the disk of {found.path!r} has {readable(found.free)} left, and what is still to come wants "
            f"about {readable(found.wanted)}",
            "make room: draws that find none stay in memory, and go to disk once there is",
        ),
    )
