"""Pieces of work, sent to anything with `submit(fn, …)` → their answers, however often workers die.

`submit` and the `.result()` of what it returns are all that is asked of an executor (PEP 3148), which process
pools, Dask, ipyparallel, submitit and mpi4py offer; what else they can do is theirs.
"""

import itertools
import logging
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from gibbsite.errors import GibbsiteError, OptionError
from gibbsite.ground.arguments import shown
from gibbsite.sampling.remote.worker import Answer, Program, stepped

_log = logging.getLogger("gibbsite")
TRIES = 4
"""How often a piece is sent before the run ends: a worker that dies once or twice is no matter, and a piece
that kills three of them will kill the fourth."""


class WorkersLost(GibbsiteError):
    """No worker is left that takes the next piece of a run."""


def checked(executor: Any) -> Any:
    """The executor, if it has a `submit`. Raises `OptionError`."""
    if not callable(getattr(executor, "submit", None)):
        raise OptionError(
            f"on: {shown(executor)} has no submit(fn, …). Executors have: "
            f"concurrent.futures.ProcessPoolExecutor, dask.distributed.Client, ipyparallel's "
            f"client.executor(), submitit.AutoExecutor; for others docs/clusters.md has an adaptor"
        )
    return executor


class Pieces:
    """Sends pieces of one program to an executor."""

    def __init__(self, executor: Any, program: Program):
        self._executor = checked(executor)
        self._name, self._body = program.packed()
        self._numbers = itertools.count()
        self._known = False  # whether some worker has the program: then others may
        self._lock = threading.Lock()
        self.workers: set[str] = set()

    def sent(self, state: Sequence[np.ndarray], steps: int, sweeps: int) -> "Piece":
        """Begin a piece. Never raises: what goes wrong is told when the answer is asked for."""
        return Piece(self, (tuple(state), int(steps), int(sweeps)), self._submitted(state, steps, sweeps))

    def _submitted(self, state: Sequence[np.ndarray], steps: int, sweeps: int, whole: bool = False) -> Any:
        body = self._body if whole or not self._known else None
        attempt = f"{id(self)}-{next(self._numbers)}"
        try:
            future = self._executor.submit(
                stepped, self._name, body, tuple(state), int(steps), int(sweeps), attempt
            )
        except Exception as error:  # of whatever engine it is
            return error
        if not callable(getattr(future, "result", None)):
            return OptionError(
                f"on: {type(self._executor).__name__}.submit returned {shown(future)}, which has no "
                f".result(); docs/clusters.md has an adaptor of ten lines"
            )
        return future

    def answer(self, piece: "Piece") -> Answer:
        """Wait for a piece; it is sent again where its worker is lost, or does not know the program.

        Raises `WorkersLost` where no worker takes it, `GibbsiteError` where one must not or the program
        raises there, `OptionError` for an executor without futures.
        """
        lost = 0
        while True:
            found: Any = piece.future
            if not isinstance(found, Exception):
                try:
                    found = found.result()
                except Exception as error:
                    found = error
            if isinstance(found, Answer):
                self.workers.add(found.worker)
                if found.kind == "done":
                    self._known = True
                    return found
                if found.kind != "unknown":
                    verb = "cannot take part" if found.kind == "refused" else "failed"
                    raise GibbsiteError(f"worker {found.worker} {verb}: {found.text}")
                piece.future = self._submitted(*piece.asked, whole=True)
                continue
            if isinstance(found, OptionError):
                raise found
            lost += 1
            told = f"{type(found).__name__}: {found}".strip(": ").splitlines()[0][:200]
            if lost == TRIES or not isinstance(found, Exception):
                raise WorkersLost(
                    f"a piece of the run was sent {lost} times and never came back ({told}). What was drawn "
                    f"is kept; resume(on=…) goes on with other workers"
                ) from (found if isinstance(found, Exception) else None)
            _log.warning("a worker was lost (%s); its chains are sent again from their last chunk", told)
            piece.future = self._submitted(*piece.asked, whole=True)


class Piece:
    """Steps of some chains, under way: what was `asked`, and the `future` of its answer."""

    def __init__(self, pieces: Pieces, asked: tuple[tuple[np.ndarray, ...], int, int], future: Any):
        self._pieces, self.asked, self.future = pieces, asked, future

    def answer(self) -> Answer:
        """As `Pieces.answer`."""
        return self._pieces.answer(self)
