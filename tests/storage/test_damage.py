"""Damaged and hostile stores: every damage is noticed, nothing in a store is executed."""

import io
import json
import os
import pickle
import shutil
import threading
import zipfile

import gibbsite as gb
import numpy as np
import pytest
from gibbsite.errors import CheckpointError, GibbsiteError, StoreError
from gibbsite.sampling import execution as run_module
from gibbsite.storage import checkpoint, committing, store
from helpers.readers.committed import committed

SCHEDULE = "Gibbs z (*) NUTS [w p]"
OPTIONS = {"draws": 1300, "warmup": 40, "chains": 2, "seed": 1, "schedule": SCHEDULE, "chunk": 100}


@pytest.fixture(scope="module")
def stored(model, tmp_path_factory):
    """A run of several chunks a site, with its store."""
    folder = tmp_path_factory.mktemp("stores") / "run"
    with pytest.MonkeyPatch.context() as few:
        few.setattr(store, "_CHUNK_ROWS", 1024)
        return model.sample(**OPTIONS, store=folder, keep="p"), folder


def _flipped(path, at, bit):
    body = bytearray(path.read_bytes())
    body[at] ^= 1 << bit
    path.write_bytes(bytes(body))


def _same(back, run):
    for name, v in run.draws.items():
        np.testing.assert_array_equal(back.draws[name], v)
    for label, stats in run.info.items():
        for name, v in stats.items():
            np.testing.assert_array_equal(back.info[label][name], v)


def test_a_stale_last_chunk_is_noticed(model, tmp_path):
    """As after a power cut: the chunk is whole by its own checksum, and older than the checkpoint."""
    folder = tmp_path / "run"
    run = model.sample(**{**OPTIONS, "draws": 700}, store=folder)
    chunk = folder / "draws.zarr" / "posterior" / "p" / "c" / "0" / "0" / "0"
    before = chunk.read_bytes()
    run.resume(draws=100)
    chunk.write_bytes(before)
    with pytest.raises(CheckpointError, match=r"posterior/p.*older than its checkpoint"):
        gb.load(folder)


def test_what_is_whole_of_a_damaged_store(stored, tmp_path):
    run, folder = stored
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    assert gb.verify(copy).draws == 1300
    second = copy / "draws.zarr" / "posterior" / "p" / "c" / "0" / "1" / "0"
    _flipped(second, 30, 2)
    with pytest.raises(CheckpointError, match=r"posterior/p.*0/1/0"):
        gb.verify(copy)
    with pytest.warns(UserWarning, match=r"first 1024 draws are whole.*posterior/p"):
        part = gb.load(copy, partial=True)
    for name, v in run.draws.items():
        np.testing.assert_array_equal(part.draws[name], v[:, :1024])
    (copy / "draws.zarr" / "sample_stats" / "energy" / "zarr.json").unlink()
    with pytest.warns(UserWarning, match=r"sample_stats/energy/zarr\.json"):
        part = gb.load(copy, partial=True)
    assert part.draws["p"].shape[1] == 1024
    assert not any("energy" in stats for stats in part.info.values())


class Trap:
    """Leaves a mark where it is unpickled."""

    mark = ""

    def __reduce__(self):
        return (os.mkdir, (self.mark,))


@pytest.mark.parametrize("version", ["v2 filter", "v2 compressor", "v2 objects", "v3 codec", "v3 dtype"])
def test_no_codec_is_run_that_we_did_not_write(stored, tmp_path, version):
    _, folder = stored
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    Trap.mark = str(tmp_path / "executed")
    array = copy / "draws.zarr" / "posterior" / "p"
    if version.startswith("v2"):
        shutil.rmtree(array)
        array.mkdir()
        dtype = "|O" if version == "v2 objects" else "<f4"
        pickled = [{"id": "pickle"}]
        meta = {"zarr_format": 2, "shape": [2, 1300, 2], "chunks": [2, 1300, 2], "dtype": dtype, "order": "C",
                "fill_value": 0, "compressor": pickled[0] if version == "v2 compressor" else None,
                "filters": None if version == "v2 compressor" else pickled}  # fmt: skip
        (array / ".zarray").write_text(json.dumps(meta))
        (array / "0.0.0").write_bytes(pickle.dumps(Trap()))
    else:
        meta = json.loads((array / "zarr.json").read_text())
        if version == "v3 codec":
            meta["codecs"] = [*meta["codecs"][:1], {"name": "numcodecs.pickle", "configuration": {}}]
        else:
            meta["data_type"] = "variable_length_bytes"
        (array / "zarr.json").write_text(json.dumps(meta))
        for chunk in (p for p in (array / "c").rglob("*") if p.is_file()):
            chunk.write_bytes(pickle.dumps(Trap()))
    with pytest.raises(CheckpointError, match="posterior/p"):
        gb.load(copy)
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize(
    "change",
    [
        {"settings": {}},
        {"settings": []},
        {"draws": {}},
        {"until": 5},
        {"pace": {"x": 1}},
        {"elapsed": "long"},
        {"versions": []},
        {"about": 3},
        {"observed": {"y": ["../../etc/passwd", "x"]}},
        {"aims": 0},
        {"aims": {"x": 1}},
        {"aims": {"0": "x"}},
        {"centring": 0},
        {"centring": {"w": {"degrees": [1.0], "elsewhere": 2}}},
        {"centring": {"w": {"count": 1}}},
        {"starts": 5},
        {"renamed": [["labels", "order", 5]]},
        {"derived": 7},
        {"warming": {"length": 40, "told": "", "moved": [["x", "y"]]}},
    ],
    ids=str,
)
def test_facts_of_the_wrong_kind(stored, tmp_path, change):
    _, folder = stored
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    facts, state = checkpoint.read(copy)
    checkpoint.write(copy, {**facts, **change}, state)
    with pytest.raises(CheckpointError, match=f"damaged.*{next(iter(change))}|damaged"):
        gb.load(copy)


@pytest.mark.parametrize("label", ["../../../etc/x", "..", "a/b", "", "zzz"])
def test_labels_that_lead_elsewhere(stored, tmp_path, label):
    _, folder = stored
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    facts, state = checkpoint.read(copy)
    facts["draws"]["posterior"]["names"]["p"] = label
    checkpoint.write(copy, facts, state)
    with pytest.raises(CheckpointError):
        gb.load(copy)


def test_an_array_that_says_more_than_it_has(stored, tmp_path):
    """A checkpoint of one small array that claims 64 GiB, whole by its own digest."""
    import hashlib

    _, folder = stored
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    header, body = io.BytesIO(), io.BytesIO()
    claim = {"descr": "|u1", "fortran_order": False, "shape": (1 << 36,)}
    np.lib.format.write_array_header_1_0(header, claim)
    for kind in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        body = io.BytesIO()
        with zipfile.ZipFile(body, "w", kind) as file:
            file.writestr("facts.npy", header.getvalue() + b"\0" * 1000)
        content = body.getvalue()
        (copy / checkpoint.FILE).write_bytes(content + hashlib.sha256(content).digest())
        with pytest.raises(CheckpointError, match="cannot be read"):
            gb.load(copy)


def test_links_are_not_followed(model, tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("precious data")
    run = model.sample(**{**OPTIONS, "draws": 100}, store=tmp_path / "run")
    for name in ("lock", checkpoint.FILE + ".new"):
        (tmp_path / "run" / name).unlink(missing_ok=True)
        (tmp_path / "run" / name).symlink_to(precious)
    run.resume(draws=10)
    assert precious.read_text() == "precious data"
    assert gb.load(tmp_path / "run").draws["p"].shape[1] == 110


def _between_commits(run, ready, do):
    """Have the sampling thread itself `do` something once, when a chunk and its commit are behind it: then no
    commit is under way that could make up for it."""
    done = threading.Event()

    def look(_):
        if threading.current_thread() is not run._thread or done.is_set():
            return
        if run._committing is not None:
            run._committing.settle()
        if ready():
            do()
            done.set()

    forget = run.subscribe(look)
    assert done.wait(60)
    forget()


@pytest.mark.share(3)
@pytest.mark.parametrize("loss", ["folder", "checkpoint", "chunk", "draws"])
def test_a_store_that_goes_away_under_a_run(model, tmp_path, loss, monkeypatch):
    if loss != "draws":  # what is committed to the journal alone is lost, too
        monkeypatch.setattr(committing, "_LARGE", 0)  # every commit a checkpoint
        monkeypatch.setattr(store, "_CHUNK_ROWS", 100)  # so that the first is not written again
    monkeypatch.setattr(run_module, "_STORE_SHARE", np.inf)
    folder = tmp_path / "run"
    run = model.start(**{**OPTIONS, "draws": 10**7}, store=folder)

    def lose():
        if loss == "folder":
            shutil.rmtree(folder)
        elif loss == "checkpoint":
            (folder / checkpoint.FILE).unlink()
        elif loss == "draws":
            shutil.rmtree(folder / "draws.zarr")
        else:
            (folder / "draws.zarr" / "posterior" / "p" / "c" / "0" / "0" / "0").unlink()

    _between_commits(run, lambda: committed(folder) >= 300, lose)
    after = run.kept.sampled.steps + 200
    _between_commits(run, lambda: run.kept.sampled.steps >= after, lambda: None)  # it goes on in memory
    assert run.status == "sampling"
    run.stop()
    with pytest.raises(StoreError, match="in memory") as told:
        run.wait()
    assert told.value.run is run and run.status == "failed"
    run.save(tmp_path / "elsewhere")
    _same(gb.load(tmp_path / "elsewhere"), run)


@pytest.mark.parametrize("loss", ["checkpoint", "first chunk", "last chunk"])
@pytest.mark.parametrize("moment", ["before it is written", "after it was written"])
def test_what_goes_away_during_a_commit(model, tmp_path, monkeypatch, loss, moment):
    """The last commit is said to have failed, or what is on disk is whole."""
    monkeypatch.setattr(store, "_CHUNK_ROWS", 1024)
    folder, write = tmp_path / "run", checkpoint.write
    chunks = folder / "draws.zarr" / "posterior" / "p" / "c" / "0"
    lost = {"checkpoint": folder / checkpoint.FILE, "first chunk": chunks / "0" / "0"}

    def during(*given):
        path = lost.get(loss) or max(chunks.iterdir(), key=lambda p: int(p.name)) / "0"
        if moment.startswith("before"):
            path.unlink(missing_ok=True)
        mark = write(*given)
        if moment.startswith("after"):
            path.unlink(missing_ok=True)
        return mark

    run = model.sample(**OPTIONS, store=folder, keep="p")
    monkeypatch.setattr(checkpoint, "write", during)
    if loss == "checkpoint" and moment.startswith("before"):
        run.resume(100)
    else:
        with pytest.raises(StoreError, match="removed"):
            run.resume(100)
        monkeypatch.undo()
        if loss == "last chunk":
            run.resume(10)  # written again as a whole
        else:
            with pytest.raises(CheckpointError):
                gb.load(folder)
            return
    _same(gb.load(folder), run)


def test_a_start_that_is_refused_leaves_nothing(model, tmp_path):
    with pytest.raises(GibbsiteError, match="max_draws"):
        model.start(**OPTIONS, store=tmp_path / "new" / "run", max_draws=0)
    assert not (tmp_path / "new").exists()
    mine = tmp_path / "mine"
    mine.mkdir()
    with pytest.raises(GibbsiteError, match="max_draws"):
        model.start(**OPTIONS, store=mine, max_draws=0)
    assert mine.exists() and not list(mine.iterdir())
