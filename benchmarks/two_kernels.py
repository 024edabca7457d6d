"""Where rules leave two good kernels: what the default schedule takes beside what else fits.

    python benchmarks/two_kernels.py [--seeds 3] [--only mixture,hierarchy]

For every model the default schedule and its rivals, each at the defaults (4 × 1000 draws, warm-up until it
has settled), in turn in one process after one run that compiles. A gradient counts as one evaluation, and so
does an exact draw. The table gives the median over seeds of the lowest bulk ESS of all continuous scalars,
with the largest R-hat; of effective draws per 1000 evaluations, warm-up counted; and of effective draws per
processor second after warm-up.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from classics import data, seeds
from default_models import cases
from gibbsite.diagnostics.measures.convergence import all_stats

CHAINS, DRAWS = 4, 1000


class Pair(NamedTuple):
    """A model, its arguments, and the schedules that fit beside the default."""

    fn: Callable[..., None]
    args: tuple[Any, ...]
    rivals: tuple[str, ...]


def effects(g: Any, x: Any, y: Any, groups: int) -> None:
    """Logistic regression with an effect for each group, weakly informative priors."""
    tau = numpyro.sample("tau", dist.HalfNormal(1.0))
    beta = numpyro.sample("beta", dist.Normal(0, 2.0).expand([x.shape[1]]).to_event(1))
    with numpyro.plate("groups", groups):
        b = numpyro.sample("b", dist.Normal(0, tau))
    numpyro.sample("y", dist.Bernoulli(logits=x @ beta + b[g]), obs=y)


def hierarchy(g: Any, y: Any, groups: int) -> None:
    """Two levels of normals, all of it conjugate."""
    mu = numpyro.sample("mu", dist.Normal(0, 10.0))
    tau2 = numpyro.sample("tau2", dist.InverseGamma(1.0, 1.0))
    sigma2 = numpyro.sample("sigma2", dist.InverseGamma(1.0, 1.0))
    with numpyro.plate("groups", groups):
        a = numpyro.sample("a", dist.Normal(mu, jnp.sqrt(tau2)))
    numpyro.sample("y", dist.Normal(a[g], jnp.sqrt(sigma2)), obs=y)


def mixture(y: Any) -> None:
    """Two normals, the lower one first."""
    w = numpyro.sample("w", dist.Dirichlet(jnp.ones(2)))
    ordered = dist.transforms.OrderedTransform()
    mu = numpyro.sample(
        "mu", dist.TransformedDistribution(dist.Normal(0, 2.0).expand([2]).to_event(1), ordered)
    )
    sigma = numpyro.sample("sigma", dist.HalfNormal(2.0))
    with numpyro.plate("n", len(y)):
        z = numpyro.sample("z", dist.Categorical(w))
        numpyro.sample("y", dist.Normal(mu[z], sigma), obs=y)


def disasters(y: Any) -> None:
    """A change point among yearly counts, conjugate but for where it is."""
    before = numpyro.sample("before", dist.Exponential(1.0))
    after = numpyro.sample("after", dist.Exponential(1.0))
    k = numpyro.sample("k", dist.DiscreteUniform(0, len(y) - 1))
    numpyro.sample("y", dist.Poisson(jnp.where(jnp.arange(len(y)) < k, before, after)), obs=y)


def curved(y: Any) -> None:
    """A change point whose levels are not conjugate."""
    level = numpyro.sample("level", dist.Normal(0, 2.0).expand([2]).to_event(1))
    k = numpyro.sample("k", dist.DiscreteUniform(0, len(y) - 1))
    rate = jnp.exp(jnp.where(jnp.arange(len(y)) < k, level[0], level[1]))
    numpyro.sample("y", dist.Poisson(rate), obs=y)


def process(cov: Any, y: Any) -> None:
    """A log-Gaussian Cox process: a strongly correlated prior."""
    f = numpyro.sample("f", dist.MultivariateNormal(jnp.zeros(len(y)), cov))
    numpyro.sample("y", dist.Poisson(jnp.exp(f)).to_event(1), obs=y)


def walk(y: Any) -> None:
    """Stochastic volatility: a random walk behind the scale."""
    f = numpyro.sample("f", dist.GaussianRandomWalk(0.1, len(y)))
    numpyro.sample("y", dist.Normal(0.0, jnp.exp(f)).to_event(1), obs=y)


def _published(folder: Path) -> tuple[Any, ...]:
    """The numbers of seeds, the covariates and the counts of BUGS's example."""
    table = json.loads((folder / "seeds_data.json").read_text())
    one, two = (np.asarray(table[n], "f4") for n in ("x1", "x2"))
    x = np.stack([np.ones_like(one), one, two, one * two], 1)
    return np.asarray(table["N"], "f4"), x, np.asarray(table["n"], "f4")


def pairs(folder: Path | None) -> dict[str, Pair]:
    """Every model, by name."""
    rng = np.random.default_rng(5)
    found: dict[str, Pair] = {}
    rivals = ("NUTS [tau beta b]", "PolyaGamma [tau beta b]")
    found["seeds"] = Pair(seeds, _published(folder) if folder else tuple(data("seeds").values()), rivals)
    g = np.repeat(np.arange(30), 20)
    x = rng.normal(size=(600, 3)).astype("f4")
    y = (rng.random(600) < 1 / (1 + np.exp(-x[:, 0] - rng.normal(size=30)[g]))).astype("i4")
    found["logistic effects, 30 of 20"] = Pair(
        effects, (g, x, y, 30), ("NUTS [tau beta b]", "PolyaGamma [beta b] (*) NUTS tau")
    )
    for size, each in ((8, 4), (50, 20)):
        g = np.repeat(np.arange(size), each)
        y = (rng.normal(size=size)[g] + rng.normal(size=size * each)).astype("f4")
        found[f"normal hierarchy, {size} of {each}"] = Pair(
            hierarchy,
            (g, y, size),
            ("NUTS [mu tau2 sigma2 a]", "Conjugate tau2 (*) Conjugate sigma2 (*) Conjugate [mu a]"),
        )
    for n, apart in ((30, 1.5), (400, 1.0), (400, 1.5), (400, 3.0), (10000, 1.5), (10000, 3.0)):
        y = (np.where(rng.random(n) < 0.4, -apart, apart) + rng.normal(size=n)).astype("f4")
        found[f"mixture, {n} points ±{apart}"] = Pair(
            mixture, (y,), ("Gibbs z (*) Conjugate w (*) NUTS [mu sigma]", "Eliminate z > NUTS [w mu sigma]")
        )
    known = cases()
    found["mixture of three, 200 points"] = Pair(
        known["mixture"].fn,
        known["mixture"].args,
        ("Gibbs z (*) Conjugate w (*) Conjugate mu (*) NUTS sigma", "Eliminate z > NUTS [w mu sigma]"),
    )
    found["HMM"] = Pair(known["HMM"].fn, known["HMM"].args, ("Eliminate s > NUTS [stay shift sigma]",))
    found["occupancy"] = Pair(
        known["occupancy"].fn, known["occupancy"].args, ("Gibbs z (*) NUTS [b p]", "Eliminate z > NUTS [b p]")
    )
    for n, width, scale, level in ((30, 0.3, 1, 0), (30, 0.1, 2, 0), (30, 0.3, 2, 5)):
        t = np.linspace(0, 1, n)
        cov = scale**2 * (np.exp(-0.5 * ((t[:, None] - t) / width) ** 2) + 1e-4 * np.eye(n))
        y = rng.poisson(np.exp(np.sin(6 * t) + level))
        told = f"Cox process, {n} cells, width {width}, prior scale {scale}, counts about {np.mean(y):.0f}"
        found[told] = Pair(process, (cov.astype("f4"), y), ("ESlice f",))
    found["volatility, 100 steps"] = Pair(walk, (rng.normal(size=100).astype("f4"),), ("ESlice f",))
    coal = rng.poisson(np.where(np.arange(110) < 40, 3.0, 1.0))
    found["change point"] = Pair(disasters, (coal,), ("Eliminate k > NUTS [before after]",))
    found["change point, curved"] = Pair(curved, (coal,), ("Eliminate k > NUTS level",))
    return found


class Ran(NamedTuple):
    """Of a run: lowest ESS, largest R-hat, per 1000 evaluations, per processor second after warm-up."""

    ess: float
    rhat: float
    per_evaluation: float
    per_second: float


def ran(model: Any, schedule: str | None, seed: int) -> Ran:
    """A run, judged."""
    marks: list[tuple[int, float]] = []
    run = model.start(draws=DRAWS, chains=CHAINS, seed=seed, schedule=schedule)
    run.subscribe(lambda r: marks.append((r.kept.sampled.steps, time.process_time())))
    run.wait()
    first = next(m for m in marks if m[0])
    last = next(m for m in marks if m[0] == DRAWS)
    seconds = (last[1] - first[1]) * DRAWS / max(last[0] - first[0], 1)
    drawn = {n: np.asarray(v) for n, v in run.draws.items() if model.sites[n].role == "latent"}
    stats = all_stats({n: v for n, v in drawn.items() if v.dtype.kind == "f"})
    ess, rhat = min(s.ess_bulk for s in stats), max(s.rhat for s in stats)
    parts = run.kept.warm_stats, run.kept.sampled_stats
    work = 0.0
    for part in parts:
        read = part.read()
        counted = sum(float(v.sum()) for n, v in read.items() if n.endswith("n_steps"))
        exact = sum(not any(n.startswith(f"{i}.n_steps") for n in read) for i in range(len(run._plan.blocks)))
        work += counted + CHAINS * part.steps * exact
    return Ran(ess, rhat, 1000 * ess / work, ess / max(seconds, 1e-9))


def main() -> None:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--data", type=Path, help="folder with `seeds_data.json`, which are else simulated")
    parser.add_argument("--only", default="", help="names or parts of names, separated by commas")
    options = parser.parse_args()
    wanted = [n.strip() for n in options.only.split(",") if n.strip()]
    print(
        "| model | schedule | ESS of 4000, R-hat | per 1000 evaluations | per second |\n|---|---|---|---|---|"
    )
    for name, pair in pairs(options.data).items():
        if wanted and not any(n in name for n in wanted):
            continue
        model = gb.model(pair.fn, *pair.args)
        usual = model.schedule().text
        texts = [usual, *(t for t in pair.rivals if model.schedule(t).text != usual)]
        for text in texts:
            ran(model, text, 0)  # compiles
        runs: dict[str, list[Ran]] = {t: [] for t in texts}
        for seed in range(1, options.seeds + 1):
            for text in texts:
                runs[text].append(ran(model, text, seed))
        for text in texts:
            a = np.array(runs[text])
            told = f"{np.median(a[:, 0]):.0f}, {a[:, 1].max():.3f} | {np.median(a[:, 2]):.1f}"
            print(f"| {name} | `{text}` | {told} | {np.median(a[:, 3]):.0f} |", flush=True)


if __name__ == "__main__":
    main()
