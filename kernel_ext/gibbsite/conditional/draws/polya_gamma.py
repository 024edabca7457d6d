"""Pólya-gamma variates without rejection of their own.

Polson, Scott and Windle (2013), "Bayesian inference for logistic models using Pólya-Gamma latent variables":
PG(b, c) is the sum over k of `d_k g_k`, with `g_k` Gamma(b, 1) and
`d_k = 1 / (2 π² ((k - 1/2)² + (c / 2π)²))`. The first terms are drawn as they are; all others together are
drawn as one inverse Gaussian with their exact mean and variance. Where the tilt is large the whole is one
inverse Gaussian, the leading term of the density's series (their §4), up to `b exp(-|c|)`.

By Gil-Pelaez inversion of the characteristic functions, no probability is off by more than 2e-5 for shapes
`b >= 0.5` (1e-5 for whole ones), and by more than 1e-3 for any `b >= 0.05`: below what single precision and
a million draws can tell. There is no loop but that of the gamma variates, and with `unit` none.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gibbsite.conditional.draws.gamma import log_gamma

# terms drawn one by one, where all shapes are at least 1 (or 0) and where they may be small
_WHOLE, _ANY = 12, 24
# tilts above this, and the logarithm of the shape, leave nothing but the leading term
_LARGE = 12.0


def polya_gamma(key: Any, shape: Any, tilt: Any, *, unit: bool = False, whole: bool = False) -> Any:
    """Variates PG(`shape`, `tilt`) of the arrays' common shape; 0 where the shape is 0.

    `unit` promises that all shapes are 0 or 1, `whole` that none lies between 0 and 1: both save work. NaN
    where the shape is negative or not finite, or the tilt is NaN.
    """
    b, c = jnp.broadcast_arrays(jnp.asarray(shape), jnp.abs(jnp.asarray(tilt)))
    dtype = jnp.result_type(b.dtype, c.dtype, float)
    b, c = b.astype(dtype), c.astype(dtype)
    gamma_key, rest_key, large_key = jax.random.split(key, 3)
    count = _WHOLE if unit or whole else _ANY
    large = c > _LARGE + jnp.log(jnp.maximum(b, 1))
    # where it is not used, the sum is kept away from infinities
    a = jnp.where(large, 0.0, c) / (2 * np.pi)
    ks = jnp.arange(count).reshape((count,) + (1,) * b.ndim) + 0.5
    d = 1 / (2 * np.pi**2 * (ks**2 + a**2))
    if unit:
        g = jax.random.exponential(gamma_key, d.shape, dtype)
    else:
        positive = jnp.where(b > 0, b, 1)
        g = jnp.exp(log_gamma(gamma_key, jnp.broadcast_to(positive, d.shape)))
    mean, variance = _tail(count, a)
    summed = jnp.sum(d * g, axis=0) + _inverse_gaussian(rest_key, b * mean, variance / (b * mean**2))
    wide = jnp.maximum(c, 1.0)
    leading = _inverse_gaussian(large_key, b / (2 * wide), 2 / (b * wide))
    out = jnp.where(large, leading, summed)
    out = jnp.where(b == 0, 0.0, out)
    return jnp.where((b >= 0) & (b < jnp.inf) & ~jnp.isnan(c), out, jnp.nan)


def _tail(count: int, a: Any) -> tuple[Any, Any]:
    """Mean and variance of the terms beyond the first `count` for shape 1, by the Euler-Maclaurin formula."""
    n = float(count)
    r = a / n
    small = r < 0.3
    s = jnp.where(small, 1.0, r)
    arc = jnp.arctan(s)
    first = jnp.where(small, _series(r, (1, -1 / 3, 1 / 5, -1 / 7, 1 / 9)), arc / s)
    second = (arc - s / (1 + s * s)) / (2 * s**3)
    second = jnp.where(small, _series(r, (1 / 3, -2 / 5, 3 / 7, -4 / 9, 5 / 11, -6 / 13)), second)
    q = n * n + a * a
    mean = first / n - n / (12 * q**2)
    square = second / n**3 - n / (6 * q**3)
    return mean / (2 * np.pi**2), square / (4 * np.pi**4)


def _series(r: Any, coefficients: tuple[float, ...]) -> Any:
    out: Any = 0.0
    for c in reversed(coefficients):
        out = out * r * r + c
    return out


def _inverse_gaussian(key: Any, mean: Any, relative: Any) -> Any:
    """Inverse Gaussian variates; `relative` is the variance over the squared mean.

    Michael, Schucany and Haas (1976), "Generating random variates using transformations with multiple
    roots", with the smaller root in a form that does not cancel.
    """
    normal_key, uniform_key = jax.random.split(key)
    y = jax.random.normal(normal_key, jnp.shape(mean), mean.dtype) ** 2
    u = jax.random.uniform(uniform_key, jnp.shape(mean), mean.dtype)
    t = relative * y / 2
    root = 1 / (1 + t + jnp.sqrt(t * (t + 2)))
    return mean * jnp.where(u <= 1 / (1 + root), root, 1 / root)
