"""Leave-one-out by importance sampling, and by refits, beside the exact one.

    python benchmarks/exact_loo.py [--refits] [names…]

The exact one is a quadrature over the parameters, written here for each model, in double precision: labels
are summed, missing values and effects integrated in closed form, and nothing of Gibbsite is used. `elpd()` is
PSIS-LOO, `elpd(refit=True)` has the data of bad Pareto k refitted, `elpd(kfold=n)` (`--refits`) all of them.
Prints a table: the sum over the data, how far off each way is in all and for its worst datum, and how many k
are bad.
"""

import sys
from collections.abc import Callable
from typing import Any

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from gibbsite.errors import ModelError
from numpyro import handlers
from numpyro.contrib.control_flow import scan
from scipy import stats
from scipy.special import expit, logsumexp

RNG = np.random.default_rng(20)
X = RNG.normal(size=24).astype(np.float32)
DRAWS = {"draws": 1000, "warmup": 500, "chains": 4}


def left_out(prior: np.ndarray, each: np.ndarray) -> np.ndarray:
    """`log p(y_i | the others)` of a prior `[point]` and data's log densities `[point, datum]` on a grid: the
    data are independent given the point."""
    whole = prior + each.sum(1)
    return logsumexp(whole) - logsumexp(whole[:, None] - each, axis=0)


def grid(*axes: np.ndarray) -> list[np.ndarray]:
    """All points of a grid, `[point, 1]` for each axis."""
    return [v.reshape(-1, 1) for v in np.meshgrid(*axes, indexing="ij")]


normal = stats.norm.logpdf


def regression() -> tuple[Any, tuple, np.ndarray]:
    y = (0.5 + X + 0.7 * RNG.normal(size=24)).astype(np.float32)

    def model(x: Any, y: Any) -> None:
        a = numpyro.sample("a", dist.Normal(0, 2))
        b = numpyro.sample("b", dist.Normal(0, 2))
        s = numpyro.sample("s", dist.HalfNormal(2))
        numpyro.sample("y", dist.Normal(a + b * x, s), obs=y)

    a, b, s = grid(np.linspace(-0.7, 1.7, 61), np.linspace(-0.2, 2.2, 61), np.linspace(0.3, 2.2, 77))
    prior = normal(a, 0, 2) + normal(b, 0, 2) + normal(s, 0, 2)
    return model, (X, y), left_out(prior[:, 0], normal(y, a + b * X, s))


def masked() -> tuple[Any, tuple, np.ndarray]:
    y = (X + RNG.normal(size=24)).astype(np.float32)
    there = np.arange(24) % 4 > 0

    def model(x: Any, y: Any, there: Any) -> None:
        b = numpyro.sample("b", dist.Normal(0, 2))
        s = numpyro.sample("s", dist.HalfNormal(2))
        with handlers.mask(mask=there):
            numpyro.sample("y", dist.Normal(b * x, s), obs=y)

    b, s = grid(np.linspace(-1.5, 3.5, 301), np.linspace(0.2, 3.5, 301))
    each = normal(y, b * X, s)[:, there]
    return model, (X, y, there), left_out((normal(b, 0, 2) + normal(s, 0, 2))[:, 0], each)


def mixture() -> tuple[Any, tuple, np.ndarray]:
    y = np.where(RNG.random(24) < 0.4, RNG.normal(-1.5, 1, 24), RNG.normal(1.5, 1, 24)).astype(np.float32)

    def model(y: Any) -> None:
        w = numpyro.sample("w", dist.Beta(2, 2))
        m = numpyro.sample("m", dist.Normal(jnp.array([-1.5, 1.5]), 0.7).to_event(1))
        with numpyro.plate("n", len(y)):
            z = numpyro.sample("z", dist.Bernoulli(w))
            numpyro.sample("y", dist.Normal(m[z], 1.0), obs=y)

    w, a, b = grid(np.linspace(0.01, 0.99, 60), np.linspace(-4, 1, 70), np.linspace(-1, 4, 70))
    prior = stats.beta.logpdf(w, 2, 2) + normal(a, -1.5, 0.7) + normal(b, 1.5, 0.7)
    return (
        model,
        (y,),
        left_out(prior[:, 0], np.logaddexp(np.log1p(-w) + normal(y, a, 1), np.log(w) + normal(y, b, 1))),
    )


def counts_of_two_kinds() -> tuple[Any, tuple, np.ndarray]:
    y = np.where(RNG.random(30) < 0.5, RNG.poisson(1.0, 30), RNG.poisson(6.0, 30))

    def model(y: Any) -> None:
        w = numpyro.sample("w", dist.Beta(2, 2))
        rate = numpyro.sample("rate", dist.Gamma(jnp.array([2.0, 12.0]), 2.0).to_event(1))
        with numpyro.plate("n", len(y)):
            z = numpyro.sample("z", dist.Bernoulli(w))
            numpyro.sample("y", dist.Poisson(rate[z]), obs=y)

    w, a, b = grid(np.linspace(0.01, 0.99, 60), np.linspace(0.05, 7, 80), np.linspace(1, 14, 80))
    prior = (
        stats.beta.logpdf(w, 2, 2)
        + stats.gamma.logpdf(a, 2, scale=0.5)
        + stats.gamma.logpdf(b, 12, scale=0.5)
    )
    each = np.logaddexp(np.log1p(-w) + stats.poisson.logpmf(y, a), np.log(w) + stats.poisson.logpmf(y, b))
    return model, (y,), left_out(prior[:, 0], each)


def zero_inflated() -> tuple[Any, tuple, np.ndarray]:
    y = RNG.poisson(3.0, 30) * (RNG.random(30) < 0.7)

    def model(y: Any) -> None:
        gate = numpyro.sample("gate", dist.Beta(1, 1))
        level = numpyro.sample("level", dist.Normal(0, 1))
        numpyro.sample("y", dist.ZeroInflatedPoisson(gate, jnp.exp(level)), obs=y)

    gate, level = grid(np.linspace(0.001, 0.999, 300), np.linspace(-1, 2.5, 300))
    each = np.log1p(-gate) + stats.poisson.logpmf(y, np.exp(level))
    return (
        model,
        (y,),
        left_out(normal(level)[:, 0], np.where(y == 0, np.logaddexp(np.log(gate), each), each)),
    )


def occupancy() -> tuple[Any, tuple, np.ndarray]:
    y = RNG.binomial(4, 0.45 * (RNG.random(30) < 0.6))

    def model(y: Any) -> None:
        lives = numpyro.sample("lives", dist.Beta(1, 1))
        found = numpyro.sample("found", dist.Beta(2, 2))
        with numpyro.plate("place", len(y)):
            z = numpyro.sample("z", dist.Bernoulli(lives))
            numpyro.sample("y", dist.Binomial(4, found * z), obs=y)

    lives, found = grid(np.linspace(0.001, 0.999, 300), np.linspace(0.001, 0.999, 300))
    each = np.log(lives) + stats.binom.logpmf(y, 4, found)
    each = np.where(y == 0, np.logaddexp(np.log1p(-lives), each), each)
    return model, (y,), left_out(stats.beta.logpdf(found, 2, 2)[:, 0], each)


def censored() -> tuple[Any, tuple, np.ndarray]:
    times = 2 * RNG.weibull(1.5, 24)
    alive = times > 2.5
    y = np.minimum(times, 2.5).astype(np.float32)

    def model(y: Any, alive: Any) -> None:
        scale = numpyro.sample("scale", dist.Gamma(2, 1))
        shape = numpyro.sample("shape", dist.Gamma(4, 3))
        times = dist.Weibull(jnp.broadcast_to(scale, y.shape), shape)
        numpyro.sample("y", dist.RightCensoredDistribution(times, alive), obs=y)

    scale, shape = grid(np.linspace(0.5, 6, 300), np.linspace(0.3, 4, 300))
    prior = stats.gamma.logpdf(scale, 2) + stats.gamma.logpdf(shape, 4, scale=1 / 3)
    seen = stats.weibull_min.logpdf(y, shape, scale=scale)
    return model, (y, alive), left_out(prior[:, 0], np.where(alive, -((y / scale) ** shape), seen))


def ordered() -> tuple[Any, tuple, np.ndarray]:
    cuts = np.array([-1.0, 1.0])
    y = np.digitize(X + RNG.logistic(size=24), cuts)

    def model(x: Any, y: Any) -> None:
        a = numpyro.sample("a", dist.Normal(0, 1))
        b = numpyro.sample("b", dist.Normal(0, 2))
        numpyro.sample("y", dist.OrderedLogistic(a + b * x, jnp.asarray(cuts)), obs=y)

    a, b = grid(np.linspace(-3, 3, 250), np.linspace(-2, 6, 250))
    below = [np.zeros_like(a + X), *(expit(c - a - b * X) for c in cuts), np.ones_like(a + X)]
    each = np.log(np.take_along_axis(np.diff(below, axis=0), y[None, None], axis=0)[0])
    return model, (X, y), left_out((normal(a) + normal(b, 0, 2))[:, 0], each)


def missing() -> tuple[Any, tuple, np.ndarray]:
    x = RNG.normal(1, 1, 24).astype(np.float32)
    y = (1.5 * x + 0.5 * RNG.normal(size=24)).astype(np.float32)
    x[:6] = np.nan

    def model(x: Any, y: Any) -> None:
        m = numpyro.sample("m", dist.Normal(0, 1))
        b = numpyro.sample("b", dist.Normal(0, 2))
        with numpyro.plate("n", len(y)):
            x = numpyro.sample("x", dist.Normal(m, 1.0), obs=x)
            numpyro.sample("y", dist.Normal(b * x, 0.5), obs=y)

    m, b = grid(np.linspace(-0.5, 2.5, 400), np.linspace(0.5, 2.5, 400))
    prior = (normal(m) + normal(b, 0, 2))[:, 0]
    covariate, known = normal(x[6:], m, 1), normal(y[6:], b * x[6:], 0.5)
    integrated = normal(y[:6], b * m, np.sqrt(b**2 + 0.25))
    # in the order of the model: all x that are data, then all y
    return model, (x, y), left_out(prior, np.concatenate([covariate, integrated, known], axis=1))


def effects_of_single_data() -> tuple[Any, tuple, np.ndarray]:
    sd = np.array([15, 10, 16, 11, 9, 11, 10, 18.0])
    y = np.array([28, 8, -3, 7, -1, 1, 18, 12.0])

    def model(y: Any, sd: Any) -> None:
        mu = numpyro.sample("mu", dist.Normal(0, 10))
        tau = numpyro.sample("tau", dist.HalfNormal(10))
        with numpyro.plate("school", 8):
            theta = numpyro.sample("theta", dist.Normal(mu, tau))
            numpyro.sample("y", dist.Normal(theta, sd), obs=y)

    mu, tau = grid(np.linspace(-40, 45, 500), np.linspace(0.01, 50, 500))
    prior = (normal(mu, 0, 10) + normal(tau, 0, 10))[:, 0]
    return model, (y, sd), left_out(prior, normal(y, mu, np.sqrt(tau**2 + sd**2)))


def hidden_markov() -> tuple[Any, tuple, np.ndarray]:
    go = np.array([[0.85, 0.15], [0.25, 0.75]])
    z = [0]
    for _ in range(29):
        z.append(int(RNG.choice(2, p=go[z[-1]])))
    y = RNG.normal(np.array([-1.0, 1.0])[z], 0.8).astype(np.float32)

    def model(y: Any) -> None:
        m = numpyro.sample("m", dist.Normal(jnp.array([-1.0, 1.0]), 0.5).to_event(1))

        def step(before: Any, now: Any) -> Any:
            state = numpyro.sample("z", dist.Categorical(jnp.asarray(go)[before]))
            numpyro.sample("y", dist.Normal(m[state], 0.8), obs=now)
            return state, None

        scan(step, 0, y)

    a, b = grid(np.linspace(-3, 1, 120), np.linspace(-1, 3, 120))
    like = np.exp(np.stack([normal(y, a, 0.8), normal(y, b, 0.8)], axis=2))  # [point, t, state]
    ahead = np.zeros_like(like)  # of the state given what was before
    at = np.broadcast_to(go[0], (len(a), 2))
    for t in range(30):
        ahead[:, t] = at
        at = (at * like[:, t] / (at * like[:, t]).sum(1, keepdims=True)) @ go
    back = np.ones_like(like)
    for t in range(28, -1, -1):
        after = (like[:, t + 1] * back[:, t + 1]) @ go.T
        back[:, t] = after / after.sum(1, keepdims=True)
    cavity = ahead * back
    each = np.log((cavity * like).sum(2) / cavity.sum(2))  # log p(y_t | the others, means)
    total = np.log((ahead * like).sum(2)).sum(1)
    whole = (normal(a, -1, 0.5) + normal(b, 1, 0.5))[:, 0] + total
    return model, (y,), logsumexp(whole) - logsumexp(whole[:, None] - each, axis=0)


MODELS: dict[str, Callable[[], tuple[Any, tuple, np.ndarray]]] = {
    "regression": regression,
    "masked": masked,
    "mixture of normals": mixture,
    "mixture of counts": counts_of_two_kinds,
    "zero-inflated counts": zero_inflated,
    "occupancy": occupancy,
    "censored times": censored,
    "ordered logit": ordered,
    "missing covariate, imputed": missing,
    "eight schools": effects_of_single_data,
    "hidden Markov chain": hidden_markov,
}


def row(name: str, refitted: bool) -> str:
    """The table's row of one model."""
    model, args, truth = MODELS[name]()
    more = {"missing": "impute"} if "imputed" in name else {}
    run = gb.model(model, *args, **more).sample(**DRAWS)
    found = run.elpd()
    bad = int((~(np.asarray(found.pareto_k) <= found.good_k)).sum())

    def off(one: Any) -> str:
        each = np.asarray(one.elpd_i, float)
        return f"{each.sum() - truth.sum():+.2f} ({np.abs(each - truth).max():.2f})"

    mended = off(run.elpd(refit=True)) if bad else ""
    refits = ""
    if refitted:
        try:
            refits = off(run.elpd(kfold=len(truth)))
        except ModelError as problem:
            refits = f"refused: {str(problem).partition(',')[0]}"
    return f"| {name} | {len(truth)} | {truth.sum():.2f} | {off(found)} | {bad} | {mended} | {refits} |"


def main() -> None:
    """Print the table."""
    told = ("model", "data", "exact elpd", "PSIS-LOO less exact, in all (worst datum)", "bad k")
    print("| " + " | ".join([*told, "these refitted", "all refitted"]) + " |")
    print("|---|---|---|---|---|---|---|")
    names = [a for a in sys.argv[1:] if a != "--refits"]
    for name in names or MODELS:
        print(row(name, "--refits" in sys.argv), flush=True)


if __name__ == "__main__":
    main()
