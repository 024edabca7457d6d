"""NUTS in a run against `numpyro.infer.MCMC`: effective draws per second, same model, chains and steps.

    python benchmarks/nuts_numpyro.py --data FOLDER --rounds 7

FOLDER holds `radon_mn.json` (posteriordb's radon_mn: county_idx, floor_measure, log_radon) and
`german_credit_numeric.csv` (UCI's Statlog German credit, numeric form: 24 columns and the class); without it
only eight schools are run.

Both sides compile once before the clock starts; then they run in turn, each round with a seed of its own. A
round's figure is the lowest bulk ESS of all scalars over the seconds that the whole run took, warm-up, draws
on the host and, on our side, the measures in mid-run included; the final ones, which NumPyro leaves to its
summary, are not. Reported are the median over the
rounds of the ratio of the two, and the ratio of all rounds together (total ESS over total seconds, with its
jackknife error), by the clock and by the processor time of all threads: a round's ESS and the length of its
trajectories vary with the step size that its seed's warm-up found, on either side.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from gibbsite.diagnostics.measures.convergence import all_stats
from numpyro.infer import MCMC, NUTS

CHAINS, WARMUP = 4, 1000
Timed = tuple[dict[str, Any], np.ndarray]


def clocks() -> np.ndarray:
    """Seconds by the clock, and of processor time."""
    return np.array([time.perf_counter(), time.process_time()])


def eight_schools(y: Any, sigma: Any) -> None:
    mu = numpyro.sample("mu", dist.Normal(0.0, 5.0))
    tau = numpyro.sample("tau", dist.HalfCauchy(5.0))
    with numpyro.plate("school", 8):
        theta = numpyro.sample("theta", dist.Normal(0.0, 1.0))
        numpyro.sample("y", dist.Normal(mu + tau * theta, sigma), obs=y)


def radon(county: Any, floor: Any, y: Any, counties: int) -> None:
    mu = numpyro.sample("mu", dist.Normal(0.0, 5.0))
    tau = numpyro.sample("tau", dist.HalfNormal(1.0))
    slope = numpyro.sample("slope", dist.Normal(0.0, 5.0))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1.0))
    with numpyro.plate("county", counties):
        a = numpyro.sample("a", dist.Normal(0.0, 1.0))
    with numpyro.plate("house", len(y)):
        numpyro.sample("y", dist.Normal(mu + tau * a[county] + slope * floor, sigma), obs=y)


def german_credit(x: Any, y: Any) -> None:
    b = numpyro.sample("b", dist.Normal(0.0, 1.0).expand([x.shape[1]]).to_event(1))
    with numpyro.plate("loan", len(y)):
        numpyro.sample("y", dist.Bernoulli(logits=x @ b), obs=y)


def models(folder: Path | None) -> Iterator[tuple[str, Callable, tuple, int]]:
    """Name, function, arguments and draws per chain of each: runs of seconds, not of fixed costs."""
    y = np.array([28, 8, -3, 7, -1, 1, 18, 12], np.float32)
    yield "eight schools", eight_schools, (y, np.array([15, 10, 16, 11, 9, 11, 10, 18], np.float32)), 10_000
    if folder is None:
        return
    table = json.loads((folder / "radon_mn.json").read_text())
    county = np.asarray(table["county_idx"]) - 1
    floor, log_radon = (np.asarray(table[n], np.float32) for n in ("floor_measure", "log_radon"))
    yield f"radon, {len(county)} houses", radon, (county, floor, log_radon, int(county.max()) + 1), 2000
    rows = np.loadtxt(folder / "german_credit_numeric.csv", delimiter=",", skiprows=1, dtype=np.float32)
    x = (rows[:, :-1] - rows[:, :-1].mean(axis=0)) / rows[:, :-1].std(axis=0)
    x = np.concatenate([np.ones((len(x), 1), np.float32), x], axis=1)
    yield "German credit", german_credit, (x, (rows[:, -1] == rows[:, -1].max()).astype(np.int32)), 2000


def lowest_ess(draws: dict[str, Any]) -> float:
    """The lowest bulk ESS of all scalars of draws `[chain, draw, …]`."""
    return min(s.ess_bulk for s in all_stats({n: np.asarray(v) for n, v in draws.items()}))


def ours(fn: Callable, args: tuple, draws: int, kernel: str = "NUTS") -> Callable[[int], Timed]:
    model = gb.model(fn, *args)
    schedule = f"{kernel} [{' '.join(n for n, s in model.sites.items() if s.role == 'latent')}]"

    def run(seed: int) -> Timed:
        start = clocks()
        marks = []
        made = model.start(draws=draws, warmup=WARMUP, chains=CHAINS, seed=seed, schedule=schedule)
        made.subscribe(lambda _: marks.append(clocks()))
        made.wait()
        return dict(made.draws), marks[-2] - start  # the last mark comes after the final measures

    return run


def theirs(fn: Callable, args: tuple, draws: int, kernel: Callable = NUTS) -> Callable[[int], Timed]:
    """NumPyro's run as one compiled program: called plainly, `MCMC.run` compiles at every run."""
    arrays = [jnp.asarray(a) for a in args if isinstance(a, np.ndarray)]
    others = [a for a in args if not isinstance(a, np.ndarray)]

    @jax.jit
    def program(key: Any, arrays: Any) -> Any:
        mcmc = MCMC(
            kernel(fn),
            num_warmup=WARMUP,
            num_samples=draws,
            num_chains=CHAINS,
            chain_method="vectorized",
            progress_bar=False,
        )
        mcmc.run(key, *arrays, *others)
        return mcmc.get_samples(group_by_chain=True)

    def run(seed: int) -> Timed:
        start = clocks()
        found = jax.device_get(program(jax.random.key(seed), arrays))
        return found, clocks() - start

    return run


def main() -> None:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("--data", type=Path, help="folder with the tables")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    print(HEAD)
    for name, fn, args, n in models(options.data):
        print(compared(name, (ours(fn, args, n), theirs(fn, args, n)), options.rounds), flush=True)


HEAD = """\
| model | lowest ESS, ours / NumPyro's | seconds | ESS/s, ratio (quartiles) | together | by processor time |
|---|---|---|---|---|---|"""


def compared(name: str, sides: tuple[Callable, Callable], rounds: int) -> str:
    """One row: the two sides in turn, each round with a seed of its own."""
    for side in sides:
        side(0)
    effective, seconds = np.zeros((rounds, 2)), np.zeros((rounds, 2, 2))
    for i in range(rounds):
        for k in (0, 1) if i % 2 else (1, 0):
            draws, seconds[i, k] = sides[k](i + 1)
            effective[i, k] = lowest_ess(draws)
    speed = effective / seconds[:, :, 0]
    low, middle, high = np.quantile(speed[:, 0] / speed[:, 1], [0.25, 0.5, 0.75])
    wall, processor = (
        f"{r:.2f} ± {e:.2f}" for r, e in (together(effective, seconds[:, :, c]) for c in (0, 1))
    )
    (e, f), (s, t) = np.median(effective, axis=0), np.median(seconds[:, :, 0], axis=0)
    ratio = f"{middle:.2f} ({low:.2f}–{high:.2f})"
    return f"| {name} | {e:.0f} / {f:.0f} | {s:.2f} / {t:.2f} | {ratio} | {wall} | {processor} |"


def together(effective: np.ndarray, seconds: np.ndarray) -> tuple[float, float]:
    """Ratio of the sides' total ESS over total seconds, arrays `[round, side]`, and its jackknife error."""

    def ratio(kept: np.ndarray) -> float:
        ours, theirs = effective[kept].sum(axis=0) / seconds[kept].sum(axis=0)
        return float(ours / theirs)

    every = np.arange(len(effective))
    without = np.array([ratio(every[every != i]) for i in every])
    error = np.sqrt((len(every) - 1) * ((without - without.mean()) ** 2).mean())
    return ratio(every), float(error)


if __name__ == "__main__":
    main()
