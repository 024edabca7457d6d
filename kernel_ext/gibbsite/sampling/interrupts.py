"""What SIGINT and SIGTERM do to a run that the main thread waits for."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def interrupts(handler: Callable[[int, Any], None]) -> Iterator[None]:
    """Have SIGINT call `handler`, where this thread may say so, and leave all as it was."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def termination(stop: Callable[[], bool]) -> Iterator[None]:
    """Put SIGTERM off until the run has ended and is on disk: batch systems send it some time before they
    kill.

    The first one calls `stop`, and is delivered when the context is left, to whom it would have gone. A
    second one is delivered at once, and so is the first where `stop` returns False: there was no run yet.
    Where the process ignores SIGTERM, it still does.
    """
    before = signal.getsignal(signal.SIGTERM)
    main = threading.current_thread() is threading.main_thread()
    if not main or before in (signal.SIG_IGN, None):
        yield
        return
    waiting = False

    def deliver() -> None:
        nonlocal waiting
        waiting = False
        signal.signal(signal.SIGTERM, before)
        signal.raise_signal(signal.SIGTERM)

    def handler(number: int, frame: Any) -> None:
        nonlocal waiting
        if waiting or not stop():
            deliver()
        else:
            waiting = True

    signal.signal(signal.SIGTERM, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        if waiting:
            deliver()
