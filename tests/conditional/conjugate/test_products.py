"""Conditionals whose elements meet in products, as the weights of a broken stick do."""

import gibbsite
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from numpyro import factor, handlers, plate, sample

X = np.array([0.3, -1.2, 0.8, 2.0, 2.2])


def weights(v):
    """As NumPyro's users write them, along the last axis."""
    rest, before = jnp.cumprod(1 - v, -1), [(0, 0)] * (v.ndim - 1)
    return jnp.pad(v, [*before, (0, 1)], constant_values=1) * jnp.pad(
        rest, [*before, (1, 0)], constant_values=1
    )


def by_logarithms(v):
    left = jnp.concatenate([jnp.zeros(1), jnp.cumsum(jnp.log1p(-v))])
    return jnp.exp(left + jnp.log(jnp.concatenate([v, jnp.ones(1)])))


def by_loop(v):
    left, out = 1.0, []
    for k in range(3):
        out.append(v[k] * left)
        left = left * (1 - v[k])
    return jnp.stack([*out, left])


def sticks(make):
    def model(x):
        alpha = sample("alpha", dist.Gamma(2.0, 1.0))
        with plate("sticks", 3):
            v = sample("v", dist.Beta(1.0, alpha))
        with plate("n", len(x)):
            z = sample("z", dist.Categorical(make(v)))
            sample("x", dist.Normal(1.0 * z, 0.5), obs=x)

    return model


def weighted(x):
    """Of one indicator twice, of another half; observed counts; and a factor of one's own."""
    with plate("sticks", 3):
        v = sample("v", dist.Beta(2.0, 3.0))
    p = weights(v)
    with plate("n", len(x)), handlers.scale(scale=np.array([1.0, 2.0, 0.5, 1.0, 1.0])):
        z = sample("z", dist.Categorical(p))
        sample("x", dist.Normal(1.0 * z, 0.5), obs=x)
    sample("counts", dist.Multinomial(7, p), obs=np.array([1, 0, 4, 2]))
    factor("own", 3.0 * jnp.log(p[1] * p[2] ** 2 / (1 - v[0])))


def groups(x):
    """A stick for each of two groups, as in a hierarchical process that is cut off."""
    with plate("group", 2, dim=-2), plate("sticks", 3):
        v = sample("v", dist.Beta(1.0, 2.0))
    of = np.array([0, 1, 1, 0, 1])
    with plate("n", len(x)):
        z = sample("z", dist.Categorical(weights(v)[of]))
        sample("x", dist.Normal(1.0 * z, 0.5), obs=x)


@pytest.mark.share(6)
@pytest.mark.parametrize("model", [sticks(weights), sticks(by_logarithms), sticks(by_loop), weighted, groups])
def test_the_conditional_of_sticks_is_that_of_the_density(model):
    found = gibbsite.model(model, X)
    v = found.conditional("v")
    assert v.kind == "conjugate" and v.family.name == "Beta", v
    shape = found.density.sites["v"].shape
    state = {"z": np.array([0, 3, 1, 1, 2]), "alpha": 1.3}
    own = v.distribution({n: x for n, x in state.items() if n in found.sites} | {"v": np.full(shape, 0.5)})
    rng = np.random.default_rng(0)
    for _ in range(3):
        a, b = rng.uniform(0.05, 0.95, (2, *shape)).astype(np.float32)
        here = [{n: jnp.asarray(x) for n, x in state.items() if n in found.sites} | {"v": p} for p in (a, b)]
        exact = float(found.density.log_joint(here[0]) - found.density.log_joint(here[1]))
        assert float(jnp.sum(own.log_prob(a) - own.log_prob(b))) == pytest.approx(exact, abs=2e-4)


@pytest.mark.slow
def test_counts_are_whole_where_they_are_large():
    """3 of 100,000 at one stick: to the digit beside the others."""
    z = np.repeat(np.arange(4), [60_000, 3, 39_990, 7])

    def model(x):
        with plate("sticks", 3):
            v = sample("v", dist.Beta(1.0, 1.0))
        with plate("n", len(x)):
            sample("z", dist.Categorical(weights(v)), obs=x)

    own = gibbsite.model(model, z).conditional("v").distribution({"v": np.full(3, 0.5)})
    assert np.array_equal(own.concentration1, [60_001, 4, 39_991])
    assert np.array_equal(own.concentration0, [40_001, 39_998, 8])


def test_what_is_no_product_has_no_certificate():
    def normalised(v):
        return v / v.sum()

    def tempered(v):
        return jax.nn.softmax(jnp.cumprod(1 - v))

    def guarded(v):
        return jnp.maximum(by_loop(v), 1e-3)

    def shifted(v):
        return weights(0.5 * v)

    for make in (normalised, tempered, guarded, shifted):
        assert gibbsite.model(sticks(make), X).conditional("v").kind == "none", make
