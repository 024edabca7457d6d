"""Walks that are written by their steps: integrated out and drawn as chains of running totals, against dense
algebra in double precision."""

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.conditional.dispatch import conditional_of
from gibbsite.conditional.gaussian.chained import ChainedGaussian
from gibbsite.conditional.gaussian.joint import GaussianTotals
from gibbsite.density.passes.totals import in_totals
from gibbsite.elimination import marginal_of
from jax.flatten_util import ravel_pytree

N = 24
Y = np.cumsum(np.random.default_rng(3).normal(size=(3, N)), -1)


def scales():
    return (numpyro.sample(n, dist.HalfNormal(1)) for n in ("q", "s"))


def steps(n):
    with numpyro.plate("steps", n):
        return numpyro.sample("e", dist.Normal(0, 1))


def observe(mean, s, y):
    numpyro.sample("y", dist.Normal(mean, s).to_event(y.ndim), obs=y)


def walk(y):
    q, s = scales()
    observe(jnp.cumsum(steps(N)) * q, s, y[0])


def drifting(y):
    q, s = scales()
    a, b = (numpyro.sample(n, dist.Normal(0, 1)) for n in ("a", "b"))
    observe(a + jnp.cumsum(b - q * steps(N)), s, y[0])


def level_and_slope(y):
    q, s = scales()
    a, b = (numpyro.sample(n, dist.Normal(0, 1)) for n in ("a", "b"))
    observe(a + jnp.cumsum(b + jnp.cumsum(steps(N)) * q), s, y[0])


def joined(y):
    """A spline by its bends: a line whose slope is joined to what it becomes."""
    q, s = scales()
    a, b = (numpyro.sample(n, dist.Normal(0, 1)) for n in ("a", "b"))
    slope = jnp.cumsum(jnp.concatenate([b[None], q * steps(N - 2)]))
    observe(a + jnp.cumsum(jnp.concatenate([jnp.zeros(1), slope])), s, y[0])


def several(y):
    q, s = scales()
    by = numpyro.sample("by", dist.HalfNormal(1).expand([3]).to_event(1))
    with numpyro.plate("walks", 3, dim=-2), numpyro.plate("steps", N, dim=-1):
        e = numpyro.sample("e", dist.Normal(0, 1))
    observe(q * jnp.cumsum(by[:, None] * e, -1), s, y)


def beside_its_steps(y):
    """Steps that data read, too, and a regression on the walk."""
    q, s = scales()
    e = steps(N)
    observe(jnp.cumsum(e) * q * jnp.linspace(-1, 1, N) + 0.5 * e, s, y[0])


MODELS = {
    walk: ("e",),
    joined: ("a", "b", "e"),
    drifting: ("a", "b", "e"),
    level_and_slope: ("a", "b", "e"),
    several: ("e",),
    beside_its_steps: ("e",),
}


@pytest.mark.share(6)
@pytest.mark.parametrize("model", MODELS, ids=lambda f: f.__name__)
def test_totals_are_the_dense_gaussian(model):
    sites = MODELS[model]
    with jax.enable_x64(True):
        density = gb.model(model, Y).density
        left, rng = marginal_of(density, sites), np.random.default_rng(1)
        (message,) = left.messages
        assert isinstance(message.gaussian, ChainedGaussian) and "running totals of e" in message.reason
        data = tuple(density.arguments.arrays)
        rest = {n: rng.gamma(2, size=density.sites[n].shape) for n in density.latents if n not in sites}
        zero, named = ravel_pytree({n: jnp.zeros(density.sites[n].shape) for n in sites})

        @jax.jit
        def dense(rest):
            def log_joint(x):
                return density.log_joint_at({**rest, **named(x)}, data)

            precision = -jax.hessian(log_joint)(zero)
            mean = jnp.linalg.solve(precision, jax.grad(log_joint)(zero))
            return log_joint(mean) - jnp.linalg.slogdet(precision)[1] / 2, mean, precision

        _, mean, precision = dense(rest)
        covariance = np.linalg.inv(precision)
        moments, means = jax.jit(left.moments_at)(rest, data), named(mean)
        variances = named(jnp.diagonal(covariance))
        for n in sites:
            np.testing.assert_allclose(moments[n].mean, means[n], rtol=1e-8, atol=1e-9)
            np.testing.assert_allclose(moments[n].variance, variances[n], rtol=1e-8)
        both = jax.jit(lambda r: left.logdensity_at(r, data)), lambda r: dense(r)[0]
        slopes = [jax.grad(f)(rest) for f in both]
        for n in rest:
            np.testing.assert_allclose(slopes[0][n], slopes[1][n], rtol=1e-7, atol=1e-8)
        other = {n: 1.3 * v for n, v in rest.items()}
        found, exact = (f(rest) - f(other) for f in both)
        np.testing.assert_allclose(found, exact, rtol=1e-9)
        draw = jax.jit(jax.vmap(lambda key: left.draw_at(key, rest, data)))
        draws = draw(jax.random.split(jax.random.key(0), 4000))
        flat = jax.vmap(lambda x: ravel_pytree(x)[0])({n: draws[n] for n in sites})
        white = np.linalg.cholesky(precision).T @ np.asarray(flat - mean).T
        assert np.abs(white.mean(1)).max() < 4.5 / np.sqrt(4000)
        assert np.abs(np.cov(white) - np.eye(len(mean))).max() < 6 / np.sqrt(4000)


def test_a_walk_that_is_drawn_by_itself():
    with jax.enable_x64(True):
        density = gb.model(walk, Y).density
        found = conditional_of(density, "e")
        assert isinstance(found, GaussianTotals)
        rest, data = {"q": jnp.asarray(0.7), "s": jnp.asarray(0.4)}, tuple(density.arguments.arrays)
        precision = np.eye(N) + (0.7 / 0.4) ** 2 * np.tril(np.ones((N, N))).T @ np.tril(np.ones((N, N)))
        mean = np.linalg.solve(precision, 0.7 / 0.4**2 * np.tril(np.ones((N, N))).T @ Y[0])
        draw = jax.jit(jax.vmap(lambda key: found.update(key, {**rest, "e": jnp.zeros(N)}, data)))
        white = (
            np.linalg.cholesky(precision).T
            @ (np.asarray(draw(jax.random.split(jax.random.key(1), 4000))) - mean).T
        )
        assert np.abs(white.mean(1)).max() < 4.5 / np.sqrt(4000)
        assert np.abs(np.cov(white) - np.eye(N)).max() < 6 / np.sqrt(4000)


def test_what_is_added_up_in_other_ways_stays():
    def backwards(y):
        q, s = scales()
        observe(jnp.cumsum(steps(N)[::-1]) * q, s, y[0])

    def changing(y):
        q, s = scales()
        observe(jnp.cumsum(jnp.linspace(1, 2, N) * steps(N)) * q, s, y[0])

    def not_added(y):
        q, s = scales()
        observe(steps(N) * q, s, y[0])

    for model in (backwards, changing, not_added):
        density = gb.model(model, Y).density
        assert in_totals(density, ("e",)) is None
        assert gb.model(model, Y).marginal("e").order == ("e",)


def test_a_long_walk_is_integrated_out_by_default():
    """Dense, its precision would be too large."""
    n = 3000

    def long(y):
        q, s = scales()
        with numpyro.plate("steps", n):
            e = numpyro.sample("e", dist.Normal(0, 1))
        observe(jnp.cumsum(e) * q, s, y)

    model = gb.model(long, np.cumsum(np.random.default_rng(0).normal(size=n)).astype(np.float32))
    assert model.schedule().text == "Eliminate e > NUTS [q s]"
