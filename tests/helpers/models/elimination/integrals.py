"""Models of which continuous sites can be integrated out, the sites, and a state of the others."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.contrib.control_flow import scan

S, plate = numpyro.sample, numpyro.plate
_R = np.random.default_rng(11)


@dataclass(frozen=True)
class Case:
    """A model with data, the sites to integrate out, a state of the rest; `told` stands in the marginal's
    text."""

    fn: Callable[..., Any]
    args: tuple[Any, ...]
    sites: tuple[str, ...]
    state: dict[str, Any]
    told: str = ""


def walk(y):
    s, o = S("s", dist.InverseGamma(1.0, 0.1)), S("o", dist.InverseGamma(1.0, 0.1))
    x = S("x", dist.GaussianRandomWalk(jnp.sqrt(s), num_steps=len(y)))
    with plate("T", len(y)):
        S("y", dist.Normal(x, jnp.sqrt(o)), obs=y)


def second_order(y):
    s, o = S("s", dist.Gamma(2.0, 2.0)), S("o", dist.Gamma(2.0, 2.0))
    x = S("x", dist.Normal(0, 10).expand([len(y)]).to_event(1))
    numpyro.factor("bends", dist.Normal(0, s).log_prob(x[2:] - 2 * x[1:-1] + x[:-2]).sum())
    S("y", dist.Normal(x, o), obs=y)


def trend(y):
    """A level with a slope, both walks, of unequal lengths, and the effect of the month."""
    sl, ss, o = (S(n, dist.HalfNormal(1.0)) for n in ("sl", "ss", "o"))
    n = len(y)
    slope = S("slope", dist.GaussianRandomWalk(ss, num_steps=n - 1))
    first = S("first", dist.Normal(0, 5))
    level = S("level", dist.Normal(0, 20).expand([n]).to_event(1))
    numpyro.factor("level_first", dist.Normal(first, 1.0).log_prob(level[0]))
    numpyro.factor("level_moves", dist.Normal(0, sl).log_prob(level[1:] - level[:-1] - slope).sum())
    month = S("month", dist.Normal(0, 1).expand([4]).to_event(1))
    S("y", dist.Normal(level + month[jnp.arange(n) % 4], o), obs=y)


def by_scan(y):
    """A level and its slope by NumPyro's scan, beside a coefficient."""
    sl, ss, o = (S(n, dist.HalfNormal(1.0)) for n in ("sl", "ss", "o"))
    b = S("b", dist.Normal(0, 3))

    def step(carry, y):
        level, slope = carry
        slope = S("slope", dist.Normal(slope, ss))
        level = S("level", dist.Normal(level + slope, sl))
        S("y", dist.Normal(level + b, o), obs=y)
        return (level, slope), None

    scan(step, (0.0, 0.0), y)


def autoregression(y):
    phi = S("phi", dist.Normal(0, 0.5).expand([2]).to_event(1))
    s, o = S("s", dist.HalfNormal(1.0)), S("o", dist.HalfNormal(1.0))
    x = S("x", dist.Normal(0, 10).expand([len(y)]).to_event(1))
    numpyro.factor("ar", dist.Normal(phi[0] * x[1:-1] + phi[1] * x[:-2], s).log_prob(x[2:]).sum())
    S("y", dist.Normal(x, o), obs=y)


def dynamic_regression(X, y):
    s, o = S("s", dist.HalfNormal(1.0).expand([2]).to_event(1)), S("o", dist.HalfNormal(1.0))
    with plate("k", 2):
        b = S("b", dist.GaussianRandomWalk(s, num_steps=len(y)))
    S("y", dist.Normal((X * b.T).sum(-1), o), obs=y)


def panel(y):
    """Walks side by side, around a mean that they share."""
    mu, s, o = S("mu", dist.Normal(0, 5)), S("s", dist.HalfNormal(1.0)), S("o", dist.HalfNormal(1.0))
    with plate("J", y.shape[0]):
        x = S("x", dist.GaussianRandomWalk(s, num_steps=y.shape[1]))
    S("y", dist.Normal(mu + x, o), obs=y)


def crossed(g, h, y):
    mu, o = S("mu", dist.Normal(0, 10)), S("o", dist.HalfNormal(1.0))
    sa, sb = S("sa", dist.HalfNormal(1.0)), S("sb", dist.HalfNormal(1.0))
    with plate("A", 5):
        a = S("a", dist.Normal(0, sa))
    with plate("B", 4):
        b = S("b", dist.Normal(0, sb))
    S("y", dist.Normal(mu + a[g] + b[h], o), obs=y)


def nested(school, pupil, y):
    mu, o = S("mu", dist.Normal(0, 10)), S("o", dist.HalfNormal(1.0))
    sa, sb = S("sa", dist.HalfNormal(1.0)), S("sb", dist.HalfNormal(1.0))
    with plate("A", 3):
        a = S("a", dist.Normal(mu, sa))
    with plate("B", 6):
        b = S("b", dist.Normal(a[school], sb))
    S("y", dist.Normal(b[pupil], o), obs=y)


def slopes(g, x, y):
    """Correlated intercepts and slopes, with their means."""
    mu = S("mu", dist.Normal(0, 5).expand([2]).to_event(1))
    sd, o = S("sd", dist.HalfNormal(1.0).expand([2]).to_event(1)), S("o", dist.HalfNormal(1.0))
    root = S("root", dist.LKJCholesky(2, 2.0))
    with plate("G", 5):
        b = S("b", dist.MultivariateNormal(mu, scale_tril=sd[:, None] * root))
    S("y", dist.Normal(b[g, 0] + b[g, 1] * x, o), obs=y)


def factors(y):
    load = S("load", dist.Normal(0, 1).expand([y.shape[1], 2]).to_event(2))
    o = S("o", dist.HalfNormal(1.0).expand([y.shape[1]]).to_event(1))
    with plate("N", len(y)):
        f = S("f", dist.Normal(0, 1).expand([2]).to_event(1))
        S("y", dist.Normal(f @ load.T, o).to_event(1), obs=y)


def process(t, y):
    ell, s, o = S("ell", dist.LogNormal(0, 1)), S("s", dist.HalfNormal(1.0)), S("o", dist.HalfNormal(1.0))
    k = s**2 * jnp.exp(-((t[:, None] - t[None]) ** 2) / (2 * ell**2)) + 1e-6 * jnp.eye(len(t))
    f = S("f", dist.MultivariateNormal(jnp.zeros(len(t)), k))
    S("y", dist.Normal(f, o), obs=y)


def areas(pairs, y):
    """An intrinsic autoregression over a map (ICAR), its sum held near zero, around a mean."""
    tau, o = S("tau", dist.Gamma(2.0, 1.0)), S("o", dist.HalfNormal(1.0))
    mu = S("mu", dist.Normal(0, 5))
    with plate("areas", len(y)):
        x = S("x", dist.ImproperUniform(dist.constraints.real, (), ()))
    apart = jnp.sum((x[pairs[:, 0]] - x[pairs[:, 1]]) ** 2)
    numpyro.factor("neighbours", (len(y) - 1) / 2 * jnp.log(tau) - tau * apart / 2)
    numpyro.factor("sum", dist.Normal(0, 0.01 * len(y)).log_prob(x.sum()))
    S("y", dist.Normal(mu + x, o), obs=y)


def scaled_areas(pairs, y):
    """The same on a scale of one under a proper prior, and scaled by its standard deviation."""
    sd, o = S("sd", dist.HalfNormal(1.0)), S("o", dist.HalfNormal(1.0))
    mu = S("mu", dist.Normal(0, 5))
    x = S("x", dist.Normal(0, 10).expand([len(y)]).to_event(1))
    with plate("edges", len(pairs)):
        numpyro.factor("neighbours", dist.Normal(0, 1).log_prob(x[pairs[:, 0]] - x[pairs[:, 1]]))
    numpyro.factor("mean", dist.Normal(0, 0.01).log_prob(x.mean()))
    S("y", dist.Normal(mu + sd * x, o), obs=y)


def regression(X, y):
    """Coefficients whose prior is scaled by the noise: normal–inverse-gamma."""
    tau = S("tau", dist.HalfCauchy(1.0))
    v = S("v", dist.InverseGamma(3.0, 2.0))
    a = S("a", dist.Normal(1.0, 3 * jnp.sqrt(v)))
    b = S("b", dist.Normal(0, tau * jnp.sqrt(v)).expand([X.shape[1]]).to_event(1))
    S("y", dist.Normal(a + X @ b, jnp.sqrt(v)), obs=y)


def precisions(g, y):
    """The same by precisions, with groups."""
    tau = S("tau", dist.Gamma(2.0, 2.0))
    p = S("p", dist.Gamma(3.0, 2.0))
    with plate("G", 4):
        a = S("a", dist.Normal(1.0, (tau * p) ** -0.5))
    S("y", dist.Normal(a[g], p**-0.5), obs=y)


def noise(*shape):
    """Some data."""
    return _R.normal(size=shape)


_G = np.arange(20) % 5
# a grid of four rows of five areas
_EAST = [(i, i + 1) for i in range(20) if i % 5 < 4]
_GRID = np.array([*_EAST, *((i, i + 5) for i in range(15))])
GAUSSIAN = {
    "walk": Case(walk, (noise(18).cumsum(),), ("x",), {"s": 0.3, "o": 0.7}, "18 steps of 1"),
    "second_order": Case(second_order, (noise(18),), ("x",), {"s": 0.3, "o": 0.7}, "9 steps of 2"),
    "trend": Case(
        trend,
        (noise(20),),
        ("first", "slope", "level", "month"),
        {"sl": 0.4, "ss": 0.2, "o": 0.5},
        "then 5 together",
    ),
    "by_scan": Case(
        by_scan, (noise(18),), ("b", "slope", "level"), {"sl": 0.4, "ss": 0.2, "o": 0.5}, "18 steps of 2"
    ),
    "autoregression": Case(
        autoregression,
        (noise(18),),
        ("x",),
        {"phi": np.array([0.5, 0.2]), "s": 0.6, "o": 0.4},
        "9 steps of 2",
    ),
    "dynamic_regression": Case(
        dynamic_regression,
        (noise(18, 2), noise(18)),
        ("b",),
        {"s": np.array([0.3, 0.5]), "o": 0.4},
        "18 steps of 2",
    ),
    "panel": Case(
        panel, (noise(3, 17),), ("mu", "x"), {"s": 0.3, "o": 0.7}, "3 chains of 17 steps of 1, then 1"
    ),
    "crossed": Case(
        crossed,
        (_G, np.arange(20) // 5, noise(20)),
        ("mu", "a", "b"),
        {"sa": 0.5, "sb": 0.8, "o": 0.6},
        "groups",
    ),
    "nested": Case(
        nested,
        (np.array([0, 0, 1, 1, 2, 2]), np.arange(18) % 6, noise(18)),
        ("mu", "a", "b"),
        {"sa": 0.5, "sb": 0.8, "o": 0.6},
    ),
    "slopes": Case(
        slopes,
        (_G, noise(20), noise(20)),
        ("mu", "b"),
        {"sd": np.array([0.5, 0.8]), "o": 0.6, "root": np.array([[1.0, 0.0], [0.6, 0.8]])},
        "12 together",
    ),
    "factors": Case(
        factors, (noise(7, 3),), ("f",), {"load": noise(3, 2), "o": np.array([0.5, 0.8, 1.1])}, "7 groups"
    ),
    "areas": Case(areas, (_GRID, noise(20)), ("mu", "x"), {"tau": 1.4, "o": 0.6}, "21 together"),
    "scaled_areas": Case(scaled_areas, (_GRID, noise(20)), ("mu", "x"), {"sd": 0.7, "o": 0.6}, "21 together"),
    "process": Case(process, (np.linspace(0, 3, 9), noise(9)), ("f",), {"ell": 0.8, "s": 1.2, "o": 0.5}),
}
SCALED = {
    "regression": Case(
        regression, (noise(12, 2), noise(12)), ("a", "b", "v"), {"tau": 0.7}, "which scales all"
    ),
    "precisions": Case(
        precisions, (np.arange(12) % 4, noise(12)), ("a", "p"), {"tau": 0.7}, "which scales all"
    ),
}
