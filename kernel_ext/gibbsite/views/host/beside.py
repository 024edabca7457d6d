"""One worker for what nobody waits for: prior draws, cures and final pictures of runs that have ended.

Who makes twenty runs in a loop would otherwise have twenty threads that compile at a time. Last asked comes
first, since that is what is looked at; of more than `MOST` the oldest are dropped, and so is whatever nobody
holds any more. The thread ends with its work.
"""

import logging
import threading
import weakref
from collections import OrderedDict
from typing import Any

from gibbsite.ground.process import Wait, after_fork, at_end

MOST = 8
_log = logging.getLogger("gibbsite")


class Beside:
    """Calls `finish()` of what was handed to it, one after another, in a thread of its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: OrderedDict[int, weakref.ref[Any]] = OrderedDict()
        self._thread: threading.Thread | None = None
        self.dropped = 0

    def ask(self, who: Any) -> None:
        """Have `who.finish()` called; once, however often it is asked for before that."""
        with self._lock:
            self._waiting.pop(id(who), None)
            self._waiting[id(who)] = weakref.ref(who)
            while len(self._waiting) > MOST:
                self._waiting.popitem(last=False)
                self.dropped += 1
            if self._thread is None:
                thread = threading.Thread(target=self._work, name="gibbsite beside runs", daemon=True)
                thread.start()  # before others know of it: one that has not begun cannot be waited for
                self._thread = thread

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._thread = None
                    return
                _, held = self._waiting.popitem()
            who = held()
            if who is None:
                continue
            try:
                who.finish()
            except Exception:  # a picture that fails is no reason for the next one not to be drawn
                _log.exception("what was to finish the view of a run failed")
            del who

    def settle(self, seconds: float) -> None:
        """Wait at most so long until nothing is left to do."""
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(seconds)

    def end(self) -> list[Wait]:
        """Begin nothing more: the process ends."""
        with self._lock:
            self._waiting.clear()
        return [self.settle]

    def forked(self) -> None:
        """Be as new in a forked child, where the thread is not."""
        self._lock, self._thread = threading.Lock(), None
        self._waiting.clear()


BESIDE = Beside()
at_end(BESIDE.end)
after_fork(BESIDE.forked)
