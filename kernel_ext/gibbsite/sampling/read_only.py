"""A store that another process may be writing to → the run in it, as of its last commit. Only looks."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gibbsite.errors import CheckpointError
from gibbsite.ground.lock import Writer, writer
from gibbsite.sampling.hosts import parts
from gibbsite.sampling.load import read_back
from gibbsite.sampling.run import Run
from gibbsite.storage import checkpoint, journal

_TRIES = 5


@dataclass(frozen=True)
class Outside:
    """A run as its store tells it. `writer` is the process that goes on with it, if one does; `committed`
    when the last commit was, in seconds since the epoch."""

    folder: Path
    run: Run
    writer: Writer | None
    committed: float
    mark: Any

    @property
    def age(self) -> float:
        """Seconds since the last commit."""
        return max(0.0, time.time() - self.committed)


def stores(path: Path) -> list[Path]:
    """The stores in `path`: itself, or those of the hosts of one run. Raises `CheckpointError` of none."""
    if (path / checkpoint.FILE).exists():
        return [path]
    found = [part for part in parts(path) if (part / checkpoint.FILE).exists()]
    if not found:
        raise CheckpointError(f"{str(path)!r} holds no saved run")
    return found


def outside(folder: Path, before: Outside | None = None) -> Outside:
    """What is in `folder` now; `before`, where there has been no commit since.

    While it is read, another commit may come: then it is read again. Raises `CheckpointError` as `load` does.
    """
    for attempt in range(_TRIES):
        mark, who = _mark(folder), writer(folder)
        if before is not None and (mark, who) == (before.mark, before.writer):
            return before
        try:
            run = read_back(folder, None, going=who is not None)
            return Outside(folder, run, who, max((m[-1] for m in mark if m), default=0) / 1e9, mark)
        except (CheckpointError, OSError) as problem:
            if _mark(folder) == mark or attempt == _TRIES - 1:
                if isinstance(problem, OSError):
                    raise CheckpointError(f"the saved run in {str(folder)!r} cannot be read") from problem
                raise
    raise AssertionError  # not reached: the last attempt returns or raises


def _mark(folder: Path) -> tuple[Any, ...]:
    """Changes with every commit."""
    return tuple(checkpoint.mark(folder, name) for name in (checkpoint.FILE, *journal.FILES))
