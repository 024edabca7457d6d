"""Which kernel for a vector with a Gaussian prior and a likelihood that is not conjugate to it.

    python benchmarks/gaussian_priors.py [--rounds 3]

Runs of NUTS and ESlice over the same sites, in turn: the lowest bulk ESS of all elements over the
seconds of the whole run, warm-up included, after one run that compiles. What the default schedule rests on.
"""

import argparse
import time
from collections.abc import Iterator
from typing import Any

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from nuts_numpyro import lowest_ess

CHAINS, WARMUP, DRAWS = 4, 500, 1000
RNG = np.random.default_rng(0)


def process(cov: Any, y: Any) -> None:
    """A log-Gaussian Cox process: strongly correlated prior, few counts."""
    f = numpyro.sample("f", dist.MultivariateNormal(jnp.zeros(len(y)), cov))
    numpyro.sample("y", dist.Poisson(jnp.exp(f)).to_event(1), obs=y)


def walk(y: Any) -> None:
    """Stochastic volatility: a random walk behind the scale."""
    f = numpyro.sample("f", dist.GaussianRandomWalk(0.1, len(y)))
    numpyro.sample("y", dist.Normal(0.0, jnp.exp(f)).to_event(1), obs=y)


def logistic(x: Any, y: Any) -> None:
    """Regression with many observations per coefficient."""
    f = numpyro.sample("f", dist.Normal(0.0, 1.0).expand([x.shape[1]]).to_event(1))
    numpyro.sample("y", dist.Bernoulli(logits=x @ f).to_event(1), obs=y)


def groups(y: Any) -> None:
    """Effects of groups around a common mean, few counts in each."""
    mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
    with numpyro.plate("g", len(y)):
        f = numpyro.sample("f", dist.Normal(mean, 0.5))
        numpyro.sample("y", dist.Poisson(jnp.exp(f)), obs=y)


def scalar(y: Any) -> None:
    """One location of a heavy-tailed likelihood."""
    f = numpyro.sample("f", dist.Normal(0.0, 10.0))
    with numpyro.plate("n", len(y)):
        numpyro.sample("y", dist.Cauchy(f, 1.0), obs=y)


def cases() -> Iterator[tuple[str, Any, tuple]]:
    for n, width, scale, level in ((30, 0.3, 1, 0), (30, 0.1, 2, 0), (30, 0.3, 2, 5)):
        t = np.linspace(0, 1, n)
        cov = scale**2 * (np.exp(-0.5 * ((t[:, None] - t) / width) ** 2) + 1e-4 * np.eye(n))
        y = RNG.poisson(np.exp(np.sin(6 * t) + level))
        told = f"Cox process, 30 cells, width {width}, prior scale {scale}, counts about {np.mean(y):.0f}"
        yield told, process, (cov.astype(np.float32), y)
    yield "volatility, 100 steps", walk, (RNG.normal(size=100).astype(np.float32),)
    x = RNG.normal(size=(300, 10)).astype(np.float32)
    yield "logistic, 10 × 300", logistic, (x, (RNG.uniform(size=300) < 0.5).astype(np.int32))
    yield "20 groups of counts", groups, (RNG.poisson(2.0, 20),)
    yield "Cauchy location", scalar, (RNG.standard_cauchy(30).astype(np.float32),)


def main() -> None:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    print("| model | NUTS, ESS / s | ESlice, ESS / s | ESlice / NUTS |\n|---|---|---|---|")
    for name, fn, args in cases():
        model = gb.model(fn, *args)
        rest = " (*) NUTS mean" if "mean" in model.sites else ""
        rates: dict[str, list[float]] = {}
        for seed in range(rounds + 1):
            for kernel in ("NUTS", "ESlice"):
                start = time.perf_counter()
                run = model.sample(
                    draws=DRAWS, warmup=WARMUP, chains=CHAINS, seed=seed, schedule=f"{kernel} f{rest}"
                )
                spent = time.perf_counter() - start
                if seed:
                    rates.setdefault(kernel, []).append(lowest_ess(dict(run.draws)) / spent)
        nuts, eslice = (np.array(rates[k]) for k in ("NUTS", "ESlice"))
        told = f"{np.median(nuts):.0f} | {np.median(eslice):.0f} | {np.median(eslice / nuts):.2f}"
        print(f"| {name} | {told} |", flush=True)


if __name__ == "__main__":
    main()
