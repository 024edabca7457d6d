"""Gamma variates, and what is drawn through them, against their moments and in the case that hung."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from gibbsite.conditional import gamma_draw
from gibbsite.conditional.gamma_draw import log_gamma
from scipy import stats


@pytest.mark.parametrize("a", [0.02, 0.5, 1.0, 3.0, 95.0, 1e4])
def test_variates_have_their_distribution(a):
    x = np.asarray(log_gamma(jax.random.key(1), jnp.full(20_000, a)), float)
    # Kolmogorov's bound at 1e-4, of the logarithms: variates of a small concentration round to zero.
    assert stats.kstest(x, stats.loggamma(a).cdf).statistic < np.sqrt(np.log(2 / 1e-4) / 2 / x.size)


def test_neighbours_are_independent():
    x = np.asarray(jax.vmap(lambda k: log_gamma(k, jnp.array([2.0, 5.0, 0.5])))(
        jax.random.split(jax.random.key(2), 20_000)))  # fmt: skip
    assert np.abs(np.corrcoef(x.T) - np.eye(3)).max() < 4 / np.sqrt(20_000)


def test_what_has_no_distribution_ends_as_nan():
    found = np.asarray(log_gamma(jax.random.key(3), jnp.array([-1.0, 0.0, jnp.nan, jnp.inf, 1.0])))
    assert np.isnan(found[:4]).all() and np.isfinite(found[4])


def test_the_key_at_which_jax_s_own_sampler_has_hung():
    key = jax.random.wrap_key_data(jnp.asarray([615255952, 1174596498], jnp.uint32))
    found = jax.jit(lambda k: gamma_draw.Dirichlet(jnp.array([21.0, 95.0, 37.0])).sample(k))(key)
    assert np.isclose(found.sum(), 1) and (found > 0).all()


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (gamma_draw.Gamma(jnp.array([2.0, 7.0]), 3.0), dist.Gamma(jnp.array([2.0, 7.0]), 3.0)),
        (gamma_draw.InverseGamma(jnp.array([6.0, 9.0]), 3.0), dist.InverseGamma(jnp.array([6.0, 9.0]), 3.0)),
        (gamma_draw.Beta(0.5, jnp.array([2.0, 30.0])), dist.Beta(0.5, jnp.array([2.0, 30.0]))),
        (gamma_draw.Dirichlet(jnp.array([0.3, 1.0, 5.0])), dist.Dirichlet(jnp.array([0.3, 1.0, 5.0]))),
    ],
)
def test_distributions_have_their_moments(ours, theirs):
    x = np.asarray(ours.sample(jax.random.key(4), (40_000,)), float)
    assert x.shape == (40_000, *theirs.shape())
    error = np.sqrt(np.asarray(theirs.variance) / len(x))
    assert (np.abs(x.mean(axis=0) - theirs.mean) < 4 * error).all()
    square = np.asarray(theirs.variance + theirs.mean**2)
    assert (np.abs((x**2).mean(axis=0) - square) < 4 * (x**2).std(axis=0) / np.sqrt(len(x))).all()
