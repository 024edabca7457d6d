"""What compiling takes is remembered beside what was compiled, told before, and never in the way."""

import json
import threading
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import pytest
from gibbsite.programs.jaxpr import compiling, kept
from gibbsite.programs.jaxpr.compiling import Took
from gibbsite.programs.jaxpr.kept import VARIABLE


@pytest.fixture
def clock(monkeypatch):
    """Every look at it is three seconds after the last."""
    seen = iter(range(0, 3000, 3))
    monkeypatch.setattr(compiling, "time", SimpleNamespace(monotonic=lambda: float(next(seen))))


def run(scale, told, **how):
    lowered = jax.jit(lambda x: jnp.sin(x) * scale).lower(jnp.arange(3.0))
    return compiling.compiled(lowered, expect=told.append, **how)


def test_nothing_is_told_until_something_like_it_was_compiled(folder, clock):
    told = []
    run(2.0, told)
    assert told == []
    run(3.0, told)
    assert told == [pytest.approx(3.0, rel=0.2)]
    run(2.0, told)  # what is kept is read, not compiled
    assert len(told) == 1
    run(4.0, told, on=())  # another sort
    assert len(told) == 1
    kept._default.cache_clear()


@pytest.mark.parametrize("where", ["off", "/proc/nowhere/cache"])
def test_without_a_cache_nothing_is_remembered_and_nothing_fails(folder, clock, monkeypatch, where):
    monkeypatch.setenv(VARIABLE, where)
    told = []
    run(5.0, told)
    run(6.0, told)
    assert told == [] and not folder.exists()


def test_it_is_scaled_by_size_and_the_last_count(tmp_path):
    took = Took(tmp_path)
    assert took.expected("long", 1000) is None
    for seconds in (50.0, 2.0, 4.0, 4.0, 6.0, 4.0):
        took.add("long", 1000, seconds)
    assert took.expected("long", 1000) == 4.0 and took.expected("long", 1500) == 6.0
    assert took.expected("long", 3000) is None and took.expected("small", 1000) is None


@pytest.mark.parametrize(
    "said", ["", "{", "[1, 2]", '[["long", "x", 1]]', '[["long", 0, 1]]', '[["long", 9, NaN]]', "null", "\0"]
)
def test_a_file_of_no_use_is_replaced(tmp_path, said):
    took = Took(tmp_path)
    (tmp_path / "took.json").write_text(said)
    assert took.expected("long", 9) is None
    took.add("long", 9, 1.5)
    assert took.expected("long", 9) == 1.5


def test_it_stays_small_and_whole_whoever_writes(tmp_path):
    took = Took(tmp_path)
    several = [threading.Thread(target=lambda: [took.add("long", 9, 1.0) for _ in range(25)]) for _ in "abcd"]
    for thread in several:
        thread.start()
    for thread in several:
        thread.join()
    assert len(json.loads((tmp_path / "took.json").read_text())) == 64
    assert [p.name for p in tmp_path.iterdir()] == ["took.json"]
