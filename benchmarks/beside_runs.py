"""What a kernel costs beside its runs: many short runs with dashboards, interrupts, redefinitions.

    python benchmarks/beside_runs.py [--runs 200] [--draws 2000] [--interrupts 0] [--redefined 0]
    python benchmarks/beside_runs.py --restarts 20
    python benchmarks/beside_runs.py --shown

A real kernel without a page. Ten times in its session it is asked for threads, open files, memory, processor
seconds of the cells that sample and of all else. `--interrupts` ends so many of the runs in mid-run,
`--redefined` has the model's cell run anew so many times, with another number in it; the runs are those of
`--cells` cells in turn, each of which shows one at a time; with `--kernels` all of it is done again in fresh
ones. Prints a table for each kernel, and exits 1 where threads or files grow, or an interrupted run has lost
its name. `--restarts` has kernels restarted instead, and holds what was seen of the run against what is on
disk. `--shown` has the same runs with `--quiet` and without: the difference is what goes beside them.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import gibbsite as gb
from jupyter_client.manager import start_new_kernel

SETUP = """
%load_ext gibbsite
import gc, json, os, threading, time
import numpy as np, psutil
from gibbsite.views.host.beside import BESIDE
y = np.random.default_rng(0).normal(1, 2, 12)
me, begun = psutil.Process(), time.process_time()
during = 0.0
"""
MODEL = """%%model m(y)
mu ~ Normal(0, {scale})
sigma ~ HalfNormal(2)
y ~ Normal(mu, sigma)
"""
RUN = """
before = time.process_time()
run = %sample m -n {draws} -w 100 -c 2 --seed {seed}
during += time.process_time() - before
"""
LOOK = """
BESIDE.settle(60)
before = time.process_time(); gc.collect(); begun += time.process_time() - before; time.sleep(.3)
print(json.dumps([threading.active_count(), me.num_fds(), round(me.memory_info().rss / 2**20),
                  round(during, 1), round(time.process_time() - begun - during, 1)]))
"""
HEADS = ("runs", "threads", "files", "MiB", "s in runs", "s beside")


class Kernel:
    """A kernel, and what its cells print."""

    def __init__(self) -> None:
        self.manager, self.client = start_new_kernel(startup_timeout=300)

    def run(self, code: str, interrupt_after: float | None = None, cell: str = "") -> str:
        """Run a cell, the one named `cell` (the same as before, or another), as if a person were there; with
        `interrupt_after` it is interrupted after so many seconds."""
        said: list[str] = []

        def hear(message: Any) -> None:
            if message["msg_type"] == "stream" and message["content"]["name"] == "stdout":
                said.append(message["content"]["text"])

        content = {"code": code, "silent": False, "store_history": True, "allow_stdin": True}
        message = self.client.session.msg("execute_request", content, metadata={"cellId": cell})
        self.client.shell_channel.send(message)
        request = message["header"]["msg_id"]
        if interrupt_after is not None:
            time.sleep(interrupt_after)
            self.manager.interrupt_kernel()
        while True:
            message = self.client.get_iopub_msg(timeout=900)
            if message["parent_header"].get("msg_id") != request:
                continue
            hear(message)
            if message["msg_type"] == "error" and interrupt_after is None:
                raise RuntimeError("\n".join(message["content"]["traceback"]))
            if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                return "".join(said)

    def end(self) -> None:
        """Shut it down."""
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


def session(runs: int, draws: int, interrupts: int, redefined: int, cells: int) -> bool:
    """One kernel's session, told as a table; whether nothing grew and nothing was lost."""
    kernel, sound = Kernel(), True
    try:
        kernel.run(SETUP)
        kernel.run(MODEL.format(scale=10), cell="model")
        every = max(1, runs // 10)
        rows = []
        for i in range(runs):
            if redefined and i % max(1, runs // redefined) == 0 and i:
                kernel.run(MODEL.format(scale=10 + i), cell="model")
            stop = interrupts and i % max(1, runs // interrupts) == 1
            code = RUN.format(draws=10**7 if stop else draws, seed=i)
            kernel.run(code, interrupt_after=3.0 if stop else None, cell=f"runs {i % cells}")
            if stop and "stopped" not in kernel.run("print(run.status)"):
                sound = False
            if (i + 1) % every == 0 or i == 0:
                rows.append([i + 1, *json.loads(kernel.run(LOOK))])
                print("  ".join(f"{v:>9}" for v in rows[-1]), flush=True)
        # handles of threads that printed come and go in steps: what counts is how low they fall again
        half = len(rows) // 2
        before, after = rows[1:half], rows[half:]
        grown = [min(r[k] for r in after) - min(r[k] for r in before) for k in (1, 2)] if before else [0]
        return sound and max(grown) <= 2
    finally:
        kernel.end()


def shown() -> None:
    """Processor time of runs with their dashboards beside that of the same runs without, all of the kernel's;
    each is done twice, the first time to warm up."""
    kernel = Kernel()
    try:
        kernel.run(SETUP)
        kernel.run(MODEL.format(scale=10), cell="model")
        print("  ".join(f"{h:>9}" for h in ("draws", "runs", "ms quiet", "ms shown", "beside")))
        for draws, runs in ((2000, 50), (20_000, 30), (200_000, 20)):
            took = {}
            for flag in ("-q", "", "-q", ""):
                kernel.run("BESIDE.settle(60); begun = time.process_time()")
                for i in range(runs):
                    code = RUN.replace("--seed", f"{flag} --seed").format(draws=draws, seed=i)
                    kernel.run(code, cell=f"runs {i % 5}")
                spent = kernel.run("BESIDE.settle(60); print(time.process_time() - begun)")
                took[flag] = 1000 * float(spent) / runs
            figures = (draws, runs, round(took["-q"]), round(took[""]), f"{took[''] / took['-q'] - 1:.0%}")
            print("  ".join(f"{v:>9}" for v in figures), flush=True)
    finally:
        kernel.end()


def restarted(times: int) -> bool:
    """A kernel restarted in mid-run, so many times: the draws that had been seen, and those on disk after."""
    sound = True
    print(
        "kernel restarts\n" + "  ".join(f"{h:>9}" for h in ("restart", "seen", "on disk", "lost", "seconds"))
    )
    for number in range(times):
        kernel = Kernel()
        with tempfile.TemporaryDirectory() as folder:
            store = Path(folder) / "run"
            try:
                kernel.run(SETUP)
                kernel.run(MODEL.format(scale=10))
                kernel.run(
                    f"run = %sample m -n 10000000 -w 100 -c 2 --seed {number} --store {store} --background"
                )
                # not all at the same age of the run
                waiting = "while run.kept.sampled.steps < 200: time.sleep(.05)\n"
                kernel.run(waiting + f"time.sleep({1 + number % 5})")
                seen = int(kernel.run("print(run.snapshot().draws_done)"))
                began = time.monotonic()
                kernel.client.stop_channels()
                kernel.manager.restart_kernel(now=False)
                seconds = time.monotonic() - began
                kept = gb.load(store).draws["mu"].shape[1]
            finally:
                kernel.manager.shutdown_kernel(now=True)
        sound &= kept >= seen
        lost = max(0, seen - kept)
        print("  ".join(f"{v:>9}" for v in (number + 1, seen, kept, lost, f"{seconds:.1f}")), flush=True)
    return sound


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, default in (
        ("runs", 200),
        ("draws", 2000),
        ("interrupts", 0),
        ("redefined", 0),
        ("kernels", 1),
        ("cells", 5),
    ):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--restarts", type=int, default=0)
    parser.add_argument("--shown", action="store_true")
    asked = parser.parse_args()
    if asked.shown:
        shown()
        return 0
    if asked.restarts:
        return 0 if restarted(asked.restarts) else 1
    sound = True
    for number in range(asked.kernels):
        print(f"kernel {number + 1}\n" + "  ".join(f"{h:>9}" for h in HEADS))
        sound &= session(asked.runs, asked.draws, asked.interrupts, asked.redefined, asked.cells)
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main())
