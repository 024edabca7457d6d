"""Classic BUGS examples beside JAGS: effective draws per second of processor time.

    python benchmarks/classics.py [rats dyes seeds stagnant] [--rounds 2]

Both run with their defaults, in turn, four chains of 1000 draws after 1000 of warm-up; JAGS is a process of
its own with its `glm` module. Set-up is everything before the first draw: tracing, derivation and compilation
here, compilation and adaptation there. The data are simulated from the models at values near the published
posteriors, so that nothing has to be fetched. The least bulk ESS of the quantities in the table counts.
"""

import argparse
import pathlib
import resource
import subprocess
import tempfile
import time
from typing import Any

import arviz_stats
import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import xarray as xr

RNG = np.random.default_rng(0)
CHAINS, WARMUP, DRAWS = 4, 1000, 1000


def rats(x: Any, y: Any) -> None:
    """Thirty growth curves with random intercepts and slopes."""
    tau = numpyro.sample("tau", dist.Gamma(1e-3, 1e-3).expand([3]))
    centre = numpyro.sample("centre", dist.Normal(0, 100.0).expand([2]))
    with numpyro.plate("rats", len(y)):
        a = numpyro.sample("a", dist.Normal(centre[0], tau[0] ** -0.5))
        b = numpyro.sample("b", dist.Normal(centre[1], tau[1] ** -0.5))
    numpyro.sample("y", dist.Normal(a[:, None] + b[:, None] * x, tau[2] ** -0.5), obs=y)


def dyes(y: Any) -> None:
    """Components of variance."""
    tau = numpyro.sample("tau", dist.Gamma(1e-3, 1e-3).expand([2]))
    theta = numpyro.sample("theta", dist.Normal(0, 1e5))
    with numpyro.plate("batches", y.shape[0], dim=-2):
        mu = numpyro.sample("mu", dist.Normal(theta, tau[0] ** -0.5))
        with numpyro.plate("samples", y.shape[1], dim=-1):
            numpyro.sample("y", dist.Normal(mu, tau[1] ** -0.5), obs=y)


def seeds(n: Any, x: Any, y: Any) -> None:
    """Logistic regression with an effect for each plate."""
    tau = numpyro.sample("tau", dist.Gamma(1e-3, 1e-3))
    beta = numpyro.sample("beta", dist.Normal(0, 1000.0).expand([x.shape[1]]).to_event(1))
    with numpyro.plate("plates", len(y)):
        b = numpyro.sample("b", dist.Normal(0, tau**-0.5))
        numpyro.sample("y", dist.Binomial(n, logits=x @ beta + b), obs=y)


def stagnant(x: Any, y: Any) -> None:
    """A change point at one of the data."""
    k = numpyro.sample("k", dist.Categorical(jnp.ones(len(x)) / len(x)))
    alpha = numpyro.sample("alpha", dist.Normal(0, 1000.0))
    beta = numpyro.sample("beta", dist.Normal(0, 1000.0).expand([2]))
    tau = numpyro.sample("tau", dist.Gamma(1e-3, 1e-3))
    side = (jnp.arange(len(x)) > k).astype(int)
    with numpyro.plate("n", len(x)):
        numpyro.sample("y", dist.Normal(alpha + beta[side] * (x - x[k]), tau**-0.5), obs=y)


JAGS = {
    "rats": """for (i in 1:N) { a[i] ~ dnorm(centre[1], tau[1]); b[i] ~ dnorm(centre[2], tau[2])
        for (j in 1:T) { y[i, j] ~ dnorm(a[i] + b[i] * x[j], tau[3]) } }
        for (i in 1:2) { centre[i] ~ dnorm(0, 1.0E-4) } for (i in 1:3) { tau[i] ~ dgamma(1.0E-3, 1.0E-3) }""",
    "dyes": """for (i in 1:N) { mu[i] ~ dnorm(theta, tau[1])
        for (j in 1:T) { y[i, j] ~ dnorm(mu[i], tau[2]) } }
        theta ~ dnorm(0, 1.0E-10); for (i in 1:2) { tau[i] ~ dgamma(1.0E-3, 1.0E-3) }""",
    "seeds": """for (i in 1:N) { b[i] ~ dnorm(0, tau); y[i] ~ dbin(p[i], n[i])
        logit(p[i]) <- inprod(x[i, ], beta) + b[i] }
        for (i in 1:4) { beta[i] ~ dnorm(0, 1.0E-6) } tau ~ dgamma(1.0E-3, 1.0E-3)""",
    "stagnant": """for (i in 1:N) { y[i] ~ dnorm(alpha + beta[J[i]] * (x[i] - x[k]), tau)
        J[i] <- 1 + step(i - k - 0.5); pr[i] <- 1 / N }
        k ~ dcat(pr[]); alpha ~ dnorm(0, 1.0E-6); for (i in 1:2) { beta[i] ~ dnorm(0, 1.0E-6) }
        tau ~ dgamma(1.0E-3, 1.0E-3)""",
}
WATCHED = {
    "rats": {"centre": 2, "tau": 3},
    "dyes": {"theta": 1, "tau": 2},
    "seeds": {"beta": 4, "tau": 1},
    "stagnant": {"k": 1, "alpha": 1, "beta": 2, "tau": 1},
}


def data(name: str) -> dict[str, Any]:
    """Arguments of a model by name."""
    if name == "rats":
        x = np.array([-14.0, -7, 0, 7, 14])
        slopes, levels = RNG.normal(6.2, 0.5, (30, 1)), RNG.normal(242, 14, (30, 1))
        return {"x": x, "y": levels + slopes * x + RNG.normal(0, 6, (30, 5))}
    if name == "dyes":
        return {"y": RNG.normal(1527, 42, (6, 1)) + RNG.normal(0, 50, (6, 5))}
    if name == "seeds":
        one, two = np.repeat([0, 1], [11, 10]), np.tile([0, 1], 11)[:21]
        x, n = np.column_stack([np.ones(21), one, two, one * two]), RNG.integers(4, 81, 21)
        psi = x @ [-0.5, 0.1, 1.3, -0.8] + RNG.normal(0, 0.3, 21)
        return {"n": n, "x": x, "y": RNG.binomial(n, 1 / (1 + np.exp(-psi)))}
    x = np.sort(RNG.uniform(-1.4, 1.2, 29))
    return {"x": x, "y": 0.54 - 0.42 * (x - 0.02) - 0.6 * np.maximum(x - 0.02, 0) + RNG.normal(0, 0.02, 29)}


def least_ess(draws: dict[str, np.ndarray]) -> float:
    """Of all elements of `[chain, draw, …]` arrays. Precisions are taken as standard deviations."""
    worst = np.inf
    for name, x in draws.items():
        x = np.asarray(x, float)
        x = (x**-0.5 if name == "tau" else x).reshape(*x.shape[:2], -1)
        for i in range(x.shape[2]):
            found = arviz_stats.ess(xr.DataArray(x[:, :, i], dims=("chain", "draw"), name="x"))
            worst = min(worst, float(np.asarray(found)))
    return worst


def ours(name: str, given: dict[str, Any], seed: int) -> tuple[float, float, float]:
    """Least ESS, and processor seconds of set-up and of the rest."""
    began, marks = time.process_time(), []

    def watch(run: Any) -> None:
        run.subscribe(lambda r: marks or not r.kept.steps or marks.append(time.process_time()))

    run = gb.model(globals()[name], **given).sample(
        draws=DRAWS, warmup=WARMUP, chains=CHAINS, seed=seed, on_start=watch
    )
    end = time.process_time()
    return least_ess({n: run.draws[n] for n in WATCHED[name]}), marks[0] - began, end - marks[0]


def _dump(given: dict[str, Any]) -> str:
    lines = []
    for name, value in given.items():
        a = np.asarray(value)
        numbers = ", ".join(repr(float(v)) for v in a.ravel(order="F"))
        array = f"structure(c({numbers}), .Dim = c({', '.join(f'{n}L' for n in a.shape)}))"
        lines.append(f'"{name}" <- {array if a.ndim > 1 else f"c({numbers})"}')
    return "\n".join(lines)


def jags(name: str, given: dict[str, Any], seed: int) -> tuple[float, float, float]:
    """As `ours`. A run without draws is what set-up costs."""
    with tempfile.TemporaryDirectory() as folder:
        home = pathlib.Path(folder)
        sizes = {"N": len(given["y"])} | ({"T": given["y"].shape[1]} if np.ndim(given["y"]) == 2 else {})
        (home / "model.bug").write_text(f"model {{ {JAGS[name]} }}")
        (home / "data.txt").write_text(_dump({**given, **sizes}))
        for c in range(CHAINS):
            start = f'".RNG.name" <- "base::Mersenne-Twister"\n".RNG.seed" <- {1000 * seed + c + 1}\n'
            (home / f"start{c}.txt").write_text(start)
        starts = "\n".join(f"parameters in start{c}.txt, chain({c + 1})" for c in range(CHAINS))
        monitors = "\n".join(f"monitor {n}" for n in WATCHED[name])
        model = f"load glm\nmodel in model.bug\ndata in data.txt\ncompile, nchains({CHAINS})\n"
        head = f"{model}{starts}\ninitialize\n"
        (home / "setup.cmd").write_text(head + "exit\n")
        sampled = f"adapt {WARMUP // 2}\nupdate {WARMUP // 2}\n{monitors}\nupdate {DRAWS}\ncoda *\n"
        (home / "run.cmd").write_text(head + sampled + "exit\n")
        seconds = []
        for script in ("setup.cmd", "run.cmd"):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(["jags", script], cwd=home, check=True, capture_output=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        return least_ess(_coda(home)), seconds[0], seconds[1] - seconds[0]


def _coda(home: pathlib.Path) -> dict[str, np.ndarray]:
    rows = [line.split() for line in (home / "CODAindex.txt").read_text().splitlines()]
    chains = [np.loadtxt(home / f"CODAchain{c + 1}.txt")[:, 1] for c in range(CHAINS)]
    out: dict[str, list[np.ndarray]] = {}
    for name, first, last in rows:
        values = np.stack([c[int(first) - 1 : int(last)] for c in chains])
        out.setdefault(name.split("[")[0], []).append(values)
    return {n: np.stack(v, -1) for n, v in out.items()}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    titles = ("least ESS", "set-up", "run", "ESS/s", "with set-up")
    print(f"{'model':10s} {'sampler':9s} " + "{:>9s} {:>7s} {:>6s} {:>7s} {:>11s}".format(*titles))
    for name in options.names or JAGS:
        given = data(name)
        for seed in range(options.rounds):
            for label, sampler in (("Gibbsite", ours), ("JAGS", jags)):
                ess, setup, run = sampler(name, given, seed)
                rates = f"{ess / max(run, 1e-3):7.0f} {ess / (setup + run):11.0f}"
                print(f"{name:10s} {label:9s} {ess:9.0f} {setup:7.2f} {run:6.2f} {rates}", flush=True)


if __name__ == "__main__":
    main()
