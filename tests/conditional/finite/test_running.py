"""Sweeps that keep sums running equal sweeps that evaluate every sum anew, and NumPyro's own density."""

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.conditional.finite.finite import _sweep_one_by_one, sweep
from numpyro.infer.util import log_density

N = 7
RNG = np.random.default_rng(4)
W = RNG.normal(size=N).astype(np.float32)
FEATURES = RNG.normal(size=(4, N)).astype(np.float32)
Y = RNG.normal(size=4).astype(np.float32)


def total():
    s = numpyro.sample("s", dist.HalfNormal(1.0))
    with numpyro.plate("n", N):
        z = numpyro.sample("z", dist.Categorical(jnp.array([0.2, 0.5, 0.3])))
    numpyro.sample("y", dist.Normal(jnp.sum(z), 0.5 + s), obs=5.0)


def weighted():
    """Two sums in one term, one of them of a function of the elements."""
    with numpyro.plate("n", N):
        z = numpyro.sample("z", dist.Bernoulli(0.4))
    numpyro.factor(
        "f", jnp.tanh(jnp.sum(jnp.asarray(W) * z)) - 0.1 * jnp.sum(jnp.where(z == 1, 2.0, 0.5)) ** 2
    )


def selection():
    """Variables in or out of a regression, given its coefficients: a matrix times the indicators."""
    beta = numpyro.sample("beta", dist.Normal(0, 1).expand([N]).to_event(1))
    with numpyro.plate("n", N):
        z = numpyro.sample("z", dist.Bernoulli(0.3))
    numpyro.sample("y", dist.Normal(jnp.asarray(FEATURES) @ (z * beta), 0.7).to_event(1), obs=jnp.asarray(Y))


def table():
    """A site of two axes, summed along both, and beside them along an axis of its own."""
    with numpyro.plate("r", 2, dim=-2), numpyro.plate("c", 3, dim=-1):
        z = numpyro.sample("z", dist.Bernoulli(0.4))
    shifted = z[..., None] * jnp.array([1.0, -0.5])
    numpyro.factor("f", -((shifted.sum() - 1.0) ** 2) + jnp.sin(shifted.sum((0, 1)).prod()))


MODELS = [total, weighted, selection, table]


@pytest.mark.share(2)
@pytest.mark.parametrize("fn", MODELS)
def test_sweeps_and_logits_agree_with_full_evaluation(fn):
    model = gb.model(fn)
    conditional = model.conditional("z")
    tables = conditional.tables
    assert tables.sums is not None
    state = {
        n: np.asarray(RNG.integers(0, 2, s.shape) if s.discrete else RNG.uniform(0.2, 1, s.shape), s.dtype)
        for n, s in model.sites.items()
        if s.role == "latent"
    }
    latents, data = model.density.state_values(state), tuple(model.density.arguments.arrays)

    def full(key):
        base = tables.single(latents, data)
        return _sweep_one_by_one(tables, key, latents, data, base)

    keys = jax.random.split(jax.random.key(1), 200)
    ours = jax.jit(jax.vmap(lambda k: sweep(tables, k, latents, data)))(keys)
    assert len(np.unique(np.asarray(ours).reshape(200, -1), axis=0)) > 5
    np.testing.assert_array_equal(ours, jax.jit(jax.vmap(full))(keys))

    found = np.asarray(conditional.logits(state))
    compared = 0
    for index in np.ndindex(found.shape[:-1]):
        expected = []
        for value in conditional.support:
            z = state["z"].copy()
            z[index] = value
            expected.append(float(log_density(fn, (), {}, {**state, "z": z})[0]))
        expected = np.array(expected) - np.logaddexp.reduce(expected)
        np.testing.assert_allclose(found[index], expected, atol=2e-5)
        compared += len(expected)
    assert compared == found.size


def test_what_is_read_otherwise_is_evaluated_anew():
    def both():
        with numpyro.plate("n", N):
            z = numpyro.sample("z", dist.Bernoulli(0.4))
        numpyro.factor("f", jnp.sum(z) * jnp.sum(jnp.cumsum(z) ** 2))

    assert gb.model(both).conditional("z").tables.sums is None


def test_a_sweep_costs_a_step_per_element_not_a_sum():
    """The body of the compiled scan has no array as long as the site among its inputs to arithmetic."""

    def body_sizes(n):
        def fn():
            with numpyro.plate("n", n):
                z = numpyro.sample("z", dist.Bernoulli(0.4))
            numpyro.sample("y", dist.Normal(jnp.sum(z), 1.0), obs=3.0)

        conditional = gb.model(fn).conditional("z")
        jaxpr = jax.make_jaxpr(lambda k: conditional.update(k, {}, ()))(jax.random.key(0))
        (scan,) = [e for e in jaxpr.jaxpr.eqns if e.primitive.name == "scan"]
        work = [e for e in scan.params["jaxpr"].jaxpr.eqns if e.primitive.name.startswith("reduce")]
        return sum(int(np.prod(v.aval.shape)) for e in work for v in e.invars)

    assert body_sizes(50) == body_sizes(500)
