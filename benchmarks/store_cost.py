"""What a store costs: processor time, system calls and waits for the disk, beside a run without one.

    python benchmarks/store_cost.py

Processor time and calls do not depend on what else the machine does; waits do, and are told apart.
"""

import os
import shutil
import tempfile
import time
from pathlib import Path

import gibbsite as gb
import numpy as np
import numpyro
import numpyro.distributions as dist
from gibbsite.sampling import execution as run_module
from gibbsite.storage import arrays

DRAWS, CHAINS, ROUNDS = 20_000, 4, 3


def schools(y, sigma):
    mu = numpyro.sample("mu", dist.Normal(0.0, 5.0))
    tau = numpyro.sample("tau", dist.HalfNormal(5.0))
    with numpyro.plate("school", len(y)):
        theta = numpyro.sample("theta", dist.Normal(mu, tau))
        numpyro.sample("y", dist.Normal(theta, sigma), obs=y)


class Counted:
    """Calls of `os.fsync`, and the seconds that they took."""

    def __init__(self):
        self.calls, self.seconds, self._real = 0, 0.0, os.fsync

    def __enter__(self):
        os.fsync = self._fsync
        return self

    def __exit__(self, *_):
        os.fsync = self._real

    def _fsync(self, file):
        began = time.perf_counter()
        self._real(file)
        self.calls += 1
        self.seconds += time.perf_counter() - began


def calls():
    """Read and write calls of this process so far, where the system tells (Linux)."""
    try:
        told = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    except OSError:
        return 0
    return int(told["syscr"]) + int(told["syscw"])


def measured(model, **options):
    folder = Path(tempfile.mkdtemp(dir=os.environ.get("STORES")))
    commits = 0
    if "durable" in options:
        options["store"] = folder / "run"
    real = run_module.Store.commit

    def commit(self, *given):
        nonlocal commits
        commits += 1
        return real(self, *given)

    run_module.Store.commit = commit
    try:
        with Counted() as waits:
            before, system = time.process_time(), calls()
            model.sample(draws=DRAWS, warmup=500, chains=CHAINS, seed=0, chunk=500, **options)
            used, system = time.process_time() - before, calls() - system
        size = sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())
    finally:
        run_module.Store.commit = real
        shutil.rmtree(folder)
    return used, system, commits, waits.calls, waits.seconds, size


def main():
    model = gb.model(
        schools, np.array([28.0, 8, -3, 7, -1, 1, 18, 12]), np.array([15.0, 10, 16, 11, 9, 11, 10, 18])
    )
    model.sample(draws=500, warmup=500, chains=CHAINS, chunk=500)
    kinds = {"no store": {}, "store": {"durable": True}, "store, durable=False": {"durable": False}}
    print(f"{DRAWS} draws x {CHAINS} chains of eight schools, the best of {ROUNDS}; per draw of all chains\n")
    print(f"{'':22}{'cpu us':>9}{'calls':>8}{'commits':>9}{'fsyncs':>8}{'waited us':>11}{'bytes':>8}")
    for name, options in kinds.items():
        found = min(measured(model, **options) for _ in range(ROUNDS))
        used, system, commits, fsyncs, waited, size = found
        print(
            f"{name:22}{1e6 * used / DRAWS:>9.1f}{system / DRAWS:>8.3f}{commits:>9}{fsyncs:>8}"
            f"{1e6 * waited / DRAWS:>11.1f}{size / DRAWS:>8.0f}"
        )
    values = np.random.default_rng(0).normal(size=(CHAINS, DRAWS, 10)).astype(np.float32)
    began = time.process_time()
    for _ in range(20):
        arrays.block_sums(values, 1024)
    seconds = (time.process_time() - began) / 20
    print(
        f"\nchecksums: {1e9 * seconds / values.nbytes:.2f} ns a byte, {1e6 * seconds / DRAWS:.3f} us a draw"
    )


if __name__ == "__main__":
    main()
