"""A mixture of two coins, for the tests of runs and for processes that they start."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist


def coins(y, K=2):
    w = numpyro.sample("w", dist.Dirichlet(jnp.ones(K)))
    p = numpyro.sample("p", dist.Beta(2.0, 2.0).expand([K]))
    numpyro.deterministic("gap", p[1] - p[0])
    with numpyro.plate("n", len(y)):
        z = numpyro.sample("z", dist.Categorical(w))
        numpyro.sample("y", dist.Binomial(10, p[z]), obs=y)


def rates(y, x):
    a = numpyro.sample("a", dist.Normal(0.0, 1.0))
    with numpyro.plate("row", len(x)):
        numpyro.sample("y", dist.Normal(a * x, 1.0), obs=y)


def data():
    """Heads in ten throws of twelve coins."""
    rng = np.random.default_rng(3)
    return rng.binomial(10, np.where(rng.random(12) < 0.5, 0.2, 0.8))


SCHOOLS = np.array([28.0, 8, -3, 7, -1, 1, 18, 12], np.float32)
COINS_IN_PARTS = {
    "draws": 20,
    "warmup": 20,
    "chains": 2,
    "seed": 1,
    "schedule": "Gibbs z (*) Conjugate w (*) RandomWalk p",
}
# trajectories of one leap: each takes both hosts some messages
SCHOOLS_IN_PARTS = {
    "draws": 2,
    "warmup": 60,
    "chains": 2,
    "seed": 3,
    "schedule": "Gibbs z (*) NUTS(max_tree_depth=1) [mu tau]",
}
AT_WORKERS = {"draws": 120, "warmup": 120, "chains": 4, "seed": 3, "schedule": "Gibbs z (*) NUTS [mu tau]"}


def mixed(y):
    mu = numpyro.sample("mu", dist.Normal(0.0, 5.0))
    tau = numpyro.sample("tau", dist.HalfNormal(10.0))
    with numpyro.plate("j", len(y)):
        z = numpyro.sample("z", dist.Bernoulli(0.3))
        numpyro.sample("y", dist.Normal(mu + 10.0 * z, tau + 1.0), obs=y)
