"""Classic BUGS examples beside JAGS: effective draws per second of processor time.

    python benchmarks/classics.py [rats dyes seeds stagnant] [--rounds 2]
    python benchmarks/classics.py --cases FOLDER [rats pigs …] [--rounds 2]

Both run with their defaults, in turn, four chains of 1000 draws after 1000 of warm-up; JAGS is a process of
its own with its `glm` module. Set-up is everything before the first draw: tracing, derivation and compilation
here, compilation and adaptation there. The data are simulated from the models at values near the published
posteriors, so that nothing has to be fetched. The least bulk ESS of the quantities in the table counts.

With `--cases` the models and the data are those of a folder with `data/NAME.json` and `models/NAME.py`, each
of which has `model`, `args()`, `QUANTITIES` by JAGS's names and, where JAGS finds no start by itself, `INIT`;
their text for JAGS is in `benchmarks/bugs`.
"""

import argparse
import importlib
import json
import pathlib
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import arviz_stats
import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import xarray as xr

RNG = np.random.default_rng(0)
CHAINS = 4


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


@dataclass
class Case:
    """A model for both: the NumPyro function and its arguments, the text and the data of JAGS, where JAGS's
    discrete sites start, and how to read the quantities that count off the draws of either, by name."""

    model: Callable[..., None]
    args: tuple[Any, ...]
    text: str
    data: dict[str, Any]
    monitors: tuple[str, ...]
    ours: Callable[[Any], dict[str, Any]]
    theirs: Callable[[dict[str, Any]], dict[str, Any]]
    starts: dict[str, Any] = field(default_factory=dict)


def simulated(name: str) -> Case:
    """One of the four models above."""
    given, watched = data(name), tuple(WATCHED[name])
    y = np.asarray(given["y"])
    sizes = {"N": len(y)} | ({"T": y.shape[1]} if y.ndim == 2 else {})

    def chosen(draws: Any) -> dict[str, Any]:
        # precisions are taken as standard deviations
        return {n: np.asarray(draws[n], float) ** (-0.5 if n == "tau" else 1) for n in watched}

    text = f"model {{ {JAGS[name]} }}"
    model, args = globals()[name], tuple(given.values())
    return Case(model, args, text, {**given, **sizes}, watched, chosen, chosen)


def of_folder(folder: pathlib.Path, name: str) -> Case:
    """One of the models of a folder of cases."""
    sys.path[:0] = [str(folder)] * (str(folder) not in sys.path)
    module = importlib.import_module(f"models.{name}")
    read = module.QUANTITIES
    names = {q.split("[")[0] for q in read}
    nodes = json.loads((folder / "data" / f"{module.JAGS['data']}.json").read_text())
    args = tuple(module.args())
    # JAGS counts categories from 1; what it draws as counts stands in nodes of other names
    text = (pathlib.Path(__file__).parent / "bugs" / f"{name}.bug").read_text()
    starts = {}
    for site, value in getattr(module, "INIT", lambda *args: {})(*args).items():
        counted = f"{site}1 ~ dbin" in text
        starts[f"{site}1" if counted else site] = np.asarray(value) + (not counted)

    def ours(draws: Any) -> dict[str, Any]:
        return {n: np.asarray(draws[q] if isinstance(q, str) else q(draws), float) for n, q in read.items()}

    return Case(module.model, args, text, nodes, tuple(sorted(names)), ours, lambda draws: draws, starts)


def least_ess(draws: dict[str, np.ndarray]) -> float:
    """Of all elements of `[chain, draw, …]` arrays that vary."""
    worst = np.inf
    for x in draws.values():
        x = np.asarray(x, float).reshape(*np.shape(x)[:2], -1)
        for i in range(x.shape[2]):
            if np.ptp(x[:, :, i]):
                found = arviz_stats.ess(xr.DataArray(x[:, :, i], dims=("chain", "draw"), name="x"))
                worst = min(worst, float(np.asarray(found)))
    return worst


Timed = tuple[dict[str, np.ndarray], float, float]
"""Quantities `[chain, draw, …]` by name, and processor seconds of set-up and of the rest."""


def ours(case: Case, draws: int, seed: int) -> Timed:
    """A run at the defaults."""
    began, marks = time.process_time(), []

    def watch(run: Any) -> None:
        run.subscribe(lambda r: marks or not r.kept.steps or marks.append(time.process_time()))

    run = gb.model(case.model, *case.args).sample(
        draws=draws, warmup=draws, chains=CHAINS, seed=seed, on_start=watch
    )
    end = time.process_time()
    return case.ours(run.draws), marks[0] - began, end - marks[0]


def _dump(given: dict[str, Any]) -> str:
    lines = []
    for name, value in given.items():
        a = np.asarray(value, dtype=object)
        numbers = ", ".join("NA" if v is None or v != v else repr(float(v)) for v in a.ravel(order="F"))
        array = f"structure(c({numbers}), .Dim = c({', '.join(f'{n}L' for n in a.shape)}))"
        lines.append(f'"{name}" <- {array if a.ndim > 1 else f"c({numbers})"}')
    return "\n".join(lines)


def limited(command: list[str], seconds: int | None) -> list[str]:
    """A command that is killed after so many processor seconds, if any are given."""
    return command if seconds is None else ["sh", "-c", f'ulimit -t {seconds}; exec "$@"', "sh", *command]


def jags(case: Case, draws: int, seed: int, limit: int | None = None) -> Timed:
    """As `ours`. A run without draws is what set-up costs. Raises `CalledProcessError` where JAGS fails, or
    is killed after `limit` processor seconds."""

    with tempfile.TemporaryDirectory() as folder:
        home = pathlib.Path(folder)
        (home / "model.bug").write_text(case.text)
        (home / "data.txt").write_text(_dump(case.data))
        for c in range(CHAINS):
            start = f'".RNG.name" <- "base::Mersenne-Twister"\n".RNG.seed" <- {1000 * seed + c + 1}\n'
            (home / f"start{c}.txt").write_text(start + _dump(case.starts))
        starts = "\n".join(f"parameters in start{c}.txt, chain({c + 1})" for c in range(CHAINS))
        monitors = "\n".join(f"monitor {n}" for n in case.monitors)
        model = f"load glm\nmodel in model.bug\ndata in data.txt\ncompile, nchains({CHAINS})\n"
        head = f"{model}{starts}\ninitialize\n"
        (home / "setup.cmd").write_text(head + "exit\n")
        sampled = f"adapt {draws // 2}\nupdate {draws // 2}\n{monitors}\nupdate {draws}\ncoda *\n"
        (home / "run.cmd").write_text(head + sampled + "exit\n")
        seconds = []
        for script in ("setup.cmd", "run.cmd"):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(limited(["jags", script], limit), cwd=home, check=True, capture_output=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        return case.theirs(_coda(home)), seconds[0], seconds[1] - seconds[0]


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
    parser.add_argument("--cases", type=pathlib.Path, help="a folder with data/ and models/")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--draws", type=int, default=1000, help="as many as steps of warm-up before them")
    options = parser.parse_args()
    known = sorted(p.stem for p in (pathlib.Path(__file__).parent / "bugs").glob("*.bug"))
    titles = ("least ESS", "set-up", "run", "ESS/s", "with set-up")
    print(f"{'model':14s} {'sampler':9s} " + "{:>9s} {:>7s} {:>6s} {:>7s} {:>11s}".format(*titles))
    for name in options.names or (known if options.cases else JAGS):
        case = of_folder(options.cases.resolve(), name) if options.cases else simulated(name)
        for seed in range(options.rounds):
            for label, sampler in (("Gibbsite", ours), ("JAGS", jags)):
                found, setup, run = sampler(case, options.draws, seed)
                ess = least_ess(found)
                rates = f"{ess / max(run, 1e-3):7.0f} {ess / (setup + run):11.0f}"
                print(f"{name:14s} {label:9s} {ess:9.0f} {setup:7.2f} {run:6.2f} {rates}", flush=True)


if __name__ == "__main__":
    main()
