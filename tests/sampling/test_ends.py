"""How processes end: on their last line, by SIGTERM, by a kernel's restart; and how they fork."""

import os
import re
import signal
import subprocess
import sys
import warnings

import gibbsite as gb
import numpy as np
import pytest
from gibbsite.errors import GibbsiteError, StoreError
from gibbsite.sampling import checkpoint
from gibbsite.sampling import run as run_module
from gibbsite.sampling.signals import termination
from gibbsite.sampling.storage.lock import writer
from helpers import TESTS

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
from gibbsite.sampling import run as run_module
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


def process(*arguments):
    return subprocess.Popen(
        [sys.executable, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_the_last_line_and_sigterm(tmp_path):
    """A script that ends while its run goes on, and `python -m gibbsite sample` that is told to end."""
    program = PROGRAM.format(paths=[str(TESTS)], folder=str(tmp_path / "ends"))
    file = tmp_path / "fit.py"
    file.write_text(program)
    options = ["--store", str(tmp_path / "waits"), "-n", "10000000", "-w", "10", "-c", "2", "--every", "0.02"]
    line = ["-m", "gibbsite", "sample", f"{file}:model", *options]
    with process("-c", program + ENDS) as ends, process(*line) as waits:
        assert waits.stdout is not None and ends.stdout is not None
        sampled, lines = {}, []
        for said in waits.stdout:
            lines.append(said)
            found = re.search(r" sampling · ([\d\u202f]+) of ", said)
            if found and int(found[1].replace("\u202f", "")) >= 100:
                sampled["waits"] = int(found[1].replace("\u202f", ""))
                break
        waits.send_signal(signal.SIGTERM)
        said = waits.communicate()
        assert waits.returncode == 128 + signal.SIGTERM and "stopped early, draws kept" in said[0], said
        assert all(re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d ", line) for line in lines) and not said[1]
        sampled["ends"] = int(ends.stdout.readline())
        said = ends.communicate()
        assert ends.returncode == 0 and not said[1], said
    for name, steps in sampled.items():
        back = gb.load(tmp_path / name)
        assert back.status == "stopped" and back.kept.sampled.steps >= steps >= 100
        assert writer(tmp_path / name) is None


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


PRESSED = """
import os, signal, sys, threading, time
sys.path[:0] = {paths!r}
import conftest
import numpy as np
from helpers.models.sampling_models import coins, data
import gibbsite as gb
from gibbsite.sampling import start as starting

%load_ext gibbsite
m = gb.model(coins, data())
folder, pressed = {folder!r}, threading.Event()

def press(times):
    for _ in range(times):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.03)
    pressed.set()

def at_stage(stage, times):
    seen = {{id(r) for r in gb.runs()}}

    def look():
        until = time.monotonic() + 150
        while time.monotonic() < until:
            if any(id(r) not in seen and r.snapshot().stage in (stage, "sampling") for r in gb.runs()):
                return press(times)
            time.sleep(0.002)

    threading.Thread(target=look).start()

def while_made(times):
    real = starting.engine_for

    def engine_for(*given):
        starting.engine_for = real
        threading.Thread(target=press, args=(times,)).start()
        time.sleep(0.5)
        return real(*given)

    starting.engine_for = engine_for

def found(name):
    r = globals().get("run") or gb.runs()[-1]
    r.wait(60)
    back = gb.load(folder + name) if os.path.exists(folder + name + "/checkpoint.npz") else None
    steps = r.kept.sampled.steps
    kept = back is not None and back.kept.sampled.steps == steps
    out = [r.status, r.going, any(one is r for one in gb.runs()), kept]
    r.resume(5)
    return [*out, r.kept.sampled.steps - steps]
"""


@pytest.mark.slow
def test_one_two_and_five_presses_at_every_stage_in_a_real_kernel(tmp_path):
    """The run can be reached by its name or by `gibbsite.runs()`, has ended, is on disk, and goes on."""
    from gibbsite.sampling.engine.stages import COMPILING, SAMPLING, STARTING, TRACING, WARMING
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel(kernel_name="python3")

    def cell(text):
        said, errors = [], []

        def hook(message):
            kind, content = message["msg_type"], message["content"]
            if kind == "stream" and content["name"] == "stdout":
                said.append(content["text"])
            elif kind == "error":
                errors.append(content["ename"])

        client.execute_interactive(text, output_hook=hook, timeout=200)
        return "".join(said), errors

    try:
        assert not cell(PRESSED.format(paths=[str(TESTS)], folder=str(tmp_path / "run-")))[1]
        chains = 1
        for stage in (TRACING, COMPILING, STARTING, WARMING, SAMPLING):
            for times in (1, 2, 5):
                chains += 1  # another shape: it is traced and compiled anew
                name = f"{stage} {times}".replace(" ", "-")
                cell(f"run = None; at_stage({stage!r}, {times})")
                path = f"--store {tmp_path / 'run-'}{name}"
                _, errors = cell(f"run = %sample m -n 1000000 -w 2000 -c {chains} {path}")
                while cell("pressed.wait(60); pressed.clear()")[1]:
                    pass  # a press that comes after the cell
                said, wrong = cell(f"print(found({name!r}))")
                assert set(errors) <= {"KeyboardInterrupt"} and not wrong, (name, errors, wrong)
                assert said.strip().startswith("['stopped', False, True, True, "), (name, said)
        for times in (1, 2, 5):  # before there is a run: nothing is left behind
            cell(f"run = None; while_made({times})")
            path = f"--store {tmp_path / 'run-'}made-{times}"
            _, errors = cell(f"run = %sample m -n 1000000 -c 2 {path}")
            assert set(errors) <= {"KeyboardInterrupt"}
            while cell("pressed.wait(60); pressed.clear()")[1]:
                pass
            said, wrong = cell(f"print(globals().get('run') is None or found('made-{times}')[0])")
            assert not wrong and said.strip() in ("True", "stopped")
        said, wrong = cell("run = %sample m -n 5 -w 5 -c 2\nprint(run.status)")
        assert "finished" in said and not wrong
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
