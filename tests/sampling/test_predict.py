"""New data and pointwise likelihoods of models as people write them."""

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import scipy.stats
from numpyro import handlers
from numpyro.handlers import infer_config

Y = np.random.default_rng(0).normal(2, 1, 50).astype(np.float32)


def plain(y):
    mu = numpyro.sample("mu", dist.Normal(0, 10))
    numpyro.sample("y", dist.Normal(mu, 1), obs=y)


def pairs(y):
    mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
    numpyro.sample("y", dist.MultivariateNormal(mu * jnp.ones(2), jnp.eye(2)), obs=y)


def centre(y):
    mu = numpyro.sample("mu", dist.Normal(jnp.arange(3.0), 1.0).to_event(1))
    numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)


def test_without_a_plate_new_data_have_the_shape_of_the_data():
    run = gb.model(plain, Y).sample(draws=200, warmup=20, chains=2, seed=0)
    tree = run.to_datatree(posterior_predictive=True, log_likelihood=True)
    new = tree["posterior_predictive"]["y"]
    assert new.shape == tree["log_likelihood"]["y"].shape == (2, 200, 50) and new.dims[-1] == "y_dim_0"
    noise = (new.values - run.draws["mu"][..., None]).ravel()
    assert scipy.stats.kstest(noise, "norm").pvalue > 1e-3
    assert abs(np.corrcoef(noise[:-1], noise[1:])[0, 1]) < 4 / np.sqrt(noise.size)


@pytest.mark.slow
def test_vectors_without_and_with_a_plate():
    y = np.array([[0.1, 0.2], [1.0, -1.0], [0.5, 2.0]], np.float32)
    run = gb.model(pairs, y).sample(draws=6, warmup=6, chains=2, seed=0)
    tree = run.to_datatree(posterior_predictive=True, log_likelihood=True)
    assert tree["posterior_predictive"]["y"].shape == (2, 6, 3, 2)
    assert tree["observed_data"]["y"].dims == ("y_dim_0", "y_dim_1")
    truth = scipy.stats.norm(run.draws["mu"][..., None, None]).logpdf(y).sum(axis=-1)
    np.testing.assert_allclose(tree["log_likelihood"]["y"].values, truth, rtol=1e-4, atol=1e-4)

    def rows(y):
        mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
        with numpyro.plate("row", len(y)):
            numpyro.sample("y", dist.MultivariateNormal(mu * jnp.ones(2), jnp.eye(2)), obs=y)

    tree = gb.model(rows, y).sample(draws=6, warmup=6, chains=2, seed=0).to_datatree(log_likelihood=True)
    assert tree["log_likelihood"]["y"].dims == ("chain", "draw", "row")
    assert tree["observed_data"]["y"].dims == ("row", "y_dim_1")


def test_one_number_observed_of_several():
    run = gb.model(centre, np.float32(1.0)).sample(draws=6, warmup=6, chains=2, seed=0)
    tree = run.to_datatree(posterior_predictive=True, log_likelihood=True)
    assert tree["observed_data"]["y"].shape == () and tree["posterior_predictive"]["y"].shape == (2, 6, 3)


@pytest.mark.slow
def test_what_a_model_is_conditioned_on_stays_and_is_no_datum():
    def scaled(y):
        mu = numpyro.sample("mu", dist.Normal(0, 1))
        s = numpyro.sample("s", dist.HalfNormal(1))
        with numpyro.plate("n", len(y)):
            numpyro.sample("y", dist.Normal(mu, s), obs=y)

    run = gb.model(scaled, Y).condition(mu=9.0).sample(draws=50, warmup=50, chains=2, seed=0)
    tree = run.to_datatree(posterior_predictive=True, log_likelihood=True)
    for group in ("posterior_predictive", "log_likelihood", "observed_data"):
        assert list(tree[group].data_vars) == ["y"]
    error = run.draws["s"].mean() / np.sqrt(100 * 50)
    assert abs(float(tree["posterior_predictive"]["y"].mean()) - 9) < 4 * error


def test_weights_count_in_likelihoods():
    def weighted(y):
        mu = numpyro.sample("mu", dist.Normal(0, 10))
        with numpyro.plate("n", len(y)), handlers.scale(scale=1 + jnp.arange(3.0)):
            numpyro.sample("y", dist.Normal(mu, 1), obs=y)

    run = gb.model(weighted, Y[:3]).sample(draws=6, warmup=6, chains=2, seed=0)
    truth = (1 + np.arange(3)) * scipy.stats.norm(run.draws["mu"][..., None]).logpdf(Y[:3])
    tree = run.to_datatree(log_likelihood=True)
    np.testing.assert_allclose(tree["log_likelihood"]["y"], truth, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_sites_that_are_marked_for_enumeration_are_drawn():
    def mixture(y, mark):
        w = numpyro.sample("w", dist.Dirichlet(jnp.array([1, 1])))
        with numpyro.plate("n", len(y)):
            z = numpyro.sample("z", dist.Categorical(w), infer=mark)
            numpyro.sample("y", dist.Normal(4.0 * z, 1), obs=y)

    options = {"draws": 20, "warmup": 10, "chains": 2, "seed": 0}
    unmarked = gb.model(mixture, Y, {}).sample(**options)
    marked = gb.model(mixture, Y, {"enumerate": "parallel"}).sample(**options)
    configured = gb.model(
        infer_config(mixture, config_fn=lambda site: {"enumerate": "parallel"}), Y, {}
    ).sample(**options)
    for run in (marked, configured):
        for name, v in unmarked.draws.items():
            np.testing.assert_array_equal(run.draws[name], v)
