"""Chains of one, two and three states, from loops and scans: draws and marginals against enumeration."""

import itertools

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from helpers.models.zoo import ZOO
from helpers.startup.arrays import array
from numpyro.contrib.control_flow import scan
from numpyro.infer.util import log_density

ROWS = array([[0.7, 0.2, 0.1], [0.2, 0.5, 0.3], [0.25, 0.25, 0.5]])
RATES = array([0.5, 2.0, 4.0])
X = np.array([4, 0, 1])


def looped(x):
    rate = numpyro.sample("rate", dist.Exponential(1.0).expand([3]).to_event(1))
    z = 0
    for t in range(len(x)):
        z = numpyro.sample(f"z[{t}]", dist.Categorical(ROWS[z]))
        numpyro.sample(f"x[{t}]", dist.Poisson(rate[z]), obs=x[t])


def scanned(x):
    rate = numpyro.sample("rate", dist.Exponential(1.0).expand([3]).to_event(1))

    def step(z, x):
        z = numpyro.sample("z", dist.Categorical(ROWS[z]))
        numpyro.sample("x", dist.Poisson(rate[z]), obs=x)
        return z, None

    scan(step, 0, x)


def by_name(fn, z):
    return {"z": z} if fn is scanned else {f"z[{t}]": z[t] for t in range(len(z))}


@pytest.mark.share(4)
@pytest.mark.parametrize("fn", [looped, scanned])
@pytest.mark.parametrize("n", [1, 2, pytest.param(3, marks=pytest.mark.slow)])
def test_draws_are_the_enumerated_joint(fn, n):
    model = gb.model(fn, X[:n])
    rows = jnp.array(list(itertools.product(range(3), repeat=n)))

    def log_joint(z):
        return log_density(fn, (X[:n],), {}, {"rate": RATES, **by_name(fn, z)})[0]

    p = np.asarray(jax.nn.softmax(jax.vmap(log_joint)(rows)), float)
    conditional = model.conditional("z")
    assert conditional.kind == ("chain" if n > 1 else "finite")
    draw = jax.vmap(lambda key: conditional.sample(key, {"rate": RATES}))
    z = np.asarray(draw(jax.random.split(jax.random.key(0), 10_000))).reshape(10_000, n)
    share = np.bincount(z @ 3 ** np.arange(n)[::-1], minlength=3**n) / len(z)
    assert (np.abs(share - p) < 4.5 * np.sqrt(p * (1 - p) / len(z))).all()
    told = model.marginal().probs({"rate": RATES})
    told = np.concatenate([np.reshape(v, (-1, 3)) for v in told.values()])
    expected = [[p[rows[:, t] == k].sum() for k in range(3)] for t in range(n)]
    np.testing.assert_allclose(told, expected, atol=1e-5)


def test_an_order_is_told_of_chains_alone():
    """Around a ring the first element is beside the last, which is no chain of their distance."""
    said = {
        n: gb.model(ZOO[n].fn, *ZOO[n].args).conditional("z").reason for n in ("hmm_second_order", "ring")
    }
    assert (
        "chain of order 2" in said["hmm_second_order"] and "model.marginal('z')" in said["hmm_second_order"]
    )
    assert "chain" not in said["ring"]
