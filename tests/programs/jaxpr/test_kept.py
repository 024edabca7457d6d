"""Compiled programs that outlive the process: found again, bounded, and never in the way."""

import errno
import json
import logging
import os
import subprocess
import sys
import zlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gibbsite.programs.jaxpr import kept
from gibbsite.programs.jaxpr.compiling import compiled
from gibbsite.programs.jaxpr.kept import VARIABLE, Kept
from helpers.readers.said import said
from helpers.startup.arrays import array

X = array(np.arange(6.0))


@pytest.fixture
def made(monkeypatch):
    """How often XLA compiled something."""
    seen, real = [], kept.found_or_made

    def counted(key, load, make, dump):
        return real(key, load, lambda: seen.append(1) or make(), dump)

    monkeypatch.setattr("gibbsite.programs.jaxpr.compiling.found_or_made", counted)
    return seen


def run(scale=2.0):
    program = compiled(jax.jit(lambda x: {"y": jnp.sin(x) * scale, "k": jax.random.key(3)}).lower(X))
    return np.asarray(program(X)["y"])


def entries(folder):
    return sorted(folder.glob("*.compiled"))


def test_what_was_compiled_is_found_again(folder, made, caplog):
    first = run()
    assert len(made) == len(entries(folder)) == 1
    np.testing.assert_array_equal(run(), first)
    assert len(made) == 1
    assert not np.array_equal(run(3.0), first)
    assert len(made) == len(entries(folder)) == 2 and not caplog.text
    assert os.stat(folder).st_mode & 0o77 == 0 and all(
        os.stat(p).st_mode & 0o77 == 0 for p in entries(folder)
    )


def digest(content):
    return kept.hashlib.sha256(content).digest()


GARBAGE = zlib.compress(b"no machine code")
DAMAGED = {
    "empty": b"",
    "cut": lambda said: said[:-7],
    "flipped": lambda said: said[:-1] + bytes([said[-1] ^ 1]),
    "text": b"hello",
    "another version's": lambda said: said.replace(b"compiled 1", b"compiled 0", 1),
    "no program": b"gibbsite compiled 1\n" + digest(GARBAGE) + GARBAGE,
}


@pytest.mark.parametrize("how", DAMAGED)
def test_damaged_entries_are_replaced(folder, made, caplog, how):
    first, (path,) = run(), entries(folder)
    whole, change = path.read_bytes(), DAMAGED[how]
    path.write_bytes(change(whole) if callable(change) else change)
    with caplog.at_level(logging.WARNING):
        np.testing.assert_array_equal(run(), first)
    assert caplog.text.count("compiled again") == 1 and len(made) == 2
    run()
    assert len(made) == 2


def test_a_folder_that_cannot_be_used_is_told_of_once(folder, made, caplog):
    folder.write_text("a file")
    with caplog.at_level(logging.WARNING):
        first = run()
        np.testing.assert_array_equal(run(), first)
    assert len(made) == 2 and folder.read_text() == "a file"
    assert caplog.text.count("cannot read") == 1 and caplog.text.count("cannot write to") == 1


def test_a_full_disk(folder, made, caplog, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(kept.os, "replace", full)
    with caplog.at_level(logging.WARNING):
        run()
    assert "No space left" in caplog.text and list(folder.iterdir()) == []


@pytest.mark.parametrize("what", ["folder", "entry"])
def test_what_others_may_write_to_is_not_read(folder, made, caplog, what):
    run()
    target, mode = (folder, 0o777) if what == "folder" else (entries(folder)[0], 0o666)
    target.chmod(mode)
    with caplog.at_level(logging.WARNING):
        run()
    assert "others may write" in caplog.text and len(made) == 2


def test_what_belongs_to_others_is_not_read(folder, made, caplog, monkeypatch):
    run()
    monkeypatch.setattr(kept.os, "getuid", lambda: os.stat(folder).st_uid + 1)
    with caplog.at_level(logging.WARNING):
        run()
    assert "belongs to somebody else" in caplog.text and len(made) == 2


def test_a_folder_that_can_only_be_read(folder, made, caplog, monkeypatch):
    first = run()

    def read_only(*_):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(kept.os, "utime", read_only)
    np.testing.assert_array_equal(run(), first)
    assert len(made) == 1 and not caplog.text


def test_a_pipe_is_not_waited_for(folder, made, caplog):
    run()
    (path,) = entries(folder)
    path.unlink()
    os.mkfifo(path, 0o600)
    with caplog.at_level(logging.WARNING):
        run()
    assert len(made) == 2 and "is not a plain file" in caplog.text


def test_the_oldest_go_where_there_is_too_much(tmp_path):
    cache, rng = Kept(tmp_path / "c", most_bytes=10_000), np.random.default_rng(0)
    programs = {f"p{i}": rng.bytes(1500) for i in range(12)}
    for i, (key, program) in enumerate(programs.items()):
        cache.write(key, program)
        for path in cache.folder.glob("*.compiled"):  # files of one moment have an order here
            if path.stat().st_mtime > 1e6:
                os.utime(path, (i, i))
    assert sum(p.stat().st_size for p in cache.folder.iterdir()) <= 10_000
    found = [key for key in programs if cache.read(key) == programs[key]]
    assert found == list(programs)[-len(found) :] and len(found) >= 4
    cache.write("large", rng.bytes(20_000))
    assert cache.read("large") is None and cache.read("p11") == programs["p11"]


def test_it_can_be_switched_off(monkeypatch, tmp_path):
    kept._default.cache_clear()
    for word in ("off", "0", "", "None"):
        monkeypatch.setenv(VARIABLE, word)
        assert kept.chosen() is None
    monkeypatch.delenv(VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found = kept.chosen()
    assert found is not None and found.folder.parts[-2:] == ("gibbsite", "compiled")
    assert not found.folder.exists()
    kept._default.cache_clear()


MODEL = """
import json, sys
import gibbsite as gb, jax, numpy as np, numpyro, numpyro.distributions as dist
from gibbsite.programs.jaxpr import compiling
made, real = [], compiling.found_or_made
compiling.found_or_made = lambda k, load, make, dump: real(k, load, lambda: made.append(1) or make(), dump)
def m(y):
    a = numpyro.sample("a", dist.Normal(0.0, 1.0))
    numpyro.sample("y", dist.Normal(a, 1.0).expand([5]).to_event(1), obs=y)
run = gb.model(m, np.arange(5.0, dtype="float32")).sample(draws=8, warmup=30, chains=2)
print(json.dumps([len(made), jax.config.jax_compilation_cache_dir, run.draws["a"].tolist()]))
"""


@pytest.mark.slow
def test_the_next_kernel_and_one_beside_it_find_what_this_one_compiled(tmp_path):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("JAX_")}
    environment |= {VARIABLE: str(tmp_path / "cache"), "JAX_PLATFORMS": "cpu"}

    def start():
        return subprocess.Popen(
            [sys.executable, "-c", MODEL], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def told(process):
        out, err = process.communicate(timeout=200)
        assert process.returncode == 0 and not said(err), err.decode()
        return json.loads(out)

    both = [start(), start()]
    first, beside = map(told, both)
    again = told(start())
    assert first[0] + beside[0] > 0 and again[0] == 0  # either may find what the other has made by then
    assert first[1:] == beside[1:] == again[1:] and again[1] is None
