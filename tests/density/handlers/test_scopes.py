"""Models under `handlers.scope` are the models that they are without, under other names."""

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.kernels.blocks.target import Target
from numpyro import handlers
from numpyro.contrib.control_flow import scan
from numpyro.distributions.transforms import AffineTransform
from numpyro.infer.gibbs import conditioned

Y = np.array([0.1, 0.5, 1.2], np.float32)


def path(y):
    def step(before, y):
        x = numpyro.sample("x", dist.Normal(0.8 * before, 1.0))
        numpyro.sample("y", dist.Normal(x, 0.5), obs=y)
        return x, None

    scan(step, 0.0, y)


def scoped(fn):
    def within(*args):
        with handlers.scope(prefix="a"), handlers.scope(prefix="b", divider="."):
            return fn(*args)

    return within


def test_a_loop_has_the_density_that_it_has_without():
    plain, other = gb.model(path, Y).density, gb.model(scoped(path), Y).density
    x = np.array([0.3, -0.2, 0.7], np.float32)
    assert list(other.latents) == ["a/b.x"]
    for found in (plain, other):
        state = dict.fromkeys(found.latents, x)
        np.testing.assert_allclose(found.log_joint(state), plain.log_joint({"x": x}), rtol=1e-6)


@pytest.mark.slow
def test_a_loop_is_sampled_conditioned_and_predicted():
    plain, other = gb.model(path, Y), gb.model(scoped(path), Y)
    options = {"draws": 50, "warmup": 20, "chains": 2, "seed": 0}
    runs = plain.sample(**options), other.sample(**options)
    np.testing.assert_array_equal(runs[0].draws["x"], runs[1].draws["a/b.x"])
    trees = [r.to_datatree(posterior_predictive=True, log_likelihood=True) for r in runs]
    for group in ("posterior_predictive", "log_likelihood"):
        values = [next(iter(t[group].to_dataset().values())).values for t in trees]
        np.testing.assert_allclose(*values, rtol=1e-5)


def test_a_loop_is_conditioned():
    def two(y):
        path(y)
        numpyro.sample("t", dist.Normal(0, 1))

    found = gb.model(scoped(two), Y).condition({"a/b.x": Y})
    assert list(found.density.latents) == ["a/b.t"]
    truth = dist.Normal(Y, 0.5).log_prob(Y)
    atom = found.density.outputs["log_prob"]["a/b.y"]
    np.testing.assert_allclose(found.density.evaluator({}).full(atom), truth, rtol=1e-5)


@pytest.mark.slow
def test_a_free_path_is_sampled_by_its_gradient():
    def free(y):
        s = numpyro.sample("s", dist.HalfNormal(1.0))

        def step(before, y):
            x = numpyro.sample("x", dist.LogNormal(before, s))
            numpyro.sample("y", dist.Normal(x, 0.5), obs=y)
            return jnp.log(x), None

        scan(step, 0.0, y)

    for schedule in ("Slice {0}s (*) Slice {0}x", "HMC [{0}s {0}x]"):
        runs = [
            gb.model(fn, Y).sample(draws=20, warmup=20, chains=2, seed=0, schedule=schedule.format(prefix))
            for fn, prefix in ((free, ""), (scoped(free), "a/b."))
        ]
        np.testing.assert_allclose(runs[0].draws["x"], runs[1].draws["a/b.x"], rtol=1e-3)


def moving():
    a = numpyro.sample("a", dist.HalfNormal(1.0))
    ends = AffineTransform(-a, 2 * a, domain=dist.constraints.unit_interval)
    x = numpyro.sample("x", dist.TransformedDistribution(dist.Beta(2.0, 2.0), ends))
    numpyro.sample("y", dist.Normal(x, 0.4), obs=1.0)


@pytest.mark.parametrize("fn, prefix", [(moving, ""), (scoped(moving), "a/b.")], ids=["plain", "scoped"])
def test_a_moving_support_counts_with_its_jacobian(fn, prefix):
    model = conditioned(handlers.seed(fn, 0))
    names = frozenset(f"{prefix}{n}" for n in ("a", "x", "y"))
    target = Target(model, (), {}, names)

    def found(a, u):
        z = {f"{prefix}a": jnp.log(a), f"{prefix}x": u}
        return target.free_logdensity(z)

    def truth(a, u):  # x = -a + 2 a sigmoid(u)
        p = jax.nn.sigmoid(u)
        prior = dist.HalfNormal(1.0).log_prob(a) + dist.Beta(2.0, 2.0).log_prob(p)
        return prior + dist.Normal(-a + 2 * a * p, 0.4).log_prob(1.0) + jnp.log(a * p * (1 - p))

    at = [(0.5, -1.0), (1.2, 0.3), (2.5, 1.5)]
    for a, u in at:
        np.testing.assert_allclose(found(jnp.float32(a), jnp.float32(u)), truth(a, u), rtol=1e-5)
