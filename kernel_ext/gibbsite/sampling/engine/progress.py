"""Work that one thread is at and others may wait for: they are told the stages of it."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Tell = Callable[[str, bool], None]
_LOOK_SECONDS = 0.05


class UnderWay:
    """What the thread that holds a lock is at, for those that wait for it."""

    def __init__(self) -> None:
        self._stage: str | None = None
        self._waiting = 0
        self._count = threading.Lock()

    @property
    def awaited(self) -> bool:
        """Whether somebody waits."""
        return self._waiting > 0

    def also_told(self, tell: Tell) -> Tell:
        """`tell`, which lets those that wait know, too."""

        def told(stage: str, breakable: bool) -> None:
            self._stage = stage
            tell(stage, breakable)

        return told

    @contextmanager
    def taken(self, lock: threading.Lock, tell: Tell) -> Iterator[None]:
        """The lock is held; until then `tell` is told what its holder is at, which is not the caller's to
        break off."""
        if not lock.acquire(blocking=False):
            self._wait(lock, tell)
        try:
            yield
        finally:
            lock.release()

    def _wait(self, lock: threading.Lock, tell: Tell) -> None:
        with self._count:
            self._waiting += 1
        try:
            while not lock.acquire(timeout=_LOOK_SECONDS):
                if (stage := self._stage) is not None:
                    tell(stage, False)
        finally:
            with self._count:
                self._waiting -= 1
