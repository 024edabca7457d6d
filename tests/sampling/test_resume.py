"""`store=…, resume="auto"`: the same line starts a run, goes on with it, and says so where it is another."""

import os
import shutil

import gibbsite as gb
import numpy as np
import pytest
from gibbsite.errors import CheckpointError, OptionError, StoreError
from gibbsite.storage import checkpoint
from gibbsite.storage.store import Store
from helpers.models.sampling_models import coins, data

SCHEDULE = "Gibbs z (*) NUTS [w p]"
OPTIONS = {"draws": 60, "warmup": 40, "chains": 2, "seed": 1, "schedule": SCHEDULE}


def same(a, b):
    for name in b.draws:
        np.testing.assert_array_equal(a.draws[name], b.draws[name], err_msg=name)


def once(model, folder, steps=None, **changed):
    """The one line, stopped after so many steps."""
    run = model.start(**{**OPTIONS, "chunk": 7, **changed}, store=folder, resume="auto")
    if steps is not None:
        run.subscribe(lambda r: r.stop() if r.kept.steps >= steps else None)
        if run.kept.steps >= steps:
            run.stop()
    return run.wait()


@pytest.mark.slow
def test_run_again_and_again_until_it_is_done(model, whole, tmp_path):
    folder = tmp_path / "new" / "run"
    counts = [once(model, folder, steps).kept.steps for steps in (0, 10, 50, 80)]
    assert counts[0] < 40 < counts[3] < 100
    run = once(model, folder)
    assert run.status == "finished"
    same(run, whole)
    before = (folder / checkpoint.FILE).read_bytes()
    done = once(model, folder)  # nothing is left to do, and nothing is done
    assert done.status == "finished" and (folder / checkpoint.FILE).read_bytes() == before
    same(done, whole)
    same(model.sample(**OPTIONS, store=folder, resume="auto"), whole)
    more = model.sample(**{**OPTIONS, "draws": 90}, store=folder, resume="auto")
    assert more.draws["p"].shape[1] == 90
    same(gb.load(folder), more)
    np.testing.assert_array_equal(more.draws["p"][:, :60], whole.draws["p"])


@pytest.mark.slow
def test_with_a_condition(model, tmp_path):
    """A run that is stopped before its condition holds goes on until it does."""
    asked = {"until": "ess>150", "max_draws": 2000}
    whole = model.sample(**OPTIONS, **asked)
    once(model, tmp_path / "run", 70, **asked)
    run = once(model, tmp_path / "run", **asked)
    same(run, whole)
    before = (tmp_path / "run" / checkpoint.FILE).read_bytes()
    again = once(model, tmp_path / "run", **asked)
    assert again.status == "finished" and (tmp_path / "run" / checkpoint.FILE).read_bytes() == before


def test_killed_before_anything_was_committed(model, whole, tmp_path):
    folder = tmp_path / "run"
    Store.create(folder, model.plan(SCHEDULE)).release()  # and no more: as by a kill
    (folder / (checkpoint.FILE + ".new")).write_bytes(b"half of a check")
    with pytest.raises(StoreError, match="not empty"):
        model.start(**OPTIONS, store=folder)
    same(once(model, folder), whole)


def test_killed_while_compiling(model, whole, tmp_path, monkeypatch):
    """What is there before the first chunk can be gone on with, from the starting values asked for."""
    init = {"p": np.array([0.1, 0.9])}
    from_there = model.sample(**OPTIONS, init=init)
    once(model, tmp_path / "run", 0, init=init)
    assert gb.load(tmp_path / "run").kept.steps == 0
    same(once(model, tmp_path / "run", init=init), from_there)


def test_a_run_that_was_saved_goes_on_where_it_was_saved(model, whole, tmp_path):
    model.sample(**{**OPTIONS, "draws": 25}).save(tmp_path / "run")
    same(once(model, tmp_path / "run"), whole)
    same(gb.load(tmp_path / "run"), whole)


@pytest.fixture(scope="module")
def begun(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("again") / "run"
    once(model, folder, 50)
    return folder


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"chains": 3}, "chains=2.*chains=3"),
        ({"seed": 2}, "seed=1.*seed=2"),
        ({"warmup": 50, "thin": 2}, "warmup=40, thin=1.*warmup=50, thin=2"),
        ({"keep": "p"}, "keep=None.*keep='p'"),
        ({"keep_warmup": True}, "keep_warmup=False"),
        ({"schedule": "Gibbs z (*) Slice p (*) NUTS w"}, "schedule"),
    ],
)
def test_other_options_are_refused(model, begun, changed, said):
    before = (begun / checkpoint.FILE).read_bytes()
    with pytest.raises(CheckpointError, match=said):
        once(model, begun, **changed)
    assert (begun / checkpoint.FILE).read_bytes() == before


def test_other_models_and_data_are_refused(begun):
    with pytest.raises(CheckpointError, match="on other data"):
        once(gb.model(coins, data()[::-1].copy()), begun)
    with pytest.raises(CheckpointError, match="another model"):
        once(gb.model(coins, data()[:5]), begun)


def test_what_is_not_a_run_is_refused(model, begun, tmp_path):
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.tex").write_text("all of it")
    with pytest.raises(StoreError, match="not empty"):
        once(model, mine)
    assert (mine / "thesis.tex").exists()
    lost = tmp_path / "lost"
    shutil.copytree(begun, lost)
    (lost / checkpoint.FILE).unlink()  # its draws are worth keeping: nothing is written over them
    with pytest.raises(StoreError, match="not empty"):
        once(model, lost)
    assert (lost / "draws.zarr" / "sample_stats").exists()


@pytest.mark.parametrize(
    ("asked", "said"),
    [({"resume": "auto"}, "give store"), ({"resume": True, "store": "x"}, "must be 'auto'")],
)
def test_what_makes_no_sense(model, asked, said):
    with pytest.raises(OptionError, match=said):
        model.start(**OPTIONS, **asked)


def test_two_at_once(model, tmp_path):
    first = model.start(**{**OPTIONS, "draws": 10**6}, store=tmp_path / "run", resume="auto")
    with pytest.raises(StoreError, match="being written to by process"):
        once(model, tmp_path / "run", draws=10**6)
    read = gb.load(tmp_path / "run")
    assert read.elsewhere.pid == os.getpid() and "going on in process" in repr(read)
    assert "here are the draws that it had" in read.snapshot(1).message
    first.stop()
    first.wait()
    assert gb.load(tmp_path / "run").elsewhere is None
    with pytest.raises(CheckpointError, match=r"jax==0\.1"):
        facts, state = checkpoint.read(tmp_path / "run")
        checkpoint.write(tmp_path / "run", {**facts, "versions": {**facts["versions"], "jax": "0.1"}}, state)
        once(model, tmp_path / "run")
