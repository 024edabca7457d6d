"""Work that can be left at any moment: it has a thread of its own, and whoever waits for it may go.

XLA does not let go of a compilation, and Python cannot make it. So a run that is stopped while its programs
are compiled leaves them: they are finished in the background, and there when they are wanted again. Tracing
is Python, and runs the model under NumPyro's handlers, which are one stack for all threads: it is ended.
"""

import ctypes
import threading
from collections.abc import Callable
from typing import Any

_LOOK_SECONDS = 0.05
# how long to wait for tracing to let go of NumPyro's handlers
_UNWIND_SECONDS = 0.5


class _Leave(BaseException):
    """Raised in the middle of tracing; no model should catch it."""


class Work:
    """`do(tell)` under way, where `tell(stage, breakable)` says what it is at, and whether that may be broken
    off rather than left to itself."""

    def __init__(self, do: Callable[[Callable[[str, bool], None]], Any], name: str):
        self.stage: str | None = None
        self._breakable, self._lock, self._done = False, threading.Lock(), threading.Event()
        self._result: Any = None
        self._error: BaseException | None = None
        # not a daemon: a process that ends while XLA compiles is aborted, so its end waits for that
        self._thread = threading.Thread(target=self._run, args=(do,), name=name, daemon=False)
        self._thread.start()

    def _run(self, do: Callable[[Callable[[str, bool], None]], Any]) -> None:
        try:
            self._result = do(self._tell)
        except BaseException as error:
            self._error = error
        finally:
            self._done.set()

    def _tell(self, stage: str, breakable: bool) -> None:
        with self._lock:
            self.stage, self._breakable = stage, breakable

    def result(self, stop: threading.Event, look: Callable[[str | None], None]) -> Any:
        """What `do` returned or raised; None where `stop` was set first, within a tenth of a second.

        Meanwhile `look` is told the stage, again and again.
        """
        while not self._done.wait(_LOOK_SECONDS):
            look(self.stage)
            if stop.is_set():
                self._leave()
                return None
        if self._error is not None:
            raise self._error
        return self._result

    def _leave(self) -> None:
        with self._lock:
            if not self._breakable:
                return
            ident = ctypes.c_ulong(self._thread.ident or 0)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, ctypes.py_object(_Leave))
        self._thread.join(_UNWIND_SECONDS)
