"""Single data divided out of Gaussian and conjugate laws of their own latents, against dense algebra in
double precision and the closed forms of mixtures."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.elimination import CHANGED
from numpyro.contrib.control_flow import scan
from scipy import stats

from tests.elimination.test_own import left_out, own_of

RNG = np.random.default_rng(3)
T = 24
Y = np.cumsum(RNG.normal(size=T)).astype(np.float32)


def rows_left_out(mean, covariance, y):
    """log p(row | the other rows) of Gaussian rows `[n, d]` of a covariance `[n, d, n, d]`."""
    n, d = y.shape
    c, x = covariance.reshape(n * d, n * d), (y - mean).reshape(-1)
    out = []
    for i in range(n):
        own, rest = np.arange(i * d, (i + 1) * d), np.delete(np.arange(n * d), np.arange(i * d, (i + 1) * d))
        gain = np.linalg.solve(c[np.ix_(rest, rest)], c[np.ix_(rest, own)])
        left = c[np.ix_(own, own)] - c[np.ix_(own, rest)] @ gain
        out.append(stats.multivariate_normal.logpdf(x[own], x[rest] @ gain, left))
    return np.array(out)


@pytest.mark.slow
def test_scores_of_a_factor_analysis():
    n, d, k = 7, 5, 2
    loadings = RNG.normal(size=(d, k)).astype(np.float32)
    y = (RNG.normal(size=(n, k)) @ loadings.T + 0.4 * RNG.normal(size=(n, d))).astype(np.float32)

    def model(y):
        psi = numpyro.sample("psi", dist.HalfNormal(1))
        mu = numpyro.sample("mu", dist.Normal(0, 1).expand([d]).to_event(1))
        with numpyro.plate("n", n):
            f = numpyro.sample("f", dist.Normal(0, 1).expand([k]).to_event(1))
            numpyro.sample("y", dist.Normal(mu + f @ loadings.T, psi).to_event(1), obs=y)

    mu = RNG.normal(size=d).astype(np.float32)
    own, found = own_of(model, "y", {"psi": 0.5, "mu": mu, "f": RNG.normal(size=(n, k))}, y)
    assert own.sites == ("f",)
    assert own.given == ()
    truth = stats.multivariate_normal.logpdf(y, mu, loadings @ loadings.T + 0.25 * np.eye(d))
    np.testing.assert_allclose(found["y"], truth, rtol=1e-4)
    assert found[CHANGED] < 1e-4


@pytest.mark.slow
def test_a_row_of_effects_of_which_one_number_is_read():
    x = RNG.normal(size=(6, 3)).astype(np.float32)
    y = RNG.normal(size=6).astype(np.float32)

    def model(y):
        tau = numpyro.sample("tau", dist.HalfNormal(1))
        with numpyro.plate("n", 6):
            b = numpyro.sample("b", dist.MultivariateNormal(jnp.zeros(3), 0.5 * jnp.eye(3) + 0.5))
            numpyro.sample("y", dist.Normal(jnp.sum(x * b, -1), tau), obs=y)

    own, found = own_of(model, "y", {"tau": 0.3, "b": RNG.normal(size=(6, 3))}, y)
    assert own.sites == ("b",)
    spread = np.einsum("ni,ij,nj->n", x, 0.5 * np.eye(3) + 0.5, x) + 0.09
    np.testing.assert_allclose(found["y"], stats.norm.logpdf(y, 0, np.sqrt(spread)), rtol=1e-4)


def trend(y, there=None):
    """A level that a slope moves, a regression, and noise."""
    sl = numpyro.sample("sl", dist.HalfNormal(1))
    sb = numpyro.sample("sb", dist.HalfNormal(1))
    c = numpyro.sample("c", dist.Normal(0, 1))

    def step(carry, at):
        (level, slope), (now, x, seen) = carry, at
        slope_now = numpyro.sample("b", dist.Normal(slope, sb))
        level = numpyro.sample("l", dist.Normal(level + slope, sl))
        with numpyro.handlers.mask(mask=seen):
            numpyro.sample("y", dist.Normal(level + c * x, 0.5), obs=now)
        return (level, slope_now), None

    x = np.cos(np.arange(T)).astype(np.float32)
    seen = np.ones(T, bool) if there is None else there
    scan(step, (jnp.zeros(()), jnp.zeros(())), (y, x, seen))


def covariance_of_trend(sl, sb):
    level, slope, c = np.zeros((T, 2 * T)), np.zeros((T, 2 * T)), 1.0
    for t in range(T):
        if t:
            level[t], slope[t] = level[t - 1] + slope[t - 1], slope[t - 1]
        level[t, t] += sl
        slope[t, T + t] += sb
    x = np.cos(np.arange(T))
    return level @ level.T + c * np.outer(x, x) + 0.25 * np.eye(T)


@pytest.mark.slow
@pytest.mark.parametrize("there", [pytest.param(None, marks=pytest.mark.slow), np.arange(T) % 5 != 2])
def test_a_level_and_its_slope_beside_a_regression(there):
    state = {"sl": 0.4, "sb": 0.2, "c": 0.0, "b": np.zeros(T), "l": np.zeros(T)}
    own, found = own_of(trend, "y", state, Y, there)
    assert set(own.sites) >= {"l", "b"}
    seen = np.ones(T, bool) if there is None else there
    covariance = covariance_of_trend(0.4, 0.2)
    if "c" not in own.sites:  # then given its value
        covariance = covariance - np.outer(np.cos(np.arange(T)), np.cos(np.arange(T)))
    truth = left_out(covariance[np.ix_(seen, seen)], Y[seen])
    np.testing.assert_allclose(np.asarray(found["y"])[seen], truth, atol=2e-3)
    assert found[CHANGED] < 1e-3


@pytest.mark.slow
def test_rows_of_data_of_factors_that_move():
    d = 3
    loadings = np.array([[1.0, 0.0], [0.5, 0.8], [-0.3, 1.1]], np.float32)
    y = RNG.normal(size=(T, d)).astype(np.float32)

    def model(y):
        s = numpyro.sample("s", dist.HalfNormal(1))

        def step(f, now):
            f = numpyro.sample("f", dist.Normal(0.8 * f, s).to_event(1))
            numpyro.sample("y", dist.Normal(loadings @ f, 0.5).to_event(1), obs=now)
            return f, None

        scan(step, jnp.zeros(2), y)

    own, found = own_of(model, "y", {"s": 0.7, "f": RNG.normal(size=(T, 2))}, y)
    assert own.sites == ("f",)
    root = np.tril(0.8 ** np.maximum(np.subtract.outer(np.arange(T), np.arange(T)), 0)) * 0.7
    covariance = np.einsum("st,ik,jk->sitj", root @ root.T, loadings, loadings)
    covariance += 0.25 * np.einsum("st,ij->sitj", np.eye(T), np.eye(d))
    np.testing.assert_allclose(found["y"], rows_left_out(0, covariance, y), atol=2e-3)


def test_pairs_of_elements_that_vary_together_in_unknown_ways_are_given():
    kernel = np.exp(-0.5 * np.subtract.outer(np.arange(8), np.arange(8)) ** 2 / 9) + 0.01 * np.eye(8)
    y = RNG.normal(size=8).astype(np.float32)

    def model(y):
        s = numpyro.sample("s", dist.HalfNormal(1))
        f = numpyro.sample("f", dist.MultivariateNormal(jnp.zeros(8), kernel))
        g = numpyro.sample("g", dist.MultivariateNormal(jnp.zeros(8), 2 * kernel))
        numpyro.sample("y", dist.Normal(f + g, s), obs=y)

    own, _ = own_of(model, "y", {"s": 0.7, "f": RNG.normal(size=8), "g": np.zeros(8)}, y)
    assert own.sites == ()
    assert own.given == ("f", "g")


@pytest.mark.slow
def test_shares_of_each_row():
    counts = np.array([[3, 0, 9], [1, 1, 1], [0, 12, 2], [40, 3, 0]])

    def model(y):
        a = numpyro.sample("a", dist.Gamma(2.0, 1.0).expand([3]).to_event(1))
        with numpyro.plate("n", 4):
            p = numpyro.sample("p", dist.Dirichlet(a))
            numpyro.sample("y", dist.Multinomial(counts.sum(1), p), obs=y)

    a = np.array([0.5, 2.0, 1.0])
    own, found = own_of(model, "y", {"a": a, "p": (counts + 1) / (counts + 1).sum(1, keepdims=True)}, counts)
    assert own.sites == ("p",)
    assert own.given == ()
    truth = [stats.dirichlet_multinomial.logpmf(c, a, c.sum()) for c in counts]
    np.testing.assert_allclose(found["y"], truth, rtol=1e-4)


@pytest.mark.slow
def test_a_share_with_ten_thousand_trials_behind_it():
    k, n = np.array([3, 0, 7_012, 12]), np.array([10, 4, 10_000, 12])

    def model(k):
        a = numpyro.sample("a", dist.Gamma(2.0, 1.0))
        with numpyro.plate("n", 4):
            p = numpyro.sample("p", dist.Beta(a, 3.0))
            numpyro.sample("k", dist.Binomial(n, p), obs=k)

    own, found = own_of(model, "k", {"a": 1.5, "p": (k + 1) / (n + 2)}, k)
    assert own.sites == ("p",)
    np.testing.assert_allclose(found["k"], stats.betabinom.logpmf(k, n, 1.5, 3.0), atol=2e-2)


def test_a_rate_of_two_counts_without_one_of_them():
    first, second = np.array([0, 3, 40]), np.array([1, 5, 3])

    def model(first, second):
        a = numpyro.sample("a", dist.Gamma(2.0, 1.0))
        with numpyro.plate("n", 3):
            rate = numpyro.sample("rate", dist.Gamma(a, 0.5))
            numpyro.sample("first", dist.Poisson(rate), obs=first)
            numpyro.sample("second", dist.Poisson(2 * rate), obs=second)

    _, found = own_of(model, "first", {"a": 1.5, "rate": first + 0.5}, first, second)
    truth = stats.nbinom.logpmf(first, 1.5 + second, 2.5 / 3.5)
    np.testing.assert_allclose(found["first"], truth, rtol=1e-4)
