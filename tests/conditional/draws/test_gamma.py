"""Gamma variates, and what is drawn through them, against their moments and in the case that hung."""

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.conditional.draws.gamma import drawn_here, log_gamma
from helpers.startup.arrays import array
from scipy import stats


@pytest.mark.parametrize("a", [0.02, 0.5, 1.0, 3.0, 95.0, 1e4])
def test_variates_have_their_distribution(a):
    x = np.asarray(log_gamma(jax.random.key(1), jnp.full(20_000, a)), float)
    # Kolmogorov's bound at 1e-4, of the logarithms: variates of a small concentration round to zero.
    assert stats.kstest(x, stats.loggamma(a).cdf).statistic < np.sqrt(np.log(2 / 1e-4) / 2 / x.size)


@pytest.mark.slow
def test_neighbours_are_independent():
    x = np.asarray(jax.vmap(lambda k: log_gamma(k, jnp.array([2.0, 5.0, 0.5])))(
        jax.random.split(jax.random.key(2), 20_000)))  # fmt: skip
    assert np.abs(np.corrcoef(x.T) - np.eye(3)).max() < 4 / np.sqrt(20_000)


def test_what_has_no_distribution_ends_as_nan():
    found = np.asarray(log_gamma(jax.random.key(3), jnp.array([-1.0, 0.0, jnp.nan, jnp.inf, 1.0])))
    assert np.isnan(found[:4]).all() and np.isfinite(found[4])


def test_the_key_at_which_jax_s_own_sampler_has_hung():
    key = jax.random.wrap_key_data(jnp.asarray([615255952, 1174596498], jnp.uint32))
    found = jax.jit(lambda k: drawn_here(dist.Dirichlet(jnp.array([21.0, 95.0, 37.0]))).sample(k))(key)
    assert np.isclose(found.sum(), 1) and (found > 0).all()


MATRIX = array([[2.0, 0.6], [0.6, 1.0]])


@pytest.mark.share(4)
@pytest.mark.parametrize(
    "make, whole, real",
    [
        (lambda a, b: dist.Gamma(a, b).expand([2]), (2, 1), (2.0, 1.0)),
        (dist.InverseGamma, (3, 2), (3.0, 2.0)),
        (dist.Beta, (2, 3), (2.0, 3.0)),
        (dist.Dirichlet, (array([1, 2, 3]),), (array([1.0, 2.0, 3.0]),)),
        (dist.Chi2, (4,), (4.0,)),
        (dist.StudentT, (4, 0, 1), (4.0, 0.0, 1.0)),
        (dist.Wishart, (3, MATRIX), (3.0, MATRIX)),
    ],
    ids=["Gamma", "InverseGamma", "Beta", "Dirichlet", "Chi2", "StudentT", "Wishart"],
)
def test_whole_numbers_are_parameters_too(make, whole, real):
    a, b = (np.asarray(drawn_here(make(*p)).sample(jax.random.key(5), (3,))) for p in (whole, real))
    assert a.dtype == b.dtype == np.float32
    np.testing.assert_array_equal(a, b)


@pytest.mark.share(5)
@pytest.mark.parametrize(
    "family, parameters",
    [
        (dist.Gamma, (array([2.0, 7.0]), 3.0)),
        (dist.InverseGamma, (array([6.0, 9.0]), 3.0)),
        (dist.Beta, (0.5, array([2.0, 30.0]))),
        (dist.Dirichlet, (array([0.3, 1.0, 5.0]),)),
        (dist.Chi2, (array([1.0, 9.0]),)),
        (dist.StudentT, (array([9.0, 20.0]), 1.0, 2.0)),
        (dist.GammaPoisson, (array([2.0, 7.0]), 3.0)),
        (dist.Wishart, (array([3.0, 8.0]), MATRIX)),
        (dist.InverseWishart, (array([15.0, 25.0]), MATRIX)),
    ],
    ids=lambda given: getattr(given, "__name__", ""),
)
def test_distributions_have_their_moments(family, parameters):
    theirs = family(*parameters)
    x = np.asarray(drawn_here(theirs).sample(jax.random.key(4), (40_000,)), float)
    assert x.shape == (40_000, *theirs.shape())
    variance = np.asarray(theirs.variance)
    if isinstance(theirs, dist.InverseWishart):  # NumPyro's is wrong off the diagonal
        variance = np.array([stats.invwishart(nu, np.asarray(MATRIX)).var() for nu in (15.0, 25.0)])
    assert (np.abs(x.mean(axis=0) - theirs.mean) < 4 * np.sqrt(variance / len(x))).all()
    square = variance + np.asarray(theirs.mean) ** 2
    assert (np.abs((x**2).mean(axis=0) - square) < 4 * (x**2).std(axis=0) / np.sqrt(len(x))).all()


@pytest.mark.slow
@pytest.mark.parametrize("family", [dist.Wishart, dist.InverseWishart])
def test_matrices_have_their_marginals(family):
    """A Wishart's determinant over the scale's is a product of independent chi-square variates, and so is the
    inverse of an inverse Wishart's; `v' W v / v' S v` is one such variate, as is `v' S^-1 v / v' W^-1 v`, of
    p - 1 degrees fewer (Muirhead 1982, §3.2)."""
    scale = np.array([[2.0, 0.6, 0.1], [0.6, 1.0, -0.3], [0.1, -0.3, 0.5]])
    nu, p, v = 6.5, 3, np.array([1.0, -2.0, 0.5])
    x = np.asarray(drawn_here(family(nu, jnp.asarray(scale))).sample(jax.random.key(5), (20_000,)), float)
    w, s = (x, scale) if family is dist.Wishart else (np.linalg.inv(x), np.linalg.inv(scale))
    bound = np.sqrt(np.log(2 / 1e-4) / 2 / len(x))

    def away(values, degrees):
        return stats.kstest(values, stats.chi2(degrees).cdf).statistic

    assert away(np.einsum("i,nij,j->n", v, w, v) / (v @ s @ v), nu) < bound
    inverse = np.einsum("i,nij,j->n", v, np.linalg.inv(w), v)
    assert away((v @ np.linalg.inv(s) @ v) / inverse, nu - p + 1) < bound
    chis = np.random.default_rng(1).chisquare(nu - np.arange(p), (len(x), p)).prod(axis=1)
    determinants = np.linalg.det(w) / np.linalg.det(s)
    assert stats.ks_2samp(determinants, chis).statistic < bound * np.sqrt(2)


@pytest.mark.slow
@pytest.mark.parametrize("family", [dist.Wishart, dist.InverseWishart])
def test_matrices_have_numpyro_s_density(family):
    """Under one density, draws weighted by the ratio of another's to it have a mean weight of 1."""
    near, far = (family(nu, MATRIX * r) for nu, r in ((9.0, 1.0), (10.0, 1.1)))
    x = drawn_here(near).sample(jax.random.key(6), (40_000,))
    weight = np.exp(np.asarray(far.log_prob(x) - near.log_prob(x), float))
    assert weight.std() > 0.1
    assert abs(weight.mean() - 1) < 4 * weight.std() / np.sqrt(len(weight))


def test_what_has_no_gamma_variates_is_left_alone():
    fn = dist.MixtureSameFamily(dist.Categorical(jnp.ones(2) / 2), dist.Normal(jnp.zeros(2), 1.0))
    assert drawn_here(fn) is fn


def heavy_tails(y):
    nu = numpyro.sample("nu", dist.Gamma(2.0, 0.1))
    w = numpyro.sample("w", dist.Dirichlet(jnp.ones(3)))
    with numpyro.plate("k", 3):
        cov = numpyro.sample("cov", dist.InverseWishart(5.0, jnp.eye(2)))
        numpyro.sample("scale", dist.HalfCauchy(1.0))
        numpyro.sample("share", dist.Beta(2.0, 3.0))
    with numpyro.plate("n", 3):
        z = numpyro.sample("z", dist.Categorical(w))
        m = numpyro.sample("m", dist.MultivariateNormal(jnp.zeros(2), cov[z]))
        numpyro.sample("y", dist.StudentT(nu, m[:, 0], 1.0), obs=y)


@pytest.mark.slow
@pytest.mark.share(2)
@pytest.mark.parametrize(
    "schedule", [None, "Gibbs z (*) Conjugate cov (*) Independence [w nu share] (*) Slice scale (*) NUTS *"]
)
def test_no_run_draws_by_jax_s_own_sampler(schedule):
    plan = gb.model(heavy_tails, jnp.zeros(3)).schedule(schedule).plan()
    kwargs = {"_gibbsite_inputs": plan.inputs}

    def steps(key):
        return plan.kernel.sample(plan.kernel.init(key, 1, None, (), kwargs), (), kwargs)

    assert "random_gamma" not in str(jax.make_jaxpr(steps)(jax.random.key(0)))
    plain = jax.make_jaxpr(lambda key: numpyro.handlers.seed(heavy_tails, key)(None))(jax.random.key(0))
    assert "random_gamma" in str(plain)
