"""Draws on intervals against quadrature, also where the interval lies far out in a tail."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gibbsite.conditional.draws.truncated import TruncatedBeta, TruncatedGaussian, TruncatedPowerGamma

DRAWS = 20_000
# a, b, low, high by power
POWERS = {
    1.0: [
        (2, 1, 0.5, 3),
        (-3, 1, 0.5, 60),
        (0, 2, 0.5, 9),
        (200, 200, 0, 0.5),
        (1, 1, 30, 40),
        (-4, 0, 2, 50),
    ],
    -1.0: [(3, 2, 0, 2), (0, 2, 0.1, 5)],
    -2.0: [(-3, 2, 0, 3), (2, 3, 0, 3), (0, 50, 0, 0.3)],
}
BETAS = [(2, 3, 0.2, 0.7), (30, 2, 0.2, 0.7), (0, 5, 0.2, 0.7), (0, 0, 0.1, 0.5), (2, 3, 0, 1)]
# information, precision, low, high: the last four lie in a tail, up to 80 standard deviations out
GAUSSIANS = [
    (1, 2, -1, 2),
    (3, 0, -1, 2),
    (-10, 1, 0, 3),
    (1000, 100, -1, 2),
    (-4e3, 1, 0, 1),
    (50, 1, -3, 0),
]


def columns(rows):
    return [np.array(c, np.float32) for c in zip(*rows, strict=True)]


def moments(logdensity, low, high):
    """Mean and variance over an interval, the part that matters resolved."""
    for _ in range(2):
        x = np.linspace(low, high, 400_001)[1:-1]
        height = logdensity(x)
        seen = x[height > height.max() - 40]
        low, high = seen[0], seen[-1]
    weight = np.exp(height - height.max())
    mean = (x * weight).sum() / weight.sum()
    return mean, ((x - mean) ** 2 * weight).sum() / weight.sum()


def check(d, logdensity):
    x = np.asarray(jax.jit(lambda k: d.sample(k, (DRAWS,)))(jax.random.key(0)), np.float64)
    normalised = np.asarray(jax.vmap(d.log_prob)(jnp.asarray(x[:50], jnp.float32)))
    low, high = np.asarray(d.low, np.float64), np.asarray(d.high, np.float64)
    assert np.all((x >= low) & (x <= high))
    for i in range(len(low)):
        mean, variance = moments(lambda t, i=i: logdensity(t, i), low[i], high[i])
        assert abs(x[:, i].mean() - mean) < 4 * np.sqrt(variance / DRAWS)
        square = (x[:, i] - mean) ** 2
        assert abs(square.mean() - variance) < 4 * square.std() / np.sqrt(DRAWS)
        own = logdensity(x[:50, i], i)
        gap = normalised[:, i] - own
        assert np.ptp(gap) < 1e-3 * (1 + np.ptp(own))


@pytest.mark.parametrize("power", POWERS)
def test_powers_of_gammas(power):
    a, b, low, high = columns(POWERS[power])
    check(
        TruncatedPowerGamma(a, b, power, low, high),
        lambda t, i: (a[i] - 1.0) * np.log(t) - b[i] * t**power,
    )


def test_betas():
    a, b, low, high = columns(BETAS)
    check(TruncatedBeta(a, b, low, high), lambda t, i: (a[i] - 1.0) * np.log(t) + (b[i] - 1.0) * np.log1p(-t))


def test_gaussians():
    s, h, low, high = columns(GAUSSIANS)
    # relative to a place inside, so that what is left is small
    check(
        TruncatedGaussian(s, h, low, high),
        lambda t, i: (float(s[i]) - h[i] * high[i]) * (t - high[i]) - 0.5 * h[i] * (t - high[i]) ** 2,
    )


@pytest.mark.parametrize(
    "d",
    [
        TruncatedPowerGamma(-1.0, 1.0, 1.0, 0.0, 2.0),
        TruncatedPowerGamma(1.0, -1.0, 1.0, 1.0, 2.0),
        TruncatedPowerGamma(0.0, 0.0, 1.0, 1.0),
        TruncatedBeta(0.0, 1.0),
        TruncatedGaussian(1.0, 0.0, 0.0),
        TruncatedGaussian(1.0, -1.0, 0.0, 1.0),
    ],
)
def test_what_has_no_integral_is_not_a_number(d):
    assert np.all(np.isnan(d.sample(jax.random.key(0), (3,))))
