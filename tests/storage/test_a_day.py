"""A run of a day, by a clock that is moved: nothing grows but the draws.

The long form, of 10⁸ sweeps in 8640 commits, by one command:

python -m pytest tests/storage/test_a_day.py -m slow -s
"""

import contextlib
import ctypes
import gc
import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import gibbsite as gb
import numpy as np
import pytest
from gibbsite.sampling import execution as run_module
from gibbsite.storage import checkpoint
from gibbsite.views.run_dashboard import Dashboard
from gibbsite.watching import Watch
from helpers.models.sampling_models import rates

DAY = 86_400
MOST_GROWTH = 12 * 2**20  # bytes: arenas that the allocator keeps, and no more with more commits


@dataclass(frozen=True)
class Held:
    """What a process holds at a moment."""

    bytes: int
    files: int
    threads: int
    tasks: int
    objects: int

    @classmethod
    def now(cls):
        gc.collect()
        with contextlib.suppress(AttributeError):  # of glibc alone: what is free goes back to the system
            ctypes.CDLL(None).malloc_trim(0)
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return cls(
            pages * os.sysconf("SC_PAGE_SIZE"),
            len(os.listdir("/proc/self/fd")),
            threading.active_count(),
            len(os.listdir("/proc/self/task")),
            _tracked(),
        )


def _tracked():
    """How many objects the collector knows, without taking hold of them: a list of all would hold tuples that
    another thread is about to fill, which CPython then refuses."""
    gc.freeze()
    try:
        return gc.get_freeze_count()
    finally:
        gc.unfreeze()


def a_day(folder, commits, thin, monkeypatch, looks=8):
    """A run of as many commits, each at the end of an equal part of a day, in its store, with its dashboard
    and with somebody who watches it from outside; what the process held at `looks` moments of it."""
    real, ahead, held, ages = time.monotonic, [0.0], [], []
    monkeypatch.setattr(time, "monotonic", lambda: real() + ahead[0])
    model = gb.model(rates, np.ones(3, np.float32), np.arange(3, dtype=np.float32))
    monkeypatch.setattr(run_module, "_STORE_SHARE", np.inf)  # the clock that is moved waits for no disk
    options = {"warmup": 5, "chains": 2, "seed": 1, "schedule": "Conjugate a", "chunk": 1}
    run = model.start(**options, draws=commits, thin=thin, store=folder, durable=False)
    dashboard, watch = Dashboard(run), []

    def look(r):
        if threading.current_thread() is not r._thread:
            return  # the ticker's: once a chunk is enough
        r._committing.settle()  # it has no time: the clock jumps
        shot = r.snapshot()
        done = shot.draws_done
        if shot.stored is not None:
            ages.append(shot.stored.age)
        ahead[0] += DAY / commits if done else 0.0
        if done and done % (commits // looks) == 0:
            watch[:] = watch or [Watch(folder)]
            assert "gibbsite" in watch[0].page().lower() and dashboard.text()
            held.append(Held.now())

    run.subscribe(look)
    run.wait()
    assert run.status == "finished" and run.kept.sampled.steps == commits
    assert checkpoint.read(folder)[0]["draws"]["posterior"]["steps"] == commits
    return run, held, ages


def grows(held):
    """What the second half of a day added to what its first half held."""
    first, last = held[len(held) // 2 - 1], held[-1]
    return {name: getattr(last, name) - getattr(first, name) for name in Held.__annotations__}


@pytest.mark.slow
def test_a_day_of_few_commits(tmp_path, monkeypatch):
    run, held, ages = a_day(tmp_path / "run", 16, 1, monkeypatch, looks=4)
    more = grows(held)
    assert more["files"] <= 0 and more["threads"] <= 0
    assert more["bytes"] < 2 * MOST_GROWTH  # in a worker that other tests have made large
    assert DAY < run.elapsed < DAY + 600
    assert max(a for a in ages if a is not None) < 2 * DAY / 16 + 60  # no commit was left out


@pytest.mark.slow
def test_a_day_of_a_hundred_million_sweeps(tmp_path, monkeypatch):
    commits = 8640
    run, held, _ = a_day(tmp_path / "run", commits, 11_575, monkeypatch)
    for at, now in enumerate(held[:8]):
        print(f"hour {3 * at + 3:2}: {now}")
    more = grows(held)
    assert run.settings.thin * commits > 1e8
    assert more["files"] <= 0 and more["threads"] <= 0 and more["tasks"] <= 0
    assert more["bytes"] < MOST_GROWTH
    assert more["objects"] < commits / 4  # nothing is kept of a commit
