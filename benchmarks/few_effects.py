"""Trajectories that move effects and the scales of few of them: how often do they diverge?

    python benchmarks/few_effects.py [--seeds 3] [--intercepts]

Twenty-four coefficients of a regression of a hundred data, in groups with a scale each, or all of one scale
(one group of few effects): every third group is large, the others next to nothing. Four chains of 600 + 1500
steps of NUTS in learnt coordinates, and of NUTS with the coefficients integrated out; of each run the
divergent transitions, and sweeps for an effective draw of the slowest number. With `--intercepts` of groups
of six data, with a mean, a slope and one scale of all.
"""

import argparse
import warnings
from typing import Any

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from regret import worst

PRIORS = {
    "HalfCauchy(1)": dist.HalfCauchy(1.0),
    "HalfNormal(1)": dist.HalfNormal(1.0),
    "Gamma(2, 2)": dist.Gamma(2.0, 2.0),
    "LogNormal(0, 1)": dist.LogNormal(0.0, 1.0),
    "InverseGamma(2, 1)": dist.InverseGamma(2.0, 1.0),
}
SIZES = (1, 2, 4, 8, 24)
INTERCEPTS = (4, 5, 6, 8, 10, 14)
SCHEDULES = ("NUTS [tau s lam b]", "Eliminate b > NUTS [tau s lam]")
MEANS = ("NUTS [mu slope tau s b]", "Eliminate [mu slope b] > NUTS [tau s]")
NUMBERS, DATA = 24, 100


def groups(prior: dist.Distribution, X: Any, y: Any, size: int) -> None:
    """Groups of `size` coefficients, with a scale of each under a prior, and one of all."""
    tau = numpyro.sample("tau", dist.HalfCauchy(1.0))
    s = numpyro.sample("s", dist.HalfNormal(2.0))
    with numpyro.plate("group", NUMBERS // size, dim=-2):
        lam = numpyro.sample("lam", prior)
        with numpyro.plate("effect", size, dim=-1):
            b = numpyro.sample("b", dist.Normal(0, lam * tau))
    with numpyro.plate("N", len(y)):
        numpyro.sample("y", dist.Normal(X @ jnp.ravel(b), s), obs=y)


def data(size: int) -> tuple[np.ndarray, np.ndarray]:
    """Covariates and outcomes."""
    rng = np.random.default_rng(size)
    X = rng.normal(size=(DATA, NUMBERS)).astype(np.float32)
    scale = np.repeat(np.where(np.arange(NUMBERS // size) % 3 == 0, 2.0, 0.02), size)
    return X, (X @ (scale * rng.normal(size=NUMBERS)) + rng.normal(size=DATA)).astype(np.float32)


def intercepts(prior: dist.Distribution, g: Any, x: Any, y: Any, count: int) -> None:
    """Effects of `count` groups, whose scale has a prior."""
    mu, slope = (numpyro.sample(n, dist.Normal(0.0, 5.0)) for n in ("mu", "slope"))
    tau, s = numpyro.sample("tau", prior), numpyro.sample("s", dist.HalfNormal(5.0))
    with numpyro.plate("J", count):
        b = numpyro.sample("b", dist.Normal(mu, tau))
    numpyro.sample("y", dist.Normal(b[g] + slope * x, s), obs=y)


def in_groups(count: int) -> tuple[np.ndarray, ...]:
    """Groups, a covariate and outcomes, with effects as large as the noise."""
    rng, g = np.random.default_rng(count), np.repeat(np.arange(count), 6)
    x = rng.normal(size=len(g))
    y = rng.normal(size=count)[g] + 0.5 * x + rng.normal(size=len(g))
    return g, x.astype(np.float32), y.astype(np.float32)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--small", action="store_true", help="one prior, two sizes")
    parser.add_argument("--intercepts", action="store_true", help="of few groups, and one scale")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print("| prior of a scale | effects of each | schedule | divergent transitions | sweeps |")
    print("|---|---|---|---|---|")
    sizes, schedules = (INTERCEPTS, MEANS) if options.intercepts else (SIZES, SCHEDULES)
    for prior, distribution in [*PRIORS.items()][: 1 if options.small else None]:
        for size in sizes[: 2 if options.small else None]:
            if options.intercepts:
                model = gb.model(intercepts, distribution, *in_groups(size), size)
            else:
                model = gb.model(groups, distribution, *data(size), size)
            for text in schedules:
                diverged, sweeps = [], []
                for seed in range(1, 1 + options.seeds):
                    run = model.sample(draws=1500, warmup=600, chains=4, seed=seed, schedule=text)
                    diverged.append(str(sum(run.snapshot().divergences)))
                    sweeps.append(f"{6000 / worst(run):.1f}")
                print(
                    f"| {prior} | {size} | `{text}` | {', '.join(diverged)} | {', '.join(sweeps)} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
