"""Geweke tests of the kernels on models of AugurV2 and AutoGibbs, and of the test itself."""

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.kernels.elliptical import EllipticalSlice
from gibbsite.kernels.metropolis import IndependenceMetropolis
from gibbsite.kernels.random_walk import RandomWalk
from gibbsite.kernels.reflective import ReflectiveSlice
from gibbsite.kernels.slice import Slice
from numpyro.infer import Gibbs

from .geweke import joint_distribution_test


def normal_gamma(y=None):
    """AutoGibbs's hierarchical Gaussian, with proper moments."""
    tau = numpyro.sample("tau", dist.Gamma(4.0, 2.0))
    m = numpyro.sample("m", dist.Normal(0.0, 1.0))
    with numpyro.plate("n", 3):
        numpyro.sample("y", dist.Normal(m, tau**-0.5), obs=y)


def mixture(y=None):
    w = numpyro.sample("w", dist.Dirichlet(jnp.array([2.0, 3.0])))
    mu = numpyro.sample("mu", dist.Normal(jnp.array([-1.0, 1.0]), 1.0).to_event(1))
    with numpyro.plate("n", 4):
        z = numpyro.sample("z", dist.Categorical(w))
        numpyro.sample("y", dist.Normal(4 * mu[z] - 1, 0.8), obs=y)


def regression(y=None):
    """AugurV2's hierarchical regression, with a Gaussian likelihood."""
    v = numpyro.sample("v", dist.InverseGamma(6.0, 5.0))
    b = numpyro.sample("b", dist.Normal(0.0, jnp.sqrt(v)).expand([2]).to_event(1))
    x = jnp.array([[1.0, 0.3], [-0.5, 1.0], [0.2, 0.2]])
    numpyro.sample("y", dist.Normal(x @ b, 1.0).to_event(1), obs=y)


def topics(y=None):
    doc = np.array([0, 0, 1, 1])
    with numpyro.plate("d", 2):
        theta = numpyro.sample("theta", dist.Dirichlet(jnp.array([1.0, 2.0])))
    with numpyro.plate("k", 2):
        phi = numpyro.sample("phi", dist.Dirichlet(jnp.array([1.0, 1.0, 2.0])))
    with numpyro.plate("n", 4):
        z = numpyro.sample("z", dist.Categorical(theta[doc]))
        numpyro.sample("y", dist.Categorical(phi[z]), obs=y)


def bounded(y=None):
    top = numpyro.sample("top", dist.Gamma(5.0, 2.0))
    with numpyro.plate("n", 2):
        numpyro.sample("y", dist.Uniform(0.0, top), obs=y)


def gaussians(y=None):
    """AugurV2's HGMM: two components in the plane."""
    w = numpyro.sample("w", dist.Dirichlet(jnp.array([2.0, 2.0])))
    with numpyro.plate("k", 2):
        mu = numpyro.sample("mu", dist.MultivariateNormal(jnp.zeros(2), jnp.eye(2)))
        cov = numpyro.sample("cov", dist.InverseWishart(9.0, 6 * jnp.eye(2)))
    with numpyro.plate("n", 4):
        z = numpyro.sample("z", dist.Categorical(w))
        numpyro.sample("y", dist.MultivariateNormal(mu[z], cov[z]), obs=y)


DATA = {
    gaussians: np.array([[0.2, 1.0], [-1.0, 0.5], [0.3, 0.1], [2.0, -1.0]], np.float32),
    normal_gamma: np.array([0.1, 1.2, -0.4], np.float32),
    mixture: np.array([0.1, 1.2, -4.0, 3.0], np.float32),
    regression: np.array([0.1, 1.2, -0.4], np.float32),
    topics: np.array([0, 2, 1, 1]),
    bounded: np.array([0.2, 0.5], np.float32),
}


def scheduled(model, text=None):
    """The kernel of a schedule, fed with the data as a compiled run is."""
    plan = gb.model(model, DATA[model]).schedule(text).plan()
    return plan.kernel, lambda data: {"_gibbsite_inputs": {"data": (data["y"],)}}


CASES = [
    (normal_gamma, None),
    (normal_gamma, "Slice tau (*) ESlice m"),
    (normal_gamma, "ReflectiveSlice [tau m]"),
    (normal_gamma, "RandomWalk tau (*) Independence m"),
    (normal_gamma, "random: 2 x Conjugate tau (*) HMC(step_size=.3, num_steps=4, adapt_step_size=False) m"),
    (mixture, None),
    (mixture, "Conjugate w (*) ESlice mu (*) Gibbs z"),
    (mixture, "Slice w (*) NUTS(step_size=.2) mu (*) Gibbs z"),
    (regression, None),
    (topics, None),
    (gaussians, None),
    (bounded, None),
]


@pytest.mark.parametrize(("model", "text"), CASES, ids=[f"{m.__name__}-{t or 'default'}" for m, t in CASES])
def test_the_prior_survives(model, text):
    kernel, inputs = scheduled(model, text)
    scores = joint_distribution_test(model, kernel, {"y": "y"}, inputs=inputs)
    worst = max(float(np.abs(z).max()) for z in scores.values())
    assert worst < 4.5, scores
    assert sum(z.size for z in scores.values()) >= 3


BARE = [
    ("slice", Slice),
    ("reflective", ReflectiveSlice),
    ("random walk", RandomWalk),
    ("prior", IndependenceMetropolis),
    ("ellipse and slice", lambda m: Gibbs([(EllipticalSlice(m), ["m"]), (Slice(m), ["tau"])])),
]


@pytest.mark.parametrize(("name", "build"), BARE, ids=[n for n, _ in BARE])
def test_kernels_without_gibbsite_around_them(name, build):
    scores = joint_distribution_test(normal_gamma, build(normal_gamma), {"y": "y"})
    assert max(float(np.abs(z).max()) for z in scores.values()) < 4.5, scores


class Biased(Slice):
    """A slice that shifts its draws a little: the test must notice."""

    def step(self, key, z, tuning, target, adapting):
        z, tuning, info = super().step(key, z, tuning, target, adapting)
        return {n: x + 0.1 for n, x in z.items()}, tuning, info


def test_a_wrong_kernel_is_noticed():
    scores = joint_distribution_test(normal_gamma, Biased(normal_gamma), {"y": "y"})
    assert max(float(np.abs(z).max()) for z in scores.values()) > 6
