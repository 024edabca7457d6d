"""A run whose draws are no numbers has failed, at once, and says where."""

import re

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest


def sometimes_improper():
    """Where `z` is 1, nothing holds the second element of `b`: its precision is zero."""
    z = numpyro.sample("z", dist.Bernoulli(0.03))
    b = numpyro.sample("b", dist.Normal(jnp.zeros(2), 1.0))
    numpyro.factor("f", 0.5 * z * b[1] ** 2)
    numpyro.deterministic("odd", jnp.log(-jnp.abs(b[0])))  # what is computed may be anything


@pytest.fixture(scope="module")
def model():
    return gb.model(sometimes_improper)


@pytest.mark.parametrize(("warmup", "draws", "seed"), [(0, 400, 0), (400, 5, 1)])
def test_the_run_fails_with_site_chain_draw_and_block(model, warmup, draws, seed):
    run = model.start(
        draws=draws, warmup=warmup, chains=2, seed=seed, schedule="Gibbs z (*) Conjugate b", chunk=16
    )
    with pytest.raises(gb.GibbsiteError, match=r"b\[1\] is nan in chain \d, ") as error:
        run.wait()
    at = int(re.search(r"(?:draw|step) (\d+)", str(error.value))[1])
    assert run.status == "failed" and "Conjugate b" in str(error.value)
    assert "The cause: given the rest nothing makes b[1] proper" in str(error.value)
    assert ("of warm-up" in str(error.value)) == (warmup == 400)
    assert run.draws["b"].shape[1] == (0 if warmup == 400 else at)
    assert np.isfinite(run.draws["b"]).all() and not run.draws["z"].any()
    with pytest.raises(gb.GibbsiteError, match=rf"(?:draw|step) {at}\b"):  # going on meets it again
        run.resume()


@pytest.mark.slow
def test_infinite_values_of_deterministic_sites_are_no_failure(model):
    run = model.sample(draws=3, warmup=0, chains=1, seed=0)
    assert run.status == "finished" and np.isnan(run.draws["odd"]).all()
