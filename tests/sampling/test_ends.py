"""How processes end: on their last line, by SIGTERM, by a kernel's restart; and how they fork."""

import os
import re
import signal
import subprocess
import sys
import threading
import warnings

import gibbsite as gb
import numpy as np
import pytest
from gibbsite.errors import GibbsiteError, StoreError
from gibbsite.ground.lock import writer
from gibbsite.sampling import execution as run_module
from gibbsite.sampling.start import termination
from gibbsite.storage import arrays, checkpoint, committing
from helpers import TESTS
from helpers.readers.said import said

SCHEDULE = "Gibbs z (*) NUTS [w p]"
OPTIONS = {"draws": 10**7, "warmup": 40, "chains": 2, "seed": 1, "schedule": SCHEDULE, "chunk": 20}
# commits at the beginning and at the end alone: what is on disk shows whether the end was waited for
PROGRAM = """
import sys
sys.path[:0] = {paths!r}
import conftest
import numpy as np
from helpers.models.sampling_models import rates
import gibbsite as gb
from gibbsite.sampling import execution as run_module
run_module._STORE_SHARE = 1e-9
model = gb.model(rates, np.ones(3), np.arange(3.0))
options = dict(draws=10**7, warmup=10, chains=2, chunk=20, store={folder!r})
"""
ENDS = """
run = model.start(**options)
while run.kept.sampled.steps < 100:
    pass
print(run.kept.sampled.steps, flush=True)
"""
# what Python does last of all: by then there is nothing left to walk through
LAST = """
import atexit, gc
atexit.register(lambda: print(gc.get_freeze_count() > 100_000, flush=True))
"""


def process(*arguments):
    return subprocess.Popen(
        [sys.executable, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
def test_the_last_line_and_sigterm(tmp_path):
    """A script that ends while its run goes on, and `python -m gibbsite sample` that is told to end."""
    program = PROGRAM.format(paths=[str(TESTS)], folder=str(tmp_path / "ends"))
    file = tmp_path / "fit.py"
    file.write_text(program)
    options = ["--store", str(tmp_path / "waits"), "-n", "10000000", "-w", "10", "-c", "2", "--every", "0.02"]
    command = ["-m", "gibbsite", "sample", f"{file}:model", *options]
    with process("-c", program + LAST + ENDS) as ends, process(*command) as waits:
        assert waits.stdout is not None and ends.stdout is not None
        sampled, lines = {}, []
        for line in waits.stdout:
            lines.append(line)
            found = re.search(r" sampling · ([\d\u202f]+) of ", line)
            if found and int(found[1].replace("\u202f", "")) >= 100:
                sampled["waits"] = int(found[1].replace("\u202f", ""))
                break
        waits.send_signal(signal.SIGTERM)
        out, err = waits.communicate()
        assert waits.returncode == 128 + signal.SIGTERM and "stopped early, draws kept" in out, (out, err)
        assert all(re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d ", line) for line in lines) and not said(err)
        steps, frozen = ends.stdout.readlines()
        sampled["ends"] = int(steps)
        _, err = ends.communicate()
        assert ends.returncode == 0 and not said(err) and frozen == "True\n", (frozen, err)
    for name, steps in sampled.items():
        back = gb.load(tmp_path / name)
        assert back.status == "stopped" and back.kept.sampled.steps >= steps >= 100
        assert writer(tmp_path / name) is None
        whole = checkpoint.read(tmp_path / name)[0]["draws"]["posterior"]["steps"]
        assert whole < back.kept.sampled.steps  # a checkpoint of all takes longer than the journal


@pytest.mark.slow
def test_a_run_that_leaves_waits_for_the_disk_no_more_than_it_must(model, tmp_path, monkeypatch):
    """Where the process ends, draws are in the journal; a checkpoint of many files is for whoever goes on."""
    folder = tmp_path / "run"
    run = model.start(**OPTIONS, store=folder)
    while run.kept.sampled.steps < 40:
        pass
    run._committing.settle()
    waits, real = [], os.fsync
    monkeypatch.setattr(run_module, "_STORE_SHARE", 1e-9)
    monkeypatch.setattr(os, "fsync", lambda file: (waits.append(file), real(file)))
    run.leave()
    run.settle(60)
    assert 1 <= len(waits) <= 4, len(waits)
    assert run.status == "stopped" and writer(folder) is None
    assert run.verdict.ok == gb.load(folder, model=model).verdict.ok  # it is judged by all its draws
    steps = run.kept.sampled.steps
    assert checkpoint.read(folder)[0]["draws"]["posterior"]["steps"] < steps
    back = gb.load(folder, model=model)
    assert back.status == "stopped" and back.kept.sampled.steps == steps
    for name, v in run.draws.items():
        np.testing.assert_array_equal(back.draws[name], v)
    # a process that was told to end, and did not, goes on as before
    run.resume(20)
    assert checkpoint.read(folder)[0]["draws"]["posterior"]["steps"] == steps + 20
    back = gb.load(folder, model=model).resume(10)
    assert back.kept.sampled.steps == steps + 30
    run = model.start(**OPTIONS)  # and one that nothing keeps
    run.leave()
    run.settle(60)
    assert run.status == "stopped" and run.resume(5).kept.sampled.steps >= 5


@pytest.mark.slow
def test_a_run_that_leaves_gives_up_the_checkpoint_under_way(model, tmp_path, monkeypatch):
    folder, real, begun = tmp_path / "run", arrays.sync, threading.Event()
    run = model.start(**OPTIONS, store=folder)
    while run.kept.sampled.steps < 40:
        pass

    def sync(root, written, between):
        begun.set()
        assert run._committing._urgent.wait(60)
        real(root, written, between)

    monkeypatch.setattr(arrays, "sync", sync)
    monkeypatch.setattr(committing, "_LARGE", 0)
    run._committing.settle()
    before = checkpoint.read(folder)[0]["draws"]["posterior"]["steps"]
    run._committing._next_whole = 0.0
    assert begun.wait(60)
    run.leave()
    run.settle(60)
    assert run.status == "stopped" and writer(folder) is None
    assert checkpoint.read(folder)[0]["draws"]["posterior"]["steps"] == before
    steps = run.kept.sampled.steps
    back = gb.load(folder, model=model)
    assert back.kept.sampled.steps == steps
    for name, v in run.draws.items():
        np.testing.assert_array_equal(back.draws[name], v)
    assert gb.verify(folder).draws == steps
    monkeypatch.setattr(arrays, "sync", real)
    run.resume(20)  # the next checkpoint is whole
    assert checkpoint.read(folder)[0]["draws"]["posterior"]["steps"] == steps + 20
    for name, v in gb.load(folder).draws.items():
        np.testing.assert_array_equal(v, run.draws[name])


def test_sigterm_goes_where_it_would_have_gone():
    came, asked = [], []
    before = signal.signal(signal.SIGTERM, lambda *_: came.append(len(asked)))
    try:
        with termination(lambda: asked.append(1) or True):
            signal.raise_signal(signal.SIGTERM)
            assert asked == [1] and not came  # put off
        assert came == [1]
        with termination(lambda: asked.append(1) or True):
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGTERM)
            assert came == [1, 2]  # a second one is not
        assert came == [1, 2]
        with termination(lambda: False):
            signal.raise_signal(signal.SIGTERM)
            assert came == [1, 2, 2]  # nor one before there is a run
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        with termination(lambda: asked.append(1) or True):
            signal.raise_signal(signal.SIGTERM)
        assert len(asked) == 2
    finally:
        signal.signal(signal.SIGTERM, before)


def in_child(do):
    """What `do()` returns in a forked child, as text."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # JAX and Python warn of forks
        child = os.fork()
    if not child:
        try:
            os.write(write, repr(do()).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as told:
        said = told.read()
    os.waitpid(child, 0)
    return said


@pytest.mark.slow
def test_a_fork_while_a_run_goes_on(model, tmp_path, monkeypatch):
    monkeypatch.setattr(run_module, "_STORE_SHARE", np.inf)
    folder = tmp_path / "run"
    run = model.start(**OPTIONS, store=folder)
    while run.kept.sampled.steps < 40:
        pass
    order = []
    forget = run.subscribe(lambda r: order.append(1))

    def child():
        steps = run.kept.sampled.steps
        out = [run.status, run.draws["p"].shape[1] >= steps >= 40, str(run.snapshot().message)[:8]]
        for go in (run.resume, run.start):
            try:
                go()
            except GibbsiteError as error:
                out.append("forked" in str(error))
        try:
            run._store.claim()
        except StoreError as error:
            out.append(f"process {os.getppid()} " in str(error))
        run._store.release()
        run.wait()
        return out

    assert in_child(child) == "['stopped', True, 'it goes o', True, True, True]".replace(
        "it goes o", "it goes "
    )
    assert run.going and writer(folder).pid == os.getpid()  # the child's end took nothing away
    forget()
    run.stop()
    run.wait()
    steps = run.kept.sampled.steps
    assert checkpoint.read(folder)[0]["draws"]["posterior"]["steps"] == steps
    assert gb.load(folder, model=model).resume(10).kept.sampled.steps == steps + 10


@pytest.mark.slow
@pytest.mark.parametrize("how", ["restart", "shutdown"])
def test_a_kernel_that_goes(tmp_path, how):
    """A real kernel, with a run in the background, as front ends restart it and shut it down."""
    from jupyter_client.manager import start_new_kernel

    text = PROGRAM.format(paths=[str(TESTS)], folder=str(tmp_path / "run")) + ENDS
    manager, client = start_new_kernel(kernel_name="python3")
    try:
        said = []
        client.execute_interactive(
            text, output_hook=lambda m: said.append(m["content"].get("text", "")), timeout=200
        )
        steps = int("".join(said))
        client.stop_channels()
        if how == "restart":
            manager.restart_kernel(now=False)
        else:
            manager.shutdown_kernel(now=False)
        assert gb.load(tmp_path / "run").kept.sampled.steps >= steps >= 100
    finally:
        manager.shutdown_kernel(now=True)
