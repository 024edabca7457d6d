"""Potential and gradient of a block: the model is run and differentiated once for arguments of a kind."""

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.kernels.nuts.potential import problem
from numpyro.infer.gibbs import with_conditioning

Y = np.array([1.0, -2.0, 0.5])


@pytest.fixture
def counted():
    runs = []

    def model(y, power=1):
        runs.append(power)
        mu = numpyro.sample("mu", dist.Normal(0, 1))
        tau = numpyro.sample("tau", dist.HalfNormal(1))
        theta = numpyro.sample("theta", dist.Normal(mu, tau).expand([len(y)]))
        numpyro.sample("y", dist.Normal(theta**power, 1.0), obs=y)

    return model, runs


@pytest.mark.slow
def test_it_is_that_of_the_potential_and_the_model_is_run_once(counted):
    model, runs = counted
    density = gb.model(model, Y).density
    args = (jnp.asarray(Y),)
    p = problem(model, density, "auto", jax.random.key(0), args, {})
    runs.clear()
    found = []
    for seed in range(3):
        u = jax.random.normal(jax.random.key(seed), (5,))
        lam, y = jnp.full(3, 0.3 * seed), args[0] + seed
        found.append((u, lam, y, p.value_and_grad(lam, (y,), {})(u)))
    batched = jax.jit(jax.vmap(lambda u, lam: p.value_and_grad(lam, args, {})(u)))
    energies, _ = batched(jnp.ones((2, 5)), jnp.zeros((2, 3)))
    assert len(runs) == 1
    for u, lam, y, (energy, gradient) in found:
        expected = jax.value_and_grad(p.potential(lam, (y,), {}))(u)
        np.testing.assert_allclose(energy, expected[0], rtol=1e-5)
        np.testing.assert_allclose(gradient, expected[1], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(energies, p.potential(jnp.zeros(3), args, {})(jnp.ones(5)), rtol=1e-5)


def test_what_is_no_array_is_part_of_the_program(counted):
    model, runs = counted
    density = gb.model(model, Y).density
    args = (jnp.asarray(Y),)
    p = problem(model, density, "as written", jax.random.key(0), args, {})
    runs.clear()
    u, lam = jnp.full(5, 0.5), jnp.zeros(0)
    plain, squared = (p.value_and_grad(lam, args, {"power": k})(u)[0] for k in (1, 2))
    assert runs == [1, 2]
    np.testing.assert_allclose(squared, p.potential(lam, args, {"power": 2})(u), rtol=1e-6)
    assert abs(float(plain - squared)) > 1e-3


def test_siblings_are_arguments(counted):
    model, runs = counted
    density = gb.model(model, Y).density
    args = (jnp.asarray(Y),)
    first = dict(with_conditioning({}, {"tau": jnp.asarray(2.0)}))
    p = problem(model, density, "auto", jax.random.key(0), args, first)
    runs.clear()
    u, lam = jnp.full(4, 0.5), jnp.zeros(3)
    other = dict(with_conditioning({}, {"tau": jnp.asarray(0.5)}))
    a, b = (p.value_and_grad(lam, args, k)(u)[0] for k in (first, other))
    assert len(runs) == 1
    np.testing.assert_allclose(b, p.potential(lam, args, other)(u), rtol=1e-6)
    assert abs(float(a - b)) > 1e-3
