"""Engines that people have (`gibbsite[cluster]`): the draws of one worker, also where one is killed."""

import os
import signal
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context

import gibbsite as gb
import numpy as np
import pytest
from helpers.models.sampling_models import AT_WORKERS as OPTIONS
from helpers.models.sampling_models import SCHOOLS as Y
from helpers.models.sampling_models import mixed

pytestmark = pytest.mark.slow


@contextmanager
def dask(tmp_path, workers=2):
    distributed = pytest.importorskip("dask.distributed")
    with (
        distributed.LocalCluster(workers, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@contextmanager
def parallel(tmp_path):
    with pytest.importorskip("ipyparallel").Cluster(n=2) as client:
        yield client.executor()


@contextmanager
def slurm(tmp_path):
    found = pytest.importorskip("submitit").AutoExecutor(folder=tmp_path, cluster="local")
    found.update_parameters(timeout_min=5)
    yield found


@pytest.fixture(scope="module")
def model():
    return gb.model(mixed, Y)


@pytest.fixture(scope="module")
def alone(model):
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return model.sample(on=pool, **OPTIONS)


def same(run, other):
    assert run.status == "finished"
    for name, draws in other.draws.items():
        np.testing.assert_array_equal(run.draws[name], draws)


@pytest.mark.parametrize("engine", [dask, parallel, slurm])
@pytest.mark.filterwarnings("ignore")  # of the engines
def test_the_draws_are_those_of_one_process(engine, model, alone, tmp_path):
    with engine(tmp_path) as executor:
        same(model.sample(on=executor, chunk=120, **OPTIONS), alone)


@pytest.mark.filterwarnings("ignore")
def test_a_killed_worker_of_dask_changes_nothing(model, alone, tmp_path):
    with dask(tmp_path) as client:
        run, killed = model.start(on=client, chunk=10, **OPTIONS), []

        def kill(run):
            if run.draws["mu"].shape[1] > 20 and not killed:
                killed.extend(client.run(os.getpid).values())
                os.kill(killed[0], signal.SIGKILL)

        run.subscribe(kill)
        run.wait()
    assert killed
    same(run, alone)
