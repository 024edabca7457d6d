"""Derivatives of x log y where nothing is counted."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from gibbsite.programs.passes.replaced import with_slopes
from helpers.startup.arrays import array
from jax.scipy.special import xlog1py, xlogy

COUNTS = array([0.0, 2.0, 0.0, 3.0])
AT_RISK = array([0.0, 1.0, 1.0, 1.0])


def plain(u):
    rate = AT_RISK * jnp.exp(u)
    return dist.Poisson(rate).log_prob(COUNTS).sum()


def in_a_call(u):
    return jax.jit(plain)(u)


def in_a_scan(u):
    def step(total, row):
        count, at_risk = row
        rate = at_risk * jnp.exp(u)
        return total + xlogy(count, rate) - rate, None

    return jax.lax.scan(step, jnp.zeros(()), (COUNTS, AT_RISK))[0]


def by_log1p(u):
    rate = AT_RISK * jnp.exp(u)
    return (xlog1py(COUNTS, rate - 1) - rate).sum()


@pytest.mark.parametrize("fn", [plain, in_a_call, in_a_scan, by_log1p])
def test_no_count_has_no_slope(fn):
    u = jnp.asarray(0.3)
    assert np.isnan(jax.grad(fn)(u))
    value, slope = jax.value_and_grad(with_slopes(fn))(u)
    np.testing.assert_allclose(value, fn(u), rtol=1e-6)
    # the sum of counts at risk, minus three times the rate
    np.testing.assert_allclose(slope, 5 - 3 * np.exp(0.3), rtol=1e-6)


def test_elsewhere_nothing_changes():
    y = jnp.linspace(0.1, 0.9, 7)
    for product in (xlogy, xlog1py):
        for x in (0.0, 2.5):
            fn = lambda y, x=x, product=product: product(x, y).sum()  # noqa: E731
            np.testing.assert_allclose(jax.grad(with_slopes(fn))(y), jax.grad(fn)(y), rtol=1e-6)
    by_count = jax.grad(lambda u: with_slopes(lambda u: xlogy(u, 2.0))(u))(jnp.asarray(0.0))
    np.testing.assert_allclose(by_count, np.log(2), rtol=1e-6)


def test_functions_keep_derivatives_of_their_own():
    @jax.custom_jvp
    def own(x):
        return xlogy(x, x)

    own.defjvp(lambda xs, dxs: (own(*xs), 7.0 * dxs[0]))
    assert jax.grad(with_slopes(lambda x: own(x) + xlogy(2.0, x)))(jnp.asarray(2.0)) == 8.0
