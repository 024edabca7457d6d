"""What a run is at is told by name and clock, and left within a second."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import gibbsite as gb
import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.progress import progress_line
from gibbsite.sampling.engine import engine as engine_module
from gibbsite.sampling.engine.abandonable import Work
from gibbsite.sampling.engine.stages import COMPILING, STARTING, TRACING, Stages, Ticker
from gibbsite.sampling.watch.pace import Pace
from numpyro.primitives import _PYRO_STACK


def line(x, y):
    a = numpyro.sample("a", dist.Normal(0.0, 1.0))
    with numpyro.plate("row", len(x)):
        numpyro.sample("y", dist.Normal(a * x, 1.0), obs=y)


def data(n, seed=0):
    x = np.random.default_rng(seed).normal(size=n).astype("float32")
    return x, 2 * x


OPTIONS = {"draws": 10, "warmup": 10, "chains": 2}


@pytest.fixture
def compilations(monkeypatch):
    """How often something was compiled for runs."""
    seen = []
    real = engine_module.compiled
    monkeypatch.setattr(
        engine_module, "compiled", lambda lowered, **how: seen.append(1) or real(lowered, **how)
    )
    return seen


def test_what_does_not_change_the_program_does_not_compile_it_again(compilations):
    gb.model(line, *data(21)).sample(**OPTIONS)
    assert compilations
    del compilations[:]
    again = gb.model(line, *data(21, seed=1))
    again.sample(**OPTIONS)
    again.sample(**{**OPTIONS, "draws": 700})
    again.sample(**OPTIONS, seed=5, init={"a": 0.3})
    assert not compilations


@pytest.mark.slow
def test_another_target_acceptance_is_no_other_program(compilations):
    model = gb.model(line, *data(26))
    options = {**OPTIONS, "warmup": 100, "draws": 60}
    usual = model.sample(**options, schedule="NUTS a")
    assert compilations
    del compilations[:]
    careful = model.sample(**options, schedule="NUTS(target_accept_prob=0.99) a")
    assert not compilations and careful.schedule_text == "NUTS(target_accept_prob=0.99) a"

    def accepted(run):
        return float(np.mean(run.to_datatree()["sample_stats"]["acceptance_rate"]))

    assert accepted(careful) > 0.96 > accepted(usual)
    same = model.sample(**options, schedule="NUTS(target_accept_prob=0.85) a")
    np.testing.assert_array_equal(same.draws["a"], usual.draws["a"])


@pytest.mark.parametrize("kernel", ["RandomWalk", "HMC"])
def test_nor_is_it_for_other_kernels(kernel, compilations):
    model = gb.model(line, *data(27))
    options = {**OPTIONS, "warmup": 100, "draws": 60}
    usual = model.sample(**options, schedule=f"{kernel} a")
    assert compilations
    del compilations[:]
    careful = model.sample(**options, schedule=f"{kernel}(target_accept_prob=0.97) a")
    assert not compilations

    def step_size(run):
        return float(np.mean(run.to_datatree()["sample_stats"]["step_size"]))

    assert step_size(careful) < 0.7 * step_size(usual)


@pytest.mark.slow
def test_what_was_compiled_again_says_why():
    def curve(x, y):
        line(x, y)

    model = gb.model(curve, *data(22))
    assert model.sample(**OPTIONS).snapshot().because == ""
    assert model.sample(**OPTIONS).snapshot().because == ""
    longer = gb.model(curve, *data(23)).sample(**OPTIONS)
    assert longer.snapshot().because == "y has 23 rows instead of 22"
    assert "compiled again: y has 23 rows" in progress_line(longer.snapshot())
    other = gb.model(curve, *data(23)).sample(**{**OPTIONS, "chains": 3})
    assert other.snapshot().because == "chains is 3 instead of 2"
    kernel = gb.model(curve, *data(23)).sample(**OPTIONS, schedule="NUTS a")
    assert "the schedule is" in kernel.snapshot().because
    # another model of that name, whose schedule is another for that reason
    changed = gb.model(
        lambda x, y: line(x, y) or numpyro.sample("b", dist.Beta(1, 1)), *data(23), _name="curve"
    )
    assert changed.sample(**OPTIONS).snapshot().because == "the model has changed"


def test_stages_add_up_and_are_told_in_order():
    seen = []
    look = lambda r: seen.append(r.snapshot().stage)  # noqa: E731
    run = gb.model(line, *data(24)).sample(**OPTIONS, on_start=lambda r: r.subscribe(look))
    shot = run.snapshot()
    names = list(shot.stages)
    assert names[0] == "analysing" and names[-2:] == ["warming up", "sampling"]
    assert set(names) <= {"analysing", TRACING, COMPILING, STARTING, "warming up", "sampling"}
    assert shot.stage is None and seen[-1] is None
    assert sum(shot.stages.values()) - shot.stages["analysing"] <= run.elapsed + 1e-3


def test_a_clock_ticks_while_nothing_else_happens():
    ticks = threading.Semaphore(0)
    with Ticker(ticks.release, 0.01):
        assert all(ticks.acquire(timeout=20) for _ in range(3))


def test_a_stage_that_is_gone_on_with_is_one():
    stages = Stages()
    stages.add("a", 2.0)
    for name in ("b", "b", "c", "b", None):
        stages.enter(name)
    assert list(stages.seconds()) == ["a", "b", "c"] and stages.now is None
    assert stages.seconds()["a"] == 2.0


def test_a_run_that_is_stopped_while_it_is_compiled_ends_and_its_programs_are_not_lost(monkeypatch):
    """XLA goes on by itself; the next run takes over what is under way."""
    go, entered, real, calls = threading.Event(), threading.Event(), engine_module.compiled, []

    def slow(lowered, **how):
        calls.append(1)
        if "expect" in how:
            how["expect"](40.0)
            entered.set()
        assert go.wait(60)
        return real(lowered, **how)

    monkeypatch.setattr(engine_module, "compiled", slow)
    model = gb.model(line, *data(25))
    run = model.start(**OPTIONS)
    assert entered.wait(60)
    while run.snapshot().stage != COMPILING:
        time.sleep(0.001)
    # by the run's own clock: what is left, and what it has waited
    about = run.snapshot().compiling
    assert 39 < about < 60 and f"(about {round(about)} s)" in progress_line(run.snapshot())
    run.stop()
    assert run.wait(10).status == "stopped" and not go.is_set()
    assert run.draws["a"].shape == (2, 0) and run.snapshot().stages
    other = model.start(**OPTIONS)
    time.sleep(0.1)
    go.set()
    programs = other.wait() and len(calls)
    assert other.status == "finished" and programs <= 3 and other.snapshot().compiling is None
    resumed = run.resume()
    assert resumed.status == "finished" and len(calls) == programs
    np.testing.assert_array_equal(resumed.draws["a"], other.draws["a"])


def test_tracing_is_broken_off_and_lets_go_of_the_handlers():
    entered, stop = threading.Event(), threading.Event()

    def traced():
        while True:
            numpyro.sample("a", dist.Normal(0.0, 1.0), rng_key=jax.random.key(0))
            entered.set()  # what draws is compiled, which nothing interrupts

    def do(tell):
        tell(TRACING, True)
        with numpyro.handlers.block():
            traced()

    work = Work(do, "test")
    assert entered.wait(20)
    stop.set()
    looked = []
    assert work.result(stop, looked.append) is None
    work._thread.join(20)
    assert not work._thread.is_alive() and _PYRO_STACK == [] and looked[-1] == TRACING


def test_what_is_compiling_is_left_alone_and_errors_are_raised():
    go, stop, found = threading.Event(), threading.Event(), []

    def do(tell):
        tell(TRACING, True)
        tell(COMPILING, False)
        found.append(go.wait(20))

    work = Work(do, "test")
    while work.stage != COMPILING:
        time.sleep(0.001)
    stop.set()
    assert work.result(stop, lambda stage: None) is None and work._thread.is_alive()
    go.set()
    work._thread.join(20)
    assert found == [True]

    def wrong(tell):
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        Work(wrong, "test").result(threading.Event(), lambda stage: None)


ENDING = """
import sys, time
sys.path[:0] = {path!r}
import gibbsite as gb
from test_stages import OPTIONS, data, line
run = gb.model(line, *data({n})).start(**OPTIONS)
while run.snapshot().stage != {stage!r}:
    time.sleep(0.001)
run.stop()
print(run.wait().status)
"""


@pytest.mark.slow
@pytest.mark.parametrize("stage", [TRACING, COMPILING])
def test_a_process_may_end_while_programs_are_compiled(stage):
    code = ENDING.format(path=[str(Path(__file__).parent)], n=31, stage=stage)
    environment = os.environ | {"JAX_ENABLE_COMPILATION_CACHE": "0"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout.strip()) == (0, "stopped"), done.stderr


def test_no_time_left_is_told_before_it_means_something():
    pace = Pace()
    assert pace.eta(1000, 1000) is None
    pace.add(True, 1, 9.0)  # a first long trajectory is no pace
    assert pace.eta(999, 1000) is None
    pace.add(True, 99, 1.0)
    assert pace.eta(900, 1000) == pytest.approx(190.0)
    pace.add(True, 900, 1.0)
    assert pace.eta(0, 1000) is None
    pace.add(False, 100, 1.0)
    assert pace.eta(0, 900) == pytest.approx(9.0)
