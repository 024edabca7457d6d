"""Kernels that end in mid-run, on a slow disk and a busy machine: is every draw kept that a person saw?

    python benchmarks/kernel_ends.py [--times 20] [--disk .1] [--busy 4]

Real kernels, as JupyterLab starts, restarts and ends them. In each, eight schools is sampled by `%sample`
with a store, in a cell that waits or in the background; every wait for the disk takes `--disk` seconds
longer, and so many `--busy` loops run beside. At a random moment the kernel is restarted, shut down, or told
to end by SIGTERM. A thread in the kernel notes what the dashboard would show. *Lost*: draws of a chain that
were seen and are not on disk, and how long ago the first of them was seen when the kernel was told to end.
"""

import argparse
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import gibbsite as gb
from gibbsite.ground.lock import writer
from jupyter_client.manager import start_new_kernel

WAYS = [
    ("restart", "cell"),
    ("restart", "background"),
    ("shutdown", "background"),
    ("SIGTERM", "cell"),
    ("SIGTERM", "background"),
]
BUSY = "while True: pass"
FIRST = """
import os, threading, time
import numpy as np
_real = os.fsync
def fsync(fd):
    time.sleep({disk})
    _real(fd)
os.fsync = fsync
%load_ext gibbsite
%config Gibbsite.show_graph = False
def watch():
    with open({seen!r}, "a", buffering=1) as file:
        while True:
            for run in gibbsite.runs():
                snapshot = run.snapshot()
                if snapshot.stage == "sampling":
                    file.write(f"{{time.time()}} {{run.kept.sampled.steps}}\\n")
            time.sleep(0.02)
import gibbsite
threading.Thread(target=watch, daemon=True).start()
"""
DATA = """
y = np.array([28., 8., -3., 7., -1., 1., 18., 12.])
s = np.array([15., 10., 16., 11., 9., 11., 10., 18.])
"""
MODEL = """%%model schools(y, s)
mu ~ Normal(0, 10)
tau ~ HalfNormal(10)
with plate("school", 8):
    theta ~ Normal(mu, tau)
    y ~ Normal(theta, s)
"""
SAMPLE = "%sample schools -n 10000000 --store {store} --quiet"
# how long a kernel may take to begin, and to be gone
_BEGIN_SECONDS, _END_SECONDS = 240.0, 60.0


def lines(seen: Path) -> list[tuple[float, int]]:
    """When how many draws of a chain were seen; a last line that is cut counts for nothing."""
    text = seen.read_text() if seen.exists() else ""
    return [(float(t), int(n)) for t, n in (r.split() for r in text.splitlines()[:-1])]


def one(how: str, where: str, disk: float, after: float, folder: Path) -> dict[str, float]:
    """One kernel's end: draws seen and kept, how old what is lost was, and seconds until it was gone."""
    seen, store = folder / "seen", folder / "run"
    manager, client = start_new_kernel(kernel_name="python3")
    try:
        for cell in (FIRST.format(disk=disk, seen=str(seen)), DATA, MODEL):
            reply = client.execute_interactive(cell, output_hook=lambda m: None, timeout=_BEGIN_SECONDS)
            if reply["content"]["status"] != "ok":
                raise RuntimeError("\n".join(reply["content"]["traceback"]))
        client.execute(SAMPLE.format(store=store) + " --background" * (where == "background"))
        until = time.monotonic() + _BEGIN_SECONDS
        while not lines(seen):
            if time.monotonic() > until:
                raise RuntimeError("no draw was seen")
            time.sleep(0.05)
        time.sleep(after)
        began = time.time()
        client.stop_channels()
        if how == "restart":
            manager.restart_kernel(now=False)
        elif how == "shutdown":
            manager.shutdown_kernel(now=False)
        else:
            manager.signal_kernel(signal.SIGTERM)
        while writer(store) is not None and time.time() < began + _END_SECONDS:
            time.sleep(0.02)
        took = time.time() - began
    finally:
        manager.shutdown_kernel(now=True)
    told = [(t, n) for t, n in lines(seen) if t <= began]
    kept = gb.load(store).kept.sampled.steps
    lost = [t for t, n in told if n > kept]
    last = told[-1][1]
    age = began - lost[0] if lost else 0.0
    return {"seen": last, "kept": kept, "lost": max(0, last - kept), "age": age, "took": took}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--disk", type=float, default=0.1, help="seconds")
    parser.add_argument("--busy", type=int, default=4, help="loops beside")
    options = parser.parse_args()
    rng = random.Random(0)
    beside = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(options.busy)]
    print("| kernel's end | the run | draws of a chain seen | kept | lost | of the last, s | gone after, s |")
    print("|---|---|---|---|---|---|---|")
    try:
        for n in range(options.times):
            how, where = WAYS[n % len(WAYS)]
            folder = Path(tempfile.mkdtemp())
            r = one(how, where, options.disk, rng.uniform(0.5, 8.0), folder)
            counts = f"{r['seen']:,} | {r['kept']:,} | {r['lost']:,}"
            print(f"| {how} | {where} | {counts} | {r['age']:.1f} | {r['took']:.1f} |", flush=True)
            shutil.rmtree(folder)
    finally:
        for process in beside:
            process.kill()


if __name__ == "__main__":
    main()
