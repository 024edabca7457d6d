"""What no run can sample as it is: random numbers that are not the model's, spheres."""

import random

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.errors import ModelError
from numpyro import handlers, sample
from numpyro.infer.reparam import ProjectedNormalReparam


def test_random_numbers_of_others_are_told():
    def noisy(y):
        m = sample("m", dist.Normal(0, 1))
        sample("y", dist.Normal(m + np.random.normal(), 1), obs=y)

    def shuffled(y):
        sample("y", dist.Normal(sample("m", dist.Normal(0, 1)), random.choice([1.0, 2.0])), obs=y)

    def seeded(y):
        np.random.seed(3)
        m = sample("m", dist.Normal(0, 1))
        sample("y", dist.Normal(m + np.random.normal(), 1), obs=y)

    def own(y):
        m = sample("m", dist.Normal(0, 1))
        sample("y", dist.Normal(m + np.random.default_rng(3).normal(), 1), obs=y)

    for model in (noisy, shuffled):
        (note,) = gb.model(model, 1.0).notes
        assert "others whenever it is run" in note
    assert gb.model(seeded, 1.0).notes == () == gb.model(own, 1.0).notes


def test_draws_beside_the_statements_are_told():
    """`a` was given one number of them for all of a run, in silence."""

    def keyed(y):
        h = jax.random.normal(numpyro.prng_key())
        sample("y", dist.Normal(sample("a", dist.Normal(0, 3)) + h, 1), obs=y)

    def hidden(y):
        with handlers.block(hide=["h"]):
            h = sample("h", dist.Normal(0, 1))
        sample("y", dist.Normal(sample("a", dist.Normal(0, 3)) + h, 1), obs=y)

    def features(y):
        h = jax.random.normal(jax.random.key(3))
        sample("y", dist.Normal(sample("a", dist.Normal(0, 3)) + h, 1), obs=y)

    def unread(y):
        numpyro.prng_key()
        sample("y", dist.Normal(sample("a", dist.Normal(0, 3)), 1), obs=y)

    for model in (keyed, hidden):
        (note,) = gb.model(model, 1.0).notes
        assert "one draw stands for the whole run" in note
    assert gb.model(features, 1.0).notes == () == gb.model(unread, 1.0).notes
    run = gb.model(keyed, 1.0).sample(draws=400, chains=2, seed=0)
    assert run.predict().draws["y"].std() > 1.2  # forward, each draw has its own


def direction():
    d = sample("d", dist.ProjectedNormal(jnp.array([1.0, 0.0])))
    sample("y", dist.Normal(d[0] * sample("k", dist.Normal(0, 1)), 1.0), obs=0.3)


@pytest.mark.slow
def test_spheres_are_refused_with_the_way_out():
    with pytest.raises(ModelError, match=r"'d'.*on a sphere.*ProjectedNormalReparam"):
        gb.model(direction)
    written = handlers.reparam(direction, config={"d": ProjectedNormalReparam()})
    run = gb.model(written).sample(draws=100, warmup=100, chains=2, seed=0)
    assert np.allclose((run.draws["d"] ** 2).sum(-1), 1.0, atol=1e-5)
