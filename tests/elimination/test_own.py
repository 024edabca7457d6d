"""Likelihoods with a datum's own latents integrated out, against closed forms and quadrature."""

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.elimination import CHANGED, Own
from numpyro.contrib.control_flow import scan
from scipy import integrate, stats

RNG = np.random.default_rng(0)
N = 6
W = np.array([0.3, -1.2, 9.0, 0.1, 0.8, -0.4], np.float32)
Y = (0.5 + 2 * W + RNG.normal(size=N)).astype(np.float32)
normal = stats.norm.logpdf


def own_of(model, name, state, *args, **options):
    """What is found at a state, drawn about which latents are."""
    density = gb.model(model, *args, **options).density
    state = {n: jnp.asarray(v, density.sites[n].dtype) for n, v in state.items()}
    noise = np.random.default_rng(1)
    about = {n: np.asarray(v) + 0.1 * noise.normal(size=(20, *v.shape)) for n, v in state.items()}
    own = Own(density, name, {n: v.astype(np.float32) for n, v in about.items()})
    return own, own(state, density.arguments.arrays) if own.sites else {}


def left_out(covariance, y):
    precision = np.linalg.inv(covariance)
    variance = 1 / np.diag(precision)
    return normal(y, y - variance * (precision @ y), np.sqrt(variance))


@pytest.mark.slow
def test_an_effect_of_one_observation_far_from_its_prior():
    def model(y):
        mu = numpyro.sample("mu", dist.Normal(0, 1))
        with numpyro.plate("n", N):
            b = numpyro.sample("b", dist.Normal(mu, 2.0))
            numpyro.sample("y", dist.Normal(b, 0.01), obs=y)

    y = np.append(Y[:-1], 30).astype(np.float32)
    own, found = own_of(model, "y", {"mu": 0.3, "b": y + 0.005}, y)
    assert own.sites == ("b",)
    assert own.given == ()
    np.testing.assert_allclose(found["y"], normal(y, 0.3, np.sqrt(4 + 1e-4)), rtol=1e-4)
    assert found[CHANGED] < 1e-3


@pytest.mark.slow
def test_overdispersed_counts_by_quadrature():
    def model(y):
        s = numpyro.sample("s", dist.HalfNormal(1))
        e = numpyro.sample("e", dist.Normal(0, s).expand([N]).to_event(1))
        numpyro.sample("y", dist.Poisson(jnp.exp(1.0 + e)), obs=y)

    counts = np.array([0, 3, 6, 2, 200, 11])
    own, found = own_of(model, "y", {"s": 0.7, "e": np.log(counts + 0.5) - 1}, counts)

    def density(e, k):
        return np.exp(normal(e, 0, 0.7) + stats.poisson.logpmf(k, np.exp(1 + e)))

    each = [integrate.quad(density, -8, 8, (k,), points=[np.log(k + 0.5) - 1], epsabs=0)[0] for k in counts]
    assert own.sites == ("e",)
    np.testing.assert_allclose(found["y"], np.log(each), rtol=1e-4)


def test_a_positive_latent_in_its_own_coordinates():
    def model(y):
        a = numpyro.sample("a", dist.Gamma(2.0, 1.0))
        with numpyro.plate("n", N):
            rate = numpyro.sample("rate", dist.Gamma(a, 0.5))
            numpyro.sample("y", dist.Poisson(rate), obs=y)

    counts = np.array([0, 3, 6, 2, 40, 11])
    _, found = own_of(model, "y", {"a": 1.5, "rate": counts + 0.5}, counts)
    np.testing.assert_allclose(found["y"], stats.nbinom.logpmf(counts, 1.5, 1 / 3), rtol=1e-4)


@pytest.mark.slow
def test_a_true_value_behind_two_measurements_and_masks():
    there = np.array([True, True, False, True, True, True])

    def model(w, y):
        with numpyro.plate("n", N):
            x = numpyro.sample("x", dist.Normal(0, 1.5))
            numpyro.sample("w", dist.Normal(x, 0.3), obs=w)
            with numpyro.handlers.mask(mask=there):
                numpyro.sample("y", dist.Normal(0.5 + 2 * x, 0.4), obs=y)

    both, of_w, of_y = 2 * 1.5**2, 1.5**2 + 0.09, 4 * 1.5**2 + 0.16
    _, found = own_of(model, "w", {"x": W}, W, Y)
    truth = normal(W, both / of_y * (Y - 0.5), np.sqrt(of_w - both**2 / of_y))
    np.testing.assert_allclose(found["w"][there], truth[there], rtol=1e-4)
    np.testing.assert_allclose(found["w"][2], normal(W[2], 0, np.sqrt(of_w)), rtol=1e-4)
    _, found = own_of(model, "y", {"x": W}, W, Y)
    truth = normal(Y, 0.5 + both / of_w * W, np.sqrt(of_y - both**2 / of_w))
    np.testing.assert_allclose(found["y"][there], truth[there], rtol=1e-4)


@pytest.mark.slow
def test_two_missing_covariates_of_some_rows():
    def model(a, b, y):
        with numpyro.plate("n", N):
            a = numpyro.sample("a", dist.Normal(0, 1.0), obs=a)
            b = numpyro.sample("b", dist.Normal(0, 2.0), obs=b)
            numpyro.sample("y", dist.Normal(a - b, 0.5), obs=y)

    a = np.array([np.nan, 1, np.nan, 0.3, 2, -1], np.float32)
    b = np.array([np.nan, np.nan, 0.2, 0.4, 1, 0.5], np.float32)
    y = np.array([0.4, -1.0, 2.5, 0.2, 1.1, -0.7], np.float32)
    state = {"a_missing": np.zeros(2), "b_missing": np.zeros(2)}
    own, found = own_of(model, "y", state, a, b, y, missing="impute")
    assert own.sites == ("a_missing", "b_missing")
    spread = np.sqrt(0.25 + np.isnan(a) + 4 * np.isnan(b))
    np.testing.assert_allclose(found["y"], normal(y, np.nan_to_num(a) - np.nan_to_num(b), spread), atol=1e-3)


@pytest.mark.slow
def test_coupled_elements_that_are_gaussian_with_the_data():
    kernel = np.exp(-(np.subtract.outer(np.arange(N), np.arange(N)) ** 2) / 8) + 1e-4 * np.eye(N)

    def process(y):
        f = numpyro.sample("f", dist.MultivariateNormal(jnp.zeros(N), jnp.asarray(kernel, jnp.float32)))
        with numpyro.plate("n", N):
            numpyro.sample("y", dist.Normal(f, 0.7), obs=y)

    def walk(y):
        def step(x, now):
            x = numpyro.sample("f", dist.Normal(x, 1.0))
            numpyro.sample("y", dist.Normal(x, 0.7), obs=now)
            return x, None

        scan(step, 0.0, y)

    steps = 1.0 + np.minimum.outer(np.arange(N), np.arange(N))
    for model, covariance in ((process, kernel), (walk, steps)):
        own, found = own_of(model, "y", {"f": W}, W)
        assert own.sites == ("f",)
        np.testing.assert_allclose(found["y"], left_out(covariance + 0.49 * np.eye(N), W), rtol=1e-4)


@pytest.mark.slow
def test_what_cannot_be_integrated_out_is_said():
    def pairs(y):
        with numpyro.plate("n", N):
            b = numpyro.sample("b", dist.MultivariateNormal(jnp.zeros(2), jnp.eye(2)))
            numpyro.sample("y", dist.Normal(b[:, 0] * b[:, 1], 1.0), obs=y)

    def walking_counts(y):
        x = numpyro.sample("x", dist.GaussianRandomWalk(1.0, N))
        numpyro.sample("y", dist.Poisson(jnp.exp(x)), obs=y)

    def flat(y):
        with numpyro.plate("n", N):
            b = numpyro.sample("b", dist.ImproperUniform(dist.constraints.real, (), ()))
            numpyro.sample("y", dist.StudentT(3.0, b, 1.0), obs=y)

    def shared(y):
        mu = numpyro.sample("mu", dist.Normal(0, 1).expand([2]).to_event(1))
        numpyro.sample("y", dist.Normal(mu[jnp.array([0, 0, 0, 1, 1, 1])], 1.0), obs=y)

    for model, name, value in ((pairs, "b", np.zeros((N, 2))), (walking_counts, "x", np.zeros(N))):
        own, _ = own_of(model, "y", {name: value}, np.arange(N, dtype=np.float32))
        assert (own.sites, own.given) == ((), (name,))
    own, found = own_of(flat, "y", {"b": W}, W)
    assert not found[CHANGED] < 0.01
    own, _ = own_of(shared, "y", {"mu": np.zeros(2)}, W)
    assert own.sites == own.given == ()


@pytest.mark.slow
def test_a_datum_that_says_on_which_side_its_latent_lies():
    """At draws that lie there its likelihood is the same for all: it is read nevertheless, and has a step."""

    def model(seen):
        a = numpyro.sample("a", dist.Normal(0, 1))
        with numpyro.plate("n", N):
            u = numpyro.sample("u", dist.Normal(a, 1))
            numpyro.sample("y", dist.Bernoulli(probs=(u > 0) * 1.0), obs=seen)

    seen = np.array([1, 1, 1, 0, 1, 1])
    u = np.where(seen == 1, 1.0, -1.0)
    density = gb.model(model, seen).density
    about = {"a": np.full(20, 0.3, np.float32), "u": np.tile(u, (20, 1)).astype(np.float32)}
    for finer in (False, True):
        own = Own(density, "y", about, finer=finer)
        assert own.sites == ("u",)
        found = own({"a": jnp.float32(0.3), "u": jnp.asarray(u, jnp.float32)}, density.arguments.arrays)
        off = np.abs(found["y"] - np.where(seen == 1, stats.norm.logcdf(0.3), stats.norm.logcdf(-0.3)))
        assert off.max() < 3 * float(found[CHANGED]) + 1e-4
    assert off.max() < 0.01


def test_small_gammas_that_round_to_nothing():
    def model(y):
        k = numpyro.sample("k", dist.Gamma(2, 1))
        with numpyro.plate("n", N):
            w = numpyro.sample("w", dist.Gamma(k, k))
            numpyro.sample("y", dist.Poisson(3 * w), obs=y)

    counts, w = np.array([0, 3, 6, 2, 40, 11]), np.array([0.8, 1, 2, 0.7, 12, 4])
    for k in (0.3, 0.92, 5.0):
        own, found = own_of(model, "y", {"k": k, "w": w}, counts)
        assert own.sites == ("w",)
        np.testing.assert_allclose(found["y"], stats.nbinom.logpmf(counts, k, k / (k + 3)), atol=0.01)
        assert found[CHANGED] < 0.05


@pytest.mark.slow
def test_what_an_own_latent_has_of_its_own_is_given():
    def model(y, group):
        tau = numpyro.sample("tau", dist.HalfNormal(1))
        with numpyro.plate("g", 3):
            m = numpyro.sample("m", dist.Normal(0, tau))
        with numpyro.plate("n", N):
            s = numpyro.sample("s", dist.HalfNormal(1))
            u = numpyro.sample("u", dist.Normal(m[group], s))
            numpyro.sample("y", dist.Normal(u, 0.5), obs=y)

    state = {"tau": 1.0, "m": np.zeros(3), "s": np.ones(N), "u": Y}
    shared, found = own_of(model, "y", state, Y, np.array([0, 0, 1, 1, 2, 2]))
    assert (shared.sites, shared.given) == (("u",), ("s",))
    np.testing.assert_allclose(found["y"], normal(Y, 0, np.sqrt(1.25)), rtol=1e-4)
    single, _ = own_of(model, "y", state, Y, np.array([0, 0, 1, 1, 1, 2]))
    assert single.given == ("m", "s")
