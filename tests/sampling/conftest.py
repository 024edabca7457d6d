"""One small model for all tests of runs; its programs are compiled once."""

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest


def coins(y, K=2):
    w = numpyro.sample("w", dist.Dirichlet(jnp.ones(K)))
    p = numpyro.sample("p", dist.Beta(2.0, 2.0).expand([K]))
    numpyro.deterministic("gap", p[1] - p[0])
    with numpyro.plate("n", len(y)):
        z = numpyro.sample("z", dist.Categorical(w))
        numpyro.sample("y", dist.Binomial(10, p[z]), obs=y)


@pytest.fixture(scope="session")
def model():
    rng = np.random.default_rng(3)
    return gb.model(coins, rng.binomial(10, np.where(rng.random(12) < 0.5, 0.2, 0.8)))
