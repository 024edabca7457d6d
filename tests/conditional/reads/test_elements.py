"""The log density of a site, element by element, and the slices that are taken of it side by side."""

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.conditional.draws.slice import slice_element
from gibbsite.conditional.reads.elements import element_density
from numpyro.infer.util import log_density
from scipy import stats

G = np.array([0, 1, 1, 2, 4, 4, 4])


def effects():
    y = np.linspace(-1, 2, 7)
    tau = numpyro.sample("tau", dist.HalfNormal(1.0))
    with numpyro.plate("g", 5):
        u = numpyro.sample("u", dist.Normal(0.5, tau))
    numpyro.sample("y", dist.Normal(jnp.sin(u[G]), 0.7), obs=y)


def rates():
    y = np.array([[1, 0, 3], [2, 2, 9]])
    u = numpyro.sample("u", dist.Gamma(2.0, 0.5).expand([2, 3]).to_event(2))
    b = numpyro.sample("b", dist.Normal(0, 1))
    numpyro.sample("y", dist.Poisson(u * jnp.exp(b)).to_event(2), obs=y)


def shares():
    y = np.array([0, 1, 1, 0])
    with numpyro.plate("n", 4):
        u = numpyro.sample("u", dist.Beta(2.0, 3.0))
        numpyro.sample("y", dist.Bernoulli(jnp.where(u > 0.4, 0.9, 0.2)), obs=y)


def boxed():
    y = np.array([0.1, 0.7])
    u = numpyro.sample("u", dist.TruncatedNormal(0.3, 1.0, low=-1.0, high=2.0).expand([2]).to_event(1))
    numpyro.sample("y", dist.Normal(u**2, 0.5), obs=y)


def pairs():
    """Each term reads two elements, and others none: not apart in `v`, apart in `u`."""
    y = np.arange(3.0)
    u = numpyro.sample("u", dist.Normal(0, 1).expand([3]).to_event(1))
    v = numpyro.sample("v", dist.Normal(0, 1).expand([4]).to_event(1))
    numpyro.sample("y", dist.StudentT(3.0, u + v[1:] * v[:-1], 1.0), obs=y)


@pytest.mark.share(5)
@pytest.mark.parametrize("fn", [effects, rates, shares, boxed, pairs])
def test_elements_change_as_the_whole_density_does(fn):
    """Moving one element by itself changes NumPyro's joint density by what its own conditional says."""
    model, rng = gb.model(fn), np.random.default_rng(0)
    found = element_density(model.density, "u")
    assert found is not None
    shape = model.sites["u"].shape
    others = {"tau": 0.8, "b": 0.3, "v": np.array([0.2, -1.0, 0.4, 0.9])}
    others = {k: jnp.asarray(v) for k, v in others.items() if k in model.sites}
    data = model.density.arguments.arrays
    at = jax.jit(lambda u: found.at(u, others, data))

    def whole(u):
        x, move = found.constrained(u), found._transform
        joint = log_density(fn, (), {}, {**others, "u": x})[0]
        return float(joint + jnp.sum(move.log_abs_det_jacobian(u, x)))

    a, b = (jnp.asarray(rng.normal(size=shape), jnp.float32) for _ in range(2))
    mine, base = np.asarray(at(b) - at(a)), whole(a)
    for index in np.ndindex(shape):
        np.testing.assert_allclose(mine[index], whole(a.at[index].set(b[index])) - base, atol=3e-4)


def coupled():
    u = numpyro.sample("u", dist.Normal(0, 1).expand([4]).to_event(1))
    numpyro.sample("y", dist.Normal(u.sum(), 1.0), obs=0.3)


def walked():
    numpyro.sample("u", dist.GaussianRandomWalk(1.0, 5))


def moved():
    top = numpyro.sample("top", dist.HalfNormal(1.0))
    numpyro.sample("u", dist.Uniform(0.0, top).expand([3]).to_event(1))


def on_a_simplex():
    numpyro.sample("u", dist.Dirichlet(jnp.ones(3)))


def picked():
    z = numpyro.sample("z", dist.Categorical(jnp.ones(3) / 3))
    u = numpyro.sample("u", dist.Normal(0, 1).expand([3]).to_event(1))
    numpyro.sample("y", dist.Normal(u[z] + u[0], 1.0), obs=0.3)


@pytest.mark.parametrize("fn", [coupled, walked, moved, on_a_simplex, picked])
def test_what_is_coupled_or_moves_has_no_elements(fn):
    assert element_density(gb.model(fn).density, "u") is None


def test_slices_side_by_side_are_those_of_each_element():
    """Of independent numbers of different shapes and scales: each has the distribution of its own, and none
    is correlated with another."""
    scale, shift = jnp.array([0.1, 1.0, 30.0, 1.0]), jnp.array([0.0, 5.0, -3.0, 0.0])

    def logdensity(x):
        normal = -0.5 * ((x - shift) / scale) ** 2
        return jnp.where(jnp.arange(4) == 3, -jnp.abs(x) - jnp.where(x < 0, jnp.inf, 0.0), normal)

    def step(x, key):
        return (x := slice_element(key, logdensity, x, None, 2.0 * scale, 16)[0]), x

    start = jnp.array([0.0, 5.0, -3.0, 1.0])
    keys = jax.random.split(jax.random.key(0), 20_000)
    draws = np.asarray(jax.jit(lambda: jax.lax.scan(step, start, keys)[1])())[::5]
    exact = [*(stats.norm(m, s) for m, s in zip(shift[:3], scale[:3], strict=True)), stats.expon()]
    for i, d in enumerate(exact):
        assert stats.kstest(draws[:, i], d.cdf).pvalue > 1e-3
    assert np.abs(np.corrcoef(draws.T) - np.eye(4)).max() < 4.5 / np.sqrt(len(draws))


@pytest.mark.slow
def test_latent_utilities_are_sliced_and_converge():
    """The probit model as Albert and Chib (1993) write it: gradients do not feel on which side of zero a
    utility is. Against quadrature over the coefficients."""
    x = np.random.default_rng(1).normal(size=(50, 2)).astype("float32")
    y = (x @ np.array([1.0, -0.5]) + np.random.default_rng(2).normal(size=50) > 0).astype(int)

    def augmented(y=y):
        b = numpyro.sample("b", dist.Normal(0, 2).expand([2]).to_event(1))
        with numpyro.plate("n", 50):
            u = numpyro.sample("u", dist.Normal(x @ b, 1.0))
            numpyro.sample("y", dist.Bernoulli((u > 0).astype(float)), obs=y)

    model = gb.model(augmented)
    rows = {sites: kernel for kernel, sites in ((r.kernel, r.sites) for r in model.schedule().rows)}
    assert rows == {("b",): "Conjugate", ("u",): "Slice"}
    run = model.sample(draws=1500, warmup=200, chains=4, seed=0)
    assert ((run.draws["u"] > 0) == y).mean() > 0.9999
    grid = np.stack(np.meshgrid(*[np.linspace(-3, 5, 321)] * 2, indexing="ij"), -1)
    logp = stats.norm.logcdf((grid @ x.T) * (2 * y - 1)).sum(-1) - (grid**2).sum(-1) / 8
    p = np.exp(logp - logp.max())
    exact = (grid * (p / p.sum())[..., None]).sum((0, 1))
    for i, stat in enumerate(s for s in sorted(run.diagnostics(), key=lambda s: s.label) if s.site == "b"):
        assert stat.rhat < 1.02
        assert abs(stat.mean - exact[i]) < 4 * stat.mcse
