"""The cause that a failed run names is the one that there is."""

import re

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.diagnostics.verdict.cause import cause_of
from numpyro.distributions import constraints

R = np.random.default_rng(0)


def sample(name, fn, obs=None):
    return numpyro.sample(name, fn, obs=obs)


def columns(y):
    a, b = sample("a", dist.Normal(0, 1000.0)), sample("b", dist.Normal(0, 1000.0))
    sample("y", dist.Normal(a + b, 0.1), obs=y)


def flat(y):
    a = sample("a", dist.ImproperUniform(constraints.real, (), ()))
    b = sample("b", dist.ImproperUniform(constraints.real, (), ()))
    sample("y", dist.Normal(a + b, 1.0), obs=y)


def pushed(y):
    b = sample("b", dist.Normal(jnp.zeros(2), 1.0))
    numpyro.factor("f", 0.6 * b[1] ** 2)
    sample("y", dist.Normal(b[0], 1.0), obs=y)


def scaled(y):
    s = sample("s", dist.HalfNormal(1.0))
    b = sample("b", dist.Normal(0.0, 1.0))
    sample("y", dist.Normal(b, s), obs=y)


def fine(y):
    b = sample("b", dist.Normal(0.0, 1.0))
    sample("y", dist.Normal(b, 1.0), obs=y)


CAUSES = [
    (columns, ["a", "b"], {"a": 1.0, "b": 1.0}, "a, b make up for each other"),
    (flat, ["a", "b"], {"a": 1.0, "b": 1.0}, "the prior of a, b is improper, and the data do not tell"),
    (pushed, ["b"], {"b": np.ones(2)}, r"nothing makes b\[1\] proper"),
    (scaled, ["b"], {"s": 0.0, "b": np.nan}, "scale of 'y' is 0 there; it is computed from s"),
    (fine, ["b"], {"b": 3e25}, "b is 3e.25 there, whose square float32 does not hold"),
    (fine, ["b"], {"b": np.nan}, "the arithmetic of this update fails, not the model"),
]


@pytest.mark.parametrize(("model", "sites", "state", "told"), CAUSES)
def test_the_cause_is_the_one_there_is(model, sites, state, told):
    found = gb.model(model, R.normal(size=30).astype(np.float32), check_values=False)
    why = cause_of(found.density, sites, state, np.nan)
    assert re.search(told, why), why
    others = [t for *_, t in CAUSES if t != told]
    assert not any(re.search(t, why) for t in others)
