"""Values written into arrays: as concatenations and choices they keep their numbers, and conjugacy."""

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.programs.jaxpr.compat import ClosedJaxpr
from gibbsite.programs.passes.flatten import flatten
from helpers.startup.arrays import array

X, V = array(np.arange(12.0).reshape(3, 4)), array([7.0, 8.0, 9.0])
AT = array([2, 0, 1])

WRITES = {
    "element": lambda x, v, at: x.at[1, 2].set(v[0]),
    "last": lambda x, v, at: x.at[-1, -1].set(v[0]),
    "row": lambda x, v, at: x.at[1, :3].set(v),
    "column": lambda x, v, at: x.at[:, 1].set(v),
    "block": lambda x, v, at: x.at[:2, 1:4].set(jnp.stack([v, 2 * v])),
    "strided": lambda x, v, at: x.at[:, ::2].set(v[:, None]),
    "places": lambda x, v, at: x.at[np.array([0, 2, 1]), np.array([3, 0, 0])].set(v),
    "mask": lambda x, v, at: x.at[np.nonzero(np.asarray(X) % 5 == 1)].set(v),
    "same place twice": lambda x, v, at: x.at[0, np.array([1, 1, 2])].set(v),
    "out of range": lambda x, v, at: x.at[np.array([0, 5, 2]), 1].set(v),
    "all out of range": lambda x, v, at: x.at[np.array([7, 5, 9]), 1].set(v),
    "places in data": lambda x, v, at: x.at[at, 1].set(v),
    "rows in data": lambda x, v, at: x.at[at[:2]].set(jnp.stack([v[0] * x[0], v[1] * x[1]])),
    "padded": lambda x, v, at: (jnp.pad(v, (1, 2)), jnp.pad(x, ((1, 0), (2, 0)), constant_values=4.0)),
    "a number": lambda x, v, at: x.at[1, np.array([0, 2])].set(5.0),
}


def _inner(jaxpr):
    for eqn in jaxpr.eqns:
        yield eqn
        for p in eqn.params.values():
            if isinstance(p, ClosedJaxpr):
                yield from _inner(p.jaxpr)


@pytest.mark.share(3)
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_no_scatter_of_what_latents_decide_is_left_and_numbers_stay(write):
    closed = jax.make_jaxpr(write)(X, V, AT)
    flat = flatten(closed, data=1)
    expected = jax.tree.leaves(write(X, V, AT))
    found = jax.core.eval_jaxpr(flat.jaxpr, flat.consts, X, V, AT)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)
    before = {e.primitive.name for e in _inner(closed.jaxpr)}
    assert before & {"scatter", "pad"}
    left = [e for e in flat.jaxpr.eqns if e.primitive.name in ("scatter", "pad")]
    assert all(np.issubdtype(e.outvars[0].aval.dtype, np.integer) for e in left)  # places, read off data


def test_places_that_latents_decide_are_left_alone():
    closed = jax.make_jaxpr(lambda x, v, at: x.at[at, 1].set(v))(X, V, AT)
    assert [e.primitive.name for e in flatten(closed).jaxpr.eqns].count("scatter") == 1


RNG = np.random.default_rng(0)
HOLES = np.array([False, True, False, False, True, False, False, True])
COVARIATE = np.where(HOLES, np.nan, RNG.normal(2, 1, 8)).astype(np.float32)
Y = RNG.normal(2, 1, 8).astype(np.float32)


def imputed(x, y):
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.Gamma(2, 2))
    b = numpyro.sample("b", dist.Normal(0, 1))
    where = np.isnan(x)
    missing = numpyro.sample("missing", dist.Normal(mu, tau**-0.5).expand([int(where.sum())]).mask(False))
    whole = jnp.asarray(np.nan_to_num(x)).at[np.nonzero(where)[0]].set(missing)
    numpyro.sample("x", dist.Normal(mu, tau**-0.5), obs=whole)
    numpyro.sample("y", dist.Normal(b * whole, 1.0), obs=y)


def by_data(x, where, y):
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    missing = numpyro.sample("missing", dist.Normal(mu, 1.0).expand([3]))
    b = numpyro.sample("b", dist.Normal(0, 1))
    numpyro.sample("y", dist.Normal(b * jnp.nan_to_num(x).at[where].set(missing), 1.0), obs=y)


def rates(counts):
    rate = numpyro.sample("rate", dist.Gamma(2.0, 1.0).expand([2]))
    whole = jnp.ones(4).at[1:3].set(rate)
    numpyro.sample("counts", dist.Poisson(whole[np.arange(8) % 4]), obs=counts)


def shares(counts):
    w = numpyro.sample("w", dist.Dirichlet(jnp.ones(2)))
    rows = jnp.stack([jnp.pad(w, (0, 1)), jnp.array([0.2, 0.3, 0.5])])
    z = numpyro.sample("z", dist.Bernoulli(0.5).expand([2]).to_event(1))
    numpyro.sample("counts", dist.Multinomial(6, rows[z]), obs=counts)


def test_imputed_values_and_padded_parameters_stay_conjugate():
    model = gb.model(imputed, COVARIATE, Y)
    assert {model.conditional(n).kind for n in ("mu", "tau", "b", "missing")} == {"conjugate"}
    state = {"mu": 1.5, "tau": 2.0, "b": 0.5, "missing": np.zeros(3)}
    draws = jax.vmap(lambda k: model.conditional("missing").sample(k, state))(
        jax.random.split(jax.random.key(0), 4000)
    )
    precision = 2.0 + 0.5**2
    mean = (2.0 * 1.5 + 0.5 * Y[HOLES]) / precision
    np.testing.assert_allclose(draws.mean(0), mean, atol=4 / np.sqrt(4000 * precision))
    np.testing.assert_allclose(draws.var(0) * precision, 1, atol=4 * np.sqrt(2 / 4000))


def test_places_given_as_data_are_places():
    where = np.array([7, 1, 4])
    c = gb.model(by_data, COVARIATE, where, Y).conditional("missing")
    assert c.kind == "conjugate"
    state = {"mu": 1.5, "b": 0.5, "missing": np.zeros(3)}
    draws = jax.vmap(lambda k: c.sample(k, state))(jax.random.split(jax.random.key(1), 4000))
    mean = (1.5 + 0.5 * Y[where]) / 1.25
    np.testing.assert_allclose(draws.mean(0), mean, atol=4 / np.sqrt(4000 * 1.25))


def test_rates_and_shares_beside_constants():
    c = gb.model(rates, np.arange(8)).conditional("rate")
    assert c.kind == "conjugate"
    draws = jax.vmap(lambda k: c.sample(k, {"rate": np.ones(2)}))(jax.random.split(jax.random.key(2), 4000))
    shape = np.array([2 + 1 + 5, 2 + 2 + 6])
    np.testing.assert_allclose(draws.mean(0), shape / 3, atol=4 * np.sqrt(shape.max() / 9 / 4000))
    c = gb.model(shares, np.array([[2, 4, 0], [1, 2, 3]])).conditional("w")
    assert c.kind == "conjugate"
    state = {"w": np.array([0.5, 0.5]), "z": np.array([0, 1])}
    draws = jax.vmap(lambda k: c.sample(k, state))(jax.random.split(jax.random.key(3), 4000))
    np.testing.assert_allclose(draws[:, 0].mean(), 3 / 8, atol=4 * np.sqrt(15 / 64 / 9 / 4000))
