"""Truncated normals whose densities hold where hardly anything of the normal is left.

NumPyro takes the logarithm of what is left, which underflows 13 standard deviations out in single precision
and 37 in double: the density is infinite there. Under vague scales a seventh of a posterior can be beyond.
"""

import copy
import math
from typing import Any

import jax.numpy as jnp
from jax.scipy.special import ndtr
from numpyro.distributions import Normal
from numpyro.distributions.truncated import (
    LeftTruncatedDistribution,
    RightTruncatedDistribution,
    TwoSidedTruncatedDistribution,
)
from numpyro.distributions.util import validate_sample
from numpyro.primitives import Messenger

_PARTS = ("base_dist", "_component_distribution")
# Squares of more are rounded by more than .03 in single precision; and bounds may be infinite.
_FAR = 1e3
# Beyond, five terms of the series leave out 1e-8 of the tail.
_SERIES = -10.0


def _log_ndtr(z: Any) -> Any:
    """The logarithm of a standard normal's probability below `z`.

    JAX's own has the same values, but takes its slope as the exponential of a difference of squares, which
    is off by a part in a thousand at 100.
    """
    near, far = jnp.maximum(z, _SERIES), jnp.minimum(z, _SERIES)
    y = 1 / jnp.square(far)
    series = 1 - y * (1 - 3 * y * (1 - 5 * y * (1 - 7 * y * (1 - 9 * y))))
    tail = -jnp.square(far) / 2 - jnp.log(-far) - math.log(2 * math.pi) / 2 + jnp.log(series)
    return jnp.where(z > _SERIES, jnp.log(ndtr(near)), tail)


def _log_between(low: Any, high: Any) -> Any:
    """The logarithm of a standard normal's probability between bounds, of which either may be None."""
    if low is None:
        return _log_ndtr(high)
    if high is None:
        return _log_ndtr(-low)
    upper = low > 0  # the same by symmetry, where tails are told apart
    low, high = jnp.where(upper, -high, low), jnp.where(upper, -low, high)
    most = _log_ndtr(high)
    return most + jnp.log(-jnp.expm1(_log_ndtr(low) - most))


class _Truncated:
    base_dist: Any

    @validate_sample
    def log_prob(self, value: Any, intermediates: Any = None) -> Any:
        """The log density at a value, shape `batch_shape` broadcast with the value's."""
        base = self.base_dist
        far = _FAR * base.scale
        bounds = [getattr(self, n, None) for n in ("low", "high")]
        near = [None if b is None else jnp.clip(b, base.loc - far, base.loc + far) for b in bounds]
        low, high = (None if b is None else (b - base.loc) / base.scale for b in near)
        return base.log_prob(value) - _log_between(low, high)


class _Left(_Truncated, LeftTruncatedDistribution):
    pass


class _Right(_Truncated, RightTruncatedDistribution):
    pass


class _Between(_Truncated, TwoSidedTruncatedDistribution):
    pass


_OURS = {
    LeftTruncatedDistribution: _Left,
    RightTruncatedDistribution: _Right,
    TwoSidedTruncatedDistribution: _Between,
}


def held_in_tails(fn: Any) -> Any:
    """A distribution with the same density, of which the truncated normals that it is made of hold in tails;
    itself where there are none."""
    if type(fn) in _OURS and type(fn.base_dist) is Normal:
        out = copy.copy(fn)
        out.__class__ = _OURS[type(fn)]
        return out
    for part in _PARTS:
        inner = getattr(fn, "__dict__", {}).get(part)
        if inner is not None and (better := held_in_tails(inner)) is not inner:
            out = copy.copy(fn)
            setattr(out, part, better)
            return out
    return fn


class in_tails(Messenger):
    """A handler under which statements have the same densities, held in tails."""

    def process_message(self, msg: Any) -> None:
        """Puts the distribution that holds in the place of the statement's own."""
        if msg["type"] == "sample":
            msg["fn"] = held_in_tails(msg["fn"])
