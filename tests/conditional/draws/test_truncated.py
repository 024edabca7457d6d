"""Draws on intervals against quadrature, also where the interval lies far out in a tail."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gibbsite.checking.perturbation import QUICK
from gibbsite.conditional.draws.truncated import TruncatedBeta, TruncatedGaussian, TruncatedPowerGamma

DRAWS, FEW = 20_000, 3000
# parameters outside the untruncated family: a, b, low, high by power, where `b < 0`
CONVEX_POWERS = {
    1.0: [
        (5, -3, 0.1, 2),
        (1, -1, 1, 2),
        (-20, -8, 0.1, 4),
        (3, -40, 0, 5),
        (0.5, -0.01, 0, 3),
        (-1, -0.2, 1, 9),
    ],
    -1.0: [(-1, -1, 0.5, 3), (4, -2, 0.05, 1), (-3, -1, 0.2, np.inf), (0, -30, 1, 2)],
    2.0: [(1, -2, 0.5, 3), (-6, -0.5, 0.5, 4)],
}
CONVEX_BETAS = [
    (4, -1, 0, 0.5),
    (-2, -1, 0.1, 0.9),
    (-2, 3, 0.05, 1),
    (0.5, -3, 0, 0.99),
    (-30, 40, 0.3, 0.8),
    (50, -60, 0.2, 0.9),
]
CONVEX_GAUSSIANS = [(0, -4, -1, 1), (3, -1, 0, 1), (-200, -100, 0, 3), (0, -1e-4, -2, 5), (0.5, -30, -1, 2)]
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
    log_prob = jax.jit(jax.vmap(d.log_prob), compiler_options=QUICK)
    normalised = np.asarray(log_prob(jnp.asarray(x[:50], jnp.float32)))
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


def uniform_by_rank(d, logdensity):
    """The whole distribution, not two moments: draws through the exact distribution function are uniform."""
    x = np.asarray(jax.jit(lambda k: d.sample(k, (FEW,)))(jax.random.key(1)), np.float64)
    for i in range(x.shape[1]):
        low, high = float(d.low[i]), min(float(d.high[i]), 20.0)
        grid = np.linspace(low, high, 400_001)[1:-1]
        height = logdensity(grid, i)
        mass = np.cumsum(np.exp(height - height.max()))
        u = np.sort(np.interp(x[:, i], grid, mass / mass[-1]))
        gap = np.abs(u - (np.arange(FEW) + 0.5) / FEW).max()
        assert gap < 1.95 / np.sqrt(FEW), (i, gap)  # one in a thousand by chance


@pytest.mark.slow
@pytest.mark.parametrize(
    "power", [pytest.param(p, marks=pytest.mark.slow if p > 0 else ()) for p in CONVEX_POWERS]
)
def test_powers_of_gammas_with_a_negative_rate(power):
    a, b, low, high = columns(CONVEX_POWERS[power])
    d = TruncatedPowerGamma(a, b, power, low, high)
    uniform_by_rank(d, lambda t, i: (a[i] - 1.0) * np.log(t) - b[i] * t**power)
    u = (np.arange(2000)[:, None] + 0.5) / 2000
    width = np.where(np.isfinite(high), high, 3) - low  # beyond, there is next to nothing
    log_prob = jax.jit(d.log_prob, compiler_options=QUICK)
    mass = np.exp(np.asarray(log_prob(low + u * width), np.float64)).mean(0) * width
    np.testing.assert_allclose(mass, 1, atol=0.02)


@pytest.mark.slow
def test_betas_with_negative_exponents():
    a, b, low, high = columns(CONVEX_BETAS)
    uniform_by_rank(
        TruncatedBeta(a, b, low, high),
        lambda t, i: (float(a[i]) - 1.0) * np.log(t) + (float(b[i]) - 1.0) * np.log1p(-t),
    )


@pytest.mark.slow
def test_gaussians_of_negative_precision():
    s, h, low, high = columns(CONVEX_GAUSSIANS)
    uniform_by_rank(
        TruncatedGaussian(s, h, low, high), lambda t, i: float(s[i]) * t - 0.5 * float(h[i]) * t**2
    )


@pytest.mark.slow
@pytest.mark.parametrize("power", POWERS)
def test_powers_of_gammas(power):
    a, b, low, high = columns(POWERS[power])
    check(
        TruncatedPowerGamma(a, b, power, low, high),
        lambda t, i: (a[i] - 1.0) * np.log(t) - b[i] * t**power,
    )


@pytest.mark.slow
def test_betas():
    a, b, low, high = columns(BETAS)
    check(TruncatedBeta(a, b, low, high), lambda t, i: (a[i] - 1.0) * np.log(t) + (b[i] - 1.0) * np.log1p(-t))


@pytest.mark.slow
def test_gaussians():
    s, h, low, high = columns(GAUSSIANS)
    # relative to a place inside, so that what is left is small
    check(
        TruncatedGaussian(s, h, low, high),
        lambda t, i: (float(s[i]) - h[i] * high[i]) * (t - high[i]) - 0.5 * h[i] * (t - high[i]) ** 2,
    )


def many(family, rows, power=()):
    """One distribution of many parameters, so that one program draws them all."""
    return family(*columns([r[:2] for r in rows]), *power, *columns([r[2:] for r in rows]))


@pytest.mark.share(3)
@pytest.mark.parametrize(
    "make",
    [
        lambda: many(
            TruncatedPowerGamma,
            [(-1, 1, 0, 2), (1, -1, 1, np.inf), (0, -1, 0, 2), (0, 0, 1, np.inf)],
            power=(1.0,),
        ),
        lambda: TruncatedPowerGamma(5.0, -1.0, -1.0, 0.0, 2.0),
        lambda: many(TruncatedBeta, [(-1, 2, 0, 0.5), (2, -1, 0.5, 1), (0, 1, 0, 1)]),
        lambda: many(TruncatedGaussian, [(1, 0, 0, np.inf), (1, -1, 0, np.inf)]),
    ],
    ids=["gammas", "inverse gamma", "betas", "Gaussians"],
)
def test_what_has_no_integral_is_not_a_number(make):
    d = make()
    draws = jax.jit(lambda key: d.sample(key, (3,)), compiler_options=QUICK)(jax.random.key(0))
    assert np.all(np.isnan(draws))
