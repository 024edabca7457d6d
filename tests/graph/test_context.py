"""Independence in a context: what a switch that is known to be off cuts off."""

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.errors import DataError
from jax import lax


def choose(kind, z, a, b):
    if kind == "where":
        return jnp.where(z == 1, a, b)
    if kind == "times":
        return z * a + (1 - z) * b
    if kind == "cond":
        return lax.cond(z == 1, lambda a, b: 2 * a, lambda a, b: b - 1, a, b)
    if kind == "switch":
        return lax.switch(z, [lambda a, b: b, lambda a, b: a], a, b)
    return jnp.stack([b, a])[z]


def switched(kind):
    z = numpyro.sample("z", dist.Bernoulli(0.3))
    a = numpyro.sample("a", dist.Normal(0, 1))
    b = numpyro.sample("b", dist.Normal(0, 1))
    level = numpyro.deterministic("level", choose(kind, z, a, b))
    numpyro.sample("y", dist.Normal(level, 1.0), obs=0.3)


@pytest.mark.parametrize("kind", ["where", "times", "cond", "switch", "gather"])
def test_a_switch_cuts_one_branch_off(kind):
    model = gb.model(switched, kind)
    graph = model.graph
    assert not graph.independent("a", "b", given=["z"])
    off = graph.independent("a", "b", given={"z": 0})
    assert off and str(off) == "a and b are independent given z = 0"
    assert graph.independent("a", "b", given={"z": 1})
    assert not graph.independent("b", "y", given={"z": 0}, given_data=False)
    assert graph.independent("a", "y", given={"z": 0}, given_data=False)
    assert ("a", "level") in graph.edges
    at_zero = model.condition(z=0).graph
    assert ("a", "level") not in at_zero.edges and ("b", "level") in at_zero.edges
    assert at_zero.independent("a", "b") and at_zero.independent("a", "level", given_data=False)


def mixture(x):
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    nu = numpyro.sample("nu", dist.Normal(0, 1))
    with numpyro.plate("n", len(x)):
        z = numpyro.sample("z", dist.Bernoulli(0.5))
        numpyro.sample("x", dist.Normal(jnp.where(z == 1, mu, nu), 1.0), obs=x)


def test_arrays_of_switches():
    graph = gb.model(mixture, np.array([0.1, 0.2, 0.3])).graph
    assert graph.independent("mu", "nu", given={"z": 1})
    assert not graph.independent("mu", "nu", given={"z": [1, 0, 1]})
    with pytest.raises(DataError, match=r"no value of 'z', whose shape is \(3,\)"):
        graph.independent("mu", "nu", given={"z": [1, 0]})
