"""Intercepts and slopes of groups that go together: vectors as written, non-centred by hand, and learnt.

    python benchmarks/varying_slopes.py [--groups 12] [--draws 1000]

A multivariate normal whose scales and correlation (LKJ) are latent, for groups with much data and little,
slopes that vary and that do not, normal and binary outcomes. Four chains of 1000 draws by one NUTS block, one
seed: the least effective draws and the largest R-hat of all numbers, divergent transitions, and steps of a
trajectory.
"""

import argparse
from typing import Any

import gibbsite as gb
import numpy as np
import numpyro
import numpyro.distributions as dist

CASES = {
    # groups, data of each, spread of intercepts and of slopes
    "12 groups of 16, equal slopes": (12, 16, 1.0, 0.0),
    "12 groups of 16": (12, 16, 1.0, 0.7),
    "50 groups of 8": (50, 8, 1.0, 0.5),
    "10 groups of 100": (10, 100, 2.0, 1.0),
}


def slopes(groups: int, g: Any, x: Any, y: Any, binary: bool, by_hand: bool) -> None:
    """The model; `by_hand`: vectors are standard numbers, stretched and moved."""
    mu = numpyro.sample("mu", dist.Normal(0, 2).expand([2]).to_event(1))
    spread = numpyro.sample("spread", dist.HalfNormal(1).expand([2]).to_event(1))
    factor = spread[:, None] * numpyro.sample("chol", dist.LKJCholesky(2, 2))
    sigma = 1.0 if binary else numpyro.sample("sigma", dist.HalfNormal(1))
    with numpyro.plate("group", groups):
        if by_hand:
            z = numpyro.sample("z", dist.Normal(0, 1).expand([2]).to_event(1))
            effect = mu + z @ factor.T
        else:
            effect = numpyro.sample("effect", dist.MultivariateNormal(mu, scale_tril=factor))
    mean = effect[g, 0] + effect[g, 1] * x
    with numpyro.plate("row", len(y)):
        numpyro.sample("y", dist.Bernoulli(logits=mean) if binary else dist.Normal(mean, sigma), obs=y)


def data(rng: np.random.Generator, groups: int, each: int, a: float, b: float) -> tuple[Any, Any, Any]:
    """Groups, covariate and mean of every row."""
    g = np.repeat(np.arange(groups), each)
    x = rng.normal(size=len(g)).astype(np.float32)
    return g, x, a * rng.normal(size=groups)[g] + (1 + b * rng.normal(size=groups)[g]) * x


def main() -> None:
    """Print the table: effective draws, R-hat, divergent transitions, steps."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, help="only the cases of so many")
    parser.add_argument("--draws", type=int, default=1000)
    asked = parser.parse_args()
    rng = np.random.default_rng(3)
    print("| groups | outcome | as written | by hand | learnt |\n|---|---|---|---|---|", flush=True)
    for name, shape in CASES.items():
        if asked.groups not in (None, shape[0]):
            continue
        g, x, mean = data(rng, *shape)
        outcomes = {
            "normal": (mean + rng.normal(size=len(g))).astype(np.float32),
            "binary": (rng.random(len(g)) < 1 / (1 + np.exp(-mean))).astype(int),
        }
        for outcome, y in outcomes.items():
            cells = []
            for by_hand, how in ((False, '(centring="as written")'), (True, ""), (False, "")):
                model = gb.model(slopes, shape[0], g, x, y, outcome == "binary", by_hand)
                run = model.sample(draws=asked.draws, seed=0, schedule=f"NUTS{how} *")
                found, stats = run.diagnostics(), run.to_datatree()["sample_stats"]
                rhat, ess = max(s.rhat for s in found), min(s.ess_bulk for s in found)
                lost, steps = int(stats["diverging"].sum()), float(stats["n_steps"].mean())
                cells.append(f"{ess:.0f}, {rhat:.3f}, {lost}; {steps:.0f}")
            print(f"| {name} | {outcome} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
