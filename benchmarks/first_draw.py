"""From a model to its first draws, in processor seconds by stage: they are what a person waits for.

    python benchmarks/first_draw.py [--models schools irt …]

Ten models, each in processes of its own: a fresh kernel with an empty cache of compiled programs, the same
kernel with a second model (the statements again, under another shape), a fresh kernel on the next day (the
cache is warm), and NumPyro's `MCMC(NUTS)` from the same start, vectorised over the chains, with 100 + 100
steps like ours. NumPyro's has no row for the models with discrete sites, which its NUTS cannot run. Processor
seconds are those of all threads. JAX and NumPyro are imported before; what a first run of ours imports beside
them (half of it ArviZ) has a column of its own, and is not in the sum.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

CHAINS, STEPS = 4, 100
RNG = np.random.default_rng(0)


def schools(y: Any, sigma: Any) -> None:
    """Eight schools, non-centred."""
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("school", len(y)):
        theta = numpyro.sample("theta", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(mu + tau * theta, sigma), obs=y)


def mixture(x: Any) -> None:
    """The mixture of the demo, in one dimension."""
    w = numpyro.sample("w", dist.Dirichlet(jnp.ones(3)))
    mu = numpyro.sample("mu", dist.Normal(0, 5).expand([3]).to_event(1))
    with numpyro.plate("n", len(x)):
        z = numpyro.sample("z", dist.Categorical(w))
        numpyro.sample("x", dist.Normal(mu[z], 1.0), obs=x)


def hmm(x: Any) -> None:
    """Three states by `scan`."""
    from numpyro.contrib.control_flow import scan

    rows = numpyro.sample("rows", dist.Dirichlet(jnp.full((3, 3), 2.0)).to_event(1))
    mean = numpyro.sample("mean", dist.Normal(0, 5).expand([3]).to_event(1))

    def step(z: Any, x: Any) -> Any:
        z = numpyro.sample("z", dist.Categorical(rows[z]))
        return z, numpyro.sample("x", dist.Normal(mean[z], 1.0), obs=x)

    scan(step, 0, x)


def irt(person: Any, item: Any, y: Any) -> None:
    """Two-parameter item response."""
    with numpyro.plate("items", int(item.max()) + 1):
        a = numpyro.sample("a", dist.LogNormal(0, 0.5))
        b = numpyro.sample("b", dist.Normal(0, 1))
    with numpyro.plate("persons", int(person.max()) + 1):
        theta = numpyro.sample("theta", dist.Normal(0, 1))
    with numpyro.plate("answers", len(y)):
        numpyro.sample("y", dist.Bernoulli(logits=a[item] * (theta[person] - b[item])), obs=y)


def logistic(group: Any, X: Any, y: Any) -> None:
    """Hierarchical logistic regression."""
    tau = numpyro.sample("tau", dist.HalfNormal(1))
    beta = numpyro.sample("beta", dist.Normal(0, 1).expand([X.shape[1]]).to_event(1))
    with numpyro.plate("groups", 20):
        alpha = numpyro.sample("alpha", dist.Normal(0, tau))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Bernoulli(logits=alpha[group] + X @ beta), obs=y)


def gp(x: Any, y: Any) -> None:
    """Gaussian process."""
    length = numpyro.sample("length", dist.InverseGamma(5, 5))
    scale = numpyro.sample("scale", dist.HalfNormal(1))
    noise = numpyro.sample("noise", dist.HalfNormal(1))
    k = scale**2 * jnp.exp(-0.5 * ((x[:, None] - x) / length) ** 2) + (noise**2 + 1e-4) * jnp.eye(len(x))
    numpyro.sample("y", dist.MultivariateNormal(jnp.zeros(len(x)), k), obs=y)


def linear(X: Any, y: Any) -> None:
    """Linear regression."""
    beta = numpyro.sample("beta", dist.Normal(0, 1).expand([X.shape[1]]).to_event(1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1))
    with numpyro.plate("n", len(y)):
        numpyro.sample("y", dist.Normal(X @ beta, sigma), obs=y)


def counts(x: Any, group: Any, y: Any) -> None:
    """Overdispersed counts with an effect for each group."""
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    spread = numpyro.sample("spread", dist.Gamma(2, 0.5))
    tau = numpyro.sample("tau", dist.HalfNormal(1))
    with numpyro.plate("groups", 15):
        alpha = numpyro.sample("alpha", dist.Normal(1, tau))
    with numpyro.plate("n", len(y)):
        mean = jnp.exp(alpha[group] + slope * x)
        numpyro.sample("y", dist.NegativeBinomial2(mean, spread), obs=y)


def volatility(y: Any) -> None:
    """Stochastic volatility: a walk of log scales."""
    step = numpyro.sample("step", dist.Exponential(10))
    h = numpyro.sample("h", dist.GaussianRandomWalk(step, num_steps=len(y)))
    numpyro.sample("y", dist.StudentT(5, 0, jnp.exp(h)).to_event(1), obs=y)


def survival(x: Any, time: Any) -> None:
    """Weibull times."""
    shape = numpyro.sample("shape", dist.Gamma(2, 1))
    beta = numpyro.sample("beta", dist.Normal(0, 1).expand([2]).to_event(1))
    with numpyro.plate("n", len(time)):
        numpyro.sample("time", dist.Weibull(jnp.exp(beta[0] + beta[1] * x), shape), obs=time)


def normal(*shape: int) -> np.ndarray:
    """Standard normal numbers."""
    return RNG.normal(size=shape).astype(np.float32)


def responses(persons: int, items: int) -> tuple[Any, ...]:
    """Who answers what, and how."""
    person, item = np.divmod(np.arange(persons * items), items)
    return person, item, (normal(persons * items) > 0).astype(int)


MODELS: dict[str, tuple[Callable[..., None], Callable[[int], tuple[Any, ...]], bool]] = {
    # function, its arguments by how many rows more they have, whether NumPyro's NUTS can run it
    "schools": (schools, lambda k: (10 * normal(8 + k), np.full(8 + k, 10, np.float32)), True),
    "mixture": (mixture, lambda k: (np.concatenate([normal(150 + k) - 3, normal(150) + 3]),), False),
    "hmm": (hmm, lambda k: (normal(500 + k),), False),
    "irt": (irt, lambda k: responses(50 + k, 20), True),
    "logistic": (
        logistic,
        lambda k: (RNG.integers(0, 20, 500 + k), normal(500 + k, 5), (normal(500 + k) > 0).astype(int)),
        True,
    ),
    "linear": (linear, lambda k: (normal(200 + k, 4), normal(200 + k)), True),
    "counts": (
        counts,
        lambda k: (normal(150 + k), np.arange(150 + k) % 15, RNG.poisson(3, 150 + k)),
        True,
    ),
    "volatility": (volatility, lambda k: (normal(100 + k),), True),
    "survival": (survival, lambda k: (normal(120 + k), np.exp(normal(120 + k))), True),
    "gp": (gp, lambda k: (np.linspace(0, 3, 60 + k, dtype=np.float32), normal(60 + k)), True),
}


def ours(name: str, more: int) -> dict[str, float]:
    """Processor seconds by stage, of ours."""
    began = time.process_time()
    import arviz_stats.base  # noqa: F401 (what diagnostics import when a run first asks them)
    import gibbsite as gb
    from gibbsite.sampling.engines import engine_for
    from gibbsite.sampling.run import Settings

    imported = time.process_time() - began
    fn, data, _ = MODELS[name]
    arguments = data(more)
    marks = [("analysis", time.process_time())]
    model = gb.model(fn, *arguments)
    marks.append(("planning", time.process_time()))
    model.schedule()
    marks.append(("tracing", time.process_time()))
    plan = model.plan()
    engine, _ = engine_for(plan, Settings(STEPS, STEPS, CHAINS, 0, all_chains=CHAINS), None)
    engine.compile(lambda stage, _: marks.append((stage, time.process_time())))
    marks.append(("starts, warm-up and draws", time.process_time()))
    model.sample(draws=STEPS, warmup=STEPS, chains=CHAINS, seed=0)
    marks.append(("", time.process_time()))
    found = dict.fromkeys((stage for stage, _ in marks[:-1]), 0.0)
    for (stage, began), (_, ended) in pairwise(marks):  # a stage may come more than once
        found[stage] += ended - began
    return {**found, "imports": imported, "all": marks[-1][1] - marks[0][1]}


def theirs(name: str) -> dict[str, float]:
    """The same of NumPyro's."""
    from numpyro.infer import MCMC, NUTS

    fn, data, _ = MODELS[name]
    arguments = data(0)
    began = time.process_time()
    run = MCMC(
        NUTS(fn),
        num_warmup=STEPS,
        num_samples=STEPS,
        num_chains=CHAINS,
        chain_method="vectorized",
        progress_bar=False,
    )
    run.run(jax.random.key(0), *arguments)
    jax.block_until_ready(run.get_samples())
    return {"all": time.process_time() - began}


def measured(name: str, how: str, cache: str) -> dict[str, Any]:
    """What a process of its own says."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("JAX_")}
    environment |= {"JAX_PLATFORMS": "cpu", "GIBBSITE_CACHE": cache}
    command = [sys.executable, __file__, "--inside", name, how]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="*", default=list(MODELS), choices=list(MODELS))
    parser.add_argument(
        "--inside", nargs=2, metavar=("MODEL", "HOW"), help="one measurement, in this process"
    )
    asked = parser.parse_args()
    if asked.inside:
        name, how = asked.inside
        print(json.dumps([theirs(name)] if how == "numpyro" else [ours(name, 0), ours(name, 1)]))
        return
    stages = ("imports", "analysis", "planning", "tracing", "compiling", "starts, warm-up and draws", "all")
    print(f"| model | | {' | '.join(stages)} |\n|---|---|{'---:|' * len(stages)}")
    for name in asked.models:
        with tempfile.TemporaryDirectory() as cache:
            first, second = measured(name, "gibbsite", cache)
            next_day, _ = measured(name, "gibbsite", cache)
        rows = {"fresh kernel": first, "second model": second, "next day": next_day}
        if MODELS[name][2]:
            (rows["NumPyro's NUTS"],) = measured(name, "numpyro", "off")
        for kind, row in rows.items():
            cells = " | ".join(f"{row[s]:.1f}" if s in row else "" for s in stages)
            print(f"| {name} | {kind} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
