"""■ pressed once, twice and five times, at every stage of a run in a real kernel."""

import ast

import pytest
from gibbsite.sampling.engine.stages import COMPILING, SAMPLING, STARTING, TRACING, WARMING
from helpers import TESTS

# A press that comes when the cell has ended reaches the kernel's own loop, which is not what is tested. So
# the presses come from within: a thread that holds Python's lock sees that the main thread is inside of
# `%sample`, and sends it the signal before letting go; the handler runs at the next step of that thread.
PRESSED = """
import os, signal, sys, threading, time
sys.path[:0] = {paths!r}
import conftest
import numpy as np
from helpers.models.sampling_models import coins, data
import gibbsite as gb
import gibbsite.sampling.start
starting = sys.modules["gibbsite.sampling.start"]  # the package has a function of that name

%load_ext gibbsite
m = gb.model(coins, data())
folder, main, done = {folder!r}, threading.main_thread().ident, threading.Event()
pressed = 0

def inside():
    frame = sys._current_frames()[main]
    while frame is not None:
        if frame.f_code.co_name == "sample" and "gibbsite_magics" in frame.f_code.co_filename:
            return True
        frame = frame.f_back
    return False

def press(times, sys=sys, signal=signal):
    global pressed
    try:
        for n in range(times):
            if not inside():
                break
            signal.pthread_kill(main, signal.SIGINT)
            pressed = n + 1
            time.sleep(0.03)
    finally:
        done.set()

def look(ready, times):
    until = time.monotonic() + 150
    while time.monotonic() < until and not (inside() and ready()):
        time.sleep(0.002)
    press(times)

def at_stage(stages, times):
    seen = {{id(r) for r in gb.runs()}}
    begin(lambda: any(id(r) not in seen and r.snapshot().stage in stages for r in gb.runs()), times)

def while_made(times):
    real, making = starting.engine_for, threading.Event()

    def engine_for(*given):
        starting.engine_for = real
        making.set()
        time.sleep(0.5)
        return real(*given)

    starting.engine_for = engine_for
    begin(making.is_set, times)

def begin(ready, times):
    global run, pressed
    run, pressed = None, 0
    done.clear()
    threading.Thread(target=look, args=(ready, times)).start()

def found(name, stage):
    done.wait(160)
    r = run or (gb.runs()[-1] if stage else None)
    if r is None:
        return [pressed, os.path.exists(folder + name)]
    r.wait(60)
    back = gb.load(folder + name) if os.path.exists(folder + name + "/checkpoint.npz") else None
    steps = r.kept.sampled.steps
    kept = back is not None and back.kept.sampled.steps == steps
    out = [r.status, r.going, any(one is r for one in gb.runs()), kept]
    r.resume(5)
    return [pressed, *out, r.kept.sampled.steps - steps]
"""
STAGES = (TRACING, COMPILING, STARTING, WARMING, SAMPLING)


@pytest.mark.slow
def test_one_two_and_five_presses_at_every_stage_in_a_real_kernel(tmp_path):
    """The run can be reached by its name or by `gibbsite.runs()`, has ended, is on disk, and goes on; before
    there is a run nothing is left behind."""
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel(kernel_name="python3")

    def cell(text):
        said, errors = [], []

        def hook(message):
            kind, content = message["msg_type"], message["content"]
            if kind == "stream" and content["name"] == "stdout":
                said.append(content["text"])
            elif kind == "error":
                errors.append((content["ename"], content["evalue"]))

        client.execute_interactive(text, output_hook=hook, timeout=200)
        return "".join(said), errors

    most = 0
    try:
        assert not cell(PRESSED.format(paths=[str(TESTS)], folder=str(tmp_path / "run-")))[1]
        chains = 1
        for stage in (None, *STAGES):
            for times in (1, 2, 5):
                chains += 1  # another shape: it is traced and compiled anew
                name = f"{stage} {times}".replace(" ", "-")
                begin = f"at_stage({(stage, SAMPLING)!r}, {times})" if stage else f"while_made({times})"
                assert cell(begin) == ("", [])
                path = f"--store {tmp_path / 'run-'}{name}"
                _, errors = cell(f"run = %sample m -n 1000000 -w 2000 -c {chains} {path}")
                assert {kind for kind, _ in errors} <= {"KeyboardInterrupt"}, (name, errors)
                said, wrong = cell(f"print(found({name!r}, {stage!r}))")
                assert not wrong, (name, wrong)
                presses, *became = ast.literal_eval(said)
                assert 1 <= presses <= times, name
                most = max(most, presses)
                assert became in ([["stopped", False, True, True, 5]] if stage else [[False]]), (name, became)
        assert most > 1  # and more than one fell into the cell at least once
        said, wrong = cell("run = %sample m -n 5 -w 5 -c 2\nprint(run.status)")
        assert "finished" in said and not wrong
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
