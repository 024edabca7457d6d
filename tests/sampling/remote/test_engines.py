"""Engines that people have (`gibbsite[cluster]`): the draws of one worker, whatever becomes of the others."""

import os
import signal
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context

import gibbsite as gb
import numpy as np
import pytest
from gibbsite.storage import checkpoint
from helpers.models.sampling_models import AT_WORKERS as OPTIONS
from helpers.models.sampling_models import SCHOOLS as Y
from helpers.models.sampling_models import mixed

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # those of the engines


class Engine:
    """An executor, and how one of its workers is killed."""

    def __init__(self, executor, pids=None):
        self.executor, self._pids = executor, pids

    def kill(self):
        os.kill(self._pids()[0], signal.SIGKILL)


@contextmanager
def dask(folder, workers=2):
    distributed = pytest.importorskip("dask.distributed")
    with (
        distributed.LocalCluster(workers, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield Engine(client, lambda: list(client.run(os.getpid).values()))


@contextmanager
def parallel(folder, workers=2):
    """Engines of ipyparallel, which sends what a lost one had to nobody else: its future raises."""
    with pytest.importorskip("ipyparallel").Cluster(n=workers) as client:
        yield Engine(client.executor(), lambda: client[:].apply_sync(os.getpid))


@contextmanager
def slurm(folder, workers=2):
    """Jobs of submitit, on this machine: one for every piece, and so few pieces."""
    found = pytest.importorskip("submitit").AutoExecutor(folder=folder / "jobs", cluster="local")
    found.update_parameters(timeout_min=5)
    yield Engine(found, lambda: _jobs(folder))


@contextmanager
def mpi(folder, workers=1):
    """Processes that MPI spawns (`mpi4py`)."""
    with pytest.importorskip("mpi4py.futures").MPIPoolExecutor(workers) as pool:
        yield Engine(pool)


def _jobs(folder):
    """Processes of jobs that are under way: they have submitit's folder among their arguments."""
    found = []
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                told = file.read().decode()
        except OSError:  # it has ended meanwhile
            continue
        if "submitit.core._submit" in told and str(folder) in told:
            found.append(int(pid))
    return found


ENGINES = [dask, parallel, slurm]
FEW = {slurm: {"chains": 2, "warmup": 60, "draws": 60, "chunk": 60}}


def options(engine):
    return {"chunk": 30, **OPTIONS, **FEW.get(engine, {})}


@pytest.fixture(scope="module")
def model():
    return gb.model(mixed, Y)


@pytest.fixture(scope="module")
def alone(model):
    """The draws of one process of its own, by the options of an engine."""
    kept = {}

    def of(engine):
        asked = options(engine)
        key = asked["chains"]
        if key not in kept:
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
                kept[key] = model.sample(on=pool, **asked)
        return kept[key]

    return of


def same(run, other):
    assert run.status == "finished"
    for name, draws in other.draws.items():
        np.testing.assert_array_equal(run.draws[name], draws)


def metrics(run):
    """What NUTS has learnt of scales, `[chain, …]`."""
    packed = checkpoint.pack(run.reached[1])
    return [v for path, v in packed.items() if path.endswith("tuning.metric.scale")]


@pytest.mark.parametrize("engine", [*ENGINES, mpi])
def test_the_draws_are_those_of_one_process(engine, model, alone, tmp_path):
    with engine(tmp_path) as made:
        run = model.sample(on=made.executor, **options(engine))
    same(run, alone(engine))
    found = metrics(run)  # one for all chains: warm-up was pooled
    assert found and all((v == v[:1]).all() and (v != 1).any() for v in found)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_killed_worker_changes_nothing(engine, model, alone, tmp_path):
    with engine(tmp_path) as made:
        run, killed = model.start(on=made.executor, **options(engine)), []

        def kill(run):
            if run.kept.steps > 20 and not killed:
                killed.append(True)
                made.kill()

        if engine is slurm:  # of jobs, one that is under way
            while not _jobs(tmp_path):
                time.sleep(0.05)
            made.kill()
            killed.append(True)
        run.subscribe(kill)
        run.wait()
    assert killed
    same(run, alone(engine))


@pytest.mark.parametrize("engine", ENGINES)
def test_stop_and_resume_with_other_workers(engine, model, alone, tmp_path):
    asked = options(engine)
    with engine(tmp_path) as made:
        run = model.start(on=made.executor, **asked | {"draws": 120, "chunk": min(asked["chunk"], 30)})
        leave = run.subscribe(lambda r: r.draws["mu"].shape[1] > 0 and r.stop())
        run.wait()
        leave()  # or it stops what goes on, too
        assert run.status == "stopped" and 0 < run.draws["mu"].shape[1] < 120
    drawn = run.draws["mu"].shape[1]
    with engine(tmp_path, 1) as made:
        run.resume(alone(engine).draws["mu"].shape[1] - drawn, on=made.executor)
    same(run, alone(engine))


@pytest.mark.parametrize("engine", ENGINES)
def test_an_interrupt_stops_it(engine, model, tmp_path):
    """SIGINT reaches whoever waits: `sample` returns what is there."""
    asked = options(engine) | {"draws": 10_000}
    with engine(tmp_path) as made:
        seen = []

        def press(run):
            run.subscribe(lambda r: seen.append(r.kept.steps))
            threading.Thread(target=wait_and_press, daemon=True).start()

        def wait_and_press():
            while not seen or seen[-1] < 20:
                time.sleep(0.05)
            os.kill(os.getpid(), signal.SIGINT)

        run = model.sample(on=made.executor, on_start=press, **asked)
    assert run.status == "stopped" and 20 <= run.kept.steps < 10_000


def test_a_worker_that_joins_late_gets_work(model, alone):
    distributed = pytest.importorskip("dask.distributed")
    with (
        distributed.LocalCluster(1, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        run = model.start(on=client, **options(dask) | {"draws": 10_000})

        def watch(run):
            if run.kept.steps > 20 and len(cluster.workers) == 1:
                cluster.scale(2)
            if len(run._engine.workers) == 2:
                run.stop()

        run.subscribe(watch)
        run.wait()
    assert len(run._engine.workers) == 2 and run.status == "stopped"


def test_a_worker_that_sleeps_holds_nobody(model, alone):
    """A process that is stopped (SIGSTOP) answers nobody and is not dead: the engine keeps waiting for it."""
    distributed = pytest.importorskip("dask.distributed")
    with (
        distributed.LocalCluster(2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        run, asleep = model.start(on=client, **options(dask)), []

        def sleep(run):
            if run.kept.steps > 20 and not asleep:
                asleep.append(next(iter(client.run(os.getpid).values())))
                os.kill(asleep[0], signal.SIGSTOP)

        run.subscribe(sleep)
        run.wait()
        os.kill(asleep[0], signal.SIGCONT)
    same(run, alone(dask))
