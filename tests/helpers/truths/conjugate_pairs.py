"""Conjugate pairs with their natural parameters in closed form, and near-misses that must be refused."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro import factor, plate, sample
from numpyro.contrib.control_flow import scan

Y = np.array([0.4, 1.7, 2.2, 0.9, 3.1])
U = np.array([0.2, 0.55, 0.7, 0.35, 0.9])
COUNT = np.array([2, 0, 3, 1, 4])
BITS = np.array([1, 0, 1, 1, 0])
Z = np.array([0, 2, 1, 2, 2])
N = len(Y)


@dataclass(frozen=True)
class Pair:
    """A model, the site, its family, and coefficients by statistic given a state."""

    name: str
    model: Callable[[], Any]
    site: str
    expected: Callable[[dict[str, Any]], dict[str, Any]]
    state: dict[str, Any] = field(default_factory=dict)


PAIRS: list[Pair] = []
NEAR_MISSES: list[tuple[str, Callable[[], Any], str, str]] = []


def pair(site: str, expected: Callable[[dict[str, Any]], dict[str, Any]], **state: Any):
    def enrol(model: Callable[[], Any]) -> Callable[[], Any]:
        PAIRS.append(Pair(model.__name__, model, site, expected, state))
        return model

    return enrol


def near_miss(site: str, told: str):
    def enrol(model: Callable[[], Any]) -> Callable[[], Any]:
        NEAR_MISSES.append((model.__name__, model, site, told))
        return model

    return enrol


def observe(d, y=Y):
    with plate("n", len(y)):
        # a copy: JAX remembers the precision in which it has seen an array
        sample("y", d, obs=jnp.asarray(np.array(y)))


@pair("mu", lambda s: {"mu": 1 / 4 + Y.sum() / 2.25, "mu^2": -0.5 * (1 / 4 + N / 2.25)})
def normal_mean():
    observe(dist.Normal(sample("mu", dist.Normal(1.0, 2.0)), 1.5))


@pair(
    "mu",
    lambda s: {"mu": (4 * (Y + 1)).sum() / 2.25, "mu^2": -0.5 * (1 / 4 + 16 * N / 2.25)},
)
def shifted_and_scaled_mean():
    observe(dist.Normal(4 * sample("mu", dist.Normal(0.0, 2.0)) - 1, 1.5))


@pair(
    "mu",
    lambda s: {
        "mu": np.array([Y[s["z"] == k].sum() for k in range(3)]),
        "mu^2": -0.5 * (1 / 25 + np.array([(s["z"] == k).sum() for k in range(3)])),
    },
    z=Z,
    w=np.array([0.2, 0.5, 0.3]),
)
def mixture_means():
    w = sample("w", dist.Dirichlet(jnp.ones(3)))
    mu = sample("mu", dist.Normal(0, 5).expand([3]).to_event(1))
    with plate("n", N):
        z = sample("z", dist.Categorical(w))
        sample("y", dist.Normal(mu[z], 1.0), obs=jnp.asarray(np.array(Y)))


@pair(
    "w",
    lambda s: {"log(w)": np.array([0.5, 1, 2]) - 1 + np.array([(s["z"] == k).sum() for k in range(3)])},
    z=Z,
)
def mixture_weights():
    w = sample("w", dist.Dirichlet(jnp.array([0.5, 1.0, 2.0])))
    with plate("n", N):
        sample("z", dist.Categorical(w))


GROUP = np.array([0, 1, 1, 0, 1])


@pair(
    "mu",
    lambda s: {
        "mu": np.array([Y[g == GROUP].sum() for g in (0, 1)]) + s["m"],
        "mu^2": -0.5 * (1 + np.array([(g == GROUP).sum() for g in (0, 1)])),
    },
    m=0.7,
)
def data_index():
    m = sample("m", dist.Normal(0.0, 1.0))
    with plate("g", 2):
        mu = sample("mu", dist.Normal(m, 1.0))
    observe(dist.Normal(mu[jnp.asarray(GROUP)], 1.0))


@pair("m", lambda s: {"m": s["mu"].sum() - 2 * 2, "m^2": -0.5 * (1 + 2)}, mu=np.array([0.3, -1.0]))
def hyper_mean_through_a_shift():
    m = sample("m", dist.Normal(0.0, 1.0))
    with plate("g", 2):
        sample("mu", dist.Normal(m + 2, 1.0))


@pair("tau", lambda s: {"log(tau)": 1 + N / 2, "tau": -3 - 0.5 * ((Y - 0.5) ** 2).sum()})
def precision_as_power():
    observe(dist.Normal(0.5, sample("tau", dist.Gamma(2.0, 3.0)) ** -0.5))


@pair("tau", lambda s: {"log(tau)": 1 + N / 2, "tau": -3 - 0.5 * ((Y - 0.5) ** 2).sum()})
def precision_as_root():
    observe(dist.Normal(0.5, 1 / jnp.sqrt(sample("tau", dist.Gamma(2.0, 3.0)))))


@pair("v", lambda s: {"log(v)": -3 - N / 2, "v^-1": -3 - 0.5 * ((Y - 0.5) ** 2).sum()})
def variance_under_a_root():
    observe(dist.Normal(0.5, jnp.sqrt(sample("v", dist.InverseGamma(2.0, 3.0)))))


@pair(
    "v",
    lambda s: {"log(v)": -3 - 3 / 2, "v^-1": -3 - 0.5 * (s["b"] ** 2).sum()},
    b=np.array([0.3, 1.0, -2.0]),
)
def variance_of_latents():
    v = sample("v", dist.InverseGamma(2.0, 3.0))
    sample("b", dist.Normal(0.0, jnp.sqrt(v)).expand([3]).to_event(1))


@pair("rate", lambda s: {"log(rate)": 1 + COUNT.sum(), "rate": -3.0 - N})
def gamma_poisson():
    observe(dist.Poisson(sample("rate", dist.Gamma(2.0, 3.0))), COUNT)


@pair("rate", lambda s: {"log(rate)": 1 + COUNT.sum(), "rate": -3.0 - (2 * Y).sum()})
def gamma_poisson_with_exposure():
    observe(dist.Poisson(sample("rate", dist.Gamma(2.0, 3.0)) * jnp.asarray(2 * Y)), COUNT)


@pair("rate", lambda s: {"log(rate)": 1 + N, "rate": -3 - Y.sum()})
def gamma_exponential():
    observe(dist.Exponential(sample("rate", dist.Gamma(2.0, 3.0))))


@pair("rate", lambda s: {"log(rate)": float(N), "rate": -3 - Y.sum()})
def exponential_exponential():
    observe(dist.Exponential(sample("rate", dist.Exponential(3.0))))


@pair("rate", lambda s: {"log(rate)": 1 + 2.5 * N, "rate": -3 - Y.sum()})
def gamma_rate_of_gamma():
    observe(dist.Gamma(2.5, sample("rate", dist.Gamma(2.0, 3.0))))


@pair("rate", lambda s: {"log(rate)": 1 + 2.5 * N, "rate": -3 - (1 / Y).sum()})
def gamma_rate_of_inverse_gamma():
    observe(dist.InverseGamma(2.5, sample("rate", dist.Gamma(2.0, 3.0))))


@pair("scale", lambda s: {"log(scale)": -3.0 - N, "scale^-1": -3 - Y.sum()})
def inverse_gamma_scale_of_exponential():
    observe(dist.Exponential(1 / sample("scale", dist.InverseGamma(2.0, 3.0))))


@pair("k", lambda s: {"log(k)": 1.0 + N, "k": -3 - np.log((Y + 4) / 0.5).sum()})
def gamma_shape_of_pareto():
    observe(dist.Pareto(0.5, sample("k", dist.Gamma(2.0, 3.0))), Y + 4)


@pair("k", lambda s: {"log(k)": 1.0 + N, "k": -3 - (Y**1.7).sum()})
def gamma_on_a_weibull_scale():
    k = sample("k", dist.Gamma(2.0, 3.0))
    observe(dist.Weibull(k ** (-1 / 1.7), 1.7))


@pair("p", lambda s: {"log(p)": 1 + BITS.sum(), "log(1-p)": 2 + (1 - BITS).sum()})
def beta_bernoulli():
    observe(dist.Bernoulli(sample("p", dist.Beta(2.0, 3.0))), BITS)


@pair("p", lambda s: {"log(p)": 1 + COUNT.sum(), "log(1-p)": 2 + (6 - COUNT).sum()})
def beta_binomial():
    observe(dist.Binomial(6, sample("p", dist.Beta(2.0, 3.0))), COUNT)


@pair("p", lambda s: {"log(p)": 1.0 + N, "log(1-p)": 2 + COUNT.sum()})
def beta_geometric():
    observe(dist.Geometric(sample("p", dist.Beta(2.0, 3.0))), COUNT)


SEEN = np.array([1, 0, 1, 1, 1])
ITEM = np.array([0, 1, 0, 1, 0])


@pair(
    "p",
    lambda s: {
        "log(p)": 1 + COUNT[s["z"] == 1].sum(),
        "log(1-p)": 2 + (6 - COUNT[s["z"] == 1]).sum(),
    },
    z=SEEN,
)
def detection_where_present():
    """An occupancy model as ecologists write it."""
    p = sample("p", dist.Beta(2.0, 3.0))
    with plate("n", N):
        z = sample("z", dist.Bernoulli(0.6))
        sample("y", dist.Binomial(6, p * z), obs=jnp.asarray(np.array(COUNT)))


def false_answers():
    """A test with errors of both kinds, as written with products."""
    hit = sample("hit", dist.Beta(2.0, 1.0).expand([2]).to_event(1))
    miss = sample("miss", dist.Beta(1.0, 3.0).expand([2]).to_event(1))
    with plate("n", N):
        z = sample("z", dist.Bernoulli(0.6))
        probs = z * (1 - miss[ITEM]) + (1 - z) * hit[ITEM]
        sample("y", dist.Bernoulli(probs), obs=jnp.asarray(np.array(BITS)))


def _counted(site, of, z, first, second):
    """Exponents of `x` and `1 - x` where `z` holds: prior ones and successes, by item."""
    ones = np.array([(of & z & (i == ITEM)).sum() for i in (0, 1)])
    noughts = np.array([(~of & z & (i == ITEM)).sum() for i in (0, 1)])
    return {f"log({site})": first + ones, f"log(1-{site})": second + noughts}


_STATE = {"z": SEEN, "hit": np.array([0.3, 0.6]), "miss": np.array([0.2, 0.1])}
pair("hit", lambda s: _counted("hit", BITS == 1, s["z"] == 0, 1, 0), **_STATE)(false_answers)
pair("miss", lambda s: _counted("miss", BITS == 0, s["z"] == 1, 0, 2), **_STATE)(false_answers)


@pair(
    "phi",
    lambda s: {
        "log(phi)": (s["alive"] == 1).sum(),
        "log(1-phi)": 1 + (np.append(1, s["alive"][:-1]) & (s["alive"] == 0)).sum(),
    },
    alive=np.array([1, 1, 1, 0, 0]),
)
def survival_until_death():
    """Of Cormack, Jolly and Seber: a chain whose first value is given."""
    phi = sample("phi", dist.Beta(1.0, 2.0))

    def step(alive, seen):
        alive = sample("alive", dist.Bernoulli(phi * alive))
        sample("y", dist.Bernoulli(0.4 * alive), obs=seen)
        return alive, None

    scan(step, 1, jnp.array([1, 0, 1, 0, 0]))


@near_miss("p", "p * z[i] * 0.5")
def halved_where_present():
    p = sample("p", dist.Beta(2.0, 3.0))
    with plate("n", N):
        z = sample("z", dist.Bernoulli(0.6))
        sample("y", dist.Bernoulli(p * z * 0.5), obs=jnp.asarray(np.array(BITS)))


@near_miss("p", "z[i] * p + (1 - a[i]) * 0.1")
def two_gates():
    """Zeros and ones of two sites: where both are one, probabilities add up."""
    p = sample("p", dist.Beta(2.0, 3.0))
    with plate("n", N):
        z = sample("z", dist.Bernoulli(0.6))
        a = sample("a", dist.Bernoulli(0.5))
        sample("y", dist.Bernoulli(z * p + (1 - a) * 0.1), obs=jnp.asarray(np.array(BITS)))


@near_miss("p", "p * z[i]/2")
def times_three_values():
    p = sample("p", dist.Beta(2.0, 3.0))
    with plate("n", N):
        z = sample("z", dist.Categorical(jnp.ones(3) / 3))
        sample("y", dist.Bernoulli(p * z / 2), obs=jnp.asarray(np.array(BITS)))


@pair("p", lambda s: {"log(p)": BITS.sum(), "log(1-p)": (1 - BITS).sum()})
def uniform_prior_of_a_probability():
    observe(dist.Bernoulli(sample("p", dist.Uniform(0.0, 1.0))), BITS)


@pair("w", lambda s: {"log(w)": np.array([0.5, 1, 2]) - 1 + np.array([2.0, 5.0, 1.0])})
def dirichlet_multinomial():
    w = sample("w", dist.Dirichlet(jnp.array([0.5, 1.0, 2.0])))
    sample("y", dist.Multinomial(8, w), obs=jnp.array([2, 5, 1]))


def crossed(a, n, b, m):
    """Counts of every pair of labels."""
    return np.array([[((a == i) & (b == j)).sum() for j in range(m)] for i in range(n)])


DOC, WORD = np.array([0, 0, 1, 1, 1]), np.array([1, 3, 0, 3, 2])


@pair(
    "phi",
    lambda s: {
        "log(phi)": 0.1
        - 1
        + np.array([[((s["z"] == k) & (v == WORD)).sum() for v in range(4)] for k in range(3)])
    },
    z=Z,
    theta=np.full((2, 3), 1 / 3),
)
@pair(
    "theta",
    lambda s: {
        "log(theta)": 0.5
        - 1
        + np.array([[((s["z"] == k) & (d == DOC)).sum() for k in range(3)] for d in range(2)])
    },
    z=Z,
    phi=np.full((3, 4), 1 / 4),
)
def topics():
    with plate("d", 2):
        theta = sample("theta", dist.Dirichlet(jnp.full(3, 0.5)))
    with plate("k", 3):
        phi = sample("phi", dist.Dirichlet(jnp.full(4, 0.1)))
    with plate("n", N):
        z = sample("z", dist.Categorical(theta[DOC.copy()]))
        sample("y", dist.Categorical(phi[z]), obs=jnp.asarray(WORD.copy()))


@pair("s", lambda s: {"s^2": -0.5 * (1 / 4 + N), "s": Y.sum()})
def half_normal_prior_of_a_mean():
    observe(dist.Normal(sample("s", dist.HalfNormal(2.0)), 1.0))


@pair("m", lambda s: {"m": Y.sum(), "m^2": -0.5 * N})
def uniform_prior_of_a_mean():
    observe(dist.Normal(sample("m", dist.Uniform(-1.0, 2.0)), 1.0))


@pair("m", lambda s: {"m": Y.sum() + 0.5, "m^2": -0.5 * (1 + N)})
def truncated_prior_of_a_mean():
    observe(dist.Normal(sample("m", dist.TruncatedNormal(0.5, 1.0, low=-1.0, high=2.0)), 1.0))


@pair("m", lambda s: {"log(m)": -1 + np.log(Y).sum() / 4, "log(m)^2": -0.5 * (1 + N / 4)})
def log_normal_location():
    observe(dist.LogNormal(jnp.log(sample("m", dist.LogNormal(0.0, 1.0))), 2.0))


@pair("mu", lambda s: {"mu": 1 / 4 + np.log(Y).sum(), "mu^2": -0.5 * (1 / 4 + N)})
def normal_location_of_a_log_normal():
    observe(dist.LogNormal(sample("mu", dist.Normal(1.0, 2.0)), 1.0))


@pair("mu", lambda s: {"mu": -(BITS * (Y - 1)).sum(), "mu^2": -0.5 * (1 + BITS.sum())})
def masked_and_negated():
    mu = sample("mu", dist.Normal(0.0, 1.0))
    observe(dist.Normal(1 - mu, 1.0).mask(jnp.asarray(BITS == 1)))


@pair("mu", lambda s: {"mu": 0.4 * Y.sum() - 1.5, "mu^2": -0.5 * (1 + 0.4 * N)})
def scaled_and_a_factor():
    mu = sample("mu", dist.Normal(0.0, 1.0))
    factor("f", -1.5 * mu)
    with numpyro.handlers.scale(scale=0.4):
        observe(dist.Normal(mu, 1.0))


@pair("m1", lambda s: {"m1": (Y * (1 - BITS)).sum(), "m1^2": -0.5 * (1 + (1 - BITS).sum())}, m2=2.0)
def branch_on_data():
    m1, m2 = sample("m1", dist.Normal(0.0, 1.0)), sample("m2", dist.Gamma(2.0, 1.0))
    observe(dist.Normal(jnp.where(jnp.asarray(BITS == 1), m2, m1), 1.0))


@pair("m", lambda s: {"m": Y.sum(), "m^2": -0.5 * N}, c=0.7)
def uniform_prior_around_a_latent():
    c = sample("c", dist.Normal(0.0, 1.0))
    observe(dist.Normal(sample("m", dist.Uniform(c - 1, c + 1)), 1.0))


@pair("m", lambda s: {"m": Y.sum(), "m^2": -0.5 * (1 + N)}, c=1.2)
def prior_truncated_at_a_latent():
    c = sample("c", dist.Normal(0.0, 1.0))
    observe(dist.Normal(sample("m", dist.TruncatedNormal(0.0, 1.0, low=c)), 1.0))


# near misses


@near_miss("a", "lgamma")
def gamma_shape():
    observe(dist.Gamma(sample("a", dist.Gamma(2.0, 1.0)), 1.0))


@near_miss("m", "log")
def logarithm_as_a_mean():
    observe(dist.Normal(jnp.log(sample("m", dist.Gamma(2.0, 1.0))), 1.0))


@near_miss("m", "absolute value")
def normal_inside_abs():
    observe(dist.Normal(jnp.abs(sample("m", dist.Normal(0.0, 1.0))), 1.0))


@near_miss("m", "compares it")
def normal_inside_relu():
    m = sample("m", dist.Normal(0.0, 1.0))
    observe(dist.Normal(jnp.where(m > 0, m, 0.0), 1.0))


@near_miss("m", "maximum")
def normal_inside_maximum():
    observe(dist.Normal(jnp.maximum(sample("m", dist.Normal(0.0, 1.0)), 0.0), 1.0))


@near_miss("m", "m^4")
def square_as_a_mean():
    observe(dist.Normal(sample("m", dist.Normal(0.0, 1.0)) ** 2, 1.0))


@near_miss("m", "exponential")
def exponential_as_a_mean():
    observe(dist.Normal(jnp.exp(sample("m", dist.Normal(0.0, 1.0))), 1.0))


@near_miss("m", "unknown sign")
def logistic_regression():
    observe(dist.Bernoulli(logits=sample("m", dist.Normal(0.0, 1.0))), BITS)


@near_miss("s", "s^-2")
def gamma_prior_of_a_scale():
    observe(dist.Normal(0.0, sample("s", dist.Gamma(2.0, 1.0))))


@near_miss("s", "log1p")
def half_cauchy_scale():
    observe(dist.Normal(0.0, sample("s", dist.HalfCauchy(1.0))))


@near_miss("m", "log1p")
def student_likelihood():
    observe(dist.StudentT(3.0, sample("m", dist.Normal(0.0, 1.0)), 1.0))


@near_miss("m", "log1p")
def cauchy_prior():
    observe(dist.Normal(sample("m", dist.Cauchy(0.0, 1.0)), 1.0))


@near_miss("m", "absolute value")
def laplace_prior():
    observe(dist.Normal(sample("m", dist.Laplace(0.0, 1.0)), 1.0))


@near_miss("m", "m^-1")
def mean_and_scale_at_once():
    m = sample("m", dist.Gamma(2.0, 1.0))
    observe(dist.Normal(m, jnp.sqrt(m)))


@near_miss("m", "m^2")
def gamma_prior_of_a_mean():
    observe(dist.Normal(sample("m", dist.Gamma(2.0, 1.0)), 1.0))


@near_miss("p", "maximum")
def probability_of_a_mixture():
    p = sample("p", dist.Beta(2.0, 3.0))
    observe(dist.Bernoulli(0.9 * p + 0.1 * (1 - p)), BITS)


@near_miss("p", "log(1-p)")
def beta_prior_of_a_mean():
    observe(dist.Normal(sample("p", dist.Beta(2.0, 3.0)), 1.0))


@near_miss("w", "mixes several elements")
def tempered_weights():
    w = sample("w", dist.Dirichlet(jnp.ones(3)))
    v = w**2 / jnp.sum(w**2)
    with plate("n", N):
        sample("y", dist.Categorical(v), obs=jnp.asarray(Z))


@near_miss("m", "degree 4")
def product_of_elements():
    m = sample("m", dist.Normal(0.0, 1.0).expand([2]).to_event(1))
    observe(dist.Normal(m[0] * m[1], 1.0))


@near_miss("lam", "cos")
def cosine_of_a_mean():
    observe(dist.Normal(jnp.cos(sample("lam", dist.Normal(0.0, 1.0))), 1.0))


@near_miss("m", "rounds it")
def rounded_mean():
    m = sample("m", dist.Normal(0.0, 1.0))
    observe(dist.Normal(jnp.asarray(m, jnp.int32) * 1.0, 1.0))


@near_miss("m", "")
def logsumexp_of_two():
    m = sample("m", dist.Normal(0.0, 1.0))
    factor("f", jnp.logaddexp(m, 1.0))


@near_miss("m", "")
def mixture_of_same_family():
    m = sample("m", dist.Normal(0.0, 1.0))
    locs = jnp.stack([m, jnp.asarray(2.0)])
    parts = dist.Normal(locs, 1.0)
    observe(dist.MixtureSameFamily(dist.Categorical(jnp.array([0.5, 0.5])), parts))


@near_miss("m", "AffineTransform")
def stretched_uniform_prior():
    stretch = dist.transforms.AffineTransform(5.0, 2.0)
    m = sample("m", dist.TransformedDistribution(dist.Uniform(0.0, 1.0), stretch))
    observe(dist.Normal(m, 1.0))
