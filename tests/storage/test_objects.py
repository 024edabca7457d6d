"""Runs in object stores: the draws, promises and errors of folders, in fsspec's memory and in moto's S3."""

import gc
import json
import shutil
import warnings

import gibbsite as gb
import numpy as np
import pytest
from gibbsite.errors import CheckpointError, OptionError, StoreError
from helpers.models.sampling_models import SCHOOLS as Y
from helpers.models.sampling_models import mixed

fsspec = pytest.importorskip("fsspec")
OPTIONS = {"draws": 60, "warmup": 40, "chains": 2, "seed": 3, "schedule": "Gibbs z (*) NUTS [mu tau]"}


@pytest.fixture(scope="module")
def model():
    return gb.model(mixed, Y)


@pytest.fixture(scope="module")
def alone(model):
    return model.sample(**OPTIONS)


@pytest.fixture(scope="module")
def s3():
    """The URL of a bucket of a server on this machine."""
    server = pytest.importorskip("moto.server")
    pytest.importorskip("s3fs")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        running = server.ThreadedMotoServer(port=0)
        running.start()
        host, port = running.get_host_and_port()
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
            for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION"):
                patch.setenv(name, "us-east-1")
            fsspec.filesystem("s3").mkdir("runs")
            yield "s3://runs"
        running.stop()


@pytest.fixture(params=["memory", pytest.param("s3", marks=pytest.mark.slow)])
def place(request, tmp_path):
    if request.param == "s3":
        return f"{request.getfixturevalue('s3')}/{tmp_path.name}"
    return f"memory://{tmp_path.name}"


def objects(url):
    fs, root = fsspec.core.url_to_fs(url)
    fs.invalidate_cache()
    return fs, {p[len(root) + 1 :]: p for p in fs.find(root)}


@pytest.fixture
def every_chunk(monkeypatch):
    """Commits after every chunk: many in the journal."""
    monkeypatch.setattr("gibbsite.sampling.execution._STORE_SHARE", np.inf)


def same(run, other):
    for name, draws in other.draws.items():
        np.testing.assert_array_equal(run.draws[name], draws)


def test_a_run_is_stopped_read_and_goes_on(place, model, alone, every_chunk):
    run = model.start(store=place, chunk=5, **OPTIONS)
    run.subscribe(lambda r: r.draws["mu"].shape[1] > 20 and r.stop())
    run.wait()
    drawn = run.draws["mu"].shape[1]
    assert run.status == "stopped" and 20 < drawn < 60
    _, names = objects(place)
    assert "checkpoint.npz" in names and "lock" not in names
    read = gb.load(place)
    assert read.draws["mu"].shape[1] == drawn
    # the line that began it goes on with it
    again = model.sample(store=place, resume="auto", **OPTIONS)
    assert again.status == "finished"
    same(again, alone)
    verified = gb.verify(place)
    assert verified.draws == 60 and verified.path == place
    same(gb.load(place), alone)
    again.resume(10)
    assert gb.load(place).draws["mu"].shape[1] == 70
    with pytest.raises(CheckpointError, match=f"{place}' has gone on elsewhere"):
        run.resume()


def test_what_a_killed_process_left_is_there(model, alone, tmp_path, every_chunk):
    """Nothing is written at the end: what counts is the last commit, of checkpoint and journal."""
    place, copy = f"memory://{tmp_path.name}", f"memory://{tmp_path.name}-copy"
    run, taken = model.start(store=place, chunk=5, **OPTIONS), []

    def cut(run):
        fs, names = objects(place)
        if not taken and sum(n.startswith("journal-") for n in names) > 1:
            taken.append(run.draws["mu"].shape[1])
            for name, path in names.items():
                fs.pipe_file(f"/{tmp_path.name}-copy/{name}", fs.cat_file(path))

    run.subscribe(cut)
    run.wait()
    assert taken
    fs, names = objects(copy)
    told = json.loads(fs.cat_file(names["lock"]))
    fs.pipe_file(names["lock"], json.dumps({**told, "pid": 2**22 + 1}).encode())  # its process has ended
    again = gb.load(copy, model=model.with_schedule(OPTIONS["schedule"]))
    assert again.kept.steps
    again.resume()
    same(again, alone)


def test_what_is_damaged_is_told_by_url(model, tmp_path):
    place = f"memory://{tmp_path.name}"
    model.sample(**OPTIONS).save(place)
    fs, names = objects(place)
    chunk = next(n for n in names if n.startswith("draws.zarr/posterior/mu/c"))
    body = bytearray(fs.cat_file(names[chunk]))
    body[-6] ^= 1
    fs.pipe_file(names[chunk], bytes(body))
    with pytest.raises(CheckpointError, match=rf"{place}' is damaged: {chunk}"):
        gb.load(place)
    with pytest.raises(CheckpointError, match=rf"{place}' is damaged: {chunk}"):
        gb.verify(place)
    with pytest.warns(UserWarning, match=chunk):
        assert set(gb.load(place, partial=True).draws) == {"tau", "z"}
    fs.pipe_file(names["checkpoint.npz"], b"x" * 100)
    with pytest.raises(CheckpointError, match=f"{place}' cannot be read"):
        gb.load(place)


@pytest.mark.slow
def test_who_signed_last_writes(model, tmp_path):
    """There are no locks and no clocks: a process elsewhere that has taken the store over is met at the next
    commit, and keeps what it wrote."""
    place = f"memory://{tmp_path.name}"
    run = model.start(store=place, chunk=5, **OPTIONS | {"draws": 5000})
    fs, taken = fsspec.filesystem("memory"), []

    def take(run):
        if run.draws["mu"].shape[1] > 10 and not taken:
            taken.append(json.loads(fs.cat_file(f"/{tmp_path.name}/lock")))
            told = {"pid": 1, "host": "elsewhere", "since": "2031-01-01 00:00:00", "token": "another"}
            fs.pipe_file(f"/{tmp_path.name}/lock", json.dumps(told).encode())

    run.subscribe(take)
    with pytest.raises(StoreError, match="is another process's now"):
        run.wait()
    assert taken and run.draws["mu"].shape[1] == 5000  # all of it in memory
    assert json.loads(fs.cat_file(f"/{tmp_path.name}/lock"))["token"] == "another"
    assert gb.load(place).draws["mu"].shape[1] < 5000


def test_what_cannot_be_reached(model, tmp_path, monkeypatch):
    place = f"memory://{tmp_path.name}"
    with pytest.raises(CheckpointError, match="holds no saved run"):
        gb.load(place)
    model.sample(**OPTIONS | {"draws": 5}).save(place)
    with pytest.raises(StoreError, match=f"{place}' exists and is not empty; go on with it"):
        model.sample(store=place, **OPTIONS)
    for url in ("gopher17://a/b", "memory://"):
        with pytest.raises(OptionError, match=url):
            model.sample(store=url, **OPTIONS)

    def down(self, path, value, **more):
        raise ConnectionError("no route to host")

    monkeypatch.setattr(type(fsspec.filesystem("memory")), "pipe_file", down)
    with pytest.raises(StoreError, match="ConnectionError: no route to host"):
        model.sample(store=f"{place}-2", **OPTIONS)


@pytest.mark.slow
def test_hosts_keep_their_parts_beside_each_other(model, tmp_path):
    place = f"memory://{tmp_path.name}"
    parts = [model.sample(store=place, host=f"{k}/2", **OPTIONS | {"chains": 4}) for k in (0, 1)]
    tree = gb.joined(place)
    np.testing.assert_array_equal(
        tree["posterior"]["mu"].values, np.concatenate([p.draws["mu"] for p in parts])
    )
    with pytest.raises(CheckpointError, match="holds the chains of several hosts"):
        gb.load(place)


def test_files_of_this_machine_are_folders(model, alone, tmp_path):
    run = model.sample(store=f"file://{tmp_path}/run", **OPTIONS)
    same(run, alone)
    assert (tmp_path / "run" / "checkpoint.npz").is_file()
    same(gb.load(f"file://{tmp_path}/run"), alone)
    shutil.rmtree(tmp_path / "run")


@pytest.mark.slow
def test_what_lies_beside_the_draws_is_sent(place, model):
    """Results and notes of a run that was stored and of one that was saved; they are gone from where they
    were sent when they are given up, and a run that was read sends what is noted of it, too."""
    stored = model.sample(store=place, **OPTIONS)
    elpd = stored.elpd().elpd
    stored.keep("again", stored.predict(draws=10))
    stored.annotate("a wider prior", tags=["paper"])
    saved = model.sample(**OPTIONS)
    saved.keep("again", saved.predict(draws=10))
    saved.annotate("another")
    saved.save(f"{place}-saved")
    wanted = stored.results["again"].draws["y"]
    del stored, saved
    gc.collect()  # with them the folders that they were written in

    back = gb.load(place)
    assert back.known_elpd.elpd == pytest.approx(elpd)
    np.testing.assert_array_equal(back.results["again"].draws["y"], wanted)
    assert (back.remarks["note"], tuple(back.remarks["tags"])) == ("a wider prior", ("paper",))
    back.annotate("an informative prior")
    again = gb.load(f"{place}-saved")
    assert list(again.results) == ["again"] and again.remarks["note"] == "another"
    assert gb.load(place).remarks["note"] == "an informative prior"
    assert gb.verify(place)
