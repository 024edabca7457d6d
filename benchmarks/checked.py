"""`model.check()` on ten models, three with a fault that a user can make: is it found, and nothing else?

    python benchmarks/checked.py [--seconds 3600] [--processor 60] [--models NAME,NAME] [--reports FOLDER]

The faults: a kernel of one's own whose ratio leaves out the determinant of its coordinates, a class whose
`sample` is another law than its `log_prob`, and a schedule that moves two coins one by one which can only
change together. A line per model: the verdict, what each test said that was not "right", and the processor
seconds of each; calibration ends where those of its model are spent, so that a busy machine only takes
longer. The exit status is the number of models whose verdict is wrong.
"""

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from gibbsite.kernels.base import SiteKernel, step_info
from gibbsite.plans.schedule.registry import kernel_row, register_kernel
from numpyro.contrib.control_flow import scan

RNG = np.random.default_rng(0)
Y = RNG.normal(1.0, 1.5, 6).astype(np.float32)
X = RNG.normal(size=(12, 2)).astype(np.float32)
GROUP = np.repeat(np.arange(4), 3)
COUNTS = RNG.poisson(4.0, 8)
BITS = RNG.integers(0, 2, 12)


class Hop(SiteKernel):
    """Steps on the whole line, decided by the density of the constrained values: that is the fault."""

    def step(self, key: Any, z: Any, tuning: Any, target: Any, adapting: Any) -> Any:
        move, coin = jax.random.split(key)
        free = {n: x + 0.7 * jax.random.normal(move, x.shape) for n, x in target.unconstrain(z).items()}
        there = target.constrain(free)
        ratio = target.logdensity(there) - target.logdensity(z)
        accepted = jnp.log(jax.random.uniform(coin)) < ratio
        return (
            {n: jnp.where(accepted, there[n], z[n]) for n in z},
            tuning,
            step_info(jnp.minimum(1.0, jnp.exp(ratio))),
        )


class Bent(dist.Distribution):
    """Draws that its density does not have."""

    support = dist.constraints.real

    def __init__(self) -> None:
        super().__init__(())

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Any:
        return jax.random.normal(key, sample_shape)

    def log_prob(self, x: Any) -> Any:
        return -0.5 * ((x - 3.0) / 0.5) ** 2


def schools(y):
    mu = numpyro.sample("mu", dist.Normal(0.0, 3.0))
    tau = numpyro.sample("tau", dist.HalfNormal(2.0))
    with numpyro.plate("school", len(y)):
        theta = numpyro.sample("theta", dist.Normal(mu, tau))
        numpyro.sample("y", dist.Normal(theta, 1.0), obs=y)


def levels(y):
    precision = numpyro.sample("precision", dist.Gamma(3.0, 2.0))
    mu = numpyro.sample("mu", dist.Normal(0.0, 2.0))
    numpyro.sample("y", dist.Normal(mu, precision**-0.5).expand([len(y)]).to_event(1), obs=y)


def mixture(y):
    w = numpyro.sample("w", dist.Beta(2.0, 2.0))
    mu = numpyro.sample("mu", dist.Normal(jnp.array([-1.0, 2.0]), 1.0).to_event(1))
    with numpyro.plate("n", len(y)):
        z = numpyro.sample("z", dist.Bernoulli(w))
        numpyro.sample("y", dist.Normal(mu[z], 1.0), obs=y)


def chain(y):
    stay = numpyro.sample("stay", dist.Beta(4.0, 2.0))

    def step(state, datum):
        now = numpyro.sample("state", dist.Bernoulli(jnp.where(state == 1, stay, 1.0 - stay)))
        numpyro.sample("y", dist.Normal(2.0 * now, 1.0), obs=datum)
        return now, None

    scan(step, 0, y)


def regression(x, y):
    b = numpyro.sample("b", dist.Normal(0.0, 1.0).expand([x.shape[1]]).to_event(1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1.0))
    numpyro.sample("y", dist.Normal(x @ b, sigma).to_event(1), obs=y)


def pumps(k):
    rate = numpyro.sample("rate", dist.Gamma(2.0, 1.0))
    with numpyro.plate("pump", len(k)):
        each = numpyro.sample("each", dist.Gamma(2.0, rate))
        numpyro.sample("k", dist.Poisson(each), obs=k)


def effects(group, y):
    scale = numpyro.sample("scale", dist.HalfNormal(1.0))
    with numpyro.plate("group", 4):
        a = numpyro.sample("a", dist.Normal(0.0, scale))
    with numpyro.plate("n", len(y)):
        numpyro.sample("y", dist.Bernoulli(logits=a[group]), obs=y)


def spread(y):
    s = numpyro.sample("s", dist.HalfNormal(2.0))
    numpyro.sample("y", dist.Normal(0.0, s).expand([len(y)]).to_event(1), obs=y)


def bent(y):
    x = numpyro.sample("x", Bent())
    numpyro.sample("y", dist.Normal(x, 1.0), obs=y)


def coins(y):
    a = numpyro.sample("a", dist.Bernoulli(0.4))
    b = numpyro.sample("b", dist.Bernoulli(0.5))
    numpyro.sample("y", dist.Bernoulli(jnp.where(a != b, 1.0, 0.0)), obs=y)


@dataclass(frozen=True)
class Asked:
    """A model with its data, a schedule where it is not the default, and the test that is to find a fault."""

    fn: Callable[..., Any]
    args: tuple[Any, ...]
    schedule: str | None = None
    fault: str | None = None


MODELS = {
    "effects of schools": Asked(schools, (Y,)),
    "mean and precision": Asked(levels, (Y,)),
    "mixture": Asked(mixture, (Y,)),
    "hidden chain": Asked(chain, (Y,)),
    "regression": Asked(regression, (X, X[:, 0].astype(np.float32))),
    "pumps": Asked(pumps, (COUNTS,)),
    "logistic effects": Asked(effects, (GROUP, BITS)),
    "own kernel without its determinant": Asked(spread, (Y,), "Hop s", "the whole schedule"),
    "class that draws something else": Asked(bent, (Y,), None, "distributions"),
    "coins moved one by one": Asked(coins, (np.array(1),), "Gibbs a (*) Gibbs b", "reach"),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--processor", type=float, default=60, help="seconds, after which calibration ends")
    parser.add_argument("--models", default="")
    parser.add_argument("--reports", type=Path, help="a folder for one HTML file per model")
    options = parser.parse_args()
    register_kernel(kernel_row("Hop", Hop, cost=lambda facts, sites, asked: "2 evaluations of the density"))
    missed = 0
    print("| model | verdict | not “right” | processor seconds |\n|---|---|---|---|")
    for name in options.models.split(",") if options.models else MODELS:
        asked, began = MODELS[name], time.process_time()
        model = gb.model(asked.fn, *asked.args)
        model = model if asked.schedule is None else model.with_schedule(asked.schedule)
        check = model.check(seconds=options.seconds, wait=False)
        until = began + options.processor

        def enough(found: gb.Check, until: float = until) -> None:
            if found.findings[-1].ranks is not None and time.process_time() > until:
                found.stop()

        check.subscribe(enough)
        check.wait()
        wrong = {f.test for f in check.findings if f.state == "wrong"}
        as_meant = not wrong if asked.fault is None else asked.fault in wrong
        missed += not as_meant
        others = "; ".join(f"{f.test}: {f.state}, {f.text}" for f in check.findings if f.state != "right")
        spent = time.process_time() - began
        verdict = f"{check.verdict.removesuffix(' (stopped)')}{'' if as_meant else ' (**not as meant**)'}"
        print(f"| {name} | {verdict} | {others} | {spent:.0f} |", flush=True)
        if options.reports:
            options.reports.mkdir(parents=True, exist_ok=True)
            check.report(options.reports / f"{name.replace(' ', '-')}.html")
    return missed


if __name__ == "__main__":
    sys.exit(main())
