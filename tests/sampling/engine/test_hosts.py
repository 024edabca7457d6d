"""Several hosts that know their number and nothing of each other: shares, folders, and all put together."""

import shutil
import signal
import subprocess
import sys
import warnings

import gibbsite as gb
import numpy as np
import pytest
from gibbsite.errors import CheckpointError, OptionError
from gibbsite.sampling.hosts import Host, this_host
from gibbsite.watching import Watch
from helpers import TESTS
from helpers.models.sampling_models import rates
from helpers.readers.committed import committed

OPTIONS = {"draws": 20, "warmup": 40, "chains": 6, "seed": 1, "schedule": "RandomWalk a"}


@pytest.fixture(scope="module")
def model():
    return gb.model(rates, np.arange(6, dtype=np.float32), np.ones(6, np.float32))


@pytest.fixture
def stores(model, tmp_path):
    for k in range(3):
        run = model.sample(**OPTIONS, host=f"{k}/3", store=tmp_path / "m")
        assert run.draws["a"].shape[0] == 2
    return tmp_path / "m"


@pytest.mark.slow
def test_each_runs_its_share_and_all_are_joined(model, stores):
    assert sorted(p.name for p in stores.iterdir()) == ["host0", "host1", "host2"]
    tree = gb.joined(stores)
    assert list(tree["posterior"].chain) == list(range(6))
    assert "2 chains" in (words := Watch(stores).words()) and "Without chains" not in words
    one = model.sample(**OPTIONS)  # of a random walk that nothing is pooled for
    np.testing.assert_allclose(tree["posterior"]["a"].values, one.draws["a"], atol=1e-3)
    with pytest.raises(CheckpointError, match=r"several hosts.*one of host0, host1, host2"):
        gb.load(stores)


@pytest.mark.slow
def test_one_that_got_less_far_is_named(model, stores):
    gb.load(stores / "host0", model=model).resume(10)
    gb.load(stores / "host2", model=model).resume(30)
    with pytest.warns(UserWarning, match=r"hosts \[1\] .* 20 draws per chain, others up to 50: .*drop=\[1\]"):
        assert gb.joined(stores)["posterior"]["a"].shape[:2] == (6, 20)
    with pytest.warns(UserWarning, match=r"hosts \[0\] .* 30 draws .*drop=\[0, 1\]"):
        tree = gb.joined(stores, drop=[1])
    assert tree["posterior"]["a"].shape[:2] == (4, 30) and list(tree["posterior"].chain) == [0, 1, 4, 5]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert gb.joined(stores, drop=[0, 1])["posterior"]["a"].shape[:2] == (2, 50)


def test_one_that_has_nothing_or_is_missing(model, stores):
    shutil.rmtree(stores / "host1")
    with pytest.raises(CheckpointError, match=r"4 of 6 chains: the folders of hosts \[1\] .*drop=\[1\]"):
        gb.joined(stores)
    assert gb.joined(stores, drop=[1])["posterior"]["a"].shape[0] == 4
    assert Watch(stores).words().count("Without chains of hosts 1: they have not begun") == 2
    shutil.copytree(stores / "host0", stores.parent / "copied")
    assert "Without chains" not in Watch(stores.parent / "copied").words()
    run = model.start(**OPTIONS | {"warmup": 10**6}, host="1/3", store=stores)
    run.stop()
    run.wait()
    with pytest.raises(CheckpointError, match=r"hosts \[1\] of .* have no draws yet; .*drop=\[1\]"):
        gb.joined(stores)
    for drop, said in (
        ([3], "3 hosts, numbered from 0"),
        ([0, 1, 2], "all hosts"),
        ("1", "must be numbers"),
    ):
        with pytest.raises(OptionError, match=said):
            gb.joined(stores, drop=drop)


def test_copies_of_one_run_are_one(model, tmp_path):
    """As hosts keep them that share a plate: the longest tells all."""
    run = model.sample(**OPTIONS, store=tmp_path / "host0")
    shutil.copytree(tmp_path / "host0", tmp_path / "host1")
    run.resume(5)
    assert gb.joined(tmp_path)["posterior"]["a"].shape[:2] == (6, 25)


def test_which_host_this_is():
    assert this_host() == Host(0, 1) and this_host(" 3 / 16") == Host(3, 16)
    one_task = {"SLURM_PROCID": "0", "SLURM_NTASKS": "1"}
    for environment, host in (
        ({"SLURM_PROCID": "3", "SLURM_NTASKS": "4"}, Host(3, 4)),
        (one_task | {"SLURM_ARRAY_TASK_ID": "2", "SLURM_ARRAY_TASK_COUNT": "8"}, Host(2, 8)),
        ({"JOB_COMPLETION_INDEX": "5", "JOB_COMPLETIONS": "6"}, Host(5, 6)),
    ):
        assert this_host("auto", environment) == host
    for environment in ({}, {"JOB_COMPLETION_INDEX": "5"}, {"SLURM_PROCID": "x", "SLURM_NTASKS": "4"}):
        with pytest.raises(OptionError, match="none of these are set"):
            this_host("auto", environment)
    with pytest.raises(OptionError, match=r"SLURM_ARRAY_TASK_ID=4.*the last of 4 is 3"):
        this_host("auto", {"SLURM_ARRAY_TASK_ID": "4", "SLURM_ARRAY_TASK_COUNT": "4"})
    for nonsense in ("16/16", "3", "-1/2", "3/0", "", "a/b", "1/2/3", "nan"):
        with pytest.raises(OptionError, match="host"):
            this_host(nonsense)


def test_chains_have_to_divide(model):
    with pytest.raises(OptionError, match="of no hosts there is none"):
        this_host("0/0")
    with pytest.raises(OptionError, match="6 do not divide over the 4 hosts"):
        model.sample(**OPTIONS, host="1/4")


PROGRAM = """
import sys
sys.path[:0] = {paths!r}
import conftest
import numpy as np
import gibbsite as gb
from helpers.models.sampling_models import rates
model = gb.model(rates, np.arange(6, dtype=np.float32), np.ones(6, np.float32))
options = dict(warmup=40, chains=2, seed=1, schedule="RandomWalk a")
model.sample(draws=10**7, **options, host=sys.argv[1], store=sys.argv[2])
"""


@pytest.mark.slow
def test_one_that_is_killed_is_no_matter_to_another(model, tmp_path):
    program = PROGRAM.format(paths=[str(TESTS)])
    hosts = [
        subprocess.Popen([sys.executable, "-c", program, f"{k}/2", str(tmp_path)], stderr=subprocess.PIPE)
        for k in range(2)
    ]
    try:
        while any(committed(tmp_path / f"host{k}") < 10 for k in range(2)):
            assert all(host.poll() is None for host in hosts)
        hosts[1].kill()
        assert hosts[1].wait() == -signal.SIGKILL
        then = committed(tmp_path / "host0")
        while committed(tmp_path / "host0") <= then:
            assert hosts[0].poll() is None
        hosts[0].send_signal(signal.SIGTERM)
        assert hosts[0].wait(60) == -signal.SIGTERM
    finally:
        for host in hosts:
            host.kill()
            host.communicate()
    assert gb.load(tmp_path / "host0").kept.sampled.steps > then
