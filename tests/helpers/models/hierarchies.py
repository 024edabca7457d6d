"""Hierarchical models as people write them, with what enters the location and the scale of their sites."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.contrib.control_flow import scan
from numpyro.infer.gibbs import prototype_trace

from helpers.startup.arrays import array

RNG = np.random.default_rng(3)
EFFECT = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERROR = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
GROUP = np.repeat(np.arange(5), [2, 3, 4, 6, 9])
Y = RNG.normal(size=len(GROUP))
X = RNG.normal(size=(len(GROUP), 3))
LABEL = (RNG.random(len(GROUP)) < 0.5).astype(int)


def eight_schools(sigma, y):
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("J", len(y)):
        theta = numpyro.sample("theta", dist.Normal(mu, tau))
        numpyro.sample("y", dist.Normal(theta, sigma), obs=y)


def eight_schools_by_hand(sigma, y):
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("J", len(y)):
        z = numpyro.sample("z", dist.Normal(0, 1))
        theta = numpyro.deterministic("theta", mu + tau * z)
        numpyro.sample("y", dist.Normal(theta, sigma), obs=y)


def varying_intercepts(g, x, y):
    gamma = numpyro.sample("gamma", dist.Normal(0, 1).expand([2]).to_event(1))
    sigma_a = numpyro.sample("sigma_a", dist.HalfNormal(1))
    level = jnp.linspace(-1, 1, 5)
    a = numpyro.sample("a", dist.Normal(gamma[0] + gamma[1] * level, sigma_a).to_event(1))
    b = numpyro.sample("b", dist.Normal(0, 1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1))
    numpyro.sample("y", dist.Normal(a[g] + b * x[:, 0], sigma), obs=y)


def two_levels(g, y):
    top = numpyro.sample("top", dist.Normal(0, 1))
    spread = numpyro.sample("spread", dist.HalfNormal(1))
    middle = numpyro.sample("middle", dist.Normal(top, spread).expand([2]))
    low = numpyro.sample("low", dist.StudentT(4.0, middle[jnp.array([0, 0, 1, 1, 1])], 0.5))
    numpyro.sample("y", dist.Normal(low[g], 1.0), obs=y)


def horseshoe(x, label):
    tau = numpyro.sample("tau", dist.HalfCauchy(1))
    lam = numpyro.sample("lam", dist.HalfCauchy(1).expand([3]))
    beta = numpyro.sample("beta", dist.Normal(0, tau * lam))
    numpyro.sample("label", dist.Bernoulli(logits=x @ beta), obs=label)


def horseshoe_by_hand(x, label):
    tau = numpyro.sample("tau", dist.HalfCauchy(1))
    lam = numpyro.sample("lam", dist.HalfCauchy(1).expand([3]))
    z = numpyro.sample("z", dist.Normal(0, 1).expand([3]))
    numpyro.sample("label", dist.Bernoulli(logits=x @ (z * lam * tau)), obs=label)


def gathered_by_hand(g, x, y):
    """Picked first, then scaled, among other summands."""
    b = numpyro.sample("b", dist.Normal(0, 1))
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    z = numpyro.sample("z", dist.Normal(0, 1).expand([5]))
    numpyro.sample("y", dist.Normal(b * x[:, 0] + mu + tau * z[g], 1.0), obs=y)


def slopes_together(g, x, y):
    """An intercept and a slope for each group, which go together."""
    top = numpyro.sample("top", dist.Normal(0, 2).expand([2]).to_event(1))
    spread = numpyro.sample("spread", dist.HalfNormal(1).expand([2]).to_event(1))
    chol = numpyro.sample("chol", dist.LKJCholesky(2, 2.0))
    with numpyro.plate("group", 5):
        z = numpyro.sample("z", dist.MultivariateNormal(top, scale_tril=spread[:, None] * chol))
    numpyro.sample("y", dist.Normal(z[g, 0] + z[g, 1] * x[:, 0], 1.0), obs=y)


def vectors_of_t(y):
    """Vectors of Student's t, each with a factor of its own."""
    size = numpyro.sample("size", dist.Gamma(2, 2).expand([3]).to_event(1))
    factor = size[:, None] * jnp.array([[1.0, 0.0, 0.0], [0.5, 1.0, 0.0], [-0.3, 0.2, 1.0]])
    with numpyro.plate("row", 2):
        t = dist.MultivariateStudentT(5.0, jnp.zeros(3), jnp.stack([factor, 2 * factor]))
        z = numpyro.sample("z", t)
        numpyro.sample("y", dist.Normal(z.sum(-1), 1.0), obs=y)


def slopes_by_hand(g, x, y):
    """Elements with locations and scales of their own, stretched by data."""
    top = numpyro.sample("top", dist.Normal(0, 1).expand([5]))
    spread = numpyro.sample("spread", dist.LogNormal(0, 1).expand([3]))
    with numpyro.plate("groups", 5):
        z = numpyro.sample("z", dist.StudentT(5.0, 0, 1).expand([3]).to_event(1))
    slopes = top[g][:, None] - jnp.take(z, g, axis=0) * spread
    numpyro.sample("y", dist.Normal(jnp.sum(slopes * x, -1), 1.0), obs=y)


def log_scales(y):
    scale = numpyro.sample("scale", dist.LogNormal(0, 1))
    rates = numpyro.sample("rates", dist.LogNormal(0.0, scale).expand([len(y)]))
    numpyro.sample("y", dist.Normal(0, rates), obs=y)


def gaussian_process(x, y):
    length = numpyro.sample("length", dist.HalfNormal(1))
    size = numpyro.sample("size", dist.HalfNormal(1))
    k = size**2 * jnp.exp(-0.5 * ((x[:, None] - x) / length) ** 2) + 1e-3 * jnp.eye(len(x))
    f = numpyro.sample("f", dist.MultivariateNormal(0, k))
    numpyro.sample("y", dist.Poisson(jnp.exp(f)), obs=y)


def random_walk(y):
    step = numpyro.sample("step", dist.HalfNormal(1))
    h = numpyro.sample("h", dist.GaussianRandomWalk(step, len(y)))
    numpyro.sample("y", dist.Normal(h, 1.0), obs=y)


def autoregressive(y):
    phi = numpyro.sample("phi", dist.Uniform(-1, 1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1))

    def step(before, obs):
        h = numpyro.sample("h", dist.Normal(phi * before, sigma))
        numpyro.sample("y", dist.Normal(h, 1.0), obs=obs)
        return h, None

    scan(step, 0.0, jnp.asarray(y))


def areas(y):
    precision = numpyro.sample("precision", dist.Gamma(2.0, 1.0))
    s = numpyro.sample("s", dist.CAR(0.0, 0.5, precision, jnp.ones((len(y),) * 2) - jnp.eye(len(y))))
    numpyro.sample("y", dist.Poisson(jnp.exp(s)), obs=y)


def plain_regression(x, y):
    beta = numpyro.sample("beta", dist.Normal(0, 1).expand([3]))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1))
    numpyro.sample("y", dist.Normal(x @ beta, sigma), obs=y)


def looped(y):
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    tau = numpyro.sample("tau", dist.HalfNormal(1))
    for i in range(4):
        t = numpyro.sample(f"t[{i}]", dist.Normal(mu, tau))
        numpyro.sample(f"y[{i}]", dist.Normal(t, 1.0), obs=y[i])


# near misses: standard sites that are read in another way than a + b * z with b above 0


def squared(y):
    tau = numpyro.sample("tau", dist.HalfNormal(1))
    z = numpyro.sample("z", dist.Normal(0, 1).expand([len(y)]))
    numpyro.sample("y", dist.Normal(tau * z**2, 1.0), obs=y)


def used_twice(y):
    tau = numpyro.sample("tau", dist.HalfNormal(1))
    z = numpyro.sample("z", dist.Normal(0, 1).expand([len(y)]))
    numpyro.sample("y", dist.Normal(tau * z, 1.0 + z**2), obs=y)


def unknown_sign(y):
    tau = numpyro.sample("tau", dist.Normal(0, 1))
    z = numpyro.sample("z", dist.Normal(0, 1).expand([len(y)]))
    numpyro.sample("y", dist.Normal(tau * z, 1.0), obs=y)


def stretched(y):
    tau = numpyro.sample("tau", dist.HalfNormal(1).expand([len(y)]))
    z = numpyro.sample("z", dist.Normal(0, 1))
    numpyro.sample("y", dist.Normal(tau * z, 1.0), obs=y)


def not_standard(y):
    tau = numpyro.sample("tau", dist.HalfNormal(1))
    z = numpyro.sample("z", dist.Normal(0, 2).expand([len(y)]))
    numpyro.sample("y", dist.Normal(tau * z, 1.0), obs=y)


def scaled_by_reading(g, y):
    tau = numpyro.sample("tau", dist.HalfNormal(1).expand([len(y)]))
    z = numpyro.sample("z", dist.Normal(0, 1).expand([5]))
    numpyro.sample("y", dist.Normal(tau * z[g], 1.0), obs=y)


def picked_by_a_latent(y):
    tau = numpyro.sample("tau", dist.HalfNormal(1))
    z = numpyro.sample("z", dist.Normal(0, 1).expand([2]))
    k = numpyro.sample("k", dist.Bernoulli(0.5).expand([len(y)]))
    numpyro.sample("y", dist.Normal(tau * z[k], 1.0), obs=y)


def factor_loading(y):
    w = numpyro.sample("w", dist.HalfNormal(1).expand([2]))
    z = numpyro.sample("z", dist.Normal(0, 1).expand([len(y), 1]))
    numpyro.sample("y", dist.Normal(jnp.sum(z * w, -1), 1.0), obs=y)


class Hierarchy(NamedTuple):
    """A model, and what is expected of it: by site, what location and scale read."""

    fn: Any
    args: tuple[Any, ...]
    declared: dict[str, tuple[tuple[str, ...], tuple[str, ...]]]
    by_hand: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = MappingProxyType({})


COUNTS = np.array([1, 0, 2, 3, 1, 0])
HIERARCHIES = {
    "eight schools": Hierarchy(eight_schools, (ERROR, EFFECT), {"theta": (("mu",), ("tau",))}),
    "eight schools by hand": Hierarchy(
        eight_schools_by_hand, (ERROR, EFFECT), {}, {"z": (("mu",), ("tau",))}
    ),
    "varying intercepts": Hierarchy(varying_intercepts, (GROUP, X, Y), {"a": (("gamma",), ("sigma_a",))}),
    "two levels": Hierarchy(
        two_levels, (GROUP, Y), {"middle": (("top",), ("spread",)), "low": (("middle",), ())}
    ),
    "horseshoe": Hierarchy(horseshoe, (X, LABEL), {"beta": ((), ("tau", "lam"))}),
    "horseshoe by hand": Hierarchy(horseshoe_by_hand, (X, LABEL), {}, {"z": ((), ("tau", "lam"))}),
    "gathered by hand": Hierarchy(gathered_by_hand, (GROUP, X, Y), {}, {"z": (("mu",), ("tau",))}),
    "slopes by hand": Hierarchy(slopes_by_hand, (GROUP, X, Y), {}, {"z": (("top",), ("spread",))}),
    "slopes together": Hierarchy(slopes_together, (GROUP, X, Y), {"z": (("top",), ("spread", "chol"))}),
    "vectors of t": Hierarchy(vectors_of_t, (Y[:2],), {"z": ((), ("size",))}),
    "log scales": Hierarchy(log_scales, (Y[:4],), {"rates": ((), ("scale",))}),
    "gaussian process": Hierarchy(
        gaussian_process, (np.linspace(0, 1, 6), COUNTS), {"f": ((), ("length", "size"))}
    ),
    "random walk": Hierarchy(random_walk, (Y[:5],), {"h": ((), ("step",))}),
    "autoregressive": Hierarchy(autoregressive, (Y[:5],), {"h": (("phi", "h"), ("sigma",))}),
    "areas": Hierarchy(areas, (array([1, 0, 2, 3]),), {"s": ((), ("precision",))}),
    "plain regression": Hierarchy(plain_regression, (X, Y), {}),
    "squared": Hierarchy(squared, (Y[:4],), {}),
    "used twice": Hierarchy(used_twice, (Y[:4],), {}),
    "unknown sign": Hierarchy(unknown_sign, (Y[:4],), {}),
    "stretched": Hierarchy(stretched, (Y[:4],), {}),
    "not standard": Hierarchy(not_standard, (Y[:4],), {}),
    "scaled by reading": Hierarchy(scaled_by_reading, (GROUP, Y), {}),
    "picked by a latent": Hierarchy(picked_by_a_latent, (Y[:4],), {}),
    "factor loading": Hierarchy(factor_loading, (Y[:4],), {}),
}
LOOPED = Hierarchy(looped, (Y[:4],), {"t": (("mu",), ("tau",))})


def prior_state(fn: Any, args: Any, seed: int) -> dict[str, np.ndarray]:
    """Values of all latents, drawn from the prior."""
    trace = prototype_trace(fn, jax.random.key(seed), args, {})
    return {
        n: np.asarray(m["value"]) for n, m in trace.items() if m["type"] == "sample" and not m["is_observed"]
    }
