"""Gaussian chains drawn in linear time, against dense and banded linear algebra."""

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.conditional.gaussian.chained import Pieces
from gibbsite.conditional.gaussian.joint import GaussianChain
from gibbsite.conditional.gaussian.tridiagonal import factored
from numpyro.contrib.control_flow import scan
from scipy.linalg import solveh_banded

T = 17
Y = np.sin(np.arange(T) / 3)


def walk(y):
    x = numpyro.sample("x", dist.GaussianRandomWalk(0.7, len(y)))
    numpyro.sample("y", dist.Normal(x, 0.5).to_event(1), obs=y)


def walks_with_one_sum(y):
    with numpyro.plate("p", 2):
        x = numpyro.sample("x", dist.GaussianRandomWalk(jnp.array([0.7, 0.2]), len(y)))
    numpyro.sample("y", dist.Normal(x.sum(0), 0.5).to_event(1), obs=y)


def vector_states_in_a_scan(y):
    turn = jnp.array([[1.0, 0.1], [-0.1, 1.0]])

    def step(x, y):
        x = numpyro.sample("x", dist.MultivariateNormal(turn @ x, 0.1 * jnp.eye(2)))
        numpyro.sample("y", dist.Normal(x[0], 0.5), obs=y)
        return x, None

    scan(step, jnp.zeros(2), y)


def second_order_slices(y):
    x = numpyro.sample("x", dist.Normal(0, 1).expand([len(y)]).to_event(1))
    numpyro.factor("f", dist.Normal(0.9 * x[1:-1] - 0.2 * x[:-2], 0.3).log_prob(x[2:]).sum())
    numpyro.sample("y", dist.Normal(x, 0.5).to_event(1), obs=y)


def curved_upwards(y):
    """A part of the density that is no square of a real number, for which others make up."""
    x = numpyro.sample("x", dist.GaussianRandomWalk(0.7, len(y)))
    numpyro.factor("f", 0.1 * ((x[1:] + x[:-1]) ** 2).sum())
    numpyro.sample("y", dist.Normal(x, 0.5).to_event(1), obs=y)


def some_observed(y):
    x = numpyro.sample("x", dist.GaussianRandomWalk(0.7, len(y)))
    seen = np.array([0, 3, 3, 11, 16])
    numpyro.sample("y", dist.Normal(x[seen], 0.5).to_event(1), obs=y[seen])


CHAINS = [
    (walk, 1),
    (walks_with_one_sum, 1),
    (vector_states_in_a_scan, 1),
    (second_order_slices, 2),
    (some_observed, 1),
    (curved_upwards, 1),
]


def around(found, noise):
    """The draw of what `natural` found, from standard Normal numbers."""
    factor, _ = factored(found["diagonal"], found["below"], found["diagonal"][..., :0])
    return factor.backward(factor.forward(found["information"][..., None]) + noise[..., None])[..., 0]


@pytest.mark.share(10)
@pytest.mark.parametrize(("model", "reach"), CHAINS, ids=[m.__name__ for m, _ in CHAINS])
def test_a_chain_is_the_dense_gaussian(model, reach):
    with jax.enable_x64(True):
        m = gb.model(model, jnp.asarray(Y.copy()))
        c = m.conditional("x")
        assert isinstance(c, GaussianChain), c.reason
        assert c.chain.reach == reach
        shape = m.sites["x"].shape
        size = int(np.prod(shape))

        @jax.jit
        def joint(x):
            return m.density.log_joint({"x": x.reshape(shape)})

        zero = jnp.zeros(size)
        precision = -np.asarray(jax.hessian(joint)(zero))
        mean = np.linalg.solve(precision, jax.grad(joint)(zero))
        found = jax.jit(c.natural)({})
        units = jnp.eye(found["information"].size).reshape(-1, *found["information"].shape)
        joined = lambda x: c._chained.layout.values(Pieces(x, jnp.zeros(0)))["x"]  # noqa: E731
        draw = jax.jit(lambda v, e: joined(around({**found, "information": v}, e)).ravel())
        still = jnp.zeros_like(found["information"])
        np.testing.assert_allclose(draw(found["information"], still), mean, rtol=1e-9, atol=1e-9)
        spread = np.asarray(jax.vmap(draw, (None, 0))(still, units)).T
        np.testing.assert_allclose(spread @ spread.T, np.linalg.inv(precision), rtol=1e-9, atol=1e-9)
        assert jax.eval_shape(c.sample, jax.random.key(0), {}).shape == shape


@pytest.mark.slow
@pytest.mark.share(8)
@pytest.mark.parametrize("model", [m for m, _ in CHAINS if m is not vector_states_in_a_scan])
def test_rows_have_the_same_factor(model):
    """The precision from what is squared, and its factor without forming that."""
    with jax.enable_x64(True):
        m = gb.model(model, jnp.asarray(Y.copy()))
        c = m.conditional("x")
        found, data = c.natural({}), tuple(m.density.arguments.arrays)
        rows = c._chained._rows({}, data, c._chained._zero)
        for ours, other in zip(rows.blocks(), (found["diagonal"], found["below"]), strict=True):
            np.testing.assert_allclose(ours, other, rtol=1e-12, atol=1e-12)
        other, _ = factored(found["diagonal"], found["below"], found["diagonal"][..., :0])
        for a, b in zip(rows.factored(), other, strict=True):
            if model is curved_upwards:  # it has no such root
                assert np.isnan(a).any()
                continue
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)
        assert np.isfinite(c.drawn(jax.random.key(0), {}, data).values["x"]).all()


@pytest.mark.slow
def test_a_hundred_thousand_steps():
    n = 100_000
    y = np.cumsum(np.random.default_rng(0).normal(size=n))
    with jax.enable_x64(True):
        c = gb.model(walk, jnp.asarray(y)).conditional("x")
        found = c.natural({})
        mean = around(found, jnp.zeros((n, 1, 1)))
        diagonal = np.r_[np.full(n - 1, 2 / 0.49), 1 / 0.49] + 4
        banded = np.stack([np.r_[0, np.full(n - 1, -1 / 0.49)], diagonal])
        np.testing.assert_allclose(mean[:, 0, 0], solveh_banded(banded, 4 * y), rtol=1e-9, atol=1e-9)
    c = gb.model(walk, jnp.asarray(y, jnp.float32)).conditional("x")
    gaps = np.asarray(c.sample(jax.random.key(0), {})) - np.asarray(mean[:, 0, 0])
    # an AR(1) in equilibrium: variance 1 / sqrt(d² - 4 e²) of the tridiagonal precision
    variance = 1 / np.sqrt((2 / 0.49 + 4) ** 2 - 4 / 0.49**2)
    rho = (variance * (2 / 0.49 + 4) - 1) / (2 * variance / 0.49)
    error = np.sqrt(2 * (1 + rho**2) / (1 - rho**2) / n) * variance
    assert abs(gaps.var() - variance) < 4 * error
    assert abs(gaps.mean()) < 4 * np.sqrt(variance * (1 + rho) / (1 - rho) / n)


def shuffled(order):
    x = numpyro.sample("x", dist.Normal(0, 1).expand([2000]).to_event(1))
    numpyro.factor("f", -((x[order] - x) ** 2).sum())


def test_what_is_no_chain_is_not_drawn_as_one():
    c = gb.model(shuffled, np.random.default_rng(0).permutation(2000)).conditional("x")
    assert c.kind == "none"
    assert "2000 elements of x are coupled" in c.reason


def smooth(y, tau):
    x = numpyro.sample("x", dist.ImproperUniform(dist.constraints.real_vector, (), (len(y),)))
    numpyro.factor("steps", -0.5 * jnp.sum((x[2:] - 2 * x[1:-1] + x[:-2]) ** 2) / tau**2)
    numpyro.sample("y", dist.Normal(x, 1.0), obs=y)


def local_trend(y, tau):
    with numpyro.plate("series", 2):
        x = numpyro.sample("x", dist.GaussianRandomWalk(tau, len(y)))
    numpyro.sample("y", dist.Normal(x[0], 1.0).to_event(1), obs=y)
    numpyro.sample("v", dist.Normal(x[1], 1.0).to_event(1), obs=-y)


@pytest.mark.share(8)
@pytest.mark.parametrize(
    ("fn", "order", "offset", "tau"),
    [
        (smooth, 2, 0.0, 0.1),
        (smooth, 2, 1000.0, 0.1),
        (smooth, 2, 0.0, 4e-3),
        (smooth, 2, 0.0, 1e-4),
        (local_trend, 1, 0.0, 1e-4),
    ],
)
def test_a_chain_of_small_steps_is_right_in_single_precision(fn, order, offset, tau):
    """Beside steps of 1e-4 the precision's entries are rounded by six times what the data add to them."""
    y = (offset + np.random.default_rng(0).normal(size=64)).astype(np.float32)
    steps = np.diff(np.eye(64), order, axis=0) / float(np.float32(tau))
    first = np.eye(64)[:1] / float(np.float32(tau)) * (order == 1)
    cov = np.linalg.inv(steps.T @ steps + first.T @ first + np.eye(64))
    mean, sd = cov @ y.astype(np.float64), np.sqrt(np.diag(cov))
    model = gb.model(fn, y, np.float32(tau), check_values=False)
    chain, data = model.conditional("x"), tuple(model.density.arguments.arrays)
    assert isinstance(chain, GaussianChain)
    near = mean + np.linalg.cholesky(cov) @ np.random.default_rng(1).normal(size=64)
    near = jnp.asarray(near if fn is smooth else np.stack([near, -near]), jnp.float32)
    keys = jax.random.split(jax.random.key(0), 4000)
    draws, lost = jax.jit(jax.vmap(lambda k: chain.drawn(k, {"x": near}, data)))(keys)
    found = np.asarray(draws["x"], np.float64)
    found = found if fn is smooth else np.concatenate([found[:, 0], -found[:, 1]])
    assert np.max(np.abs(found.mean(0) - mean) / sd) * np.sqrt(len(found)) < 5
    assert np.max(np.abs(found.std(0) / sd - 1)) * np.sqrt(2 * len(found)) < 5
    assert np.max(lost) < 0.2
    # what 4000 draws do not see: the variances themselves
    draw = chain._chained
    factor = jax.jit(lambda: draw.solved({"x": near}, data, noise=draw._zero)[1].variances())
    variances = np.asarray(draw.values(factor())["x"], np.float64)
    np.testing.assert_allclose(variances.reshape(-1, 64), np.stack([sd**2] * (near.size // 64)), rtol=5e-3)


@pytest.mark.slow
def test_a_chain_that_rounding_takes_says_so():
    y = np.random.default_rng(0).normal(size=64).astype(np.float32)
    model = gb.model(smooth, y, np.float32(1e-6), check_values=False)
    chain, data = model.conditional("x"), tuple(model.density.arguments.arrays)
    assert chain.drawn(jax.random.key(0), {"x": jnp.asarray(y)}, data).rounding > 0.2
