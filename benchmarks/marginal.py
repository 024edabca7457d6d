"""NUTS on what is left when Gaussian or conjugate sites are integrated out, on seven plain models.

    python benchmarks/marginal.py [--seeds N] [--draws N] [--models NAME …] [--sides NAME …]
    python benchmarks/marginal.py --lengths 1000 10000 100000

Each model runs by its default schedule, by another that an expert might choose, with the sites integrated out
(`Eliminate … > NUTS …`), and as a model of what is left that an expert would write by hand, which draws
nothing back. Told are the lowest effective draws of what is left, of 4 chains; per thousand gradients; and
per processor second with warm-up counted and compiling not. Medians over seeds.

With `--lengths` the walk's log density and gradient alone, ours / by hand: how far both, in single precision,
are from the filter by hand in double, and processor milliseconds.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from arviz_stats.base import array_stats

S, plate = numpyro.sample, numpyro.plate


class Case(NamedTuple):
    """A model, the one that is left by hand, data, schedules, and the sites that are left."""

    whole: Callable[..., None]
    left: Callable[..., None]
    data: tuple[Any, ...]
    other: str
    eliminated: str
    sites: tuple[str, ...]


def walk(y: Any) -> None:
    s, o = S("s", dist.InverseGamma(1.0, 0.1)), S("o", dist.InverseGamma(1.0, 0.1))
    x = S("x", dist.GaussianRandomWalk(jnp.sqrt(s), num_steps=len(y)))
    with plate("T", len(y)):
        S("y", dist.Normal(x, jnp.sqrt(o)), obs=y)


def walk_left(y: Any) -> None:
    """Kalman's filter."""
    s, o = S("s", dist.InverseGamma(1.0, 0.1)), S("o", dist.InverseGamma(1.0, 0.1))

    def step(carry: Any, y: Any) -> Any:
        m, p = carry
        p = p + s
        v = p + o
        gain = p / v
        return (m + gain * (y - m), p * (1 - gain)), -0.5 * (jnp.log(v) + (y - m) ** 2 / v)

    numpyro.factor("filter", jax.lax.scan(step, (jnp.zeros(()), jnp.zeros(())), y)[1].sum())


def effects(y: Any, sd: float) -> None:
    mu, v = S("mu", dist.Normal(0, 10)), S("v", dist.InverseGamma(1.0, 1.0))
    with plate("J", len(y)):
        t = S("t", dist.Normal(mu, jnp.sqrt(v)))
        S("y", dist.Normal(t, sd), obs=y)


def effects_left(y: Any, sd: float) -> None:
    mu, v = S("mu", dist.Normal(0, 10)), S("v", dist.InverseGamma(1.0, 1.0))
    with plate("J", len(y)):
        S("y", dist.Normal(mu, jnp.sqrt(v + sd**2)), obs=y)


def groups(y: Any) -> None:
    mu, p, q = S("mu", dist.Normal(0, 10)), S("p", dist.Gamma(0.5, 0.5)), S("q", dist.Gamma(0.5, 0.5))
    with plate("G", len(y) // 3):
        a = S("a", dist.Normal(mu, p**-0.5))
    with plate("N", len(y)):
        S("y", dist.Normal(a[jnp.arange(len(y)) // 3], q**-0.5), obs=y)


def groups_left(y: Any) -> None:
    mu, p, q = S("mu", dist.Normal(0, 10)), S("p", dist.Gamma(0.5, 0.5)), S("q", dist.Gamma(0.5, 0.5))
    each = jnp.reshape(y, (-1, 3))
    mean = each.mean(1)
    S("mean", dist.Normal(mu, jnp.sqrt(1 / p + 1 / (3 * q))).expand(mean.shape).to_event(1), obs=mean)
    numpyro.factor("within", len(mean) * jnp.log(q) - q * ((each - mean[:, None]) ** 2).sum() / 2)


def rates(n: Any, y: Any) -> None:
    a, b = S("a", dist.Gamma(2.0, 0.1)), S("b", dist.Gamma(2.0, 0.1))
    with plate("J", len(n)):
        p = S("p", dist.Beta(a, b))
        S("y", dist.Binomial(n, p), obs=y)


def rates_left(n: Any, y: Any) -> None:
    a, b = S("a", dist.Gamma(2.0, 0.1)), S("b", dist.Gamma(2.0, 0.1))
    with plate("J", len(n)):
        S("y", dist.BetaBinomial(a, b, n), obs=y)


def pumps(t: Any, y: Any) -> None:
    a, b = S("a", dist.Exponential(1.0)), S("b", dist.Gamma(0.1, 1.0))
    with plate("J", len(t)):
        r = S("r", dist.Gamma(a, b))
        S("y", dist.Poisson(r * t), obs=y)


def pumps_left(t: Any, y: Any) -> None:
    a, b = S("a", dist.Exponential(1.0)), S("b", dist.Gamma(0.1, 1.0))
    with plate("J", len(t)):
        S("y", dist.GammaPoisson(a, b / t), obs=y)


def cases() -> dict[str, Case]:
    """The models with their data."""
    r = np.random.default_rng(11)

    def walked(n: int) -> tuple[Any]:
        return (np.float32(np.cumsum(r.normal(0, 0.3, n)) + r.normal(0, 1, n)),)

    def drawn(n: int, sd: float) -> tuple[Any, float]:
        return np.float32(r.normal(0, 1, n) + r.normal(0, sd, n)), sd

    n, t = r.integers(10, 60, 40), np.float32(r.gamma(2, 10, 25))
    y = np.float32(np.repeat(r.normal(0, 1, 30), 3) + r.normal(0, 1, 90))
    of_walk = "NUTS [s o x]", "Eliminate x > NUTS [s o]", ("s", "o")
    of_effects = "Collapsed [v mu t]", "Eliminate [mu t] > NUTS v", ("mu", "v")
    return {
        "a walk of 80": Case(walk, walk_left, walked(80), *of_walk),
        "a walk of 1000": Case(walk, walk_left, walked(1000), *of_walk),
        "effects of 28, noise 8": Case(effects, effects_left, drawn(28, 8.0), *of_effects),
        "effects of 250, noise 4": Case(effects, effects_left, drawn(250, 4.0), *of_effects),
        "30 groups of 3": Case(
            *(groups, groups_left, (y,), "Collapsed [p mu a] (*) Conjugate q"),
            *("Eliminate [mu a] > NUTS [p q]", ("mu", "p", "q")),
        ),
        "40 rates": Case(
            *(rates, rates_left, (n, r.binomial(n, r.beta(3, 7, 40))), "NUTS [a b p]"),
            *("Eliminate p > NUTS [a b]", ("a", "b")),
        ),
        "25 pumps": Case(
            *(pumps, pumps_left, (t, r.poisson(r.gamma(1, 1, 25) * t)), "NUTS [a b r]"),
            *("Eliminate r > NUTS [a b]", ("a", "b")),
        ),
    }


def measured(model: Any, schedule: str | None, sites: tuple[str, ...], draws: int, seed: int) -> np.ndarray:
    """Lowest effective draws; per thousand gradients, NaN where there are none; per processor second."""
    model.sample(draws=100, chains=4, seed=99, schedule=schedule)  # compiles
    began = time.process_time()
    run = model.sample(draws=draws, chains=4, seed=seed, schedule=schedule)
    seconds = time.process_time() - began
    stats = run.kept.sampled_stats.read()
    gradients = sum(float(v.sum()) for n, v in stats.items() if str(n).endswith("n_steps"))
    low = min(
        float(np.min(array_stats.ess(np.asarray(run.draws[n], float), chain_axis=0, draw_axis=1)))
        for n in sites
    )
    return np.array([low, 1000 * low / gradients if gradients else np.nan, low / seconds])


def along(lengths: list[int]) -> None:
    """The table of `--lengths`."""
    print("| steps | log density off, nats | gradient off | ms |\n|---|---|---|---|")
    for n in lengths:
        r = np.random.default_rng(n)
        y = np.float32(np.cumsum(r.normal(0, 0.3, n)) + r.normal(0, 1, n))
        at = {"s": 0.08, "o": 1.05}
        with jax.enable_x64(True):
            truth = jax.jit(jax.value_and_grad(lambda v, y=y: by_hand(v, np.float64(y))))(at)
            truth = jax.tree.map(np.float64, truth)
        model, cells = gb.model(walk, y), []
        marginal, data = model.marginal("x"), model.density.arguments.arrays
        more = marginal.logdensity(at, constants=True) - marginal.logdensity(at)

        near = jnp.asarray(y)

        def ours(
            v: Any, marginal: Any = marginal, data: Any = data, more: Any = more, near: Any = near
        ) -> Any:
            # as NUTS pulls it back, beside what the walk was
            return marginal.logdensity_at({**v, "x": near}, data) + more

        for side in (ours, lambda v, y=y: by_hand(v, y)):
            call = jax.jit(jax.value_and_grad(side))
            value, slope = jax.block_until_ready(call(at))
            off = max(abs(float(slope[n]) / truth[1][n] - 1) for n in at)
            began = time.process_time()
            for _ in range(20):
                jax.block_until_ready(call(at))
            cells.append((abs(float(value) - truth[0]), off, (time.process_time() - began) * 50))
        (a, b, c), (d, e, f) = cells
        print(
            f"| {n:,} | {a:.2g} / {d:.2g} of {truth[0]:,.0f} | {b:.1e} / {e:.1e} | {c:.2f} / {f:.2f} |",
            flush=True,
        )


def by_hand(values: dict[str, Any], y: Any) -> Any:
    """The log density of `walk_left`, with its constants."""
    return numpyro.infer.util.log_density(walk_left, (y,), {}, values)[0] - 0.5 * len(y) * np.log(2 * np.pi)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--draws", type=int, default=2000)
    known = cases()
    parser.add_argument("--models", nargs="+", choices=list(known), default=list(known))
    sides = ("default", "another", "integrated out", "by hand")
    parser.add_argument("--sides", nargs="+", choices=sides, default=sides)
    parser.add_argument("--lengths", nargs="+", type=int)
    chosen = parser.parse_args()
    if chosen.lengths:
        along(chosen.lengths)
        return
    print("lowest effective draws; per 1000 gradients; per processor second")
    print("| model |", " | ".join(chosen.sides), "|")
    print("|---" * (1 + len(chosen.sides)) + "|")
    for name in chosen.models:
        case, cells = known[name], []
        for side in chosen.sides:
            model = gb.model(case.left if side == "by hand" else case.whole, *case.data)
            schedule = {"another": case.other, "integrated out": case.eliminated}.get(side)
            found = [measured(model, schedule, case.sites, chosen.draws, s) for s in range(chosen.seeds)]
            ess, per_gradient, per_second = np.median(found, axis=0)
            cells.append(f"{ess:,.0f}; {per_gradient:,.0f}; {per_second:,.0f}".replace("nan", "–"))
        print(f"| {name} |", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
