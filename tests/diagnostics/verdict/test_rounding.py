"""Latents that are known to more figures than single precision has."""

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest


def level(y, prior):
    mu = numpyro.sample("mu", dist.Normal(prior, 10.0))
    with numpyro.plate("n", len(y)):
        numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)


def test_a_mean_that_is_known_to_more_figures_than_there_are():
    """Of 10⁴ values around a million the mean is known to .01, and numbers there are .06 apart."""
    noise = np.random.default_rng(0).normal(size=10_000)
    far = gb.model(level, np.float32(1e6 + noise), np.float32(1e6)).sample(draws=500, warmup=100, seed=0)
    assert not far.verdict.ok
    assert "single precision does not hold the draws of mu: around 1e+06" in str(far.verdict)
    near = gb.model(level, np.float32(noise), np.float32(0)).sample(draws=500, warmup=100, seed=0)
    assert near.verdict.ok, near.verdict


@pytest.mark.slow
def test_means_of_groups_that_sums_of_large_numbers_shift():
    """Of 20 values around a million each group's mean is known to .22; sums of them are .06 off."""

    def groups(y, at):
        mu = numpyro.sample("mu", dist.Normal(at, 2.0))
        with numpyro.plate("n", len(y)):
            z = numpyro.sample("z", dist.Bernoulli(0.5))
            numpyro.sample("y", dist.Normal(mu[z], 1.0), obs=y)

    y = 1e6 + np.r_[np.zeros(20), 4 + np.zeros(20)] + np.random.default_rng(0).normal(size=40)
    run = gb.model(groups, y, 1e6 + np.array([0.0, 4.0])).sample(draws=300, warmup=100, seed=1)
    assert not run.verdict.ok and "single precision does not hold the draws of mu" in str(run.verdict)


@pytest.mark.slow
def test_the_diagonal_of_a_correlation_matrix_is_one_but_for_rounding():
    def correlated(y):
        rho = numpyro.sample("rho", dist.LKJ(3, 2.0))
        with numpyro.plate("n", len(y)):
            numpyro.sample("y", dist.MultivariateNormal(np.zeros(3, np.float32), rho), obs=y)

    y = np.random.default_rng(0).normal(size=(30, 3)).astype(np.float32)
    run = gb.model(correlated, y).sample(draws=200, warmup=100, seed=0)
    assert 0 < run.draws["rho"][..., 2, 2].std() < 1e-6
    assert "single precision" not in str(run.verdict)


@pytest.mark.slow
def test_odds_of_counts_too_large_for_their_factorials():
    """Where conversions changed, with the levels integrated out."""

    def model(n, y, x):
        t = numpyro.sample("t", dist.DiscreteUniform(1, 3))
        p = numpyro.sample("p", dist.Beta(1.0, 1.0).expand([2]))
        m = numpyro.sample("m", dist.Normal(0.0, 1.0))
        numpyro.sample("y", dist.Binomial(n, p[(jnp.arange(4) >= t).astype(int)]), obs=y)
        numpyro.sample("x", dist.StudentT(5.0, m, 1.0), obs=x)

    for n, told in ((1_000_000, True), (100, False)):
        y = np.full(4, n // 20)
        run = gb.model(model, n, y, 0.3).sample(
            draws=50, warmup=50, seed=0, schedule="Eliminate [t p] > NUTS m"
        )
        assert ("does not hold the odds of t" in str(run.verdict)) is told, run.verdict
