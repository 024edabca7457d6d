"""As the tests of frozen kernels: paths, fields and maps of areas, whitened by their prior or stretched."""

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.kernels.learnt import coordinates as module
from gibbsite.kernels.learnt.coordinates import declared
from helpers.truths.frozen import Frozen, survives
from numpyro.contrib.control_flow import scan
from numpyro.infer import Gibbs

N = 3
AT = np.arange(N)
NEIGHBOURS = np.eye(N, k=1) + np.eye(N, k=-1)


def spread(name):
    return numpyro.sample(name, dist.LogNormal(0, 0.4))


def steps():
    return numpyro.sample("walk", dist.GaussianRandomWalk(spread("step"), N))


def field():
    """A location that reads a latent, a covariance that reads two."""
    size, length = spread("size"), spread("length")
    cov = size**2 * jnp.exp(-0.5 * ((AT[:, None] - AT) / length) ** 2) + 0.05 * jnp.eye(N)
    return numpyro.sample("field", dist.MultivariateNormal(numpyro.sample("level", dist.Normal(0, 1)), cov))


def areas():
    precision = numpyro.sample("precision", dist.LogNormal(0, 0.5))
    return numpyro.sample("areas", dist.CAR(0.0, 0.5, precision, NEIGHBOURS))


def recursion():
    sigma, phi = spread("sigma"), numpyro.sample("phi", dist.Normal(0, 0.4))

    def step(before, _):
        h = numpyro.sample("h", dist.Normal(phi * before, sigma))
        return h, h

    return scan(step, 0.0, None, N)[1]


def spans():
    """Logarithms around a level, in groups."""
    mean, about = numpyro.sample("mean", dist.Normal(0, 0.5)), spread("about")
    return jnp.log(numpyro.sample("spans", dist.LogNormal(mean, about).expand([N])))


def heavy():
    centre, width = numpyro.sample("centre", dist.Normal(0, 1).expand([2])), spread("width")
    return numpyro.sample("heavy", dist.StudentT(12.0, centre[jnp.array([0, 1, 1])], width))


FORMS = {"walk": steps, "field": field, "areas": areas, "h": recursion, "spans": spans, "heavy": heavy}


def of(*names):
    def model(y=None):
        whole = jnp.concatenate([FORMS[n]() for n in names])
        numpyro.sample("y", dist.Normal(whole, 0.7), obs=y)

    return model, np.zeros(N * len(names))


def frozen(names, seed, white=None):
    model, data = of(*names)
    analysed = gb.model(model, data)
    assert set(declared(analysed.density, list(analysed.density.latents), None)) == set(names)
    kernel = Frozen(analysed.execution.runtime_model, analysed.density, step_size=0.3, max_tree_depth=4)
    kernel.seed, kernel.white = seed, white
    return model, Gibbs([(kernel, list(analysed.density.latents))])


@pytest.mark.slow
@pytest.mark.parametrize("names", [("walk",), pytest.param(tuple(FORMS), marks=pytest.mark.slow)])
def test_white_in_one_block(names):
    survives(*frozen(names, 0, white=True), chains=1500, steps=3)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", FORMS)
def test_one_by_one(name, seed):
    survives(*frozen((name,), seed))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["walk", "field"])
def test_a_wrong_determinant_of_a_factor_would_be_seen(name, monkeypatch):
    right = module._whitened

    def wrong(*args):
        other, written, log_size = right(*args)
        return other, written, 0.0 * log_size

    monkeypatch.setattr(module, "_whitened", wrong)
    model, kernel = frozen((name,), 0, white=True)
    with pytest.raises(AssertionError):
        survives(model, kernel)
