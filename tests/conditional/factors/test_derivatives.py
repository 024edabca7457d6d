"""What a Gaussian leaves of a density when it is integrated out has derivatives, also where columns nearly
make up for each other and precisions are formed again."""

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

YEAR = np.repeat([2018.0, 2019.0, 2020.0], 10).astype(np.float32)
Y = (3 + 0.2 * (YEAR - 2019) + 0.1 * np.random.default_rng(1).normal(size=30)).astype(np.float32)


def model(year, y):
    a = numpyro.sample("a", dist.Normal(0, 1000.0))
    b = numpyro.sample("b", dist.Normal(0, 1.0))
    s = numpyro.sample("s", dist.HalfNormal(1.0))
    with numpyro.plate("n", len(y)):
        numpyro.sample("y", dist.Normal(a + b * year, s), obs=y)


def exactly(s):
    """The log density of `s` and the data, in double precision, with the years less 2019."""
    x, y = np.c_[np.ones(30), YEAR.astype(float) - 2019], Y.astype(float)
    back = np.array([[1.0, -2019.0], [0.0, 1.0]])  # (a, b) of the line's height in 2019 and its slope
    prior = back.T @ np.diag([1e-6, 1.0]) @ back
    precision = x.T @ x / s**2 + prior
    mean = np.linalg.solve(precision, x.T @ y / s**2)
    rest = y - x @ mean
    total = -15 * np.log(2 * np.pi * s**2) - 0.5 * rest @ rest / s**2 - 0.5 * mean @ prior @ mean
    total += -0.5 * np.linalg.slogdet(precision)[1] - 0.5 * np.log(1e6)
    return total + 0.5 * np.log(2 / np.pi) - 0.5 * s**2


@pytest.mark.slow
@pytest.mark.share(2)
@pytest.mark.parametrize("constants", [False, True])
def test_of_a_line_through_years(constants):
    marginal = gb.model(model, YEAR, Y).marginal("a", "b")

    def found(s):
        return marginal.logdensity({"s": s}, constants=constants)

    at = [0.07, 0.1, 0.15]
    ours = np.array([found(jnp.float32(s)) for s in at], float)
    exact = np.array([exactly(s) for s in at])
    off = ours - exact
    np.testing.assert_allclose(off - (0 if constants else off[0]), 0, atol=2e-3)
    for s in at:
        slope = (exactly(s + 1e-5) - exactly(s - 1e-5)) / 2e-5
        bend = (exactly(s + 1e-3) - 2 * exactly(s) + exactly(s - 1e-3)) / 1e-6
        np.testing.assert_allclose(jax.grad(found)(jnp.float32(s)), slope, rtol=2e-3, atol=0.2)
        np.testing.assert_allclose(jax.hessian(found)(jnp.float32(s)), bend, rtol=2e-2)
