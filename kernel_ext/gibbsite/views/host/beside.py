"""One worker for what nobody waits for: prior draws, cures and final pictures of runs that have ended.

Who makes twenty runs in a loop would otherwise have twenty threads that compile at a time, and pay for
nineteen pictures that the next run replaces: it begins in a pause between what is asked. Last asked comes
first, since that is what is looked at; the first `MOST` get everything, the others what cannot be left out,
and what nobody holds any more nothing. The thread ends with its work.
"""

import logging
import threading
import time
import weakref
from collections import OrderedDict
from typing import Any

from gibbsite.ground.process import Wait, after_fork, at_end

MOST = 8
PAUSE = 0.5  # seconds without a run's end: cells of short runs come every .2 s, nobody saves a page sooner
_log = logging.getLogger("gibbsite")


class Beside:
    """Calls `finish(whole)` of what was handed to it, one after another, in a thread of its own; `whole` is
    false for the oldest of many."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._awaited, self._last = threading.Event(), 0.0
        self._waiting: OrderedDict[int, weakref.ref[Any]] = OrderedDict()
        self._thread: threading.Thread | None = None

    def ask(self, who: Any) -> None:
        """Have `who.finish(…)` called; once, however often it is asked for before that."""
        with self._lock:
            self._waiting.pop(id(who), None)
            self._waiting[id(who)] = weakref.ref(who)
            self._last = time.monotonic()
            if self._thread is None:
                thread = threading.Thread(target=self._work, name="gibbsite beside runs", daemon=True)
                thread.start()  # before others know of it: one that has not begun cannot be waited for
                self._thread = thread

    def _work(self) -> None:
        done = 0
        while True:
            while (left := self._last + PAUSE - time.monotonic()) > 0 and not self._awaited.wait(left):
                pass
            with self._lock:
                if not self._waiting:
                    self._thread = None
                    self._awaited.clear()
                    return
                _, held = self._waiting.popitem()
            who = held()
            if who is None:
                continue
            try:
                who.finish(done < MOST)
            except Exception:  # a picture that fails is no reason for the next one not to be drawn
                _log.exception("what was to finish the view of a run failed")
            del who
            done += 1

    def settle(self, seconds: float) -> None:
        """Wait at most so long until nothing is left to do."""
        with self._lock:
            thread = self._thread
            if thread is None or thread is threading.current_thread():
                return
            self._awaited.set()
        thread.join(seconds)

    def end(self) -> list[Wait]:
        """Begin nothing more: the process ends."""
        with self._lock:
            self._waiting.clear()
        return [self.settle]

    def forked(self) -> None:
        """Be as new in a forked child, where the thread is not."""
        self._lock, self._thread, self._awaited = threading.Lock(), None, threading.Event()
        self._waiting.clear()


BESIDE = Beside()
at_end(BESIDE.end)
after_fork(BESIDE.forked)
