"""Means of what is integrated out: of conditional moments, not of draws."""

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

G = np.repeat(np.arange(8), 5)
Y = (1.0 + np.random.default_rng(0).normal(size=8)[G] + np.random.default_rng(1).normal(size=40)).astype(
    np.float32
)


def effects(g, y):
    mu = numpyro.sample("mu", dist.Normal(0.0, 5.0))
    with numpyro.plate("J", 8):
        b = numpyro.sample("b", dist.Normal(mu, 1.0))
    with numpyro.plate("n", len(y)):
        numpyro.sample("y", dist.Normal(b[g], 1.0), obs=y)


def exact():
    """Mean and standard deviation of `b`, by dense algebra."""
    prior = np.full((8, 8), 25.0) + np.eye(8)
    design = np.eye(8)[G]
    cov = np.linalg.inv(np.linalg.inv(prior) + design.T @ design)
    return cov @ design.T @ Y, np.sqrt(np.diag(cov)), cov


@pytest.mark.parametrize("schedule", ["Eliminate b > NUTS mu", "Conjugate b (*) NUTS mu"])
def test_averages_of_moments_err_less_than_draws(schedule):
    run = gb.model(effects, G, Y).sample(draws=500, chains=4, seed=0, schedule=schedule)
    found, (mean, sd, _) = run.summaries["b"], exact()
    assert set(run.summaries) == {"b"} and found.mean.shape == (8,) and found.draws == 500
    assert run.summaries["b"] is found  # computed once
    np.testing.assert_allclose(found.sd, sd, rtol=0.02)
    # what is left of the error is that of the conditional mean, a sixth of mu's
    ess = run.summary().loc["mu", "ess_bulk"]
    told = run.draws["mu"].std() / 6 / np.sqrt(ess)
    assert (np.abs(found.mean - mean) < 4.5 * told).all()
    assert np.abs(found.mean - mean).mean() < np.abs(run.draws["b"].mean((0, 1)) - mean).mean()


def test_a_run_without_its_model_or_without_exact_draws_has_none(tmp_path):
    run = gb.model(effects, G, Y).sample(draws=50, chains=2, schedule="NUTS *", store=tmp_path / "run")
    assert run.summaries == {} and gb.load(tmp_path / "run").summaries == {}


def test_discrete_sites_beside_are_averaged_over():
    """A mixture of two known locations, whose labels are summed out with the level."""

    def model(y):
        with numpyro.plate("n", len(y)):
            z = numpyro.sample("z", dist.Bernoulli(0.3))
        a = numpyro.sample("a", dist.Normal(0.0, 2.0))
        numpyro.sample("y", dist.Normal(a + 3.0 * z, 1.0).to_event(1), obs=y)

    y = np.float32([0.2, 3.1, -0.4])
    grid = np.linspace(-8, 8, 4001)
    logs = -(grid**2) / 8 + sum(
        np.log(0.7 * np.exp(-((v - grid) ** 2) / 2) + 0.3 * np.exp(-((v - 3 - grid) ** 2) / 2)) for v in y
    )
    weights = np.exp(logs - logs.max())
    mean = (weights * grid).sum() / weights.sum()
    run = gb.model(model, y).sample(draws=1000, chains=4, schedule="Gibbs z (*) Conjugate a")
    ess = run.summary().loc["a", "ess_bulk"]
    assert abs(run.summaries["a"].mean - mean) < 4 * jnp.std(run.draws["a"]) / np.sqrt(ess)
