"""Hundreds of injected faults, and what became of the draws. The table, by one command:

python -m pytest tests/faults -m slow -s

Of every fault: was it named or harmless, were draws lost that had been committed and are whole on disk, were
numbers changed in silence, was there an error that is none of ours.
"""

import os
import shutil
import warnings
from collections import Counter
from pathlib import Path

import gibbsite as gb
import numpy as np
import pytest
from faults.kinds import AT_REST, WHILE_WRITING, Killed, draws_agree, failing
from gibbsite.errors import CheckpointError, StoreError
from gibbsite.sampling import execution as run_module
from gibbsite.storage import checkpoint, committing, store
from helpers.models.sampling_models import coins, data

SCHEDULE = "Conjugate w (*) Conjugate p (*) Gibbs z"
OPTIONS = {"draws": 2100, "warmup": 20, "chains": 2, "seed": 1, "schedule": SCHEDULE, "keep_warmup": True}
CHUNK_ROWS = 1024
SHORT = {"draws": 40, "warmup": 10, "chains": 2, "seed": 1, "schedule": SCHEDULE, "chunk": 7}
PER_KIND_AT_REST, PER_KIND_WRITING = 32, 16  # 15 and 6 kinds: 576 faults


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """A run of three chunks a site in its store, the same at an earlier commit, and one of another seed."""
    root = tmp_path_factory.mktemp("faults")
    model = gb.model(coins, data())
    with pytest.MonkeyPatch.context() as few:
        few.setattr(store, "_CHUNK_ROWS", CHUNK_ROWS)
        model.sample(**{**OPTIONS, "draws": 2000}, store=root / "run")
        shutil.copytree(root / "run", root / "of an earlier commit")
        run = gb.load(root / "run", model=model).resume(100)
        model.sample(**{**OPTIONS, "seed": 2}, store=root / "of another run")
    short = model.sample(**{**SHORT, "draws": 60})
    return model, run, root, short


def files_of(folder):
    return sorted(p.relative_to(folder) for p in folder.rglob("*") if p.is_file() and p.name != "lock")


def at_rest(kind, stores, seed):
    """One fault: "named", "harmless", or what must not be: "lost", "silent", "raw"."""
    _, run, root, _ = stores
    rng, folder = np.random.default_rng(seed), root / "run"
    files = files_of(folder)
    file = files[rng.integers(len(files))]
    saved = root / "saved"
    shutil.copytree(folder, saved, symlinks=True)
    try:
        AT_REST[kind](folder / file, rng, root / kind / file)
        return read_back(folder, file, run)
    finally:
        shutil.rmtree(folder)
        saved.rename(folder)


def read_back(folder, file, run):
    try:
        back = gb.load(folder)
        if draws_agree(back, run) != run.draws["p"].shape[1]:
            return "silent", f"{file}: other draws"
        return "harmless", ""
    except CheckpointError as problem:
        told = str(problem)
        if file.name == checkpoint.FILE and "older than its checkpoint" in told:
            return partly(folder, file, run)  # which of the two is the other run's, nobody can know
        if file.as_posix() not in told and "no saved run" not in told and file.name not in told:
            return "raw", f"{file}: {told}"
    except Exception as problem:
        return "raw", f"{file}: {problem!r}"
    return partly(folder, file, run)


def partly(folder, file, run):
    """What is whole of a damaged store: everything before the damage, and nothing else."""
    least = 0
    chunk = file.parts[file.parts.index("c") + 2] if "c" in file.parts[:-2] else None
    if chunk is not None and chunk.isdecimal() and "posterior" in file.parts:
        least = min(int(chunk), 1) * CHUNK_ROWS if int(chunk) else 0
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            part = gb.load(folder, partial=True)
    except CheckpointError:
        described = file.name == checkpoint.FILE or len(file.parts) == 2 or "observed_data" in file.parts
        return ("named", "") if described else ("lost", f"{file}: nothing is left of it")
    except Exception as problem:
        return "raw", f"{file}: partial: {problem!r}"
    steps = draws_agree(part, run)
    if steps is None:
        return "silent", f"{file}: partial: other draws"
    return ("named", "") if steps >= least else ("lost", f"{file}: {steps} of {least} draws")


def while_writing(kind, stores, seed, folder, monkeypatch):
    """One fault under a run: in memory nothing is missing, on disk nothing is wrong, and both go on."""
    model, _, _, short = stores
    rng = np.random.default_rng(seed)
    what, error = WHILE_WRITING[kind]
    at, ever_after = int(rng.integers(0, 60)), bool(rng.random() < 0.5) or isinstance(error, Killed)
    run = None
    monkeypatch.setattr(run_module, "_STORE_SHARE", np.inf)  # a commit after every chunk
    if rng.random() < 0.5:  # and each a checkpoint
        monkeypatch.setattr(committing, "_LARGE", 0)
    run = model.start(**SHORT, store=folder)
    with failing(monkeypatch, what, at, error, ever_after):
        try:
            run.wait()
            said = "harmless"
        except StoreError as problem:
            said = "named"
            if problem.run is not run:
                return "raw", "the error does not carry the run"
        except Killed:
            said = "named"
        except Exception as problem:
            return "raw", repr(problem)
    killed = isinstance(error, Killed)
    if not killed and draws_agree(run, short) != SHORT["draws"]:
        return "lost", f"at {at}: {draws_agree(run, short)} draws in memory"
    try:
        if not (folder / checkpoint.FILE).exists():
            return (said, "") if said == "named" else ("lost", f"at {at}: nothing on disk")
        back = gb.load(folder, model=model)
        if draws_agree(back, short) is None:
            return "silent", f"at {at}: other draws on disk"
        if said == "harmless" and draws_agree(back, short) != SHORT["draws"]:
            return "lost", f"at {at}: {draws_agree(back, short)} draws on disk"
        if killed:
            if back.kept.sampled.steps < 60:
                back.resume(60 - back.kept.sampled.steps)
        else:
            run.resume(20)  # there is room again
        if draws_agree(gb.load(folder), short) != 60:
            return "lost", f"at {at}: it did not go on"
    except Exception as problem:
        return "raw", f"at {at}: afterwards: {problem!r}"
    return said, ""


def table(found):
    heads = ("faults", "named", "harmless", "lost", "silent", "raw")
    lines = ["", f"{'kind of fault':42}" + "".join(f"{h:>10}" for h in heads)]
    for kind in (*found, "all"):
        counts = found[kind] if kind != "all" else sum(found.values(), Counter())
        row = (counts.total(), *(counts[h] for h in heads[1:]))
        lines.append(f"{kind:42}" + "".join(f"{n:>10}" for n in row))
    return "\n".join(lines)


def tried(stores, rest, writing, tmp_path, monkeypatch):
    found, wrong = {}, []

    def count(kind, outcome):
        result, why = outcome
        found.setdefault(kind, Counter())[result] += 1
        if result not in ("named", "harmless"):
            wrong.append(f"{kind}: {result}: {why}")

    for kind in AT_REST:
        for seed in range(rest):
            count(kind, at_rest(kind, stores, [seed, len(kind)]))
    for kind in WHILE_WRITING:
        for seed in range(writing):
            folder = tmp_path / f"{len(found)} {seed}"
            count(kind, while_writing(kind, stores, [seed, len(kind)], folder, monkeypatch))
            shutil.rmtree(folder, ignore_errors=True)
    print(table(found))
    assert not wrong, "\n".join(wrong)
    return found


@pytest.mark.slow
def test_a_few_faults_of_each_kind(stores, tmp_path, monkeypatch):
    found = tried(stores, 2, 1, tmp_path, monkeypatch)
    assert sum(found.values(), Counter())["named"] > 25


@pytest.mark.slow
def test_hundreds_of_faults(stores, tmp_path, monkeypatch):
    found = tried(stores, PER_KIND_AT_REST, PER_KIND_WRITING, tmp_path, monkeypatch)
    assert sum(found.values(), Counter()).total() >= 500


@pytest.mark.slow
def test_the_faults_are_faults(stores, tmp_path):
    """The harness sees what it is there to see: another draw, and a store that lost its beginning."""
    _, run, root, _ = stores
    copy = tmp_path / "copy"
    shutil.copytree(root / "of another run", copy)
    assert read_back(copy, Path("draws.zarr/posterior/p/c/0/0/0"), run)[0] == "silent"
    (copy / "draws.zarr/posterior/p/c/0/0/0").write_bytes(os.urandom(9))
    assert read_back(copy, Path("draws.zarr/posterior/z/c/0/2/0"), run)[0] != "named"
