"""The models of `default_sampler.py`, as people write them, and their data.

Data are simulated here, from fixed seeds; eight schools has its own, and where a folder of tables is given
(`radon_mn.json`, `radon_all.json`, `german_credit_numeric.csv`: see `nuts_numpyro.py`) so have radon and
German credit, in place of one radon-like and three credit-like models. A model with discrete sites has beside
it the form that NUTS needs, with these summed out by hand.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.contrib.control_flow import scan


class Case(NamedTuple):
    """A model as people write it and its arguments; the sites that its other form has non-centred, and what
    their priors take beside location and scale; the same model without discrete sites, where it has any."""

    fn: Callable[..., None]
    args: tuple[Any, ...]
    hierarchy: tuple[str, ...] = ()
    summed: Callable[..., None] | None = None
    shape_params: tuple[str, ...] = ()


def eight_schools(sigma: Any, y: Any) -> None:
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("school", len(y)):
        theta = numpyro.sample("theta", dist.Normal(mu, tau))
        numpyro.sample("y", dist.Normal(theta, sigma), obs=y)


def log_schools(sigma: Any, y: Any) -> None:
    """With log τ ~ N(0, 5), as Gorinova 2022 has them: most of the prior is near zero."""
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    log_tau = numpyro.sample("log_tau", dist.Normal(0, 5))
    with numpyro.plate("school", len(y)):
        theta = numpyro.sample("theta", dist.Normal(mu, jnp.exp(log_tau)))
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


def walking_volatility(y: Any) -> None:
    sigma = numpyro.sample("sigma", dist.Exponential(50.0))
    nu = numpyro.sample("nu", dist.Exponential(0.1))
    h = numpyro.sample("h", dist.GaussianRandomWalk(sigma, len(y)))
    numpyro.sample("y", dist.StudentT(nu, 0.0, jnp.exp(h)), obs=y)


def level(y: Any) -> None:
    sigma = numpyro.sample("sigma", dist.HalfNormal(1))
    noise = numpyro.sample("noise", dist.HalfNormal(1))

    def step(x: Any, y: Any) -> tuple[Any, None]:
        x = numpyro.sample("x", dist.StudentT(4.0, x, sigma))
        numpyro.sample("y", dist.Normal(x, noise), obs=y)
        return x, None

    scan(step, 0.0, jnp.asarray(y))


def autoregression(y: Any) -> None:
    mean = numpyro.sample("mean", dist.Normal(0, 5))
    phi = numpyro.sample("phi", dist.Uniform(-1, 1).expand([2]).to_event(1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(2))

    def step(before: Any, y: Any) -> tuple[Any, None]:
        last, older = before
        centre = mean + phi[0] * (last - mean) + phi[1] * (older - mean)
        numpyro.sample("y", dist.Normal(centre, sigma), obs=y)
        return (y, last), None

    scan(step, (jnp.asarray(y[1]), jnp.asarray(y[0])), jnp.asarray(y[2:]))


def elections(state: Any, age: Any, y: Any) -> None:
    mu = numpyro.sample("mu", dist.Normal(0, 2))
    spread = numpyro.sample("spread", dist.HalfNormal(1).expand([2]).to_event(1))
    with numpyro.plate("state", 20):
        a = numpyro.sample("a", dist.Normal(mu, spread[0]))
    with numpyro.plate("age", 6):
        b = numpyro.sample("b", dist.Normal(0, spread[1]))
    numpyro.sample("y", dist.Bernoulli(logits=a[state] + b[age]), obs=y)


def electric(pair: Any, grade: Any, treated: Any, y: Any, pairs: int) -> None:
    with numpyro.plate("grades", 4):
        mu = numpyro.sample("mu", dist.Normal(0, 5))
        effect = numpyro.sample("effect", dist.Normal(0, 5))
        sigma = numpyro.sample("sigma", dist.HalfCauchy(1))
    tau = numpyro.sample("tau", dist.HalfCauchy(1))
    with numpyro.plate("pair", pairs):
        a = numpyro.sample("a", dist.Normal(mu[grade], tau))
    g = grade[pair]
    numpyro.sample("y", dist.Normal(a[pair] + effect[g] * treated, sigma[g]), obs=y)


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


def disease_map(neighbours: Any, expected: Any, y: Any) -> None:
    mu = numpyro.sample("mu", dist.Normal(0, 2))
    precision = numpyro.sample("precision", dist.Gamma(2.0, 1.0))
    alpha = numpyro.sample("alpha", dist.Beta(4.0, 2.0))
    s = numpyro.sample("s", dist.CAR(0.0, alpha, precision, neighbours))
    numpyro.sample("y", dist.Poisson(expected * jnp.exp(mu + s)), obs=y)


def mixture(y: Any) -> None:
    w = numpyro.sample("w", dist.Dirichlet(jnp.ones(3)))
    mu = numpyro.sample("mu", dist.Normal(jnp.array([-4.0, 0.0, 4.0]), 1.0).to_event(1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(2).expand([3]).to_event(1))
    with numpyro.plate("n", len(y)):
        z = numpyro.sample("z", dist.Categorical(w))
        numpyro.sample("y", dist.Normal(mu[z], sigma[z]), obs=y)


def mixture_summed(y: Any) -> None:
    w = numpyro.sample("w", dist.Dirichlet(jnp.ones(3)))
    mu = numpyro.sample("mu", dist.Normal(jnp.array([-4.0, 0.0, 4.0]), 1.0).to_event(1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(2).expand([3]).to_event(1))
    with numpyro.plate("n", len(y)):
        mixed = dist.MixtureSameFamily(dist.Categorical(w), dist.Normal(mu, sigma))
        numpyro.sample("y", mixed, obs=y)


def _regimes() -> tuple[Any, Any, Any]:
    stay = numpyro.sample("stay", dist.Beta(8.0, 2.0).expand([2]).to_event(1))
    shift = numpyro.sample("shift", dist.HalfNormal(1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1))
    move = jnp.array([[stay[0], 1 - stay[0]], [1 - stay[1], stay[1]]])
    return move, jnp.array([-1.0, 1.0]) * shift, sigma


def regimes(y: Any) -> None:
    move, mu, sigma = _regimes()

    def step(s: Any, y: Any) -> tuple[Any, None]:
        s = numpyro.sample("s", dist.Categorical(move[s]))
        numpyro.sample("y", dist.Normal(mu[s], sigma), obs=y)
        return s, None

    scan(step, 0, jnp.asarray(y))


def regimes_summed(y: Any) -> None:
    move, mu, sigma = _regimes()
    seen = dist.Normal(mu, sigma).log_prob(jnp.asarray(y)[:, None])

    def step(before: Any, row: Any) -> tuple[Any, None]:
        return jax.nn.logsumexp(before[:, None] + jnp.log(move), axis=0) + row, None

    last, _ = jax.lax.scan(step, jnp.array([0.0, -jnp.inf]), seen)
    numpyro.factor("y", jax.nn.logsumexp(last))


def _occupied(x: Any) -> tuple[Any, Any]:
    b = numpyro.sample("b", dist.Normal(0, 1.5).expand([2]).to_event(1))
    p = numpyro.sample("p", dist.Beta(1.0, 1.0))
    return b[0] + b[1] * x, p


def occupancy(x: Any, seen: Any) -> None:
    logits, p = _occupied(x)
    with numpyro.plate("site", len(x)):
        z = numpyro.sample("z", dist.Bernoulli(logits=logits))
        numpyro.sample("seen", dist.Bernoulli((p * z)[:, None]).expand(seen.shape).to_event(1), obs=seen)


def occupancy_summed(x: Any, seen: Any) -> None:
    logits, p = _occupied(x)
    there = jax.nn.log_sigmoid(logits) + dist.Bernoulli(p).log_prob(seen).sum(1)
    away = jnp.where(seen.any(1), -jnp.inf, jax.nn.log_sigmoid(-logits))
    numpyro.factor("seen", jnp.logaddexp(there, away).sum())


def radon_table(path: Path) -> tuple[Any, ...]:
    """Counties, floors (0 or 1), a county's uranium, and log radon, of posteriordb's tables."""
    table = json.loads(path.read_text())
    g = np.asarray(table["county_idx"]) - 1
    floor, y, uppm = (np.asarray(table[n], "f4") for n in ("floor_measure", "log_radon", "log_uppm"))
    uranium = np.zeros(int(g.max()) + 1, "f4")
    uranium[g] = uppm
    return g, np.minimum(floor, 1.0), uranium, y


def credit_table(path: Path) -> tuple[Any, Any]:
    """Standardised columns with a first one of ones, and who was a bad debtor."""
    rows = np.loadtxt(path, delimiter=",", skiprows=1, dtype=np.float32)
    x = (rows[:, :-1] - rows[:, :-1].mean(0)) / rows[:, :-1].std(0)
    label = (rows[:, -1] == rows[:, -1].max()).astype("i4")
    return np.concatenate([np.ones((len(x), 1), "f4"), x], 1), label


def cases(folder: Path | None = None) -> dict[str, Case]:
    """Every model, by name. Without a folder of tables, data in their place are simulated."""
    rng = np.random.default_rng(2026)

    def yes(logits: Any) -> Any:
        return (rng.random(np.shape(logits)) < 1 / (1 + np.exp(-logits))).astype("i4")

    def sized(sizes: Any, tau: float = 1.0) -> tuple[Any, ...]:
        g = np.repeat(np.arange(len(sizes)), sizes)
        return g, (tau * rng.normal(size=len(sizes))[g] + rng.normal(size=len(g))).astype("f4"), len(sizes)

    sigma = np.array([15, 10, 16, 11, 9, 11, 10, 18], "f4")
    effect = np.array([28, 8, -3, 7, -1, 1, 18, 12], "f4")
    if folder is None:
        own = np.random.default_rng(2027)  # of its own: the other models' data are the same without tables
        county = np.sort(own.integers(0, 40, 400))
        floor, uranium = (own.random(400) < 0.2).astype("f4"), own.normal(size=40).astype("f4")
        mean = 1 + 0.7 * uranium + 0.15 * own.normal(size=40)
        radon_y = (mean[county] - 0.6 * floor + 0.8 * own.normal(size=400)).astype("f4")
        radons = {"radon-like": Case(radon, (county, floor, uranium, radon_y), ("a",))}
        debtors = own.normal(size=(200, 15)).astype("f4")
        likely = 1 / (1 + np.exp(-2 * debtors[:, 0]))
        owing, credit = "credit-like", (debtors, (own.random(200) < likely).astype("i4"))
    else:
        radons = {
            "radon, Minnesota": Case(radon, radon_table(folder / "radon_mn.json"), ("a",)),
            "radon, all states": Case(radon, radon_table(folder / "radon_all.json"), ("a",)),
        }
        owing, credit = "German credit", credit_table(folder / "german_credit_numeric.csv")
    x = (rng.normal(size=(300, 20)) @ (rng.normal(size=(20, 20)) + 2)).astype("f4")
    x /= x.std(0)
    person, item = (a.ravel() for a in np.meshgrid(np.arange(40), np.arange(12), indexing="ij"))
    answer = yes(rng.normal(size=40)[person] - rng.normal(size=12)[item])
    state, age = rng.integers(0, 20, 500), rng.integers(0, 6, 500)
    vote = yes(0.5 * rng.normal(size=20)[state])
    pair, grade = np.tile(np.arange(48), 2), np.repeat(np.arange(4), 12)
    treated = np.repeat([0.0, 1.0], 48).astype("f4")
    score = 10 * grade[pair] / 4 + rng.normal(size=48)[pair] + (1 - grade[pair] / 5) * treated
    g, _, n = sized([5] * 20)
    walk = np.cumsum(0.4 * rng.normal(size=100))
    returns = (np.exp(0.1 * np.cumsum(rng.normal(size=150))) * 0.02 * rng.standard_t(8, 150)).astype("f4")
    ar = np.zeros(200)
    for t in range(2, 200):
        ar[t] = 0.6 * ar[t - 1] + 0.2 * ar[t - 2] + rng.normal()
    place = np.stack(np.meshgrid(np.arange(6), np.arange(6)), -1).reshape(-1, 2)
    neighbours = (np.abs(place[:, None] - place).sum(-1) == 1).astype("f4")
    expected = rng.uniform(2, 20, 36).astype("f4")
    cases_seen = rng.poisson(expected * np.exp(0.1 * (place.sum(1) - 5))).astype("i4")
    part = rng.choice(3, 200, p=[0.3, 0.5, 0.2])
    mixed = (np.array([-4.0, 0.0, 4.0])[part] + rng.normal(size=200)).astype("f4")
    regime = np.cumsum(rng.random(150) < 0.1) % 2
    switching = (np.array([-1.0, 1.0])[regime] + 0.7 * rng.normal(size=150)).astype("f4")
    cover = rng.normal(size=80).astype("f4")
    found = (rng.random((80, 5)) < 0.4 * yes(0.3 + cover)[:, None]).astype("i4")
    return {
        "eight schools": Case(eight_schools, (sigma, effect), ("theta",)),
        "eight schools, log scale": Case(log_schools, (sigma, effect), ("theta",)),
        "funnel": Case(funnel, (), ("x",)),
        **radons,
        "unequal groups": Case(groups, sized([2] * 20 + [100] * 20), ("a",)),
        "large groups by hand": Case(groups_by_hand, sized([60] * 30)),
        "unequal groups with t effects": Case(
            heavy_tails, sized([1] * 10 + [40] * 10), ("a",), None, ("df",)
        ),
        "group counts": Case(counts, (g, rng.poisson(2, len(g)), n), ("a",)),
        "election-like": Case(elections, (state, age, vote), ("a", "b")),
        "electric-like": Case(
            electric, (pair, grade, treated, (score + rng.normal(size=96)).astype("f4"), 48), ("a",)
        ),
        "correlated logistic": Case(logistic, (x, yes(x[:, 0] - x[:, 1]))),
        owing: Case(logistic, credit),
        f"{owing}, shrunken": Case(shrunken, credit, ("b",)),
        f"{owing}, horseshoe": Case(horseshoe, credit, ("b",)),
        "2PL": Case(item_response, (person, item, answer, 40, 12), ("difficulty",)),
        "stochastic volatility by scan": Case(volatility, (rng.normal(size=100).astype("f4"),)),
        "random-walk volatility": Case(walking_volatility, (returns,)),
        "local level, t steps": Case(level, ((walk + 0.5 * rng.normal(size=100)).astype("f4"),)),
        "AR(2) by scan": Case(autoregression, ((3 + ar).astype("f4"),)),
        "Gaussian process of counts": Case(process, (np.linspace(0, 1, 20).astype("f4"), rng.poisson(2, 20))),
        "CAR": Case(disease_map, (neighbours, expected, cases_seen)),
        "mixture": Case(mixture, (mixed,), (), mixture_summed),
        "HMM": Case(regimes, (switching,), (), regimes_summed),
        "occupancy": Case(occupancy, (cover, found), (), occupancy_summed),
    }
