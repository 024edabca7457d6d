"""Flat priors that the data leave open in some direction: there is no posterior, and no run begins."""

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import pytest
from gibbsite.errors import ModelError
from numpyro import factor, sample
from numpyro.distributions import (
    Bernoulli,
    Gamma,
    HalfNormal,
    ImproperUniform,
    InverseGamma,
    Normal,
    Poisson,
    constraints,
)

Y = np.random.default_rng(1).normal(size=8).astype(np.float32)
Z = np.array([0, 1, 1, 0, 1, 0, 0, 1])
X = np.arange(8, dtype=np.float32)
G, H = np.array([0, 0, 1, 1] * 2), np.array([0, 1] * 4)


def flat(name, *shape, on=constraints.real):
    return sample(name, ImproperUniform(on, (), shape))


def observe(mean, scale=1.0):
    sample("y", Normal(mean, scale).to_event(1), obs=Y)


def crossed():
    observe(flat("a", 2)[G] + flat("b", 2)[H], jnp.sqrt(sample("v", InverseGamma(2, 1))))


def collinear():
    observe(np.stack([X * 0 + 1, X * 0.1 + 0.3, X * 0.7 - 0.2], 1) @ flat("b", 3))


def a_sum():
    b = flat("b", 2)
    observe((b[0] + b[1]) * jnp.ones(8), sample("s", HalfNormal(1)))


def walk_and_level():
    p = flat("p", 8)
    factor("rw", -0.5 * jnp.sum((p[1:] - p[:-1]) ** 2))
    observe(flat("a") + p)


def alone_in_a_loop():
    b = [flat(f"b_{i}") for i in range(3)]
    observe(b[0] + b[1] * X + b[2] * 2 * X)


def logistic():
    sample("y", Bernoulli(logits=flat("a") + flat("b", 2)[G]).to_event(1), obs=Z)


def log_linear_beside_others():
    t = sample("t", HalfNormal(1))
    c = sample("c", Normal(0, t).expand([2]).to_event(1))
    sample("y", Poisson(jnp.exp(flat("a") + c[G] + flat("b", 2)[H])).to_event(1), obs=Z)


def ability_and_difficulty():
    logits = flat("a", 4)[:, None] - flat("b", 2)
    sample("y", Bernoulli(logits=logits).to_event(2), obs=Z.reshape(4, 2))


def nothing_counted():
    a, rate = sample("a", Gamma(2, 1)), flat("l", on=constraints.positive)
    factor("f", -jnp.log(rate))
    sample("y", Poisson(rate * a).expand([8]).to_event(1), obs=0 * Z)


@pytest.mark.parametrize(
    "model",
    [
        crossed,
        collinear,
        a_sum,
        walk_and_level,
        alone_in_a_loop,
        logistic,
        log_linear_beside_others,
        ability_and_difficulty,
        nothing_counted,
    ],
)
def test_no_run_begins_where_there_is_no_posterior(model):
    """The default integrated out what has no integral, with "61,000 effective draws a second"."""
    made = gb.model(model)
    with pytest.raises(ModelError, match=r"there is no posterior: .* flat prior"):
        made.schedule()
    with pytest.raises(ModelError, match="there is no posterior"):
        made.sample(draws=5, schedule="NUTS *")


def told_by_a_prior():
    b = sample("b", Normal(0, 1).expand([2]).to_event(1))
    observe(flat("a", 2)[G] + b[H])


def years():
    """Of which single precision sees 2e-6 of a column beside the level."""
    observe(flat("a") + flat("b") * (2015 + X))


def a_walk():
    p = flat("p", 8)
    factor("rw", -0.5 * jnp.sum((p[1:] - p[:-1]) ** 2))
    observe(p, sample("s", HalfNormal(1)))


def logistic_slope():
    sample("y", Bernoulli(logits=flat("a") + flat("b") * X).to_event(1), obs=Z)


def something_counted():
    rate = flat("l", on=constraints.positive)
    factor("f", -jnp.log(rate))
    sample("y", Poisson(rate * sample("a", Gamma(2, 1))).expand([8]).to_event(1), obs=Z)


@pytest.mark.parametrize("model", [told_by_a_prior, years, a_walk, logistic_slope, something_counted])
def test_flat_priors_that_data_decide_are_no_hindrance(model):
    assert gb.model(model).schedule().updates
