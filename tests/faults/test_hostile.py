"""Stores made by somebody who knows the format: refused in words, before anything is executed or swells."""

import json
import os
import resource
import shutil

import gibbsite as gb
import numcodecs
import numpy as np
import pytest
from gibbsite.errors import CheckpointError
from gibbsite.sampling.read_only import outside
from gibbsite.storage import arrays, checkpoint
from gibbsite.views.report import report_html, status_page
from helpers.models.sampling_models import rates

MOST_KB = 300_000


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile") / "run"
    gb.model(rates, np.ones(3), np.arange(3.0)).sample(draws=30, warmup=5, chains=2, store=folder)
    return folder


def _chunk(folder):
    return folder / "draws.zarr" / "posterior" / "a" / "c" / "0" / "0"


def _with_crc(body):
    return numcodecs.CRC32C(location="end").encode(body)


def _bomb(folder):
    _chunk(folder).write_bytes(bytes(_with_crc(numcodecs.Zstd().encode(bytes(2**28)))))


def _endless(folder):
    """A frame that does not say what it unpacks to."""
    _chunk(folder).write_bytes(bytes(_with_crc(b"\x28\xb5\x2f\xfd\x00\x58" + bytes(30))))


def _rewritten(folder, change, facts_change=lambda facts: None):
    """Metadata of `a` changed, and the checkpoint made to fit."""
    meta = folder / "draws.zarr" / "posterior" / "a" / "zarr.json"
    told = json.loads(meta.read_text())
    change(told)
    meta.write_text(json.dumps(told))
    facts, state = checkpoint.read(folder)
    facts["draws"]["posterior"]["sums"]["a"] = arrays.fingerprint(folder / "draws.zarr", "posterior/a")
    facts_change(facts)
    checkpoint.write(folder, facts, state)


def _many_draws(folder):
    def more(facts):
        facts["draws"]["posterior"]["steps"] = 10**13
        facts["draws"]["posterior"]["blocks"]["a"] = [10**13, "00000000"]

    _rewritten(folder, lambda told: told.update(shape=[2, 10**13]), more)


def _large_chunks(folder):
    grid = {"name": "regular", "configuration": {"chunk_shape": [2, 10**14]}}
    _rewritten(folder, lambda told: told.update(chunk_grid=grid))


def _sharded(folder):
    codec = {"name": "sharding_indexed", "configuration": {"chunk_shape": [1, 1], "codecs": []}}
    _rewritten(folder, lambda told: told.update(codecs=[codec]))


def _many_chunks(folder):
    """Chunks of one number, of 10⁹ chains: their names alone would fill the memory."""
    grid = {"name": "regular", "configuration": {"chunk_shape": [1, 1]}}

    def change(told):
        told.update(shape=[10**9, 30], chunk_grid=grid)

    _rewritten(folder, change)


def _deep(folder):
    (folder / "draws.zarr" / "zarr.json").write_text("[" * 10**6)


def _sparse(folder):
    os.truncate(folder / checkpoint.FILE, 2**40)


def _linked(folder):
    (folder / checkpoint.FILE).rename(folder / "elsewhere")
    (folder / checkpoint.FILE).symlink_to(folder / "elsewhere")


def _counts(folder):
    facts, state = checkpoint.read(folder)
    facts["draws"]["posterior"]["steps"] = 10**30
    checkpoint.write(folder, facts, state)


def _digits(folder):
    facts, state = checkpoint.read(folder)
    checkpoint.write(folder, {**facts, "elapsed": float("inf")}, state)


def _many_axes(folder):
    grid = {"name": "regular", "configuration": {"chunk_shape": [1] * 5000}}
    _rewritten(folder, lambda told: told.update(shape=[2, 30, *[1] * 4998], chunk_grid=grid))


CORPUS = (
    *(_bomb, _endless, _many_draws, _large_chunks, _many_chunks, _many_axes, _sharded),
    *(_deep, _sparse, _linked, _counts, _digits),
)


@pytest.mark.parametrize("attack", CORPUS, ids=lambda f: f.__name__.strip("_"))
def test_refused_before_it_swells(stored, tmp_path, attack):
    folder = tmp_path / "copy"
    shutil.copytree(stored, folder)
    attack(folder)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for read in (gb.load, gb.verify, outside):
        with pytest.raises(CheckpointError):
            read(folder)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MOST_KB


DESCRIPTIONS = {
    "a huge site": ("sites", {"shape": [2**62, 2**62]}),
    "a site of no size": ("sites", {"shape": [-1]}),
    "a size in words": ("sites", {"shape": ["3"]}),
    "objects": ("sites", {"dtype": "O"}),
    "a large type": ("sites", {"dtype": "V9999999999"}),
    "a type in a list": ("sites", {"dtype": [["a", "<f4"]]}),
    "another role": ("sites", {"role": "__class__"}),
    "axes that are not there": ("sites", {"plates": ["n"], "plate_axes": [5]}),
    "plates in one word": ("sites", {"plates": "nm", "plate_axes": [0, 0]}),
    "a name in a list": ("blocks", {"label": ["a"]}),
    "sites in one word": ("blocks", {"sites": "a"}),
    "labels of numbers": ("labels", {"n": [1, 2]}),
    "groups of groups": ("groups", {"g": [["a"]]}),
    "a group of nobody": ("groups", {"g": ["nobody"]}),
    "an empty group": ("groups", {"g": []}),
    "a model that is none": ("model", None),
}


def _described(folder, change):
    root = folder / "draws.zarr"
    told = json.loads((root / "zarr.json").read_text())
    change(told["attributes"]["gibbsite"])
    (root / "zarr.json").write_text(json.dumps(told))
    facts, state = checkpoint.read(folder)
    facts["about"] = arrays.fingerprint(root, "")
    checkpoint.write(folder, facts, state)


@pytest.mark.parametrize("what", DESCRIPTIONS)
def test_descriptions_of_no_model(stored, tmp_path, what):
    folder = tmp_path / "copy"
    shutil.copytree(stored, folder)
    part, odd = DESCRIPTIONS[what]

    def change(told):
        if isinstance(told[part], list):
            told[part][0].update(odd)
        else:
            told[part] = odd

    _described(folder, change)
    for read in (gb.load, outside):
        with pytest.raises(CheckpointError, match="damaged"):
            read(folder)


def test_markup_in_a_store_stays_text(stored, tmp_path):
    """Names that a store brings are shown as they are spelt."""
    folder = tmp_path / "copy"
    shutil.copytree(stored, folder)
    bad = "<script>alert(1)</script>\"'&\\x"

    def change(told):
        told["model"] = told["schedule"] = bad
        told["blocks"][0] = {"label": bad, "kernel": bad, "sites": [bad]}
        told["sites"][0]["name"] = bad

    facts, state = checkpoint.read(folder)
    for part in ("names", "sums", "blocks"):
        facts["draws"]["posterior"][part] = {bad: facts["draws"]["posterior"][part]["a"]}
    checkpoint.write(folder, facts, state)
    _described(folder, change)
    run = gb.load(folder)
    assert list(run.draws) == [bad]
    for page in (
        report_html(run, None),
        status_page([outside(folder)], 5),
        run._repr_html_(),
    ):
        assert "alert(1)" in page and "<script>alert" not in page
