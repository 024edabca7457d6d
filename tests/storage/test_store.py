"""Runs on disk: saved, streamed, killed at any moment, read back without executing anything."""

import json
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import gibbsite as gb
import numpy as np
import pytest
import xarray as xr
from gibbsite.errors import CheckpointError, ModelError, OptionError, StoreError
from gibbsite.ground import lock
from gibbsite.ground.lock import Lock
from gibbsite.sampling import execution as run_module
from gibbsite.storage import checkpoint, committing
from gibbsite.storage.store import Store
from helpers import TESTS
from helpers.readers.committed import committed

SCHEDULE = "Gibbs z (*) NUTS [w p]"
OPTIONS = {"draws": 60, "warmup": 40, "chains": 2, "seed": 1, "schedule": SCHEDULE}


def same(a, b):
    assert a.draws.keys() == b.draws.keys()
    for name in a.draws:
        np.testing.assert_array_equal(a.draws[name], b.draws[name], err_msg=name)


def test_a_saved_run_comes_back_whole(model, whole, tmp_path):
    whole.save(tmp_path / "run")
    back = gb.load(tmp_path / "run")
    same(back, whole)
    assert (back.status, back.model_name, back.schedule_text) == ("finished", "coins", whole.schedule_text)
    for label, stats in whole.info.items():
        for name, v in stats.items():
            np.testing.assert_array_equal(back.info[label][name], v)
    assert repr(back.snapshot().scalars) == repr(whole.snapshot().scalars)  # NaN equals nothing
    assert list(back.draws) == list(whole.draws)
    assert back.to_datatree().equals(whole.to_datatree())
    with pytest.raises(ModelError, match="without its model"):
        back.resume(draws=5)


def test_a_saved_run_goes_on_bit_identically(model, whole, tmp_path):
    part = model.sample(**{**OPTIONS, "draws": 25})
    part.save(tmp_path / "run")
    before = _files(tmp_path / "run")
    same(gb.load(tmp_path / "run", model=model).resume(draws=35), whole)
    assert _files(tmp_path / "run") == before  # what was saved stays as it was saved


def test_saved_in_mid_warm_up(model, whole, tmp_path):
    stop = lambda r: r.stop() if r.snapshot().warmup_done >= 15 else None  # noqa: E731
    run = model.sample(**OPTIONS, chunk=3, on_start=lambda r: r.subscribe(stop))
    assert run.status == "stopped" and run.draws["p"].shape[1] == 0
    run.save(tmp_path / "run")
    same(gb.load(tmp_path / "run", model=model).resume(draws=60), whole)


def _files(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_store_is_what_xarray_reads(model, whole, tmp_path):
    run = model.sample(**OPTIONS, store=tmp_path / "run", chunk=7, keep_warmup=True)
    same(run, whole)
    with xr.open_datatree(tmp_path / "run" / "draws.zarr", engine="zarr", consolidated=False) as tree:
        for name, v in whole.draws.items():
            np.testing.assert_array_equal(tree["posterior"][name].values, v)
        assert tree["posterior"]["z"].dims == ("chain", "draw", "n")
        assert tree["warmup_posterior"]["p"].shape == (2, 40, 2)
        assert tree["sample_stats"]["diverging"].shape == (2, 60)
    back = gb.load(tmp_path / "run")
    assert back.to_datatree()["warmup_posterior"].sizes["draw"] == 40


class Crash(BaseException):
    """A kernel that is gone."""


@pytest.mark.share(3)
@pytest.mark.parametrize("moment", range(0, 60, 4))
def test_killed_at_any_write(model, whole, tmp_path, monkeypatch, moment):
    """Every file appears by a rename; the process dies at the n-th one, and nothing is written after it."""
    real, count = os.replace, 0

    def renamed(*args):
        nonlocal count
        count += 1
        if count > moment:
            raise Crash
        return real(*args)

    folder = tmp_path / "run"
    monkeypatch.setattr(run_module, "_STORE_SHARE", np.inf)  # a commit after every chunk
    monkeypatch.setattr(committing, "_LARGE", 0)  # each a checkpoint
    run = model.start(**OPTIONS, chunk=9, store=folder)
    monkeypatch.setattr(os, "replace", renamed)
    monkeypatch.setattr(Path, "replace", lambda self, target: renamed(self, target))
    with pytest.raises(Crash):
        run.wait()
    monkeypatch.undo()
    if not (folder / checkpoint.FILE).exists():
        return  # killed before the first commit: nothing was promised yet
    kept = gb.load(folder)
    n = kept.draws["p"].shape[1]
    assert {v.shape[1] for v in kept.draws.values()} == {n}
    for name, v in kept.draws.items():
        np.testing.assert_array_equal(v, whole.draws[name][:, :n])
    back = gb.load(folder, model=model)
    same(back.resume(), whole)
    same(gb.load(folder), whole)


PROGRAM = """
import sys
sys.path[:0] = {paths!r}
import conftest
from helpers.models.sampling_models import coins, data
import gibbsite as gb
options = {options!r}
gb.model(coins, data()).sample(**options, store=sys.argv[1])
"""


@pytest.mark.slow
def test_sigkill(model, tmp_path):
    """A killed process loses nothing that was committed, and its run goes on in another process."""
    program = PROGRAM.format(paths=[str(TESTS)], options={**OPTIONS, "draws": 10_000_000})
    folder = tmp_path / "run"
    alike = os.environ | {"XLA_FLAGS": os.environ.get("GIBBSITE_TESTS_XLA_FLAGS", "")}  # the same programs
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(folder)], stdout=subprocess.PIPE, env=alike
    )
    try:
        while process.poll() is None and committed(folder) < 50:
            time.sleep(0.05)
        assert process.poll() is None
        os.kill(process.pid, signal.SIGSTOP)  # it holds the store still, and draws no more to be drawn again
        second = gb.load(folder, model=model)  # reading is free
        with pytest.raises(
            StoreError, match=rf"written to by process {process.pid} on {socket.gethostname()}"
        ):
            second.resume()
        with pytest.raises(StoreError, match=rf"process {process.pid}"):
            model.start(**OPTIONS, store=folder)
        assert process.poll() is None
        os.kill(process.pid, signal.SIGKILL)
    finally:
        process.kill()
        process.communicate()
    n = gb.load(folder).draws["p"].shape[1]
    assert n >= 50
    back = gb.load(folder, model=model)
    back.resume(draws=30)
    same(back, model.sample(**{**OPTIONS, "draws": n + 30}))


@pytest.mark.slow
def test_two_runs_of_one_process_do_not_write_one_store(model, tmp_path):
    folder = tmp_path / "run"
    run = model.start(**{**OPTIONS, "draws": 10_000_000}, store=folder)
    try:
        while committed(folder) < 10:
            time.sleep(0.02)
        other = gb.load(folder, model=model)
        with pytest.raises(StoreError, match=rf"process {os.getpid()}"):
            other.continue_()
        assert other.status == "stopped"
        shown = []
        with pytest.raises(StoreError, match="process"):  # a dashboard would wait for it for ever
            model.sample(
                **{**OPTIONS, "draws": 10_000_000}, store=folder, resume="auto", on_start=shown.append
            )
        assert shown[0].status == "failed" and "process" in shown[0].snapshot().message
    finally:
        run.stop()
        run.wait()
    late = gb.load(folder, model=model)
    late.resume(draws=5)
    for stale in (run, other):  # they would overwrite what `late` has drawn
        with pytest.raises(CheckpointError, match=r"gone on elsewhere.*load it again"):
            stale.resume(draws=5)
    late.resume(draws=5)  # and they leave the store free


def test_a_lock_that_its_holder_has_not_signed_yet(tmp_path):
    held, other = Lock(tmp_path), Lock(tmp_path)
    held.take()
    (tmp_path / "lock").write_text("")
    with pytest.raises(StoreError, match="another process"):
        other.take()
    held.release()
    other.take()
    assert other.held and not held.held
    other.release()


@pytest.mark.parametrize("host", ["node17", None])
def test_a_name_that_a_killed_process_left_is_nobody_s(tmp_path, host):
    """The process is on another machine, or its number is another process's now."""
    told = {"pid": os.getpid(), "host": host or socket.gethostname(), "since": "2026-11-20 00:00:00"}
    (tmp_path / "lock").write_text(json.dumps(told))
    assert lock.writer(tmp_path) is None
    held = Lock(tmp_path)
    held.take()
    (tmp_path / "lock").write_text(json.dumps(told))
    assert str(lock.writer(tmp_path)).startswith(f"process {os.getpid()} on {told['host']}")
    held.release()


def test_those_who_look_are_in_nobody_s_way(tmp_path):
    (tmp_path / "lock").write_text(json.dumps({"pid": 1, "host": "node17", "since": "then"}))
    looking = os.open(tmp_path / "lock", os.O_RDONLY)
    lock.fcntl.flock(looking, lock.fcntl.LOCK_SH)
    threading.Timer(0.05, os.close, (looking,)).start()
    held = Lock(tmp_path)
    held.take()  # a moment later
    assert held.held
    held.release()


def test_a_file_system_that_knows_no_locks(tmp_path, monkeypatch):
    def unknown(*args):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(lock.fcntl, "flock", unknown)
    with pytest.warns(UserWarning, match="cannot be locked.*no other process"):
        Lock(tmp_path).take()


def test_loading_executes_nothing(model, tmp_path):
    class Trap:
        def __reduce__(self):
            return (print, ("executed",))

    model.sample(**{**OPTIONS, "draws": 10}).save(tmp_path / "run")
    np.savez(tmp_path / "run" / "x.npz", facts=np.array([Trap()], object), allow_pickle=True)
    (tmp_path / "run" / "x.npz").replace(tmp_path / "run" / checkpoint.FILE)
    with pytest.raises(CheckpointError, match="cannot be read"):
        gb.load(tmp_path / "run")
    (tmp_path / "run" / checkpoint.FILE).write_bytes(pickle.dumps(Trap()))
    with pytest.raises(CheckpointError, match="cannot be read"):
        gb.load(tmp_path / "run")


def test_other_models_data_schedules_and_versions(model, whole, tmp_path):
    folder = tmp_path / "run"
    whole.save(folder)
    other_data = gb.model(model.fn, model.args[0][::-1].copy())
    with pytest.raises(CheckpointError, match="other data"):
        gb.load(folder, model=other_data)
    with pytest.raises(CheckpointError, match=r"another model.*sites differ: w"):
        gb.load(folder, model=gb.model(model.fn, model.args[0], K=3))
    with pytest.raises(CheckpointError, match="made by the schedule"):
        gb.load(folder, model=model.with_schedule("NUTS [w p] (*) Gibbs z"))
    with pytest.raises(CheckpointError, match="no saved run"):
        gb.load(tmp_path / "nothing")
    facts, state = checkpoint.read(folder)
    checkpoint.write(folder, {**facts, "format": 99}, state)
    with pytest.raises(CheckpointError, match="format 99"):
        gb.load(folder)
    checkpoint.write(folder, {**facts, "versions": {**facts["versions"], "jax": "0.4.1"}}, state)
    with pytest.raises(CheckpointError, match=r"made with jax 0\.4\.1 \(here.*pip install .*jax==0\.4\.1"):
        gb.load(folder, model=model)
    same(gb.load(folder), whole)
    wrong = {p: v.astype(np.float64) if v.dtype == np.float32 else v for p, v in state.items()}
    checkpoint.write(folder, facts, wrong)
    with pytest.raises(CheckpointError, match="jax_enable_x64"):
        gb.load(folder, model=model).resume(draws=5)


def test_stores_that_cannot_be(model, whole, tmp_path):
    whole.save(tmp_path / "run")
    with pytest.raises(StoreError, match=r"exists and is not empty; .*resume='auto'"):
        model.start(**OPTIONS, store=tmp_path / "run")
    with pytest.raises(StoreError, match="exists"):
        whole.save(tmp_path / "run")
    (tmp_path / "file").write_text("taken")
    with pytest.raises(StoreError, match="choose another path"):
        model.start(**OPTIONS, store=tmp_path / "file")
    with pytest.raises(StoreError, match="cannot be written to"):
        model.start(**OPTIONS, store=tmp_path / "file" / "below")


def test_a_full_disk_keeps_the_draws(model, whole, tmp_path, monkeypatch):
    def full(*args):
        raise OSError(28, "No space left on device")

    run = model.start(**OPTIONS, chunk=5, store=tmp_path / "run")
    monkeypatch.setattr(checkpoint, "write", full)
    with pytest.raises(StoreError, match=r"No space left.*in memory: make room and resume"):
        run.wait()
    assert run.status == "failed" and "No space left" in run.snapshot().message
    monkeypatch.undo()
    same(run.resume(), whole)
    same(gb.load(tmp_path / "run"), whole)


@pytest.mark.slow
def test_thinned_draws_are_every_nth_draw(model, whole):
    thin = model.sample(**{**OPTIONS, "draws": 20}, thin=3)
    for name, v in whole.draws.items():
        np.testing.assert_array_equal(thin.draws[name], v[:, 2::3])
    block = next(iter(whole.info.values())) if "n_steps" in next(iter(whole.info.values())) else None
    for label, stats in whole.info.items():
        if "n_steps" in stats:
            steps = stats["n_steps"].reshape(2, 20, 3).sum(axis=2)
            np.testing.assert_array_equal(thin.info[label]["n_steps"], steps)
            block = label
    assert block is not None


def test_warm_up_that_was_not_kept(whole):
    with pytest.raises(OptionError, match="keep_warmup=True"):
        whole.to_datatree(warmup=True)


def test_the_description_is_json(model, tmp_path):
    plan = model.plan(SCHEDULE)
    Store.create(tmp_path / "run", plan)
    attrs = json.loads((tmp_path / "run" / "draws.zarr" / "zarr.json").read_text())["attributes"]["gibbsite"]
    assert attrs["fingerprint"] == plan.fingerprint and attrs["model"] == "coins"
