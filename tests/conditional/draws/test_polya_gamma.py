"""Pólya-gamma variates against moments, Laplace transforms and an independent sum, at ordinary and extreme
arguments."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gibbsite.conditional.draws.polya_gamma import polya_gamma

N = 40_000
draw = jax.jit(polya_gamma, static_argnames=("unit", "whole"))


def mean_of(b, c):
    return b / 4 if c == 0 else b / (2 * c) * np.tanh(c / 2)


def variance_of(b, c):
    return b / 24 if c == 0 else b / (4 * c**3) * (np.sinh(c) - c) / np.cosh(c / 2) ** 2


def laplace(b, c, t):
    """E exp(-t x) = cosh(c/2)^b / cosh(sqrt((c^2/2 + t)/2))^b."""

    def log_cosh(z):
        return z + np.log1p(np.exp(-2 * z)) - np.log(2)

    return np.exp(b * (log_cosh(c / 2) - log_cosh(np.sqrt((c**2 / 2 + t) / 2))))


CASES = [(1, 0.0), (1, 2.5), (1, 11.0), (1, 14.0), (0.3, 1.0), (7, -4.0), (81, 3.0), (2.5, 30.0), (1e4, 1.0)]


@pytest.mark.share(9)
@pytest.mark.parametrize(("b", "c"), CASES)
def test_variates_have_the_moments_and_the_laplace_transform(b, c):
    kinds = [{}] + [{"whole": True}] * (b >= 1) + [{"unit": True}] * (b == 1)
    for i, kind in enumerate(kinds):
        x = draw(jax.random.key(i), jnp.full(N, b, jnp.float32), jnp.float32(c), **kind)
        x = np.asarray(x, np.float64)
        mean, variance = mean_of(b, abs(c)), variance_of(b, abs(c))
        assert (x > 0).all()
        assert abs(x.mean() - mean) < 4.5 * np.sqrt(variance / N)
        squares = (x - mean) ** 2
        assert abs(squares.mean() - variance) < 5 * squares.std() / np.sqrt(N)
        for t in (0.5 / mean, 4 / mean):
            values = np.exp(-t * x)
            assert abs(values.mean() - laplace(b, abs(c), t)) < 4.5 * values.std() / np.sqrt(N)


@pytest.mark.share(4)
@pytest.mark.parametrize(("b", "c"), [(1, 0.0), (1, 6.0), (1, 13.0), (3, 1.0)])
def test_quantiles_agree_with_a_long_sum_of_gammas(b, c):
    rng = np.random.default_rng(0)
    k = np.arange(1, 401) - 0.5
    d = 1 / (2 * np.pi**2 * (k**2 + (c / 2 / np.pi) ** 2))
    other = sum(dk * rng.gamma(b, size=N) for dk in d)
    other = other + mean_of(b, c) - b * d.sum()
    x = np.asarray(draw(jax.random.key(1), jnp.full(N, b, jnp.float32), jnp.float32(c)))
    for p in (0.01, 0.1, 0.5, 0.9, 0.99):
        below = np.mean(x < np.quantile(other, p))
        assert abs(below - p) < 5 * np.sqrt(2 * p * (1 - p) / N)


@pytest.mark.slow
def test_extreme_arguments_end_and_stay_finite():
    b = jnp.array([1.0, 1.0, 1.0, 1e-3, 1e6, 1e6, 1.0, 0.0, 1e-30])
    c = jnp.array([0.0, 1e-20, 1e18, 0.0, 1e3, 0.0, -80.0, 3.0, 1.0])
    for kind in ({}, {"whole": True}):
        x = np.asarray(draw(jax.random.key(0), b, c, **kind))
        assert np.isfinite(x).all() and (x >= 0).all() and x[7] == 0
        assert x[4] == pytest.approx(500.0, rel=0.01) and x[5] == pytest.approx(2.5e5, rel=0.01)
        assert x[6] == pytest.approx(1 / 160, rel=1.5)
    b, c = jnp.array([-1.0, jnp.nan, jnp.inf, 1.0]), jnp.array([0.0, 0.0, 0.0, jnp.nan])
    assert np.isnan(draw(jax.random.key(0), b, c)).all()
