"""Pieces of work, sent to anything with `submit(fn, …)` → their answers, however often workers die or dawdle.

`submit` and the `.result()` of what it returns are all that is asked of an executor (PEP 3148), which process
pools, Dask, ipyparallel, submitit and mpi4py offer; with `.done()` nobody waits for the slowest. What else
they can do is theirs.
"""

import itertools
import logging
import threading
import time
from asyncio import CancelledError
from collections import deque
from collections.abc import Sequence
from statistics import median
from typing import Any

import numpy as np

from gibbsite.errors import GibbsiteError, OptionError
from gibbsite.ground.arguments import shown
from gibbsite.sampling.remote.worker import Answer, Program, stepped

_log = logging.getLogger("gibbsite")
TRIES = 4
"""How often a piece is sent before the run ends: a worker that dies once or twice is no matter, and a piece
that kills three of them will kill the fourth."""
LATE, IDLE = 3.0, 1.0
"""After so many times as long as a piece takes, without any answer, what is out is sent a second time: as
long as workers have something to do they answer, so that one of them is idle by then; sooner where more
workers have answered than pieces are left. What is sent twice for nothing costs idle workers' time alone
(`benchmarks/clusters.py` has what other factors come to)."""
_GIVEN_UP = 1000.0
"""Seconds without any answer after which workers that have one to give are taken for dead: what a network
gives up by itself comes back as an error by then (Linux sends again for 924 seconds). More where a piece
takes so long that its tries, each of them late, take longer."""
_LEAST = 1.0  # seconds that a piece is taken to last at least: chunks aim at this, and networks stall
_LOOK = 0.05  # seconds between looks at futures that tell nobody when they are done
_SHOW, _TELL = 10.0, 60.0  # seconds without an answer after which the page, and a line of the log, say so


class WorkersLost(GibbsiteError):
    """No worker is left that takes the next piece of a run; without a text, the run was stopped first."""


def checked(executor: Any) -> Any:
    """The executor, if it has a `submit`. Raises `OptionError`."""
    if isinstance(executor, type) or not callable(getattr(executor, "submit", None)):
        raise OptionError(
            f"on: {shown(executor)} has no submit(fn, …). Executors have: "
            f"concurrent.futures.ProcessPoolExecutor, dask.distributed.Client, ipyparallel's "
            f"client.executor(), submitit.AutoExecutor; for others docs/clusters.md has an adaptor"
        )
    return executor


class Pieces:
    """Sends pieces of one program to an executor, from any threads."""

    def __init__(self, executor: Any, program: Program):
        self._executor = checked(executor)
        self._name, self._body = program.packed()
        self._numbers = itertools.count()
        self._known = False  # whether some worker has the program: then others may
        self._landed = threading.Condition()
        self._took: deque[tuple[float, float]] = deque(maxlen=64)  # at a worker, and on the way
        self._heard = 0.0  # when a worker last answered, or a piece was sent again
        self._since: float | None = None  # while answers are waited for: when the last one came
        self.workers: set[str] = set()

    def sent(self, state: Sequence[np.ndarray], steps: int, sweeps: int) -> "Piece":
        """Begin a piece. Never raises: what goes wrong is told when the answer is asked for."""
        piece = Piece((tuple(state), int(steps), int(sweeps)))
        self._send(piece, whole=not self._known)
        return piece

    def _send(self, piece: "Piece", whole: bool = True) -> None:
        piece.sent, piece.times = time.monotonic(), piece.times + 1
        attempt = f"{id(self)}-{next(self._numbers)}"
        try:
            future = self._executor.submit(
                stepped, self._name, self._body if whole else None, *piece.asked, attempt
            )
            if not callable(getattr(future, "result", None)):
                raise OptionError(
                    f"on: {type(self._executor).__name__}.submit returned {shown(future)}, which has no "
                    f".result(); docs/clusters.md has an adaptor of ten lines"
                )
            if callable(getattr(future, "add_done_callback", None)):
                future.add_done_callback(self._woken)
        except TypeError as error:  # every call would be as wrong
            future = OptionError(f"on: submit(fn, …) of {type(self._executor).__name__} failed: {error}")
        except Exception as error:  # of whatever engine it is
            future = error
        piece.out.append(future)

    @property
    def waits(self) -> str | None:
        """What is waited for, where nobody has answered for a while."""
        quiet = 0.0 if (since := self._since) is None else time.monotonic() - since
        if quiet < _SHOW:
            return None
        # Dask's end without a word where they cannot import what they are sent
        need = "" if self.workers else ". Workers need Gibbsite and JAX in this process's versions"
        return f"no worker has answered for {quiet:.0f} seconds; the run waits for one{need}"

    def _woken(self, _: Any) -> None:
        with self._landed:
            self._landed.notify_all()

    @property
    def usual(self) -> float | None:
        """Seconds that a piece takes; None where none has come back yet."""
        if not self._took:
            return None
        there, way = zip(*tuple(self._took), strict=True)
        return max(_LEAST, median(there) + min(way))

    def answers(self, pieces: Sequence["Piece"], stop: threading.Event | None = None) -> list[Answer]:
        """Wait for pieces; each is sent again where its worker is lost, does not know the program, or keeps
        all others waiting: then the first answer counts, which is the same whoever gives it.

        Raises `WorkersLost` where no worker takes one, or where answers are late and `stop` is set;
        `GibbsiteError` where a worker must not or the program raises there; `OptionError` for an executor
        without futures.
        """
        self._since = time.monotonic()
        try:
            return self._waited_for(pieces, stop)
        finally:
            self._since = None

    def _waited_for(self, pieces: Sequence["Piece"], stop: threading.Event | None) -> list[Answer]:
        told, silent, last, looked = False, 0.0, self._since, time.monotonic()
        while left := [piece for piece in pieces if piece.found is None and not self._looked(piece)]:
            quiet = time.monotonic() - max(self._heard, *(piece.sent for piece in left))
            usual, answered = self.usual, {piece.found.worker for piece in pieces if piece.found is not None}
            late = usual is not None and quiet > usual * (IDLE if len(left) < len(answered) else LATE)
            if stop is not None and stop.is_set() and (usual is None or late):
                raise WorkersLost
            if late:
                again = [piece for piece in left if piece.times < TRIES]
                if again:
                    _log.info("%d pieces of a chunk are late, and sent again", len(again))
                for piece in again:
                    self._send(piece)
                self._heard = time.monotonic()
            before, looked = looked, time.monotonic()
            # in small steps: a process that was stopped itself (Ctrl-Z) has heard nobody, and is not to judge
            silent = silent + min(looked - before, 1.0) if last == self._since else 0.0
            last = self._since
            if usual is not None and silent > max(_GIVEN_UP, TRIES * LATE * usual) and _at_work(left):
                raise WorkersLost(
                    f"no worker has answered for {silent:.0f} seconds, though pieces of the run are at work "
                    f"there. What was drawn is kept; resume(on=…) goes on with other workers"
                )
            if self._since is not None and time.monotonic() - self._since > _TELL and not told:
                told = True
                _log.warning("%s", self.waits)
            with self._landed:
                if not any(map(_is_done, itertools.chain(*(piece.out for piece in left)))):
                    self._landed.wait(_LOOK)
        return [piece.found for piece in pieces if piece.found is not None]

    def _looked(self, piece: "Piece") -> bool:
        """Whether the piece has its answer, by any of its futures; what went wrong is dealt with."""
        for future in [f for f in piece.out if _is_done(f)]:
            piece.out.remove(future)
            found = _outcome(future)
            if not isinstance(found, Answer):
                self._lost(piece, found)
                continue
            self.workers.add(found.worker)
            if found.kind == "done":
                self._known, piece.found, piece.out = True, found, []
                self._heard = self._since = time.monotonic()
                way = max(0.0, self._heard - piece.sent - found.seconds - found.compiling)
                self._took.append((found.seconds, way))
                piece.beside = way + found.compiling
                return True
            if found.kind != "unknown":
                verb = "cannot take part" if found.kind == "refused" else "failed"
                raise GibbsiteError(f"worker {found.worker} {verb}: {found.text}")
            piece.times -= 1
            self._send(piece)
        return False

    def _lost(self, piece: "Piece", problem: Any) -> None:
        if isinstance(problem, OptionError):
            raise problem
        if not isinstance(problem, BaseException):
            raise OptionError(
                f"on: a future of {type(self._executor).__name__} has {shown(problem)} for its result, and "
                f"not what the worker returned; of an asynchronous client, give the one that is not"
            )
        told = f"{type(problem).__name__}: {problem}".strip(": ").splitlines()[0][:200]
        if piece.times < TRIES:
            _log.warning("a worker was lost (%s); its chains are sent again from their last chunk", told)
            self._send(piece)
        elif not piece.out:
            raise WorkersLost(
                f"a piece of the run was sent {piece.times} times and never came back ({told}). What was "
                f"drawn is kept; resume(on=…) goes on with other workers"
            ) from problem


class Piece:
    """Steps of some chains, under way: what was `asked`, the futures that are `out` for it (or what `submit`
    raised), when it was `sent` last, how many `times`, the answer that was `found`, and the seconds that it
    took `beside` its steps: in a queue, on the way, compiling."""

    def __init__(self, asked: tuple[tuple[np.ndarray, ...], int, int]):
        self.asked, self.sent, self.times, self.beside = asked, 0.0, 0, 0.0
        self.out: list[Any] = []
        self.found: Answer | None = None


def _is_done(future: Any) -> bool:
    """Whether asking for the result does not block; of a future that cannot say so, which is then waited
    for."""
    done = getattr(future, "done", None)
    try:
        return not callable(done) or bool(done())
    except Exception:  # of whatever engine it is: what is wrong, the result says
        return True


def _at_work(pieces: Sequence["Piece"]) -> bool:
    """Whether a worker has one of them, as far as futures tell (those of process pools do): what waits in a
    queue may wait for long."""
    out = itertools.chain(*(piece.out for piece in pieces))
    return any(callable(running := getattr(future, "running", None)) and running() for future in out)


def _outcome(future: Any) -> Any:
    if isinstance(future, BaseException):
        return future
    try:
        return future.result()
    except (Exception, CancelledError) as error:  # of whatever engine it is
        return error
    except (KeyboardInterrupt, SystemExit) as error:
        if threading.current_thread() is threading.main_thread():
            raise
        return error  # the worker's: this process's own are met by its main thread
