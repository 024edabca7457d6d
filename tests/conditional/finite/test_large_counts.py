"""Discrete sites that many large numbers speak of: sums of what these say keep the digits of how it differs.

Of 300 counts of 5000 the terms `k log m` add up to 10⁷, of which single precision has whole numbers.
"""

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from numpyro import plate, sample

K = np.random.default_rng(0).poisson(5002.5, 300)
GROUP = np.repeat(np.arange(6), 50)
LOW, HIGH = 5000.0, 5005.0


def rates(rate, k):
    with plate("n", len(k)):
        sample("k", dist.Poisson(rate), obs=k)


def one(k):
    z = sample("z", dist.Bernoulli(0.5))
    rates(LOW + (HIGH - LOW) * z, k)


def of_groups(k):
    z = sample("z", dist.Bernoulli(0.5).expand([6]))
    rates(jnp.array([LOW, HIGH])[z[GROUP]], k)


def change(k):
    z = sample("z", dist.DiscreteUniform(0, len(k)))
    rates(jnp.where(jnp.arange(len(k)) < z, LOW, HIGH), k)


def together(k):
    z = sample("z", dist.Bernoulli(0.5).expand([4]))
    rates(LOW + 1.25 * z.sum(), k)


def squared(k):
    z = sample("z", dist.Bernoulli(0.5).expand([4]))
    rates(LOW + 1.25 * (z @ jnp.ones((4, 4)) @ z) / 4, k)


def truth(fn, z):
    """The log density of the data at an array of values `z` of the site, up to a constant, in double
    precision."""
    if fn is one:
        rate = LOW + (HIGH - LOW) * z
    elif fn is of_groups:
        rate = np.array([LOW, HIGH])[z[GROUP]]
    elif fn is change:
        rate = np.where(np.arange(len(K)) < z, LOW, HIGH)
    else:
        rate = LOW + 1.25 * (z.sum() if fn is together else z.sum() ** 2 / 4)
    return (K * np.log(np.broadcast_to(rate, K.shape)) - rate).sum()


@pytest.mark.parametrize("fn", [one, of_groups, change, together, squared])
def test_logits_differ_by_what_the_data_say(fn):
    conditional = gb.model(fn, K).conditional("z")
    shape = conditional.density.sites["z"].shape
    here = np.arange(np.prod(shape, dtype=int)).reshape(shape) % 2
    found = np.asarray(conditional.logits({"z": here}), float)
    found = np.moveaxis(found, -1, 0) if found.shape[0] != len(conditional.support) else found
    found = found.reshape(len(conditional.support), -1)
    for i in range(found.shape[1]):
        moved = [here.ravel().copy() for _ in conditional.support]
        for value, at in zip(conditional.support, moved, strict=True):
            at[i] = value
        exact = np.array([truth(fn, at.reshape(shape)) for at in moved])
        gap = (found[:, i] - found[0, i]) - (exact - exact[0])
        assert np.abs(gap).max() < 0.1, (fn.__name__, i, gap)
