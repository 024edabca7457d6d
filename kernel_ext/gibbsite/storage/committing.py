"""When a run's draws go to disk, and in which thread: by the clock, beside the sampling.

A commit may cost a share of the processor that one of the run's threads has; the disk is waited for by a
thread of its own, so that a slow one costs the run nothing. Commits are appended to the journal; a checkpoint
of the whole folder, which takes longer, is made where the journal has become large, and at the run's end.
Commits go on beside it, so that no more than two seconds of draws are ever in memory alone.
"""

import math
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gibbsite.plans.schedule.plan import Plan
from gibbsite.storage.draws import Draws
from gibbsite.storage.store import GivenUp, Store

# As much is read back, and written as Zarr's arrays, in a second or two. Of that checkpoints in mid-run may
# take half the share.
_LARGE = 64 * 2**20

# Seconds that draws may be in memory alone. To wait longer spreads what a commit costs by itself over more
# draws, and not what each of them costs.
_BEHIND = 2.0

# what the run hands over: facts, and the state that fits its draws, as copies
Packed = tuple[Mapping[str, Any], dict[str, np.ndarray]]


class Committing:
    """Commits to `store`: one at a time, by one thread; while that makes a checkpoint it appends what comes
    after to the journal that there is."""

    def __init__(self, store: Store):
        self.store = store
        self.error: BaseException | None = None
        """What made the last commit fail; None where it did not."""
        self._thread: threading.Thread | None = None
        self._urgent = threading.Event()
        self._next = self._next_whole = 0.0
        self._handing, self._later = threading.Lock(), None
        self._checkpointing = False

    def due(self, share: float) -> bool:
        """Whether the share of time allows another commit, and none is under way but a checkpoint beside
        which it can be appended. With an infinite one every chunk is committed: what is under way is waited
        for."""
        if math.isinf(share):
            self.settle()
        busy = self._thread is not None and self._thread.is_alive() and not self._appends
        return not busy and time.monotonic() >= self._next

    @property
    def _appends(self) -> bool:
        """Whether a checkpoint is under way beside which commits go on."""
        return self._checkpointing and self.store.goes_on

    def becomes(self, plan: Plan) -> None:
        """Go on with draws of a plan that knows more; see `Store.becomes`."""
        self.settle()
        self.store.becomes(plan)

    def begin(self, draws: Draws, pack: Callable[[], Packed], share: float) -> None:
        """Commit what is complete now, in a thread beside; to be called when it is due."""
        began = time.thread_time()
        cut, (facts, state) = draws.cut(), pack()
        state = {name: np.array(v) for name, v in state.items()}  # those of the run may change meanwhile
        spent = time.thread_time() - began
        with self._handing:
            if self._appends:
                self._later: Any = cut, facts, state, spent, share
                self._next = math.inf  # until that is done
                return
        self.settle()  # no more than an end of it that is under way
        large = self.store.journal_bytes >= _LARGE and time.monotonic() >= self._next_whole
        whole = large or not self.store.goes_on

        def work() -> None:
            before, start = time.thread_time(), time.monotonic()
            beside = 0.0

            def append() -> None:
                """What was handed over since."""
                nonlocal beside
                with self._handing:
                    asked, self._later = self._later, None
                if asked is not None:
                    cut, facts, state, spent, share = asked
                    before, start = time.thread_time(), time.monotonic()
                    self.store.append(cut, facts, state)
                    cost = time.thread_time() - before
                    beside += cost
                    self._next = start + min((spent + cost) / share, _BEHIND)

            # without a journal to go on from nothing can take its place
            wanted = (lambda: not self._urgent.is_set()) if self.store.goes_on else lambda: True
            try:
                if whole:
                    self._next, self._checkpointing = start + min(spent / share, _BEHIND), True
                    self.store.commit(cut, facts, state, wanted, append)
                else:
                    self.store.append(cut, facts, state)
                self.error = None
            except GivenUp:
                self.error = None  # whoever wants it no longer commits itself
            except BaseException as problem:  # told to the run's thread when it looks next
                self.error = problem
            cost = time.thread_time() - before - beside
            with self._handing:  # what was handed over too late is in the next one
                self._checkpointing, self._later = False, None
            if whole:
                self._next_whole = start + 2 * cost / share
            self._next = start + min((spent if large else spent + cost) / share, _BEHIND)

        self._thread = threading.Thread(target=work, name="gibbsite commit", daemon=True)
        self._thread.start()

    def now(self, draws: Draws, pack: Callable[[], Packed], whole: bool) -> None:
        """Commit in this thread, after what is under way; `whole` as a checkpoint, so that nothing is left in
        the journal. Without it a checkpoint under way is given up, which takes longer than what is wanted.
        Raises `StoreError`."""
        if not whole:
            self._urgent.set()
        try:
            self.settle()
        finally:
            self._urgent.clear()
        facts, state = pack()
        if whole or not self.store.goes_on:
            self.store.commit(draws, facts, state)
        else:
            self.store.append(draws, facts, state)
        self.error = None

    def settle(self) -> None:
        """Wait for what is under way."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
