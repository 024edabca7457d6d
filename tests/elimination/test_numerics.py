"""Where naive tables and messages go wrong: long chains in single precision, zeros, infinities, second
derivatives."""

import itertools

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.elimination.steps.semiring import BEST, DRAW, SUM, reduce_first, weights
from gibbsite.elimination.tables.safe import guarded
from numpyro.contrib.control_flow import scan

RNG = np.random.default_rng(4)
LONG = RNG.normal(size=100_000)


def long_chain(y):
    mu = numpyro.sample("mu", dist.Normal(0, 1).expand([2]).to_event(1))
    stay = numpyro.sample("stay", dist.Beta(2, 2))
    with numpyro.plate("n", len(y)):
        z = numpyro.sample("z", dist.Bernoulli(0.5))
        numpyro.sample("y", dist.Normal(mu[z], 1.0), obs=y)
    numpyro.factor("steps", jnp.where(z[1:] == z[:-1], jnp.log(stay), jnp.log1p(-stay)))


def value_and_gradient(fn, args, state, dtype):
    m = gb.model(fn, *args).marginal("z")
    data = tuple(m.density.arguments.arrays)
    state = {n: jnp.asarray(v, dtype) for n, v in state.items()}
    return jax.jit(jax.value_and_grad(lambda s: m.logdensity_at(s, data)))(state)


@pytest.mark.slow
def test_a_long_chain_is_right_in_single_precision():
    state = {"mu": np.array([-0.5, 1.0]), "stay": np.array(0.9)}
    single, gradient = value_and_gradient(long_chain, (LONG,), state, np.float32)
    with jax.enable_x64(True):
        double, exact = value_and_gradient(long_chain, (LONG,), state, np.float64)
    assert abs(float(single) - float(double)) < 0.1
    for n, g in exact.items():
        np.testing.assert_allclose(gradient[n], g, rtol=1e-3)


def test_weights_sum_to_one_far_from_zero():
    x = jnp.array([[-2e4], [-2e4 - 0.5], [-2e4 - 3.0]], jnp.float32)
    np.testing.assert_allclose(weights(x).sum(0), 1.0, rtol=1e-6)


@pytest.mark.parametrize("mode", [SUM, DRAW, BEST])
def test_a_column_of_zeros_has_derivative_zero(mode):
    x = jnp.array([[-jnp.inf, 0.0], [-jnp.inf, -jnp.inf]])
    value, pull = jax.vjp(lambda x: reduce_first(x, jnp.array([0.5, 0.5]), mode), x)
    assert value.tolist() == [-np.inf, 0.0]
    (g,) = pull(jnp.ones(2))
    assert np.isfinite(g).all() and g[:, 1].tolist() == [1.0, 0.0]


def presence(y):
    """`log(p * 0)` for what is absent: a structural zero."""
    p = numpyro.sample("p", dist.Beta(1, 1))
    with numpyro.plate("n", len(y)):
        z = numpyro.sample("z", dist.Bernoulli(0.4))
        numpyro.factor("y", jnp.where(y > 0, jnp.log(p * z), jnp.log1p(-p * z)))


@pytest.mark.slow
def test_structural_zeros_have_the_right_derivative():
    y = np.array([1, 0, 1])
    with jax.enable_x64(True):
        m = gb.model(presence, y).marginal("z")
        at = jnp.asarray(0.3)
        prior = lambda p: dist.Beta(1, 1).log_prob(p)  # noqa: E731
        exact = jax.grad(lambda p: prior(p) + 2 * jnp.log(0.4 * p) + jnp.log(0.6 + 0.4 * (1 - p)))(at)
        assert float(jax.grad(lambda p: m.logdensity({"p": p}))(at)) == pytest.approx(float(exact), abs=1e-12)


def functions(x):
    a = numpyro.sample("a", dist.Normal(0, 1))
    powers = (a - x) ** 2 + jnp.power(jnp.abs(a) + 1.0, x) + (a + 3.0) ** -1 + (a + 3.0) ** 0.5
    numpyro.factor("f", jnp.log(a + 4.0) + jnp.log1p(a * a) + a / x + jnp.sqrt(a + 5.0) + powers)
    numpyro.factor("g", jax.lax.rsqrt(a + 6.0) * (a - 2.0) ** 3.0)


@pytest.mark.slow
def test_away_from_singular_points_derivatives_are_the_ordinary_ones():
    density = gb.model(functions, np.array([0.7, 2.0])).density
    data = density.arguments.arrays

    def total(density, a):
        ev = density.evaluator({"a": a}, data)
        return sum(jnp.sum(t.contribution(ev.full(t.atom), ev.full)) for t in density.terms)

    for a in (0.4, -0.6):
        plain, ours = (
            jax.grad(lambda a, d=d: total(d, a))(jnp.asarray(a)) for d in (density, guarded(density))
        )
        assert float(ours) == pytest.approx(float(plain), rel=1e-5)


def two_lags(y):
    """A chain of order two whose transitions have a parameter; two values, so that paths can be listed."""
    mu = numpyro.sample("mu", dist.Normal(0, 1).expand([2]).to_event(1))
    up = numpyro.sample("up", dist.Normal(0, 1))

    def step(before, now):
        z = numpyro.sample("z", dist.Bernoulli(logits=up * before[0] - before[1]))
        numpyro.sample("y", dist.Normal(mu[z], 1.0), obs=now)
        return (before[1], z), None

    scan(step, (0, 1), y)


def listed(y):
    """The log of the sum over all paths of `two_lags`, written down."""
    paths = np.array(list(itertools.product([0, 1], repeat=len(y))))
    before = np.concatenate([np.tile([0, 1], (len(paths), 1)), paths], axis=1)

    def logdensity(state):
        logits = state["up"] * before[:, :-2] - before[:, 1:-1]
        steps = paths * logits - jnp.logaddexp(0.0, logits)
        seen = -0.5 * (y - state["mu"][paths]) ** 2
        prior = -0.5 * (state["up"] ** 2 + jnp.sum(state["mu"] ** 2))
        return jax.nn.logsumexp(jnp.sum(steps + seen, axis=1)) + prior

    return logdensity


@pytest.mark.slow
@pytest.mark.parametrize("derivative", ["forwards", "backwards", "second", "forwards twice", "along"])
def test_derivatives_through_filters_are_those_of_the_sum_over_all_paths(derivative):
    take = {
        "forwards": jax.jacfwd,
        "backwards": jax.jacrev,
        "second": jax.hessian,
        "forwards twice": lambda f: jax.jacfwd(jax.jacfwd(f)),
        "along": lambda f: lambda at: jax.jvp(jax.grad(f), (at,), (jax.tree.map(jnp.ones_like, at),)),
    }[derivative]
    y = np.random.default_rng(3).normal(size=6)
    with jax.enable_x64(True):
        m = gb.model(two_lags, y).marginal("z")
        assert "along 6 steps" in str(m)
        at = {"mu": jnp.array([-0.3, 0.8]), "up": jnp.asarray(0.4)}
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, atol=1e-10),
            take(m.logdensity)(at),
            take(listed(y))(at),
        )


def test_a_row_pulls_back_its_weight_without_a_zero_for_each_other():
    """Padded to all rows first, a share is a pass over the whole table for each row."""
    x = jnp.asarray(np.random.default_rng(1).normal(size=(4, 15)))
    slope = jax.grad(lambda x: jnp.sum(reduce_first(x, None, SUM)))
    assert " pad[" not in str(jax.make_jaxpr(slope)(x))
    np.testing.assert_allclose(slope(x), jax.nn.softmax(x, axis=0), rtol=1e-6)
