"""Predictions per processor second beside `numpyro.infer.Predictive`; many data sets beside a loop over them.

    python benchmarks/predicting.py [--rows 2000] [--draws 2000] [--datasets 1000] [--shortest 50]

Both predict the same regression at the same draws, warm: each has run once, and the fastest of `rounds`
counts. `many` fits regressions of fifty rows (with --shortest 20, of twenty to fifty), compiling included;
beside it the largest of them alone, also with compiling, and the loop as it would be from the time of a run
whose program is compiled already. All times are the processor's, of all threads: another process on the
machine does not enter them.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import gibbsite as gb
import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import Predictive

RNG = np.random.default_rng(0)


def line(x: Any, y: Any = None) -> None:
    a = numpyro.sample("a", dist.Normal(0, 5))
    b = numpyro.sample("b", dist.Normal(0, 5))
    s = numpyro.sample("s", dist.HalfNormal(2))
    with numpyro.plate("row", len(x)):
        numpyro.sample("y", dist.Normal(a + b * x, s), obs=y)


def seconds(fn: Callable[[], Any], rounds: int) -> float:
    """The fastest of so many."""
    fn()
    found = []
    for _ in range(rounds):
        began = time.process_time()
        fn()
        found.append(time.process_time() - began)
    return min(found)


def predictions(rows: int, draws: int, rounds: int) -> None:
    x = RNG.normal(size=50).astype(np.float32)
    run = gb.model(line, x, (1 + 2 * x + RNG.normal(size=50)).astype(np.float32)).sample(
        draws=draws // 2, chains=2
    )
    new = RNG.normal(size=rows).astype(np.float32)
    flat = {n: np.asarray(v).reshape(-1) for n, v in run.draws.items()}
    theirs = Predictive(line, posterior_samples=flat, return_sites=["y"])
    key = jax.random.key(0)
    parallel = Predictive(line, posterior_samples=flat, return_sites=["y"], parallel=True)
    ours = seconds(lambda: run.predict(x=new, y=None).draws["y"], rounds)
    print(f"{draws} draws of {rows} rows: gibbsite {draws * rows / ours:.3g} a second")
    for name, other in (("Predictive", theirs), ("Predictive, parallel", parallel)):
        took = seconds(lambda other=other: jax.block_until_ready(other(key, new)["y"]), rounds)
        print(f"  {name}: {draws * rows / took:.3g} a second; ours is {took / ours:.2f} times as fast")


def datasets(count: int, shortest: int) -> None:
    sizes = np.append(50, RNG.integers(shortest, 51, count - 1))
    x = [RNG.normal(size=n).astype(np.float32) for n in sizes]
    y = [(1 + 2 * v + RNG.normal(size=len(v))).astype(np.float32) for v in x]
    began = time.process_time()
    gb.model(line, x[0], y[0]).sample()
    first = time.process_time() - began
    began = time.process_time()
    model = gb.model(line, x[0], y[0] + 1)
    model.sample()
    again = time.process_time() - began
    began = time.process_time()
    found = model.many([{"x": a, "y": b} for a, b in zip(x, y, strict=True)])
    took = time.process_time() - began
    print(
        f"{count} data sets in {took:.1f} s ({found.note}): {took / first:.1f} times one alone "
        f"({first:.1f} s)"
    )
    print(f"  a loop, whose program is compiled: {count * again / took:.1f} times as long")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--datasets", type=int, default=1000)
    parser.add_argument("--shortest", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    predictions(asked.rows, asked.draws, asked.rounds)
    datasets(asked.datasets, asked.shortest)


if __name__ == "__main__":
    main()
