"""Models that defaults have failed on: do they converge, or is there a cure that does?

    python benchmarks/hard.py [MODEL ...] [--seed 1] [--draws 1000]

Each is run at the defaults (four chains, 1000 + 1000 steps). Where the verdict is bad, the run's cures are
tried in their order, as a click does, until one of them converges. Effective draws (bulk) are those of the
worst number, seconds those of the processor.
"""

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from default_models import log_schools
from gibbsite.diagnostics.verdict.cures import cures
from numpyro.contrib.control_flow import scan

Built = tuple[Callable[..., None], tuple[Any, ...]]
MOST_CURES = 3


def litters(r: Any, n: Any) -> None:
    """Beta-binomial litters of two groups, vague gamma priors (BUGS)."""
    a = numpyro.sample("a", dist.Gamma(1.0, 0.001).expand([2]).to_event(1))
    b = numpyro.sample("b", dist.Gamma(1.0, 0.001).expand([2]).to_event(1))
    with numpyro.plate("litter", r.shape[1], dim=-1), numpyro.plate("group", 2, dim=-2):
        p = numpyro.sample("p", dist.Beta(a[:, None], b[:, None]))
        numpyro.sample("r", dist.Binomial(n, p), obs=r)


def _litters() -> Built:
    r = [
        [13, 12, 9, 9, 8, 8, 12, 11, 9, 9, 8, 11, 4, 5, 7, 7],
        [12, 11, 10, 9, 10, 9, 9, 8, 8, 4, 7, 4, 5, 3, 3, 0],
    ]
    n = [
        [13, 12, 9, 9, 8, 8, 13, 12, 10, 10, 9, 13, 5, 7, 10, 10],
        [12, 11, 10, 9, 11, 10, 10, 9, 9, 5, 9, 7, 10, 6, 10, 7],
    ]
    return litters, (np.array(r), np.array(n))


def hepatitis(first: Any, time: Any, y: Any) -> None:
    """Lines through three titres of each child, the covariate of the intercept measured with error (BUGS)."""
    a0, b0 = (numpyro.sample(n, dist.Normal(0, 100.0)) for n in ("a0", "b0"))
    gamma = numpyro.sample("gamma", dist.Normal(0, 100.0))
    theta = numpyro.sample("theta", dist.Normal(0, 100.0))
    va, vb, vy, v0 = (numpyro.sample(n, dist.InverseGamma(0.001, 0.001)) for n in ("va", "vb", "vy", "v0"))
    with numpyro.plate("child", len(first), dim=-2):
        mu0 = numpyro.sample("mu0", dist.Normal(theta, jnp.sqrt(v0)))
        numpyro.sample("first", dist.Normal(mu0, jnp.sqrt(vy)), obs=first[:, None])
        a = numpyro.sample("a", dist.Normal(a0, jnp.sqrt(va)))
        b = numpyro.sample("b", dist.Normal(b0, jnp.sqrt(vb)))
        with numpyro.plate("visit", y.shape[1], dim=-1):
            mean = a + b * (time - 6.5) + gamma * (mu0 - 6.0)
            numpyro.sample("y", dist.Normal(mean, jnp.sqrt(vy)), obs=y)


def _hepatitis() -> Built:
    r = np.random.default_rng(1)
    true = r.normal(6.0, 1.5, 106)
    time = np.sort(r.uniform(4.5, 8.0, (106, 3)), axis=1)
    mean = (6.1 + r.normal(0, 0.4, 106) + 0.7 * (true - 6.0))[:, None] + (-1.05 + r.normal(0, 0.1, 106))[
        :, None
    ] * (time - 6.5)
    return hepatitis, tuple(
        x.astype("f4") for x in (true + r.normal(0, 1, 106), time, mean + r.normal(0, 1, (106, 3)))
    )


def eye_tracking(x: Any, most: int) -> None:
    """Counts of rates under a Dirichlet process, by sticks (BUGS)."""
    alpha = numpyro.sample("alpha", dist.Uniform(0.3, 10.0))
    stick = numpyro.sample("stick", dist.Beta(1.0, alpha).expand([most - 1]).to_event(1))
    rate = numpyro.sample("rate", dist.Gamma(0.5, 0.1).expand([most]).to_event(1))
    left = jnp.concatenate([jnp.ones(1), jnp.cumprod(1 - stick)])
    w = jnp.concatenate([stick, jnp.ones(1)]) * left
    with numpyro.plate("n", len(x)):
        s = numpyro.sample("s", dist.Categorical(w))
        numpyro.sample("x", dist.Poisson(rate[s]), obs=x)


def _eye_tracking() -> Built:
    r = np.random.default_rng(2)
    return eye_tracking, (r.poisson(r.choice([0.2, 2.5, 8.0, 20.0], 101, p=[0.55, 0.25, 0.12, 0.08])), 10)


def n_mixture(y: Any) -> None:
    """Counts of animals of which some are seen: abundance and detection (Royle)."""
    lam = numpyro.sample("lam", dist.Gamma(1.0, 0.1))
    p = numpyro.sample("p", dist.Beta(1.0, 1.0))
    with numpyro.plate("place", len(y), dim=-2):
        n = numpyro.sample("n", dist.Poisson(lam))
        with numpyro.plate("visit", y.shape[1], dim=-1):
            numpyro.sample("y", dist.Binomial(n, p), obs=y)


def _n_mixture() -> Built:
    r = np.random.default_rng(3)
    return n_mixture, (r.binomial(r.poisson(6.0, 40)[:, None], 0.4, (40, 4)),)


def truncated(g: Any, y: Any, n: int) -> None:
    """Effects that are positive, a vague scale."""
    mu = numpyro.sample("mu", dist.Normal(0, 100.0))
    tau = numpyro.sample("tau", dist.HalfCauchy(25.0))
    sigma = numpyro.sample("sigma", dist.HalfCauchy(25.0))
    with numpyro.plate("group", n):
        t = numpyro.sample("t", dist.TruncatedNormal(mu, tau, low=0.0))
    numpyro.sample("y", dist.Normal(t[g], sigma), obs=y)


def _truncated() -> Built:
    r = np.random.default_rng(4)
    g = np.repeat(np.arange(12), 4)
    return truncated, (g, (np.abs(r.normal(1.0, 1.0, 12))[g] + r.normal(0, 1, 48)).astype("f4"), 12)


def multistate(seen: Any) -> None:
    """Animals that move between two places and die; capture differs by place (Arnason and Schwarz)."""
    phi = numpyro.sample("phi", dist.Beta(1, 1).expand([2]).to_event(1))
    psi = numpyro.sample("psi", dist.Beta(1, 1).expand([2]).to_event(1))
    p = numpyro.sample("p", dist.Beta(1, 1).expand([2]).to_event(1))
    zero, one = jnp.zeros(()), jnp.ones(())
    moves = jnp.array(
        [
            [phi[0] * (1 - psi[0]), phi[0] * psi[0], 1 - phi[0]],
            [phi[1] * psi[1], phi[1] * (1 - psi[1]), 1 - phi[1]],
            [zero, zero, one],
        ]
    )
    shown = jnp.array([[1 - p[0], p[0], zero], [1 - p[1], zero, p[1]], [one, zero, zero]])

    def step(before: Any, now: Any) -> tuple[Any, None]:
        with numpyro.plate("animals", seen.shape[1]):
            place = numpyro.sample("place", dist.Categorical(moves[before]))
            numpyro.sample("y", dist.Categorical(shown[place]), obs=now)
        return place, None

    scan(step, jnp.zeros(seen.shape[1], int), seen)


def _multistate() -> Built:
    r, rows = np.random.default_rng(5), []
    place = np.zeros(80, int)
    for _ in range(6):
        moved = r.random(80) < np.array([0.3, 0.4, 0.0])[place]
        dead = r.random(80) > np.array([0.85, 0.7, 0.0])[place]
        place = np.where((place == 2) | dead, 2, np.where(moved, 1 - place % 2, place))
        rows.append(np.where((place < 2) & (r.random(80) < 0.5), place + 1, 0))
    return multistate, (np.array(rows),)


def overlapping(x: Any) -> None:
    """Shares of four known components that overlap."""
    w = numpyro.sample("w", dist.Dirichlet(jnp.ones(4)))
    with numpyro.plate("n", len(x)):
        z = numpyro.sample("z", dist.Categorical(w))
        numpyro.sample("x", dist.Normal(jnp.array([-0.6, -0.2, 0.2, 0.6])[z], 1.0), obs=x)


def _overlapping() -> Built:
    r = np.random.default_rng(6)
    return overlapping, ((r.choice([-0.6, 0.2, 0.6], 500) + r.normal(0, 1, 500)).astype("f4"),)


def camel(a: Any, b: Any) -> None:
    """Tanner and Wong's twelve points, most pairs with one missing; the covariance by its factors."""
    va = numpyro.sample("va", dist.InverseGamma(0.5, 0.5))
    vb = numpyro.sample("vb", dist.InverseGamma(1.0, 0.5))
    slope = numpyro.sample("slope", dist.Normal(0, jnp.sqrt(vb)))
    with numpyro.plate("n", len(a)):
        left = numpyro.sample("a", dist.Normal(0, jnp.sqrt(va)), obs=a)
        numpyro.sample("b", dist.Normal(slope * left, jnp.sqrt(vb)), obs=b)


def _camel() -> Built:
    nan = np.nan
    a = [1, 1, -1, -1, 2, 2, -2, -2, nan, nan, nan, nan]
    b = [1, -1, 1, -1, nan, nan, nan, nan, 2, 2, -2, -2]
    return camel, (np.array(a, "f4"), np.array(b, "f4"))


def _schools() -> Built:
    sigma, y = [15, 10, 16, 11, 9, 11, 10, 18], [28, 8, -3, 7, -1, 1, 18, 12]
    return log_schools, (np.array(sigma, "f4"), np.array(y, "f4"))


def seasons(y: Any, ahead: int) -> None:
    """A local level with a season of twelve, and forecasts."""
    sl, ss, so = (numpyro.sample(n, dist.HalfNormal(1.0)) for n in ("sl", "ss", "so"))
    n = len(y) + ahead

    def step(carry: Any, t: Any) -> tuple[Any, Any]:
        level, season = carry
        level = numpyro.sample("level", dist.Normal(level, sl))
        now = numpyro.sample("season", dist.Normal(-season.sum(), ss))
        return (level, jnp.concatenate([now[None], season[:-1]])), level + now

    _, mean = scan(step, (0.0, jnp.zeros(11)), jnp.arange(n))
    with numpyro.plate("T", len(y)):
        numpyro.sample("y", dist.Normal(mean[: len(y)], so), obs=y)
    numpyro.sample("later", dist.Normal(mean[len(y) :], so))


def _seasons() -> Built:
    r = np.random.default_rng(7)
    y = np.cumsum(r.normal(0, 0.2, 60)) + np.sin(np.arange(60) * 2 * np.pi / 12) + r.normal(0, 0.4, 60)
    return seasons, (y.astype("f4"), 12)


CASES: dict[str, Callable[[], Built]] = {
    "litters": _litters,
    "hepatitis": _hepatitis,
    "eye tracking": _eye_tracking,
    "N-mixture": _n_mixture,
    "truncated effects": _truncated,
    "multistate": _multistate,
    "overlapping components": _overlapping,
    "camel": _camel,
    "schools, log scale": _schools,
    "level and season": _seasons,
}


def told(run: Any, seconds: float) -> str:
    """The verdict of a run, its worst numbers and what it took."""
    worst = run.diagnostics()
    least = min(worst, key=lambda s: s.ess_bulk if np.isfinite(s.ess_bulk) else np.inf)
    rhat = max((s.rhat for s in worst if np.isfinite(s.rhat)), default=np.nan)
    divergent = sum(run.snapshot(limit=1).divergences)
    state = "converged" if run.verdict.ok else "not converged"
    return f"{state} | {least.ess_bulk:.0f} ({least.label}) | {rhat:.3f} | {divergent} | {seconds:.0f}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"of {', '.join(CASES)}")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--draws", type=int, default=1000)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in asked.models or CASES:
        fn, args = CASES[name]()
        missing = any(np.isnan(a).any() for a in args if np.asarray(a).dtype.kind == "f")
        model = gb.model(fn, *args, **({"missing": "impute"} if missing else {}))
        steps = {"draws": asked.draws, "warmup": asked.draws, "chains": 4, "seed": asked.seed}
        began = time.process_time()
        run = model.sample(**steps)
        print(f"| {name} | `{run.schedule_text}` | {told(run, time.process_time() - began)} |", flush=True)
        left = [*cures(run)] if not run.verdict.ok else []
        for cure in (left.pop(0) for _ in range(MOST_CURES) if left):
            began = time.process_time()
            if cure.draws:
                better = run.resume(draws=cure.draws)
                left += [c for c in cures(better) if c.draws]  # as long as it goes on as it went
            else:
                better = cure.applied(model).sample(**steps)
            print(f"| – {cure.words} | | {told(better, time.process_time() - began)} |", flush=True)
            if better.verdict.ok:
                break


if __name__ == "__main__":
    main()
