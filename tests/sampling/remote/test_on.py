"""Runs that are stepped elsewhere: the same draws on any workers, whatever becomes of these."""

import itertools
import os
import re
import signal
import subprocess
import sys
import threading
from collections import OrderedDict
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from time import monotonic, sleep
from types import SimpleNamespace

import gibbsite as gb
import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.errors import GibbsiteError, ModelError, OptionError
from gibbsite.sampling.remote import pieces, worker
from gibbsite.sampling.remote.pieces import TRIES
from helpers import TESTS
from helpers.executors import Here
from helpers.models.sampling_models import AT_WORKERS as OPTIONS
from helpers.models.sampling_models import SCHOOLS as Y
from helpers.models.sampling_models import mixed


@pytest.fixture(scope="module")
def model():
    return gb.model(mixed, Y)


@pytest.fixture(scope="module")
def whole(model):
    """A run that nothing happened to."""
    return model.sample(on=Here(), **OPTIONS)


def same(run, other):
    assert run.draws.keys() == other.draws.keys()
    for name, draws in other.draws.items():
        np.testing.assert_array_equal(run.draws[name], draws)


def test_it_is_one_run(whole, model):
    assert whole.status == "finished" and whole.draws["z"].shape == (4, 120, 8)
    # the posterior is that of a run on this machine: means within four standard errors
    there, here = whole.summary(), model.sample(**OPTIONS | {"draws": 500}).summary()
    apart = np.abs(there["mean"] - here["mean"]).loc[["mu", "tau"]].astype(float)
    errors = np.hypot(there["mcse_mean"].astype(float), here["mcse_mean"].astype(float)).loc[["mu", "tau"]]
    assert (apart < 4 * errors).all()


@pytest.mark.slow
def test_lost_workers_change_nothing(model, whole):
    same(model.sample(on=Here(lambda call: call % 5 == 2), **OPTIONS), whole)


class Pressed(Here):
    """One of its workers is interrupted in the middle of a piece."""

    def submit(self, fn, *arguments):
        found = super().submit(fn, *arguments)
        if self.calls != 7:
            return found
        pressed = Future()
        pressed.set_exception(KeyboardInterrupt())
        return pressed


@pytest.mark.slow
def test_an_interrupted_worker_changes_nothing(model, whole):
    same(model.sample(on=Pressed(), **OPTIONS), whole)


GROUP = """
import os, signal, sys, threading
sys.path[:0] = {paths!r}
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from helpers.models.sampling_models import AT_WORKERS as OPTIONS, SCHOOLS, mixed

def main():
    import conftest
    import gibbsite as gb
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        workers = lambda: [p.pid for p in pool._processes.values()]
        seen = []
        def press(run):
            if run.draws["mu"].shape[1] > 10 and not seen:
                seen.append(workers())
                os.killpg(os.getpgrp(), signal.SIGINT)
        run = gb.model(mixed, SCHOOLS).sample(
            on=pool, chunk=10, store=sys.argv[1], on_start=lambda run: run.subscribe(press),
            **OPTIONS | dict(draws=100_000))
        assert run.status == "stopped" and 10 < run.draws["mu"].shape[1] < 100_000, run
        run.resume(5)
        assert run.status == "finished" and workers() == seen[0]

if __name__ == "__main__":
    main()
"""


@pytest.mark.slow
def test_an_interrupt_reaches_a_pool_and_does_it_no_harm(model, whole, tmp_path):
    """As in a terminal, or of a notebook's kernel, whose whole group gets it: the worker goes on."""
    program = tmp_path / "program.py"
    program.write_text(GROUP.format(paths=[str(TESTS)]))
    command = [sys.executable, str(program), str(tmp_path / "run")]
    done = subprocess.run(command, start_new_session=True, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = gb.load(tmp_path / "run").draws["mu"]
    n = min(told.shape[1], 120)
    np.testing.assert_array_equal(told[:, :n], whole.draws["mu"][:, :n])


@pytest.mark.slow
def test_chunks_change_nothing(model, whole):
    same(model.sample(on=Here(), chunk=17, **OPTIONS), whole)


@pytest.mark.slow
def test_a_run_whose_workers_are_gone_is_stopped_and_goes_on_elsewhere(model, whole, tmp_path):
    run = model.sample(on=Here(lambda call: call > 30), chunk=20, store=tmp_path / "run", **OPTIONS)
    assert run.status == "stopped" and f"sent {TRIES} times" in str(run.snapshot().message)
    drawn = run.draws["mu"].shape[1]
    assert drawn < 120
    loaded = gb.load(tmp_path / "run", model=model.with_schedule(OPTIONS["schedule"]), on=Here())
    assert loaded.draws["mu"].shape[1] == drawn
    loaded.resume()
    same(loaded, whole)


@pytest.mark.slow
def test_a_pool_is_resumed_by_a_pool_of_another_size(model, whole):
    """Processes of their own; one of them is killed in mid-run, which breaks a pool."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        run = model.start(on=pool, chunk=10, **OPTIONS)

        def kill(run):
            if run.draws["mu"].shape[1] > 20:
                for process in list(pool._processes.values()):
                    os.kill(process.pid, signal.SIGKILL)

        run.subscribe(kill)
        run.wait()
    assert run.status == "stopped" and 20 < run.draws["mu"].shape[1] < 120
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        run.resume(on=pool)
    assert run.status == "finished"
    same(run, whole)


class Hung:
    """An executor of two threads, of which those that take the calls that `hangs` tells of wait for ever."""

    def __init__(self, hangs):
        self.calls, self.hangs, self.end = 0, hangs, threading.Event()
        self.pool = ThreadPoolExecutor(2)

    def submit(self, fn, *arguments):
        self.calls += 1
        if not self.hangs(self.calls):
            return self.pool.submit(fn, *arguments)
        return self.pool.submit(self.end.wait)


@contextmanager
def hung(hangs, monkeypatch):
    monkeypatch.setattr(pieces, "_LEAST", 0.02)
    executor = Hung(hangs)
    try:
        yield executor
    finally:
        executor.end.set()
        executor.pool.shutdown()


@pytest.mark.slow
def test_a_worker_that_dawdles_holds_nobody(model, whole, monkeypatch):
    with hung(lambda call: call == 30, monkeypatch) as executor:
        run = model.sample(on=executor, chunk=20, **OPTIONS)
        assert not executor.end.is_set()
        same(run, whole)


@pytest.mark.slow
def test_the_first_of_two_answers_counts(model, whole, monkeypatch):
    """All that is late is sent again; what comes of the first sending afterwards is another's no more."""
    monkeypatch.setattr(pieces, "_LEAST", 0.0)
    monkeypatch.setattr(pieces, "LATE", 0.0)
    monkeypatch.setattr(pieces, "IDLE", 0.0)
    with ThreadPoolExecutor(2) as pool:
        run = model.sample(on=pool, chunk=20, **OPTIONS)
    same(run, whole)


@pytest.mark.slow
@pytest.mark.parametrize("answered", [3, 0, 60])
def test_stop_waits_for_nobody(model, whole, monkeypatch, answered):
    """Also before the first answer (a queue of jobs), at the start of chains, and in mid-run."""
    with hung(lambda call: call > answered, monkeypatch) as executor:
        run = model.start(on=executor, chunk=10, **OPTIONS)
        while executor.calls <= answered:
            run.wait(0.05)
        run.stop()
        run.wait(60)
        assert run.status == "stopped" and run.draws["mu"].shape[1] < 120
    run.resume(on=Here())
    same(run, whole)


@pytest.mark.slow
def test_the_adaptor_of_the_documentation(model, whole):
    """For engines without futures of their own, with what it calls of Ray by other means."""
    text = (Path(__file__).parents[3] / "docs" / "clusters.md").read_text()
    (written,) = re.findall(r"```python\n(class OnRay:.*?)```", text, re.DOTALL)
    with ThreadPoolExecutor(2) as pool:
        ray = SimpleNamespace(
            remote=lambda fn: SimpleNamespace(remote=lambda *arguments: pool.submit(fn, *arguments)),
            get=lambda ref: ref.result(),
            wait=lambda refs, timeout: ([r for r in refs if r.done()], [r for r in refs if not r.done()]),
        )
        exec(written, names := {"ray": ray})
        same(model.sample(on=names["OnRay"](), **OPTIONS), whole)


@pytest.mark.slow
def test_workers_that_are_lost_before_the_first_draw(model, whole):
    run = model.sample(on=Here(lambda call: True), **OPTIONS)
    assert run.status == "stopped" and "never came back" in str(run.snapshot().message)
    run.resume(on=Here())
    same(run, whole)


class Silent:
    """An executor without workers."""

    def submit(self, fn, *arguments):
        return Future()


@pytest.mark.slow
def test_a_line_and_the_page_say_that_nobody_answers(model, monkeypatch, caplog):
    monkeypatch.setattr(pieces, "_TELL", 0.1)
    monkeypatch.setattr(pieces, "_SHOW", 0.1)
    run = model.start(on=Silent(), **OPTIONS)
    while not caplog.records:
        run.wait(0.05)
    shown = run.snapshot().message
    run.stop()
    run.wait(60)
    assert run.status == "stopped" and "no worker has answered" in caplog.text
    assert "Workers need Gibbsite and JAX" in caplog.text
    assert "no worker has answered" in shown and run.snapshot().message is None


@pytest.mark.slow
def test_silence_in_mid_run_is_told(model, monkeypatch, caplog):
    """Though what is late is sent again and again meanwhile."""
    monkeypatch.setattr(pieces, "_TELL", 0.5)
    monkeypatch.setattr(pieces, "_SHOW", 0.5)
    with hung(lambda call: call > 60, monkeypatch) as executor:
        run = model.start(on=executor, chunk=10, **OPTIONS)
        while "no worker has answered" not in caplog.text:
            run.wait(0.05)
        run.stop()
        run.wait(60)
    assert "Workers need" not in caplog.text  # they did answer


@pytest.mark.slow
def test_workers_that_all_hang_are_given_up(model, whole, monkeypatch):
    """What is at work and never answers is lost after a while; what waits in a queue (`Silent`) is not."""
    monkeypatch.setattr(pieces, "_GIVEN_UP", 0.5)
    with hung(lambda call: call > 60, monkeypatch) as executor:
        run = model.start(on=executor, chunk=10, **OPTIONS)
        run.wait(120)
        assert run.status == "stopped" and "no worker has answered" in str(run.snapshot().message)
    drawn = run.draws["mu"].shape[1]
    assert drawn < 120
    run.resume(on=Here())
    same(run, whole)


@pytest.mark.slow
def test_a_process_that_hangs_costs_one_chunk_four_pieces_time(model, whole, monkeypatch, tmp_path):
    """One of a pool's two sleeps for good: the chunk that it has a piece of is late by the factor that is
    stated (and what a busy machine takes), the others not at all; a store need not be seen by workers."""
    took, waited_for = [], pieces.Pieces.answers
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(tmp_path)

    def timed(self, *arguments):
        began = monotonic()
        answers = waited_for(self, *arguments)
        took.append((monotonic() - began) / (self.usual or 1.0))
        return answers

    monkeypatch.setattr(pieces.Pieces, "answers", timed)
    calls, asleep = itertools.count(), []
    with ProcessPoolExecutor(
        2, mp_context=get_context("spawn"), initializer=os.chdir, initargs=(elsewhere,)
    ) as pool:

        def submit(fn, *arguments):
            if next(calls) == 30:
                asleep.append(pool.submit(sleep, 3600))
                return asleep[0]
            return pool.submit(fn, *arguments)

        run = model.sample(on=SimpleNamespace(submit=submit), chunk=20, store="run", **OPTIONS)
        assert asleep[0].running()
        for process in list(pool._processes.values()):
            process.kill()
    same(run, whole)
    same(gb.load("run"), whole)
    assert not list(elsewhere.iterdir())
    late = sorted(took[2:])[-2:]  # the first ones compile
    assert pieces.IDLE <= late[1] < pieces.LATE + 1 + 3 and late[0] < 1


@pytest.mark.slow
def test_a_worker_that_was_forked_has_a_process_of_its_own(whole, monkeypatch):
    monkeypatch.setattr(worker, "_forked", True)
    try:
        same(gb.model(mixed, Y).sample(on=Here(), **OPTIONS), whole)
    finally:
        for process in worker._own:
            process._child.kill()
            process._child.wait()
            process._child.stdin.close()
            process._child.stdout.close()
        worker._own.clear()


@pytest.mark.slow
def test_stop_ends_all_within_a_chunk(model):
    run = model.start(on=Here(), chunk=5, **OPTIONS | {"draws": 100_000})
    run.subscribe(lambda run: run.draws["mu"].shape[1] > 10 and run.stop())
    run.wait()
    assert run.status == "stopped" and 10 < run.draws["mu"].shape[1] < 1000


def test_a_worker_with_other_versions_is_refused_by_name(model, monkeypatch):
    monkeypatch.setattr(worker.checkpoint, "versions", lambda: {"jax": "0.0.1"})
    asked = {"jax": "9.9.9"}
    program = worker.Program(b"", (), {}, asked)
    answer = worker.stepped(*program.packed(), (), 1, 1, "a")
    assert answer.kind == "refused" and "jax 0.0.1 where the run has 9.9.9" in answer.text


def test_a_run_ends_where_a_worker_is_refused(model, monkeypatch):
    """Before any work: the program is not even read."""
    monkeypatch.setattr(worker, "_programs", OrderedDict())
    monkeypatch.setattr(worker, "checkpoint", SimpleNamespace(versions=lambda: {"gibbsite": "0.0.1"}))
    monkeypatch.setattr(worker.jax.export, "deserialize", None)
    with pytest.raises(GibbsiteError, match=r"worker \S+:\d+ cannot take part: it has gibbsite 0.0.1 where"):
        model.sample(on=Here(), **OPTIONS)


@pytest.mark.share(2)
@pytest.mark.parametrize("clock", [lambda: -monotonic(), lambda: 3e9 + 1e4 * monotonic()])
def test_clocks_that_differ_change_nothing(model, whole, monkeypatch, clock):
    monkeypatch.setattr(worker, "time", SimpleNamespace(monotonic=clock))
    same(model.sample(on=Here(), **OPTIONS), whole)


@pytest.mark.slow
def test_a_model_may_hold_what_cannot_be_sent(whole, tmp_path):
    """What goes out is the program: open files, locks and generators stay where they are."""
    with (
        (tmp_path / "scale").open("w+") as file,
        ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool,
    ):
        file.write("10.0")
        lock, numbers = threading.Lock(), iter([1.0])

        def holding(y):
            assert lock and numbers
            file.seek(0)
            mu = numpyro.sample("mu", dist.Normal(0.0, 5.0))
            tau = numpyro.sample("tau", dist.HalfNormal(float(file.read())))
            with numpyro.plate("j", len(y)):
                z = numpyro.sample("z", dist.Bernoulli(0.3))
                numpyro.sample("y", dist.Normal(mu + 10.0 * z, tau + 1.0), obs=y)

        same(gb.model(holding, Y).sample(on=pool, **OPTIONS), whole)


@pytest.mark.slow
def test_what_a_program_raises_is_told_with_the_worker(model, monkeypatch):
    def fails(*_):
        raise ValueError("no such luck")

    monkeypatch.setattr(worker, "_program", lambda name, body: fails)
    with pytest.raises(GibbsiteError, match=r"worker \S+:\d+ failed: ValueError: no such luck") as caught:
        model.sample(on=Here(), **OPTIONS)
    assert caught.value.run.status == "failed"


def _called_back(x):
    return jax.pure_callback(np.sin, jax.ShapeDtypeStruct((), np.float32), x, vmap_method="sequential")


def _printed(x):
    jax.debug.print("{}", x)
    return x


@pytest.mark.parametrize("calls", [_called_back, _printed])
def test_a_model_that_calls_back_is_refused(calls):
    def calling():
        x = numpyro.sample("x", dist.Normal())
        numpyro.factor("f", calls(x))

    with pytest.raises(ModelError, match="cannot leave this process"):
        gb.model(calling).sample(on=Here(), schedule="Slice x", draws=5, warmup=5)


class NoFutures:
    def submit(self, fn, *arguments):
        return 3


class OtherArguments(Here):
    def submit(self, fn):
        return super().submit(fn)


class Gone(Here):
    """Its futures do not know whether they are done, as where a connection is lost, but have results."""

    def submit(self, fn, *arguments):
        def lost():
            raise OSError("connection lost")

        return SimpleNamespace(done=lost, result=super().submit(fn, *arguments).result)


@pytest.mark.slow
def test_futures_that_cannot_say_whether_they_are_done(model, whole):
    same(model.sample(on=Gone(), **OPTIONS), whole)


class Wrapped(Here):
    """Its futures have something else for their results than what the worker returned."""

    def submit(self, fn, *arguments):
        return SimpleNamespace(result=lambda: [fn])


@pytest.mark.share(3)
@pytest.mark.parametrize(
    ("on", "more", "said"),
    [
        (3, {}, r"3 has no submit\(fn, …\)"),
        (Here, {}, r"Here'> has no submit\(fn, …\)"),
        (OtherArguments(), {}, r"submit\(fn, …\) of OtherArguments failed: .* takes 2 positional arguments"),
        (NoFutures(), {}, r"NoFutures.submit returned 3, which has no .result\(\)"),
        (Wrapped(), {}, r"a future of Wrapped has \[.*\] for its result, and not what the worker returned"),
        (Here(), {"host": "0/2"}, "leave host= out"),
        (Here(), {"shard": "auto"}, "leave shard= out"),
    ],
)
def test_what_is_no_executor(model, on, more, said):
    with pytest.raises(OptionError, match=said):
        model.sample(on=on, **OPTIONS, **more)


@pytest.mark.slow
def test_a_run_of_this_machine_stays_there(model):
    run = model.sample(**OPTIONS | {"draws": 5, "warmup": 5})
    with pytest.raises(OptionError, match="begun on this machine"):
        run.resume(5, on=Here())
