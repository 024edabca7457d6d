"""Predictions per second beside `numpyro.infer.Predictive`, and many data sets beside a loop over them.

    python benchmarks/predicting.py [--rows 2000] [--draws 2000] [--datasets 200] [--rounds 3]

Both predict the same regression at the same draws, warm: each has run once, and the fastest of `rounds`
counts. `many` fits regressions of fifty rows, compiling included; beside it the largest of them alone, also
with compiling, and the loop as it would be from the time of a run whose program is compiled already. Look at
the ratios: the times are those of a machine that may have other things to do.
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
        began = time.perf_counter()
        fn()
        found.append(time.perf_counter() - began)
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


def datasets(count: int) -> None:
    x = RNG.normal(size=(count, 50)).astype(np.float32)
    y = (1 + 2 * x + RNG.normal(size=x.shape)).astype(np.float32)
    began = time.perf_counter()
    gb.model(line, x[0], y[0]).sample()
    first = time.perf_counter() - began
    began = time.perf_counter()
    model = gb.model(line, x[1], y[1])
    model.sample()
    again = time.perf_counter() - began
    began = time.perf_counter()
    found = model.many([{"x": a, "y": b} for a, b in zip(x, y, strict=True)])
    took = time.perf_counter() - began
    print(
        f"{count} data sets in {took:.1f} s ({found.note}): {took / first:.1f} times one alone "
        f"({first:.1f} s)"
    )
    print(f"  a loop, whose program is compiled: {count * again / took:.1f} times as long")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--datasets", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    predictions(asked.rows, asked.draws, asked.rounds)
    datasets(asked.datasets)


if __name__ == "__main__":
    main()
