"""Commits between checkpoints: one write and one wait each, and nothing lost of what was committed."""

import os
import shutil
import threading
import time
import warnings

import gibbsite as gb
import numpy as np
import pytest
from gibbsite.errors import CheckpointError, StoreError
from gibbsite.sampling import execution as run_module
from gibbsite.storage import checkpoint, committing, journal
from gibbsite.storage.store import Store
from gibbsite.watching import Watch
from helpers.readers.committed import committed

SCHEDULE = "Gibbs z (*) NUTS [w p]"
OPTIONS = {"draws": 120, "warmup": 30, "chains": 2, "seed": 1, "schedule": SCHEDULE, "chunk": 10}


@pytest.fixture(scope="module")
def whole(model):
    return model.sample(**OPTIONS, keep_warmup=True)


@pytest.fixture
def copied(model, tmp_path, monkeypatch):
    """A store as a kill leaves it, copied in mid-run with 60 to 110 draws in its journal."""
    monkeypatch.setattr(run_module, "_STORE_SHARE", np.inf)  # a commit after every chunk
    folder, copy = tmp_path / "run", tmp_path / "copy"
    run = model.start(**OPTIONS, keep_warmup=True, store=folder)

    def look(r):
        if threading.current_thread() is r._thread and r.kept.sampled.steps >= 70 and not copy.exists():
            r._committing.settle()
            shutil.copytree(folder, copy)

    run.subscribe(look)
    run.wait()
    assert not (folder / journal.FILE).exists()  # the end is a checkpoint
    return copy


def same(run, whole, n):
    assert run.kept.sampled.steps == n
    for part in ("sampled", "sampled_stats", "warm", "warm_stats"):
        left, right = (getattr(r.kept, part).read() for r in (run, whole))
        assert left.keys() == right.keys() or not getattr(run.kept, part).steps
        for name, v in left.items():
            np.testing.assert_array_equal(v, right[name][:, : v.shape[1]])


@pytest.mark.slow
def test_what_is_in_the_journal_is_read_and_goes_on(copied, model, whole):
    assert checkpoint.read(copied)[0]["draws"]["posterior"]["steps"] == 0
    n = committed(copied)
    assert n >= 60
    same(gb.load(copied), whole, n)
    assert gb.verify(copied).draws == n and "70" in Watch(copied).words()
    back = gb.load(copied, model=model).resume()
    same(back, whole, 120)
    same(gb.load(copied), whole, 120)
    assert not (copied / journal.FILE).exists()


@pytest.mark.slow
def test_a_record_that_is_cut_short_never_was(copied, whole):
    content, n = (copied / journal.FILE).read_bytes(), committed(copied)
    rng = np.random.default_rng(0)
    for size in [0, 10, 83, *rng.integers(84, len(content), 20)]:
        (copied / journal.FILE).write_bytes(content[:size])
        back = gb.load(copied)
        assert back.kept.sampled.steps < n
        same(back, whole, back.kept.sampled.steps)


def test_a_power_cut_before_the_disk_was_done(copied, whole):
    """The file has its length, and zeros where nothing was written yet."""
    content, n = (copied / journal.FILE).read_bytes(), committed(copied)
    (copied / journal.FILE).write_bytes(content + bytes(500))
    same(gb.load(copied), whole, n)
    (copied / journal.FILE).write_bytes(content[:-300] + bytes(300))
    with pytest.warns(UserWarning, match="the last commit of the store .* is not what was written"):
        back = gb.load(copied)
    same(back, whole, n - 10)


@pytest.mark.slow
def test_damage_is_named_and_what_is_before_it_is_read(copied, whole):
    content, n = (copied / journal.FILE).read_bytes(), committed(copied)
    rng = np.random.default_rng(1)
    silent = 0
    for at in rng.integers(0, len(content), 60):
        body = bytearray(content)
        body[at] ^= 1 << rng.integers(8)
        (copied / journal.FILE).write_bytes(bytes(body))
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                back = gb.load(copied)
                assert said or back.kept.sampled.steps < n  # of the last record, or of the checkpoint's name
                silent += not said
            except CheckpointError as problem:
                assert "journal" in str(problem)
                back = gb.load(copied, partial=True)
                assert "journal" in str(said[0].message)
        same(back, whole, back.kept.sampled.steps)
    assert silent <= 2  # a length of the last record that leads beyond the file looks like a crash


def test_a_journal_of_an_earlier_checkpoint_is_of_no_use(copied, model, whole, tmp_path):
    """A kill between the checkpoint's rename and the journal's end."""
    old = (copied / journal.FILE).read_bytes()
    gb.load(copied, model=model).resume()
    (copied / journal.FILE).write_bytes(old)
    same(gb.load(copied), whole, 120)
    gb.load(copied, model=model).resume(5)
    assert not (copied / journal.FILE).exists()


def test_links_pipes_and_forgeries(copied, tmp_path):
    (copied / journal.FILE).rename(tmp_path / "elsewhere")
    (copied / journal.FILE).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CheckpointError, match="journal: it is not a plain file"):
        gb.load(copied)
    (copied / journal.FILE).unlink()
    os.mkfifo(copied / journal.FILE)
    with pytest.raises(CheckpointError, match="journal: it is not a plain file"):
        gb.load(copied)
    (copied / journal.FILE).unlink()
    facts, state = checkpoint.read(copied)
    told = {k: v for k, v in facts.items() if k not in ("draws", "about", "observed", "format")}
    good = {"p": np.zeros((2, 5, 2), np.float32)}
    counts = dict.fromkeys(facts["draws"], 0) | {"posterior": 5}
    for rows, n in (
        ({"posterior": {"p": np.zeros((2, 5, 3), np.float32)}}, counts),
        ({"posterior": {"nobody": np.zeros((2, 5), np.float32)}}, counts),
        ({"posterior": good}, counts | {"posterior": 6}),
        ({"posterior": good}, counts | {"posterior": -1}),
        ({"posterior": good}, counts | {"other": 5}),
        ({"elsewhere": good}, counts | {"elsewhere": 5}),
        ({"posterior": {"p": np.zeros((2, 5, 2), "S4")}}, counts),
    ):
        writer = journal.Journal(copied, facts["commit"], durable=False)
        writer.append(told, state, rows, n)
        writer.close(remove=False)
        with pytest.raises(CheckpointError, match="damaged"):
            gb.load(copied)


def test_a_full_disk_under_an_append(model, tmp_path, monkeypatch):
    """The run goes on in memory, tells of it, and has all on disk once there is room."""
    monkeypatch.setattr(run_module, "_STORE_SHARE", np.inf)
    real, left = os.write, [3]

    def full(file, content):
        if len(content) > 1000:
            left[0] -= 1
            if left[0] in (0, 1):
                real(file, content[:500])
                raise OSError(28, "No space left on device")
        return real(file, content)

    monkeypatch.setattr(os, "write", full)
    run = model.sample(**OPTIONS, store=tmp_path / "run")
    assert run.status == "finished" and left[0] < 0
    assert gb.load(tmp_path / "run").kept.sampled.steps == 120


@pytest.mark.slow
def test_a_slow_disk_is_waited_for_by_nobody(model, tmp_path, monkeypatch):
    """While a run goes on its draws are on disk within two seconds, and after a stop by the first wait."""
    real, waits, slow = os.fsync, [], 0.1

    def fsync(file):
        waits.append(time.monotonic())
        time.sleep(slow)
        real(file)

    monkeypatch.setattr(os, "fsync", fsync)
    folder = tmp_path / "run"
    run = model.start(**{**OPTIONS, "draws": 10**7}, store=folder)
    while run.kept.sampled.steps < 50:
        time.sleep(0.01)
    appended, real_append = [], journal.Journal.append

    def append(self, *arguments):
        out = real_append(self, *arguments)
        appended.append((time.monotonic(), committed(folder), run.kept.sampled.steps, len(waits)))
        return out

    monkeypatch.setattr(journal.Journal, "append", append)
    while len(appended) < 4:
        time.sleep(0.01)
    before = len(waits)
    steps = run.kept.sampled.steps
    run.stop()
    run.wait()
    last = appended[-1]
    assert last[1] == run.kept.sampled.steps >= steps  # all of it, before the checkpoint
    assert last[3] - before <= 4  # what was under way, and its own
    assert len(waits) > last[3] and committed(folder) == last[1]


@pytest.mark.slow
def test_commits_go_on_beside_a_checkpoint(model, tmp_path, monkeypatch):
    """While one was made nothing was appended: SIGTERM on a slow disk lost six seconds of draws. Copies of
    the folder at a checkpoint's waits and renames, as kills leave them, have all that was committed."""
    monkeypatch.setattr(committing, "_LARGE", 0)
    monkeypatch.setattr(run_module, "_STORE_SHARE", 10.0)  # what is handed over is always due
    folder, copies, names = tmp_path / "run", [], set()
    real_fsync, real_replace, append = os.fsync, os.replace, Store.append

    def appended(self, draws, facts, state):
        append(self, draws, facts, state)
        promised[0] = draws.sampled.steps
        beside[0] += self._making

    def looked(*_):
        if len(copies) < 40 and promised[0] and folder.exists() and threading.current_thread() is writing[0]:
            shutil.copytree(folder, copy := tmp_path / f"copy{len(copies)}")
            copies.append((copy, promised[0]))

    promised, beside, writing = [0], [0], [None]
    commit = Store.commit

    def commits(self, draws, facts, state, wanted=lambda: True, meanwhile=lambda: None):
        def waiting():
            until = time.monotonic() + 0.5
            while not beside[0] % 3 and not run._committing._later and time.monotonic() < until:
                time.sleep(0.001)  # for what comes after, the first time
            meanwhile()

        writing[0] = threading.current_thread()
        looked()
        commit(self, draws, facts, state, wanted, waiting)
        looked()

    def fsync(file):
        looked()
        time.sleep(0.03)
        real_fsync(file)

    def replace(*args):
        looked()
        real_replace(*args)
        looked()

    written = journal.Journal.append

    def recorded(self, *args):
        names.add(self.name)
        return written(self, *args)

    monkeypatch.setattr(journal.Journal, "append", recorded)
    monkeypatch.setattr(Store, "append", appended)
    monkeypatch.setattr(Store, "commit", commits)
    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    run = model.start(**{**OPTIONS, "draws": 600, "chunk": 2}, store=folder)
    run.wait()
    monkeypatch.undo()
    assert beside[0] > 1 and names == {*journal.FILES} and len(copies) > 5
    for copy, steps in copies:
        back = gb.load(copy)
        assert back.kept.sampled.steps >= steps
        for name, v in back.draws.items():
            np.testing.assert_array_equal(v, run.draws[name][:, : v.shape[1]])
    last = gb.load(copies[-1][0], model=model).resume()
    assert last.kept.sampled.steps == 600
    for name, v in run.draws.items():
        np.testing.assert_array_equal(last.draws[name], v)
    assert not any((f / n).exists() for f in (folder, copies[-1][0]) for n in journal.FILES)


@pytest.mark.slow
def test_files_are_few_and_synced_together(model, tmp_path, monkeypatch):
    """A long run is a file an array, and the disk is waited for by several threads at once."""
    run = model.sample(**{**OPTIONS, "draws": 5000, "chunk": None}, store=tmp_path / "run")
    chunks = [
        p for p in (tmp_path / "run" / "draws.zarr" / "posterior" / "p" / "c").rglob("*") if p.is_file()
    ]
    assert len(chunks) == 1 and run.kept.sampled.steps == 5000
    at_once, most, real = [0], [0], os.fsync

    def fsync(file):
        at_once[0] += 1
        most[0] = max(most[0], at_once[0])
        time.sleep(0.02)
        at_once[0] -= 1
        real(file)

    monkeypatch.setattr(os, "fsync", fsync)
    run.resume(10)
    assert most[0] > 5


def test_a_failed_wait_for_one_of_many_files_is_told(model, tmp_path, monkeypatch):
    run = model.sample(**OPTIONS, store=tmp_path / "run")
    real, count = os.fsync, [0]

    def fsync(file):
        count[0] += 1
        if count[0] % 4 == 3:
            raise OSError(5, "Input/output error")
        real(file)

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(StoreError, match="Input/output error"):
        run.resume(10)
