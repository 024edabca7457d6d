"""Ratios of gamma functions that keep their digits where the arguments are large.

`log Γ(x + k) − log Γ(x)` as a difference has the rounding of `x log x`: at a million a whole nat in single
precision, of a number that may be 3. Every family that counts what it was integrated over has such ratios
(beta–binomial, gamma–Poisson, Dirichlet–multinomial), and where data say little of how alike units are, x
goes that far. Stirling's series (Abramowitz and Stegun 1964, 6.1.40) is taken apart instead.
"""

from typing import Any

import jax.numpy as jnp
from jax.scipy.special import gammaln

# from where on seven terms of the series leave out 1e-17
_SERIES = 10.0
_HALF_LOG = 0.9189385332046727  # log(2 π) / 2
_TERMS = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)


def _beyond(x: Any) -> Any:
    """What Stirling's formula leaves out of `log Γ(x)`."""
    y = 1 / jnp.square(x)
    total = jnp.full_like(y, _TERMS[-1])
    for c in reversed(_TERMS[:-1]):
        total = c + y * total
    return total / x


def log_rising_over(x: Any, k: Any) -> Any:
    """`log (Γ(x + k) / (Γ(x) (x + k)^k))` for x and x + k above 0: what a ratio of gamma functions is beyond
    a power, of the size of k."""
    x, k = jnp.asarray(x), jnp.asarray(k)
    large = jnp.minimum(x, x + k) >= _SERIES
    there, more = jnp.where(large, x, _SERIES), jnp.where(large, k, 0.0)
    series = (there - 0.5) * jnp.log1p(more / there) - more + _beyond(there + more) - _beyond(there)
    near, few = jnp.where(large, 1.0, x), jnp.where(large, 0.0, k)
    return jnp.where(large, series, gammaln(near + few) - gammaln(near) - few * jnp.log(near + few))


def log_rising(x: Any, k: Any) -> Any:
    """`log Γ(x + k) − log Γ(x)`, for x and x + k above 0."""
    return log_rising_over(x, k) + k * jnp.log(jnp.asarray(x) + k)


def log_beta_ratio(x: Any, k: Any) -> Any:
    """`log B(x + k) − log B(x)`, where B is the beta function of the last axis."""
    x, k = jnp.broadcast_arrays(x, k)
    whole, count = jnp.sum(x, -1), jnp.sum(k, -1)
    shares = log_rising_over(x, k) + k * jnp.log((x + k) / (whole + count)[..., None])
    return jnp.sum(shares, -1) - log_rising_over(whole, count)


def beyond_stirling(x: Any) -> Any:
    """`log Γ(x) − (x − 1/2) log x + x`, which goes to half of `log 2π`."""
    small = gammaln(x) - (x - 0.5) * jnp.log(x) + x
    return jnp.where(x < _SERIES, small, _beyond(jnp.where(x < _SERIES, _SERIES, x)) + _HALF_LOG)


def log_beta(x: Any) -> Any:
    """The logarithm of the beta function of the last axis, `Σ log Γ(x) − log Γ(Σ x)`."""
    whole = jnp.sum(x, -1)
    # of one that is most of the sum, what is missing has more digits than the share
    most = x > whole[..., None] / 2
    rest = jnp.sum(jnp.where(most, 0.0, x), -1, keepdims=True) / whole[..., None]
    share = jnp.where(most, jnp.log1p(-jnp.where(most, rest, 0.0)), jnp.log(x / whole[..., None]))
    powers = jnp.sum(x * share - jnp.log(x) / 2, -1) + jnp.log(whole) / 2
    return powers + jnp.sum(beyond_stirling(x), -1) - beyond_stirling(whole)
