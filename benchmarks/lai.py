"""The models of Lai, Burroni, Guan and Sheldon (2023), "Automatically marginalized MCMC", beside ours.

    python benchmarks/lai.py [FOLDER] [--seeds N] [--draws N] [--models NAME …] [--sides NAME …]

FOLDER is a copy of their repository (`lll6924/automatically-marginalized-MCMC`), for its data; what it does
not have is left out. Rates under a beta (70 experiments on rats, batters of 1970 and of one whole season),
the electric company's reading tests and decline of patients' lungs, whose data are not in it: simulated, 60
patients of nine visits. Written here in arrays; there every number is a site of its own, as they need it.

Each runs by the default schedule, by NUTS of all sites, by NumPyro's NUTS on the model as written (*HMC*
there) and on what an expert would leave of it (their *HMC-M* finds that by itself). Told are, of 4 chains,
the fewest effective draws of what an expert leaves, these per processor second with warm-up counted and
compiling not, and R-hat. Medians over seeds.
"""

import argparse
import ast
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from arviz_stats.base import array_stats
from numpyro.infer import MCMC, NUTS

S, plate = numpyro.sample, numpyro.plate
SIDES = ("default", "NUTS of all", "NumPyro", "NumPyro, by hand")
# Efron and Morris (1975): hits of the first 45 times at bat
BATTERS = [18, 17, 16, 15, 14, 14, 13, 12, 11, 11, 10, 10, 10, 10, 10, 9, 8, 7]


class Case(NamedTuple):
    """A model, what an expert leaves of it, and their data."""

    whole: Callable[..., None]
    left: Callable[..., None]
    data: tuple[Any, ...]


def rates(n: Any, y: Any) -> None:
    m, kappa = S("m", dist.Uniform(0, 1)), S("kappa", dist.Pareto(1.0, 1.5))
    with plate("N", len(n)):
        phi = S("phi", dist.Beta(m * kappa, (1 - m) * kappa))
        S("y", dist.Binomial(n, phi), obs=y)


def rates_left(n: Any, y: Any) -> None:
    m, kappa = S("m", dist.Uniform(0, 1)), S("kappa", dist.Pareto(1.0, 1.5))
    with plate("N", len(n)):
        S("y", dist.BetaBinomial(m * kappa, (1 - m) * kappa, n), obs=y)


def electric(grade: Any, y: Any) -> None:
    """Classes in pairs, of which the first was treated."""
    pairs = len(grade)
    mua = S("mua", dist.Normal(0.0, 1.0).expand([4]))
    noise = S("noise", dist.Normal(0.0, 1.0).expand([4]))
    b = S("b", dist.Normal(0.0, 100.0).expand([4]))
    with plate("pairs", pairs):
        a = S("a", dist.Normal(100 * mua[grade], 1.0))
    treated = jnp.arange(2 * pairs) < pairs
    both = jnp.concatenate([grade, grade])
    with plate("N", 2 * pairs):
        mean = jnp.concatenate([a, a]) + treated * b[both]
        S("y", dist.Normal(mean, jnp.exp(noise[both])), obs=y)


def electric_left(grade: Any, y: Any) -> None:
    """Classes of a grade have in common the pair's level, and treated ones the treatment's effect."""
    pairs = len(grade)
    mua = S("mua", dist.Normal(0.0, 1.0).expand([4]))
    noise = S("noise", dist.Normal(0.0, 1.0).expand([4]))
    both = np.concatenate([grade, grade])
    treated = np.arange(2 * pairs) < pairs
    pair = np.arange(2 * pairs) % pairs
    shared = np.float32(np.equal.outer(pair, pair))
    shared += 1e4 * np.float32(np.equal.outer(both, both) & np.logical_and.outer(treated, treated))
    cov = shared + jnp.diag(jnp.exp(2 * noise[both]))
    S("y", dist.MultivariateNormal(100 * mua[both], cov), obs=y)


def patients(weeks: Any, y: Any) -> None:
    ma, sa = S("ma", dist.Normal(0.0, 500.0)), S("sa", dist.HalfCauchy(100.0))
    mb, sb = S("mb", dist.Normal(0.0, 3.0)), S("sb", dist.HalfCauchy(3.0))
    s = S("s", dist.HalfCauchy(100.0))
    with plate("patients", len(y), dim=-2):
        a, b = S("a", dist.Normal(ma, sa)), S("b", dist.Normal(mb, sb))
        with plate("visits", y.shape[1], dim=-1):
            S("y", dist.Normal(a + b * weeks, s), obs=y)


def patients_left(weeks: Any, y: Any) -> None:
    ma, sa = S("ma", dist.Normal(0.0, 500.0)), S("sa", dist.HalfCauchy(100.0))
    mb, sb = S("mb", dist.Normal(0.0, 3.0)), S("sb", dist.HalfCauchy(3.0))
    s = S("s", dist.HalfCauchy(100.0))
    eye = jnp.eye(y.shape[1])
    cov = sa**2 + sb**2 * weeks[:, :, None] * weeks[:, None] + s**2 * eye
    with plate("patients", len(y)):
        S("y", dist.MultivariateNormal(ma + mb * weeks, cov), obs=y)


def cases(folder: Path | None) -> dict[str, Case]:
    """The models with their data."""
    r, out = np.random.default_rng(5), {}
    out["batters of 1970"] = Case(rates, rates_left, (np.full(18, 45), np.array(BATTERS)))
    for name, file in (("rats", "rat_tumors.txt"), ("batters of a season", "baseball_large.txt")):
        if folder is not None and (path := folder / "data" / file).exists():
            y, n = np.loadtxt(path, dtype=int).T
            out[name] = Case(rates, rates_left, (n, y))
    if folder is not None and (path := folder / "dataset" / "electric.py").exists():
        known = {
            node.targets[0].id: ast.literal_eval(node.value)
            for node in ast.parse(path.read_text()).body
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and _listed(node.value)
        }
        grade = np.array(known["grade_pair"]) - 1
        out["electric company"] = Case(electric, electric_left, (grade, np.float32(known["y"])))
    weeks = np.float32(np.sort(r.integers(0, 60, (60, 9)), axis=1))
    level, slope = r.normal(2700, 800, (60, 1)), r.normal(-4, 4, (60, 1))
    y = np.float32(level + slope * weeks + r.normal(0, 150, weeks.shape))
    out["patients, simulated"] = Case(patients, patients_left, (weeks, y))
    return out


def _listed(node: ast.expr) -> bool:
    return isinstance(node, ast.List)


def numbers(draws: Mapping[str, Any], sites: list[str]) -> tuple[float, float]:
    """R-hat and effective draws of the worst number, of draws `[chain, draw, …]` by site."""
    found = [np.asarray(draws[n], float) for n in sites]
    flat = [v.reshape(*v.shape[:2], -1)[..., i] for v in found for i in range(int(np.prod(v.shape[2:])))]
    rhat = max(float(array_stats.rhat(v, chain_axis=0, draw_axis=1)) for v in flat)
    return rhat, min(float(array_stats.ess(v, chain_axis=0, draw_axis=1)) for v in flat)


def ours(case: Case, schedule: str | None, sites: list[str], draws: int, seed: int) -> tuple[float, ...]:
    """R-hat, fewest effective draws, and these per processor second."""
    model = gb.model(case.whole, *case.data)
    model.sample(draws=20, chains=4, seed=99, schedule=schedule)  # compiles
    began = time.process_time()
    run = model.sample(draws=draws, chains=4, seed=seed, schedule=schedule)
    seconds = time.process_time() - began
    rhat, ess = numbers(run.draws, sites)
    return rhat, ess, ess / seconds


def theirs(case: Case, fn: Callable[..., None], sites: list[str], draws: int, seed: int) -> tuple[float, ...]:
    """The same by NumPyro."""
    kernel = MCMC(
        NUTS(fn),
        num_warmup=1000,
        num_samples=draws,
        num_chains=4,
        chain_method="vectorized",
        progress_bar=False,
    )
    kernel.run(jax.random.key(99), *case.data)  # compiles
    began = time.process_time()
    kernel.run(jax.random.key(seed), *case.data)
    found = jax.block_until_ready(kernel.get_samples(group_by_chain=True))
    seconds = time.process_time() - began
    rhat, ess = numbers(found, sites)
    return rhat, ess, ess / seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--models", nargs="+")
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=SIDES)
    asked = parser.parse_args()
    print("R-hat; fewest effective draws; a processor second")
    print("| model |", " | ".join(asked.sides), "|")
    print("|---" * (1 + len(asked.sides)) + "|")
    known = cases(asked.folder)
    for name in asked.models or known:
        case, cells = known[name], []
        left = gb.model(case.left, *case.data)
        sites = [n for n, s in left.sites.items() if s.role == "latent"]
        sides = {
            "default": lambda seed, c=case, s=sites: ours(c, None, s, asked.draws, seed),
            "NUTS of all": lambda seed, c=case, s=sites: ours(c, "NUTS *", s, asked.draws, seed),
            "NumPyro": lambda seed, c=case, s=sites: theirs(c, c.whole, s, asked.draws, seed),
            "NumPyro, by hand": lambda seed, c=case, s=sites: theirs(c, c.left, s, asked.draws, seed),
        }
        for side in asked.sides:
            rhat, ess, rate = np.median([sides[side](seed) for seed in range(asked.seeds)], axis=0)
            cells.append(f"{rhat:.3f}; {ess:,.0f}; {rate:,.0f}")
        text = gb.model(case.whole, *case.data).schedule().text
        print(f"| {name}: `{text}` |", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
