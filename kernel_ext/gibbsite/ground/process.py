"""The process that Gibbsite is a guest in: told of its end, of its forks, and of free memory.

At its end whatever is under way is asked to end, all of it at once, and then waited for, in all as long as
Jupyter waits for a kernel that is restarted or shut down.
"""

import concurrent.futures.thread
import gc
import os
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

# Jupyter waits five seconds for a kernel to end before it kills it
_SECONDS = 4.0
Wait = Callable[[float], object]
_ends: list[Callable[[], Iterable[Wait]]] = []


def at_end(end: Callable[[], Iterable[Wait]]) -> None:
    """Have `end()` called when the process ends in its own way. It tells what is under way to end and returns
    what waits for that, for as many seconds as it is given; waited for is in the order of these calls."""
    _ends.append(end)


def after_fork(forked: Callable[[], object]) -> None:
    """Have `forked()` called in every forked child, where none of this process's other threads are."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=forked)


def _end() -> None:
    until = time.monotonic() + _SECONDS
    for wait in [wait for end in _ends for wait in end()]:
        wait(max(0.0, until - time.monotonic()))
    # what ends goes with the process: Python would walk through all programs and traces several times,
    # 1.5 s of the 2.5 that Jupyter waits before it sends SIGTERM
    gc.freeze()


# `atexit` is too late: by then no thread pool takes work, and Zarr writes with one; and programs are compiled
# with them. The pools' own end is registered here, and what was registered last is called first.
_register = getattr(threading, "_register_atexit", None)
if _register is not None and concurrent.futures.thread is not None:
    _register(_end)


def readable(size: float) -> str:
    """A number of bytes for people."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def available_memory() -> int:
    """Bytes of memory that can be had now without swapping, as far as the system tells."""
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
