"""Priors without typical values, and designs and precisions that leave a posterior undefined."""

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.errors import ModelError
from numpyro.distributions import constraints

Y = np.random.default_rng(4).normal(1.0, 1.0, 12)


def location(prior):
    def model(y):
        numpyro.sample("y", dist.Normal(numpyro.sample("m", prior), 1.0), obs=y)

    return model


def scale(prior):
    def model(y):
        numpyro.sample("y", dist.Normal(1.0, numpyro.sample("s", prior)), obs=y)

    return model


UNTYPICAL = {
    "Cauchy": location(dist.Cauchy(0.0, 1e6)),
    "wide": location(dist.Normal(0.0, 1e30)),
    "improper": location(dist.ImproperUniform(constraints.real, (), ())),
    "long scale": scale(dist.LogNormal(0.0, 100.0)),
}
SLOW = ("Cauchy",)


@pytest.mark.share(3)
@pytest.mark.parametrize(
    "model",
    [pytest.param(m, id=n, marks=pytest.mark.slow if n in SLOW else ()) for n, m in UNTYPICAL.items()],
)
def test_chains_find_the_posterior_under_priors_without_typical_values(model):
    """Their draws are 0, infinite, or nowhere near the data."""
    run = gb.model(model, Y).sample(draws=100, warmup=150, chains=2, seed=0)
    (draws,) = run.draws.values()
    middle, spread = (Y.mean(), 0.3) if "m" in run.draws else (np.sqrt(np.mean((Y - 1) ** 2)), 0.4)
    assert np.abs(draws.mean(axis=1) - middle).max() < spread


@pytest.mark.slow
def test_columns_that_make_up_for_each_other_under_flat_priors_are_told():
    x = np.arange(12.0) / 10

    def model(y):
        b = numpyro.sample("b", dist.ImproperUniform(constraints.real_vector, (), (2,)))
        numpyro.sample("y", dist.Normal(jnp.stack([x, 2 * x], -1) @ b, 1.0), obs=y)

    told = r"b\[0\] is nan.*block Conjugate b.*columns that make up for each other"
    with pytest.raises(ModelError, match=told):
        gb.model(model, Y).sample(draws=5, warmup=5, chains=2)


@pytest.mark.slow
def test_values_within_bounds_that_are_drawn_are_found_far_out():
    """Utilities between cut points: those of the last category lie beyond all that is drawn near 0."""

    def ordered(y):
        first, apart = numpyro.sample("c", dist.Normal(3.0, 1.0)), numpyro.sample("d", dist.Exponential(0.5))
        low = jnp.stack([-20.0 + 0 * first, first, first + apart])[y]
        high = jnp.stack([first, first + apart, 20.0 + 0 * first])[y]
        with numpyro.plate("n", len(y)):
            u = numpyro.sample("u", dist.Normal(0.0, 1.0))
            numpyro.factor("in", jnp.where((u > low) & (u < high), 0.0, -jnp.inf))

    y = np.random.default_rng(0).integers(0, 3, 40)
    run = gb.model(ordered, y).sample(draws=2, warmup=2, chains=4, seed=0)
    c, d, u = (np.asarray(run.draws[n])[:, -1] for n in "cdu")
    assert ((u > c[:, None]).astype(int) + (u > (c + d)[:, None]) == y).all()
