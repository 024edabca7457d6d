"""Runs that are likely to be asked for are prepared while nobody needs the processor."""

import logging
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

from gibbsite.ground.process import Wait, after_fork, at_end
from gibbsite.sampling.engine.abandonable import Work
from gibbsite.sampling.start import made_ahead

_log = logging.getLogger("gibbsite")
# how long nothing must have happened before a preparation begins
_IDLE_SECONDS = 0.3
_LOOK_SECONDS = 0.05


class _Dropped(BaseException):
    """Ends a preparation that nobody wants any more."""


class Preparing:
    """Prepares the runs of models that were asked for, the latest first, one at a time, in threads of their
    own; only in the pauses between what is said to be `busy`.

    What is under way waits at the next boundary of its stages while others are busy, unless a run waits for
    it. Nothing that fails is told: the run meets it again. `first()` is called in every such thread at its
    beginning, `last(options)` at its end.
    """

    def __init__(
        self,
        first: Callable[[], None] = lambda: None,
        last: Callable[[dict[str, Any]], None] = lambda options: None,
    ):
        self._first, self._last = first, last
        self._turn = threading.Condition()
        self._wanted: dict[str, tuple[weakref.ref[Any], dict[str, Any]]] = {}
        self._under_way: _UnderWay | None = None
        self._idle_since: float | None = None
        _all.add(self)

    def ask(self, name: str, model: Any, **options: Any) -> None:
        """Have the run of `model` with these options prepared; what was prepared of `name` is dropped."""
        self.drop(name)
        try:
            model.execution.before_ready()
        except Exception:
            _log.debug("preparing %r failed", name, exc_info=True)
            return
        with self._turn:
            self._wanted[name] = (weakref.ref(model), options)
            self._begin()

    def drop(self, name: str | None = None) -> None:
        """Prepare nothing of that name, or nothing at all."""
        with self._turn:
            for key in [name] if name is not None else list(self._wanted):
                self._wanted.pop(key, None)
            going = self._under_way if name is None or self._is_at(name) else None
            self._turn.notify_all()
        if going is not None:
            going.drop()

    def make_way(self, model: Any = None) -> None:
        """A run of `model` begins, or another one is made: what is under way for it goes on, all else is
        broken off and begun again later."""
        with self._turn:
            for name in [n for n, (of, _) in self._wanted.items() if of() is model]:
                del self._wanted[name]
            going = self._under_way
            other = going is not None and going.of() is not model
            if going is not None and other:
                self._wanted.setdefault(going.name, (going.of, going.options))
        if going is not None and other:
            going.drop()

    def busy(self) -> None:
        """Somebody else needs the processor."""
        with self._turn:
            self._idle_since = None

    def idle(self) -> None:
        """Nobody does."""
        with self._turn:
            self._idle_since = time.monotonic()
            self._begin()
            self._turn.notify_all()

    @property
    def stage(self) -> str | None:
        """What it is at; None where nothing is under way."""
        going = self._under_way
        return None if going is None else going.stage or ""

    def settle(self, seconds: float) -> None:
        """Wait at most so long for what is under way."""
        until = time.monotonic() + seconds
        with self._turn:
            self._turn.wait_for(lambda: self._under_way is None, max(0.0, until - time.monotonic()))

    def forked(self) -> None:
        """Be as new in a forked child, where the threads are not."""
        self._turn, self._under_way, self._idle_since = threading.Condition(), None, None
        self._wanted.clear()

    def _is_at(self, name: str) -> bool:
        return self._under_way is not None and self._under_way.name == name

    def _begin(self) -> None:
        """With the lock held."""
        if self._under_way is None and self._wanted and self._idle_since is not None:
            name = next(reversed(self._wanted))
            self._under_way = going = _UnderWay(name, *self._wanted.pop(name))
            going.start(lambda: self._prepare(going), self._ended)

    def _prepare(self, going: "_UnderWay") -> None:
        """In a thread of its own."""
        self._first()
        self._pause(going)
        if (model := going.of()) is None:
            return
        try:
            if model.execution.ahead and not model.switching:
                made_ahead(model.plan, lambda *at: self._tell(going, *at), going.let_go_on, **going.options)
            self._tell(going, "showing", False)
            self._last(going.options)
        except Exception:
            _log.debug("preparing %r failed", going.name, exc_info=True)

    def _ended(self) -> None:
        with self._turn:
            self._under_way = None
            self._begin()
            self._turn.notify_all()

    def _tell(self, going: "_UnderWay", stage: str, breakable: bool) -> None:
        if stage != going.stage:  # a boundary, where nothing is held but what `awaited` knows of
            self._pause(going)
        going.tell(stage, breakable)

    def _pause(self, going: "_UnderWay") -> None:
        """Wait for a while of quiet, or for somebody who waits for this."""
        with self._turn:
            while not (going.dropped or going.awaited()):
                since = self._idle_since
                left = _LOOK_SECONDS if since is None else since + _IDLE_SECONDS - time.monotonic()
                if left <= 0:
                    break
                self._turn.wait(min(left, _LOOK_SECONDS))
        if going.dropped:
            raise _Dropped


class _UnderWay:
    """One preparation."""

    def __init__(self, name: str, of: weakref.ref[Any], options: dict[str, Any]):
        self.name, self.of, self.options = name, of, options
        self.stage: str | None = None
        self._told: Callable[[str, bool], None] = lambda stage, breakable: None
        self.dropped = False
        self.awaited: Callable[[], bool] = lambda: False

    def start(self, do: Callable[[], None], after: Callable[[], None]) -> None:
        """Begin, in a thread that no process waits for."""

        def work(tell: Callable[[str, bool], None]) -> None:
            self._told = tell
            do()

        self._work = Work(work, f"gibbsite prepares {self.name}", daemon=True, after=after)

    def let_go_on(self, awaited: Callable[[], bool]) -> None:
        """Know what tells whether a run waits for it."""
        self.awaited = awaited

    def tell(self, stage: str, breakable: bool) -> None:
        """What it is at."""
        self.stage = stage
        self._told(stage, breakable)

    def drop(self) -> None:
        """End it, at once where it may be broken off, or at the next boundary of its stages."""
        self.dropped = True
        self._work.leave()


_all: weakref.WeakSet[Preparing] = weakref.WeakSet()


def _end() -> list[Wait]:
    """Drop what is prepared; XLA, which does not let go, has some seconds."""
    for preparing in list(_all):
        preparing.drop()
    return [preparing.settle for preparing in list(_all)]


def _forked() -> None:
    for preparing in list(_all):
        preparing.forked()


at_end(_end)
after_fork(_forked)
