"""`numpyro.param` in a model that is sampled: scaffolds of networks with priors."""

from copy import deepcopy

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro import handlers
from numpyro.contrib.module import _update_params  # what all of its random modules stand on
from numpyro.infer.reparam import LocScaleReparam

X = np.random.default_rng(0).normal(size=(40, 2)).astype(np.float32)
Y = (X @ np.array([1.0, -2.0]) + 0.5 + 0.1 * np.random.default_rng(1).normal(size=40)).astype(np.float32)


def module(prior, used=True):
    """A linear layer as `random_flax_module` makes one, without the library behind it."""
    params = numpyro.param("nn$params")
    if params is None:
        params = {"bias": jnp.zeros(1), "kernel": jax.random.normal(numpyro.prng_key(), (2, 1))}
        numpyro.param("nn$params", params)
    new = deepcopy(params)
    with handlers.scope(prefix="nn"):
        _update_params(params, new, prior)
    return lambda x: x @ new["kernel"] + new["bias"] * used


def regression(x, y):
    net = module(dist.Normal(0, 3))
    numpyro.sample("y", dist.Normal(net(x)[:, 0], 0.1), obs=y)


def half(x, y):
    net = module({"kernel": dist.Normal(0, 3)})
    numpyro.sample("y", dist.Normal(net(x)[:, 0], 0.1), obs=y)


@pytest.mark.slow
def test_a_network_with_priors_is_sampled():
    m = gb.model(regression, X, Y)
    assert [n for n, s in m.sites.items() if s.role == "latent"] == ["nn/bias", "nn/kernel"]
    run = m.sample(draws=400, seed=0)
    design = np.c_[X, np.ones(40)].astype(float)
    precision = design.T @ design / 0.01 + np.eye(3) / 9
    mean, sd = np.linalg.solve(precision, design.T @ Y / 0.01), np.sqrt(np.diag(np.linalg.inv(precision)))
    found = np.r_[run.draws["nn/kernel"].mean((0, 1))[:, 0], run.draws["nn/bias"].mean((0, 1))]
    assert np.all(np.abs(found - mean) < 4.5 * sd / np.sqrt(400))


def test_a_param_that_the_density_reads_is_refused_with_the_way_out():
    told = r"'nn\$params' is a `numpyro.param` that the density reads"
    with pytest.raises(gb.GibbsiteError, match=told) as e:
        gb.model(half, X, Y)
    assert "handlers.substitute(model, data={'nn$params': …})" in str(e.value)


def test_one_that_a_substitution_fixes_is_a_constant():
    fixed = {"bias": jnp.array([0.5]), "kernel": jnp.zeros((2, 1))}
    m = gb.model(handlers.substitute(half, data={"nn$params": fixed}), X, Y)
    assert [n for n, s in m.sites.items() if s.role == "latent"] == ["nn/kernel"]
    run = m.sample(draws=300, seed=0)
    assert np.allclose(run.draws["nn/kernel"].mean((0, 1))[:, 0], [1.0, -2.0], atol=0.1)


def bare(x, y):
    w = numpyro.param("w", jnp.zeros(2))
    s = numpyro.sample("s", dist.HalfNormal(1.0))
    numpyro.sample("y", dist.Normal(x @ w, s), obs=y)


def test_a_bare_param_stays_refused():
    with pytest.raises(gb.GibbsiteError, match="it is for optimisation"):
        gb.model(bare, X, Y)


@pytest.mark.parametrize("value", [1.5, 2, np.float32(1.5)])
def test_so_does_one_that_is_a_number_of_python(value):
    def scale(x, y):
        s = numpyro.param("s", value, constraint=dist.constraints.positive)
        w = numpyro.sample("w", dist.Normal(0, 1).expand([2]))
        numpyro.sample("y", dist.Normal(x @ w, s), obs=y)

    with pytest.raises(gb.GibbsiteError, match=r"'s' is a `numpyro.param` that the density reads"):
        gb.model(scale, X, Y)


def test_the_degree_of_a_reparameterisation_is_a_matter_of_coordinates():
    """NumPyro's NUTS leaves it at a half; the posterior is that of the model without it."""

    def plain(y):
        s = numpyro.sample("s", dist.HalfNormal(1.0))
        b = numpyro.sample("b", dist.Normal(0.5, s).expand([5]).to_event(1))
        numpyro.sample("y", dist.Normal(b, 0.5), obs=y)

    y = np.array([0.3, 0.1, -0.4, 0.2, 1.0], np.float32)
    moved = gb.model(handlers.reparam(plain, config={"b": LocScaleReparam()}), y)
    s, z = 0.7, np.linspace(-1, 1, 5)
    b = 0.5 + s**0.5 * (z - 0.25)  # from coordinates that are centred by a half
    there = float(moved.density.log_joint({"s": s, "b_decentered": z}))
    here = float(gb.model(plain, y).density.log_joint({"s": s, "b": b}))
    np.testing.assert_allclose(there, here + 5 * 0.5 * np.log(s), rtol=1e-5)
