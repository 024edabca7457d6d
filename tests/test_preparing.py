"""Runs are prepared while nobody needs the processor, taken over when they are asked for, and dropped."""

import gc
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path

import gibbsite as gb
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite import preparing as preparing_module
from gibbsite.preparing import Preparing
from gibbsite.sampling.engine import engine as engine_module
from gibbsite.sampling.engine.stages import ANALYSING, COMPILING

OPTIONS = {"draws": 10, "warmup": 10, "chains": 2}


def model_of(n):
    """A model that no other test has compiled."""

    def line(x):
        a = numpyro.sample("a", dist.Normal(0.0, 1.0))
        with numpyro.plate("row", len(x)):
            numpyro.sample("y", dist.Normal(a * x, 1.0), obs=2 * x)

    return gb.model(line, np.linspace(0, 1, n, dtype="float32"))


def until(holds):
    """Wait, for a minute at most."""
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.001)


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(preparing_module, "_IDLE_SECONDS", 0.0)


@pytest.fixture
def preparing():
    found = Preparing()
    yield found
    found.drop()
    found.settle(60)
    assert found.stage is None


class Compiler:
    """XLA, which can be held up, and counted."""

    def __init__(self):
        self.calls, self.go, self.entered = 0, threading.Event(), threading.Event()
        self.go.set()
        self.real = engine_module.compiled

    def __call__(self, lowered, **how):
        self.calls += 1
        self.entered.set()
        assert self.go.wait(60)
        return self.real(lowered, **how)


@pytest.fixture
def compiler(monkeypatch):
    found = Compiler()
    monkeypatch.setattr(engine_module, "compiled", found)
    yield found
    found.go.set()


def test_what_is_prepared_is_not_compiled_again(preparing, compiler):
    model = model_of(41)
    preparing.ask("m", model, **OPTIONS)
    assert preparing.stage is None and not compiler.calls  # the kernel is busy yet
    preparing.idle()
    preparing.settle(60)
    calls = compiler.calls
    assert calls > 2
    run = model.sample(**OPTIONS)
    assert compiler.calls == calls and run.status == "finished"
    other = gb.model(model.fn, *model.args).sample(**OPTIONS)
    assert compiler.calls == calls
    np.testing.assert_array_equal(run.draws["a"], other.draws["a"])


def test_a_run_takes_over_what_is_under_way_and_tells_its_stage(preparing, compiler):
    model = model_of(42)
    compiler.go.clear()
    preparing.ask("m", model, **OPTIONS)
    preparing.idle()
    until(lambda: preparing.stage == COMPILING)
    preparing.busy()
    preparing.make_way(model)
    run = model.start(**OPTIONS)
    until(lambda: run.snapshot().stage == COMPILING)
    compiler.go.set()
    assert run.wait().status == "finished"
    preparing.idle()
    preparing.settle(60)
    calls = compiler.calls
    model.sample(**OPTIONS)
    assert compiler.calls == calls <= 5


def test_it_waits_between_stages_while_others_are_busy_unless_a_run_waits_for_it(preparing, compiler):
    model, reached = model_of(43), threading.Event()
    pause = preparing._pause

    def paused(going):
        if going.stage == ANALYSING:  # the boundary to tracing, where the engine's lock is held
            preparing.busy()
            reached.set()
        pause(going)

    preparing._pause = paused
    preparing.ask("m", model, **OPTIONS)
    preparing.idle()
    assert reached.wait(60)
    time.sleep(0.2)
    assert not compiler.calls
    assert model.sample(**OPTIONS).status == "finished"


@pytest.mark.slow
def test_of_a_model_that_is_made_anew_nothing_stays(preparing, compiler):
    old = model_of(44)
    compiler.go.clear()
    preparing.ask("m", old, **OPTIONS)
    preparing.idle()
    assert compiler.entered.wait(60)
    gone = weakref.ref(old)
    new = model_of(45)
    preparing.ask("m", new, **OPTIONS)
    assert preparing.stage is not None  # XLA lets nothing go
    compiler.go.set()
    until(lambda: preparing.stage is None)
    assert new.execution.prepared and new.sample(**OPTIONS).status == "finished"
    del old
    gc.collect()
    assert gone() is None


def test_a_prepared_program_goes_with_its_model(preparing):
    model = model_of(46)
    preparing.ask("m", model, **OPTIONS)
    preparing.idle()
    preparing.settle(60)
    (engine,) = model.execution.prepared.values()
    assert engine.ready
    found = weakref.ref(engine)
    del model, engine
    gc.collect()
    assert found() is None


@pytest.mark.slow
def test_another_run_comes_first_and_what_it_broke_off_is_done_later(preparing, compiler):
    waiting, running = model_of(47), model_of(48)
    compiler.go.clear()
    preparing.ask("waiting", waiting, **OPTIONS)
    preparing.idle()
    assert compiler.entered.wait(60)
    preparing.busy()
    preparing.make_way(running)
    compiler.go.set()
    assert running.sample(**OPTIONS).status == "finished"
    preparing.idle()
    until(lambda: preparing.stage is None)
    assert [e.ready for e in waiting.execution.prepared.values()] == [True]


def test_what_fails_is_not_told_and_met_again_by_the_run(preparing, monkeypatch, capfd, recwarn):
    def wrong(lowered, **how):
        raise ValueError("no such program")

    model = model_of(49)
    monkeypatch.setattr(engine_module, "compiled", wrong)
    preparing.ask("m", model, **OPTIONS)
    preparing.idle()
    preparing.settle(60)
    assert capfd.readouterr() == ("", "") and not recwarn.list
    with pytest.raises(ValueError, match="no such program"):
        model.sample(**OPTIONS)
    monkeypatch.undo()
    assert model.sample(**OPTIONS).status == "finished"


@pytest.mark.slow
def test_nothing_begins_for_a_model_that_is_gone(preparing, compiler):
    model = model_of(50)
    preparing.ask("m", model, **OPTIONS)
    del model
    gc.collect()
    preparing.idle()
    preparing.settle(60)
    assert not compiler.calls


ENDING = """
import sys, threading
sys.path[:0] = {path!r}
from gibbsite.preparing import Preparing
from gibbsite.sampling.engine import engine
from test_preparing import OPTIONS, model_of
entered = threading.Event()
engine.compiled = lambda *_, **__: entered.set() or threading.Event().wait(600)
model = model_of(51)
preparing = Preparing()
preparing.ask("m", model, **OPTIONS)
preparing.idle()
assert entered.wait(60)
print("ends")
"""


@pytest.mark.slow
def test_a_process_ends_while_something_is_prepared():
    code = ENDING.format(path=[str(Path(__file__).parent)])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout == "ends\n"
