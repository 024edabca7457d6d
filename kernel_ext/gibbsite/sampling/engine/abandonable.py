"""Work that can be left at any moment: it has a thread of its own, and whoever waits for it may go.

XLA does not let go of a compilation, and Python cannot make it. So a run that is stopped while its programs
are compiled leaves them: they are finished in the background, and there when they are wanted again. Tracing
is Python, and runs the model under NumPyro's handlers, which are one stack for all threads: it is ended.
"""

import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_LOOK_SECONDS = 0.05
# how long to wait for tracing to let go of NumPyro's handlers
_UNWIND_SECONDS = 0.5


class _Leave(BaseException):
    """Raised in the middle of tracing; no model should catch it."""


class Work:
    """`do(tell)` under way, where `tell(stage, breakable)` says what it is at, and whether that may be broken
    off rather than left to itself. A process that ends while XLA compiles is aborted, so its end waits for
    that, unless the thread is a `daemon`, for whose sake nothing waits. `after()` is called at the end.
    """

    def __init__(
        self,
        do: Callable[[Callable[[str, bool], None]], Any],
        name: str,
        daemon: bool = False,
        after: Callable[[], object] = lambda: None,
    ):
        self.stage: str | None = None
        self._breakable, self._lock, self._done = False, threading.Lock(), threading.Event()
        self._left, self._after = False, after
        self._result: Any = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(do,), name=name, daemon=daemon)
        self._thread.start()

    def _run(self, do: Callable[[Callable[[str, bool], None]], Any]) -> None:
        try:
            try:
                self._result = do(self._tell)
            finally:
                with self._lock:  # from here on nothing is thrown into it
                    self._breakable = False
        except BaseException as error:
            self._error = error
        finally:
            self._done.set()
            self._after()

    def _tell(self, stage: str, breakable: bool) -> None:
        with self._lock:
            self.stage, self._breakable = stage, breakable and not self._left
            if self._left and breakable:
                raise _Leave

    def result(self, stop: threading.Event, look: Callable[[str | None], None]) -> Any:
        """What `do` returned or raised; None where `stop` was set first, within a tenth of a second.

        Meanwhile `look` is told the stage, again and again.
        """
        while not self._done.wait(_LOOK_SECONDS):
            look(self.stage)
            if stop.is_set():
                self.leave()
                return None
        return self._found()

    def _found(self) -> Any:
        if self._error is not None:
            raise self._error
        return self._result

    def leave(self) -> None:
        """Break it off where that may be; what comes later that may be broken off does not begin."""
        with self._lock:
            self._left = True
            if not self._breakable:
                return
            self._breakable = False
            ident = ctypes.c_ulong(self._thread.ident or 0)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, ctypes.py_object(_Leave))
        self._thread.join(_UNWIND_SECONDS)


@contextmanager
def beside(do: Callable[[], Any]) -> Iterator[Callable[[], Any]]:
    """`do()` in another thread meanwhile, and a function that waits for what it returns; the context does not
    end before that does. The process waits for it if it waits for the thread that is in the context."""
    work = Work(lambda tell: do(), "gibbsite compiles beside", daemon=threading.current_thread().daemon)

    def found() -> Any:
        work._done.wait()
        return work._found()

    try:
        yield found
    finally:
        work._done.wait()


Tell = Callable[[str, bool], None]


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
