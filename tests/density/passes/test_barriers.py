"""A barrier hands on every one of its operands, none for another."""

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.density.intervals import range_of

Y = np.random.default_rng(0).normal(3, 1, 20).astype(np.float32)


def line(barrier):
    def model(y):
        a = numpyro.sample("a", dist.Normal(0, 10))
        b = numpyro.sample("b", dist.Normal(5, 0.1))
        a, b = barrier((a, b))
        numpyro.sample("y", dist.Normal(b + 2 * a, 1).expand([20]).to_event(1), obs=y)

    return gb.model(model, Y)


@pytest.mark.parametrize("site", ["a", "b"])
def test_conditionals_behind_a_barrier(site):
    state = {"a": jnp.float32(1.5), "b": jnp.float32(5.2)}
    with_, without = (line(f).conditional(site) for f in (jax.lax.optimization_barrier, lambda x: x))
    assert str(with_) == str(without)
    assert with_.kind == without.kind == "conjugate"
    key = jax.random.key(1)
    np.testing.assert_array_equal(with_.sample(key, state), without.sample(key, state))


def test_bits_of_integers_are_not_zero_or_one():
    def model():
        k = numpyro.sample("k", dist.DiscreteUniform(0, 31))
        numpyro.deterministic("d", k & 6)
        numpyro.sample("y", dist.Normal(jnp.float32(k & 6), 1.0), obs=3.0)

    density = gb.model(model).density
    of = [range_of(density, e.outvars[0]) for e in density.closed.jaxpr.eqns if e.primitive.name == "and"]
    assert of
    assert all(low <= 0 and high >= 6 for low, high in of)
