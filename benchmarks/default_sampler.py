"""The default schedule against NumPyro's NUTS on each model as written, and on the better of its two forms.

    python benchmarks/default_sampler.py --seeds 10
    python benchmarks/default_sampler.py --seeds 1 --models "eight schools,funnel"

Data are simulated here, from fixed seeds; eight schools has its own. NumPyro runs 1000 + 1000 steps in 4
chains on the model as written and, where it has a hierarchy, with that non-centred
(`LocScaleReparam(0)`); ours is `model.sample(seed=seed)`, and `--warmup` sets its warm-up.

Effective draws are the lowest bulk ESS of all scalars of the model as written; gradients are leapfrog steps
of all chains, those of warm-up included. The last column is the median over the seeds of the ratio of ESS per
gradient, ours over the better form's. Losses stand in the table as they are.
"""

import argparse
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from gibbsite.sampling.watch.diagnostics import all_stats
from numpyro.contrib.control_flow import scan
from numpyro.handlers import reparam
from numpyro.infer import MCMC, NUTS
from numpyro.infer.reparam import LocScaleReparam

CHAINS, STEPS = 4, 1000
RNG = np.random.default_rng(2026)


class Case(NamedTuple):
    """A model as people write it, its arguments, and the sites that its other form has non-centred."""

    fn: Callable[..., None]
    args: tuple[Any, ...]
    hierarchy: tuple[str, ...] = ()


def eight_schools(sigma: Any, y: Any) -> None:
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("school", len(y)):
        theta = numpyro.sample("theta", dist.Normal(mu, tau))
        numpyro.sample("y", dist.Normal(theta, sigma), obs=y)


def funnel() -> None:
    v = numpyro.sample("v", dist.Normal(0, 3))
    numpyro.sample("x", dist.Normal(0, jnp.exp(v / 2)).expand([9]).to_event(1))


def groups(g: Any, y: Any, n: int) -> None:
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfNormal(2))
    sigma = numpyro.sample("sigma", dist.HalfNormal(2))
    with numpyro.plate("group", n):
        a = numpyro.sample("a", dist.Normal(mu, tau))
    numpyro.sample("y", dist.Normal(a[g], sigma), obs=y)


def groups_by_hand(g: Any, y: Any, n: int) -> None:
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfNormal(2))
    sigma = numpyro.sample("sigma", dist.HalfNormal(2))
    with numpyro.plate("group", n):
        z = numpyro.sample("z", dist.Normal(0, 1))
    numpyro.sample("y", dist.Normal((mu + tau * z)[g], sigma), obs=y)


def radon(g: Any, floor: Any, uranium: Any, y: Any) -> None:
    gamma = numpyro.sample("gamma", dist.Normal(0, 5).expand([2]).to_event(1))
    slope = numpyro.sample("slope", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(1))
    sigma = numpyro.sample("sigma", dist.HalfCauchy(1))
    with numpyro.plate("county", len(uranium)):
        a = numpyro.sample("a", dist.Normal(gamma[0] + gamma[1] * uranium, tau))
    numpyro.sample("y", dist.Normal(a[g] + slope * floor, sigma), obs=y)


def logistic(x: Any, y: Any) -> None:
    b = numpyro.sample("b", dist.Normal(0, 2).expand([x.shape[1]]).to_event(1))
    numpyro.sample("y", dist.Bernoulli(logits=x @ b), obs=y)


def shrunken(x: Any, y: Any) -> None:
    tau = numpyro.sample("tau", dist.LogNormal(0, 1))
    scale = numpyro.sample("scale", dist.LogNormal(0, 1).expand([x.shape[1]]).to_event(1))
    b = numpyro.sample("b", dist.Normal(0, tau * scale).to_event(1))
    numpyro.sample("y", dist.Bernoulli(logits=x @ b), obs=y)


def horseshoe(x: Any, y: Any) -> None:
    tau = numpyro.sample("tau", dist.HalfCauchy(0.1))
    scale = numpyro.sample("scale", dist.HalfCauchy(1).expand([x.shape[1]]).to_event(1))
    b = numpyro.sample("b", dist.Normal(0, tau * scale).to_event(1))
    numpyro.sample("y", dist.Bernoulli(logits=x @ b), obs=y)


def item_response(person: Any, item: Any, y: Any, people: int, items: int) -> None:
    spread = numpyro.sample("spread", dist.HalfNormal(1))
    with numpyro.plate("people", people):
        ability = numpyro.sample("ability", dist.Normal(0, 1))
    with numpyro.plate("items", items):
        difficulty = numpyro.sample("difficulty", dist.Normal(0, spread))
        slope = numpyro.sample("slope", dist.LogNormal(0, 0.5))
    logits = slope[item] * (ability[person] - difficulty[item])
    numpyro.sample("y", dist.Bernoulli(logits=logits), obs=y)


def volatility(y: Any) -> None:
    phi = numpyro.sample("phi", dist.Beta(20, 1.5))
    sigma = numpyro.sample("sigma", dist.HalfNormal(0.5))

    def step(h: Any, y: Any) -> tuple[Any, None]:
        h = numpyro.sample("h", dist.Normal(phi * h, sigma))
        numpyro.sample("y", dist.Normal(0, jnp.exp(h / 2)), obs=y)
        return h, None

    scan(step, 0.0, jnp.asarray(y))


def elections(state: Any, age: Any, y: Any) -> None:
    mu = numpyro.sample("mu", dist.Normal(0, 2))
    spread = numpyro.sample("spread", dist.HalfNormal(1).expand([2]).to_event(1))
    with numpyro.plate("state", 20):
        a = numpyro.sample("a", dist.Normal(mu, spread[0]))
    with numpyro.plate("age", 6):
        b = numpyro.sample("b", dist.Normal(0, spread[1]))
    numpyro.sample("y", dist.Bernoulli(logits=a[state] + b[age]), obs=y)


def heavy_tails(g: Any, y: Any, n: int) -> None:
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfNormal(2))
    with numpyro.plate("group", n):
        a = numpyro.sample("a", dist.StudentT(4.0, mu, tau))
    numpyro.sample("y", dist.Normal(a[g], 1.0), obs=y)


def process(x: Any, y: Any) -> None:
    length = numpyro.sample("length", dist.LogNormal(-1, 0.5))
    size = numpyro.sample("size", dist.HalfNormal(1))
    k = size**2 * jnp.exp(-0.5 * ((x[:, None] - x) / length) ** 2) + 1e-3 * jnp.eye(len(x))
    f = numpyro.sample("f", dist.MultivariateNormal(0.0, k))
    numpyro.sample("y", dist.Poisson(jnp.exp(f)), obs=y)


def counts(g: Any, y: Any, n: int) -> None:
    mu = numpyro.sample("mu", dist.Normal(0, 2))
    tau = numpyro.sample("tau", dist.HalfNormal(1))
    with numpyro.plate("group", n):
        a = numpyro.sample("a", dist.Normal(mu, tau))
    numpyro.sample("y", dist.Poisson(jnp.exp(a[g])), obs=y)


def _groups(sizes: Any, tau: float = 1.0) -> tuple[Any, ...]:
    g = np.repeat(np.arange(len(sizes)), sizes)
    return g, (tau * RNG.normal(size=len(sizes))[g] + RNG.normal(size=len(g))).astype("f4"), len(sizes)


def cases() -> dict[str, Case]:
    """Every model, by name."""
    sigma = np.array([15, 10, 16, 11, 9, 11, 10, 18], "f4")
    effect = np.array([28, 8, -3, 7, -1, 1, 18, 12], "f4")
    county = np.sort(RNG.integers(0, 40, 400))
    floor, uranium = (RNG.random(400) < 0.2).astype("f4"), RNG.normal(size=40).astype("f4")
    level = 1 + 0.7 * uranium + 0.15 * RNG.normal(size=40)
    radon_y = (level[county] - 0.6 * floor + 0.8 * RNG.normal(size=400)).astype("f4")
    mix = RNG.normal(size=(20, 20)) + 2
    x = (RNG.normal(size=(300, 20)) @ mix).astype("f4")
    x /= x.std(0)
    label = (RNG.random(300) < 1 / (1 + np.exp(-x[:, 0] + x[:, 1]))).astype("i4")
    apart = RNG.normal(size=(200, 15)).astype("f4")
    few = (RNG.random(200) < 1 / (1 + np.exp(-2 * apart[:, 0]))).astype("i4")
    person, item = (a.ravel() for a in np.meshgrid(np.arange(40), np.arange(12), indexing="ij"))
    answer = RNG.random(480) < 1 / (1 + np.exp(-RNG.normal(size=40)[person] + RNG.normal(size=12)[item]))
    state, age = RNG.integers(0, 20, 500), RNG.integers(0, 6, 500)
    vote = RNG.random(500) < 1 / (1 + np.exp(-0.5 * RNG.normal(size=20)[state]))
    times = np.linspace(0, 1, 20).astype("f4")
    g, _, n = _groups([5] * 20)
    return {
        "eight schools": Case(eight_schools, (sigma, effect), ("theta",)),
        "funnel": Case(funnel, (), ("x",)),
        "radon-like": Case(radon, (county, floor, uranium, radon_y), ("a",)),
        "unequal groups": Case(groups, _groups([2] * 20 + [100] * 20), ("a",)),
        "large groups by hand": Case(groups_by_hand, _groups([60] * 30)),
        "unequal groups with t effects": Case(heavy_tails, _groups([1] * 10 + [40] * 10), ("a",)),
        "group counts": Case(counts, (g, RNG.poisson(2, len(g)), n), ("a",)),
        "election-like": Case(elections, (state, age, vote.astype("i4")), ("a", "b")),
        "correlated logistic": Case(logistic, (x, label)),
        "shrunken logistic": Case(shrunken, (apart, few), ("b",)),
        "horseshoe": Case(horseshoe, (apart, few), ("b",)),
        "2PL": Case(item_response, (person, item, answer.astype("i4"), 40, 12), ("difficulty",)),
        "stochastic volatility by scan": Case(volatility, (RNG.normal(size=100).astype("f4"),)),
        "Gaussian process of counts": Case(process, (times, RNG.poisson(2, 20))),
    }


class Found(NamedTuple):
    """Lowest ESS, largest R-hat, gradients and divergences of a run."""

    ess: float
    rhat: float
    gradients: int
    divergent: int

    @property
    def rate(self) -> float:
        """Effective draws per thousand gradients."""
        return 1000 * self.ess / self.gradients


def judged(draws: Mapping[str, Any], gradients: int, divergent: int) -> Found:
    """The figures of draws `[chain, draw, …]`."""
    stats = all_stats({n: np.asarray(v) for n, v in draws.items()})
    return Found(min(s.ess_bulk for s in stats), max(s.rhat for s in stats), gradients, divergent)


def ours(case: Case, seed: int, warmup: int) -> Found:
    """The default schedule; sweeps of blocks without gradients count one gradient each."""
    model = gb.model(case.fn, *case.args)
    run = model.sample(seed=seed, chains=CHAINS, warmup=warmup, draws=STEPS, keep_warmup=True)
    parts = (run.kept.warm_stats.read(), run.kept.sampled_stats.read())
    steps = sum(int(v.sum()) for part in parts for n, v in part.items() if n.endswith("n_steps"))
    sweeps = CHAINS * (warmup + STEPS) * sum(b.kernel != "NUTS" for b in run._plan.blocks)
    divergent = sum(int(v.sum()) for n, v in parts[1].items() if n.endswith("diverging"))
    latents = {n: v for n, v in run.draws.items() if model.sites[n].role == "latent"}
    return judged(latents, steps + sweeps, divergent)


def numpyro_nuts(fn: Callable[..., None], case: Case, seed: int) -> Found:
    """NumPyro's NUTS, 1000 + 1000 steps."""
    mcmc = MCMC(
        NUTS(fn),
        num_warmup=STEPS,
        num_samples=STEPS,
        num_chains=CHAINS,
        chain_method="vectorized",
        progress_bar=False,
    )
    mcmc.warmup(jax.random.key(seed), *case.args, extra_fields=("num_steps",), collect_warmup=True)
    before = int(np.asarray(mcmc.get_extra_fields()["num_steps"]).sum())
    mcmc.run(jax.random.key(seed), *case.args, extra_fields=("num_steps", "diverging"))
    extra = mcmc.get_extra_fields()
    draws = {n: v for n, v in mcmc.get_samples(group_by_chain=True).items() if "_decentered" not in n}
    steps = before + int(np.asarray(extra["num_steps"]).sum())
    return judged(draws, steps, int(np.asarray(extra["diverging"]).sum()))


def row(name: str, case: Case, seeds: int, warmup: int) -> str:
    """One line of the table."""
    mine, theirs, ratios = [], {}, []
    forms = {"as written": case.fn}
    if case.hierarchy:
        forms["non-centred"] = reparam(case.fn, config={n: LocScaleReparam(0.0) for n in case.hierarchy})
    for seed in range(seeds):
        mine.append(ours(case, seed, warmup))
        for form, fn in forms.items():
            theirs.setdefault(form, []).append(numpyro_nuts(fn, case, seed))
        ratios.append(mine[-1].rate / max(found[-1].rate for found in theirs.values()))

    def told(found: list[Found]) -> str:
        rate, rhat = np.median([f.rate for f in found]), max(f.rhat for f in found)
        return f"{rate:.1f} ({np.median([f.ess for f in found]):.0f}, {rhat:.3f})"

    other = told(theirs["non-centred"]) if "non-centred" in theirs else "–"
    return f"| {name} | {told(mine)} | {told(theirs['as written'])} | {other} | {np.median(ratios):.2f} |"


def main() -> None:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--warmup", type=int, default=1000, help="of our side")
    parser.add_argument("--models", default="", help="names, separated by commas; default: all")
    options = parser.parse_args()
    wanted = [n.strip() for n in options.models.split(",") if n.strip()]
    print("ESS per 1000 gradients (lowest ESS of 4000 draws, largest R-hat)\n")
    print("| model | ours | NumPyro, as written | NumPyro, non-centred | ratio to the better |")
    print("|---|---|---|---|---|")
    for name, case in cases().items():
        if not wanted or name in wanted:
            print(row(name, case, options.seeds, options.warmup), flush=True)


if __name__ == "__main__":
    main()
