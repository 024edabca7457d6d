"""Functions of every row, piece by piece: the same as all at once, told, and interrupted between pieces."""

import sys
import time
from types import SimpleNamespace

import IPython.display
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gibbsite.ground import telling
from gibbsite.programs.evaluation.pieces import in_pieces
from gibbsite.programs.jaxpr import compiling


@pytest.mark.parametrize("count", [1, 15, 64, 65, 300])
@pytest.mark.parametrize("at_once", [1, 16, 48])
def test_rows_are_those_of_one_call(count, at_once):
    rows = {"x": np.random.default_rng(0).normal(size=(count, 3)), "k": np.arange(count)}
    y = jnp.arange(3.0)

    def one(row, y):
        return {"s": (row["x"] * y).sum() + row["k"], "x": row["x"][:2], "none": jnp.zeros((0, 2))}

    found = in_pieces(one, rows, y, at_once, "sums")
    exact = jax.vmap(lambda row: one(row, y))(rows)
    for name in exact:
        assert found[name].shape == exact[name].shape
        np.testing.assert_allclose(found[name], exact[name], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("seconds", "made"), [(0.01, 1), (10.0, 2)])
def test_a_better_program_runs_what_is_left_where_that_takes_long(monkeypatch, seconds, made):
    now, programs = [0.0], []

    def takes(fn, seconds):
        def timed(*arguments, **options):
            now[0] += seconds
            return fn(*arguments, **options)

        return timed

    def compiled(*arguments, **options):
        programs.append(options.get("quickly", False))
        return takes(made_by(*arguments, **options), seconds)

    made_by = compiling.compiled
    monkeypatch.setattr(compiling, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(compiling, "compiled", compiled)
    monkeypatch.setattr(compiling, "for_once", takes(compiling.for_once, 1.0))
    sums = in_pieces(lambda row, other: row + other, jnp.arange(300.0), 1.0, 16, "sums")
    assert programs == [True, False][:made]
    np.testing.assert_array_equal(sums, np.arange(300.0) + 1)


class Terminal:
    def __init__(self):
        self.text = ""

    def isatty(self):
        return True

    def write(self, text):
        self.text += text

    def flush(self):
        pass


def test_what_takes_long_is_told_where_somebody_sits(monkeypatch):
    monkeypatch.setattr(telling, "_A_MOMENT", 0.0)
    monkeypatch.setattr(telling, "_PAUSE", 0.0)
    monkeypatch.setattr(sys, "stderr", out := Terminal())
    in_pieces(lambda row, other: row, jnp.arange(200.0), 1.0, 16, "likelihoods")
    assert "likelihoods at 128 of 200 draws" in out.text and out.text.rstrip("\r").endswith(" ")
    monkeypatch.setattr(out, "isatty", lambda: False)
    out.text = ""
    in_pieces(lambda row, other: row, jnp.arange(200.0), 1.0, 16, "likelihoods")
    assert out.text == ""


def test_in_a_notebook_it_has_a_display_of_its_own(monkeypatch):
    """Standard error leaves an empty box behind, in saved notebooks, too."""
    monkeypatch.setattr(telling, "_A_MOMENT", 0.0)
    monkeypatch.setattr(telling, "_PAUSE", 0.0)
    stream = type("OutStream", (Terminal,), {"__module__": "ipykernel.iostream", "isatty": lambda _: False})()
    said = []

    def display(told, **options):
        said.append(told["text/plain"])
        return SimpleNamespace(update=lambda told, raw: said.append(told["text/plain"]))

    monkeypatch.setattr(IPython.display, "display", display)
    monkeypatch.setattr(sys, "stderr", stream)
    in_pieces(lambda row, other: row, jnp.arange(200.0), 1.0, 16, "likelihoods")
    assert "likelihoods at 128 of 200 draws" in said and said[-1] == "" and stream.text == ""


def test_it_ends_between_pieces(monkeypatch):
    seen = []

    def at(self, done):
        seen.append(done)
        if len(seen) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(telling.Telling, "at", at)
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        in_pieces(lambda row, other: row, jnp.arange(1000.0), 1.0, 16, "likelihoods")
    assert seen == [64, 128] and time.monotonic() - began < 30
