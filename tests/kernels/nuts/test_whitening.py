"""A path or a field is whitened by its prior's factor where data are few, and stays as written elsewhere."""

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.kernels.learnt.metric import unit_metric
from gibbsite.kernels.nuts.potential import problem
from gibbsite.kernels.nuts.tuning import Rows, refit, untuned

N = 12
TIMES = np.arange(N)


def walk(noise):
    step = numpyro.sample("step", dist.LogNormal(0, 0.3))
    x = numpyro.sample("x", dist.GaussianRandomWalk(step, N))
    numpyro.sample("y", dist.Normal(x, noise), obs=jnp.zeros(N))


def field(noise):
    step = numpyro.sample("step", dist.LogNormal(0, 0.3))
    cov = step**2 * jnp.asarray(np.minimum.outer(TIMES, TIMES) + 1.0)
    x = numpyro.sample("x", dist.MultivariateNormal(jnp.zeros(N), cov))
    numpyro.sample("y", dist.Normal(x, noise), obs=jnp.zeros(N))


def posterior(noise, count):
    """Scales and paths, from the posterior by weights over a grid of scales and the Gaussian given each."""
    rng, grid = np.random.default_rng(0), np.exp(np.linspace(-1.2, 1.2, 80))
    shape = np.minimum.outer(TIMES, TIMES) + 1.0
    dets = np.array([np.linalg.slogdet(s**2 * shape + noise**2 * np.eye(N))[1] for s in grid])
    weight = np.exp(-0.5 * dets - 0.5 * (np.log(grid) / 0.3) ** 2 + 0.5 * dets.min())
    steps = rng.choice(grid, count, p=weight / weight.sum())
    paths = []
    for s in steps:
        cov = np.linalg.inv(np.linalg.inv(s**2 * shape) + np.eye(N) / noise**2)
        paths.append(np.linalg.cholesky(cov) @ rng.normal(size=N))
    return {"step": np.log(steps), "x": np.array(paths)}


@pytest.mark.slow
@pytest.mark.parametrize("model", [walk, field])
@pytest.mark.parametrize(("noise", "degree"), [(30.0, 0.0), (0.01, 1.0)])
def test_paths_are_white_where_data_say_little(model, noise, degree):
    with jax.enable_x64(True):
        density = gb.model(model, noise).density
        p = problem(model, density, "auto", jax.random.key(0), (noise,), {})
        c, around = p.coordinates, p.around((noise,), {})
        assert c.whole.all() and c.degrees == N
        drawn = posterior(noise, 200)
        v = jax.vmap(c.flat)({n: jnp.asarray(a) for n, a in drawn.items()})
        as_written = p.potential(jnp.ones(N), (noise,), {})
        rows = Rows(v, -jax.vmap(jax.grad(as_written))(v), jnp.zeros((200, 0)))
        start = untuned(c, jnp.full(N, 1 - degree), unit_metric(jnp.ones(c.size), 0))
        found = refit(c, rows, jnp.ones(200), start, around.data, 0, jnp.array(True))
    np.testing.assert_array_equal(found.lam, degree)
    written, _, white, used = (np.asarray(a) for a in found.fit)
    assert used.mean() < 0.3 < abs((written - white).mean())
