"""Distributions whose densities hold where NumPyro's lose their digits.

Truncated normals: NumPyro takes the logarithm of what is left of the normal, which underflows 13 standard
deviations out in single precision and 37 in double: the density is infinite there. Under vague scales a
seventh of a posterior can be beyond.

Gammas, betas and Dirichlets, counts that are beta–binomial, gamma–Poisson and their like, and Student's t:
where units are nearly alike, or nearly normal, their concentration goes to thousands and millions, and
logarithms of gamma functions of it leave a rounding of .3 to 500 nats in a sum of eighteen data. See
`ground/rising.py`.

Poisson, binomial and multinomial counts: of 365 counts of 100,000, `k log m - m - log k!` is off by tens of
nats, differently at every mean. Written as the deviance from `k`, it has the digits of what is left. That is
for evaluating; an analysis of the density looks for the first form.
"""

import copy
import math
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpyro
from jax.nn import sigmoid, softplus
from jax.scipy.special import gammaln, ndtr, xlog1py, xlogy
from numpyro.distributions import (
    Beta,
    BetaBinomial,
    BetaNegativeBinomial,
    BinomialLogits,
    BinomialProbs,
    Dirichlet,
    DirichletMultinomial,
    Distribution,
    Gamma,
    GammaPoisson,
    MultinomialProbs,
    NegativeBinomialLogits,
    Normal,
    Poisson,
    StudentT,
)
from numpyro.distributions.truncated import (
    LeftTruncatedDistribution,
    RightTruncatedDistribution,
    TwoSidedTruncatedDistribution,
)
from numpyro.distributions.util import clamp_probs, validate_sample
from numpyro.primitives import Messenger

from gibbsite.ground.rising import beyond_stirling, log_beta, log_beta_ratio, log_rising
from gibbsite.programs.jaxpr.compat import is_traced

_PARTS = ("base_dist", "_component_distribution")
# Squares of more are rounded by more than .03 in single precision; and bounds may be infinite.
_FAR = 1e3
# Beyond, five terms of the series leave out 1e-8 of the tail.
_SERIES = -10.0
# Up to so many, factorials are known; beyond, three terms of Stirling's series leave out 1e-8.
_FEW = 6
_STIRLING = 8.0
# Up to there, five terms of a series in `(x / (2 + x))²` leave out 1e-8 of it.
_NEAR = 0.5


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


def _choose(n: Any, k: Any) -> Any:
    return gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0)


# counts that cannot be have a density of zero by the factorials, whatever they are taken for elsewhere


def _ways(a: Any, k: Any) -> Any:
    return log_rising(a, jnp.maximum(k, 0)) - gammaln(k + 1)


def _ratio(x: list[Any], k: list[Any]) -> Any:
    return log_beta_ratio(jnp.stack(x, -1), jnp.maximum(jnp.stack(k, -1), 0))


def _negative_binomial_logits(d: Any, value: Any) -> Any:
    k, n = (jnp.asarray(x, jnp.result_type(float)) for x in (value, d.total_count))
    return _ways(n, k) - n * softplus(d.logits) - k * softplus(-d.logits)


def _beta_binomial(d: Any, value: Any) -> Any:
    k = jnp.asarray(value, jnp.result_type(float))
    a, b, k, rest = jnp.broadcast_arrays(d.concentration1, d.concentration0, k, d.total_count - k)
    return _choose(d.total_count, k) + _ratio([a, b], [k, rest])


def _beta_negative_binomial(d: Any, value: Any) -> Any:
    k, n = (jnp.asarray(x, jnp.result_type(float)) for x in (value, d.n))
    a, b, k, n = jnp.broadcast_arrays(d.concentration1, d.concentration0, k, n)
    return _ways(n, k) + _ratio([a, b], [k, n])


def _dirichlet_multinomial(d: Any, value: Any) -> Any:
    k = jnp.asarray(value, jnp.result_type(float))
    orders = gammaln(jnp.sum(k, -1) + 1) - jnp.sum(gammaln(k + 1), -1)
    return orders + log_beta_ratio(d.concentration, jnp.maximum(k, 0))


def _dirichlet(d: Any, value: Any) -> Any:
    return jnp.sum(jnp.log(value) * (d.concentration - 1.0), -1) - log_beta(d.concentration)


def _beta(d: Any, value: Any) -> Any:
    # NumPyro's adds to the density a copy for both ends that has no slope, as if parameters were not felt
    a, b = jnp.broadcast_arrays(d.concentration1, d.concentration0)
    return xlogy(a - 1.0, value) + xlog1py(b - 1.0, -value) - log_beta(jnp.stack([a, b], -1))


def _gamma(d: Any, value: Any) -> Any:
    a, scaled = d.concentration, d.rate * value
    # the exponent and the constant have `a log a` in common
    exponent = (a - 1.0) * jnp.log(scaled / a) + (a - scaled)
    return exponent + jnp.log(d.rate) - 0.5 * jnp.log(a) - beyond_stirling(a)


def _student(d: Any, value: Any) -> Any:
    apart = (value - d.loc) / d.scale
    constant = log_rising(0.5 * d.df, 0.5) - 0.5 * jnp.log(math.pi * d.df) - jnp.log(d.scale)
    return constant - 0.5 * (d.df + 1.0) * jnp.log1p(apart**2 / d.df)


@jax.custom_jvp
def _log_poisson(k: Any, mean: Any) -> Any:
    """The log probability of counts: how far their mean is from them, and what it is at its highest."""
    some = jnp.where(k > 0, k, 1.0)
    many = some * _log_less(mean / some, (mean - some) / some) - _orders(some)
    return jnp.where(k > 0, many, jnp.where(k < 0, -jnp.inf, -mean))


@_log_poisson.defjvp
def _slope(primals: tuple[Any, Any], tangents: tuple[Any, Any]) -> tuple[Any, Any]:
    (k, mean), (_, along) = primals, tangents
    return _log_poisson(k, mean), (k - mean) / jnp.maximum(mean, jnp.finfo(mean.dtype).tiny) * along


def _log_less(ratio: Any, x: Any) -> Any:
    """`log(ratio) − x` of a `ratio` of 1 + x, which cancels where `x` is small: there by the series of atanh.
    Where the ratio is small, x of it is −1."""
    near = jnp.abs(x) < _NEAR
    some = jnp.where(near, x, 0.0)
    r = some / (2 + some)
    square = r * r
    series = 1 / 3 + square * (1 / 5 + square * (1 / 7 + square * (1 / 9 + square / 11)))
    return jnp.where(near, 2 * r * square * series - some * r, jnp.log(ratio) - x)


def _orders(k: Any) -> Any:
    """The logarithm of `k! / (k^k e^-k)` of whole numbers from 1 on."""
    inverse = 1 / jnp.square(k)
    series = (1 / 12 - inverse * (1 / 360 - inverse / 1260)) / k
    out = 0.5 * (math.log(2 * math.pi) + jnp.log(k)) + series
    for few in range(_FEW, 0, -1):  # a logarithm less than by products
        exact = math.log(math.factorial(few)) - few * math.log(few) + few
        out = jnp.where(k <= few, exact, out)
    return out


def _poisson(d: Any, value: Any) -> Any:
    k, rate = (jnp.asarray(x, jnp.result_type(float)) for x in (value, d.rate))
    return _log_poisson(k, rate)


def _all(n: Any) -> Any:
    """Minus the log probability of a count that is its mean."""
    return jnp.where(n > 0, _orders(jnp.maximum(n, 1.0)), 0.0)


def _given_total(k: Any, n: Any, yes: Any, no: Any) -> Any:
    """Counts of yes and no, which are Poisson's given that they add up to n."""
    k, n = (jnp.asarray(x, jnp.result_type(float)) for x in (k, n))
    return _log_poisson(k, n * yes) + _log_poisson(n - k, n * no) + _all(n)


def _binomial_probs(d: Any, value: Any) -> Any:
    return _given_total(value, d.total_count, clamp_probs(d.probs), 1 - clamp_probs(d.probs))


def _binomial_logits(d: Any, value: Any) -> Any:
    return _given_total(value, d.total_count, sigmoid(d.logits), sigmoid(-d.logits))


def _multinomial(d: Any, value: Any) -> Any:
    k, n = (jnp.asarray(x, jnp.result_type(float)) for x in (value, d.total_count))
    # shares may add up to another number, as NumPyro takes them
    beyond = n * (jnp.sum(d.probs, -1) - 1.0)
    return jnp.sum(_log_poisson(k, n[..., None] * d.probs), -1) + _all(n) + beyond


def _overdispersed(k: Any, a: Any, yes: Any, no: Any) -> Any:
    """Counts before `a` failures, of any real number, with chances of yes and no: binomial out of all trials,
    the last of which is a failure."""
    k, a = (jnp.asarray(x, jnp.result_type(float)) for x in (k, a))
    n = a + jnp.maximum(k, 0.0)
    mean = n * no
    failures = a * _log_less(mean / a, (mean - a) / a) - _orders_of_any(a)
    return _log_poisson(k, n * yes) + failures + _orders_of_any(n) - jnp.log1p(jnp.maximum(k, 0.0) / a)


def _orders_of_any(x: Any) -> Any:
    """As `_orders`, of any number above 0, with its slope."""
    # not by `minimum` and `maximum`, whose slope is a half where both are alike
    small, large = jnp.where(x < _STIRLING, x, _STIRLING), jnp.where(x < _STIRLING, _STIRLING, x)
    inverse = 1 / jnp.square(large)
    series = (1 / 12 - inverse * (1 / 360 - inverse / 1260)) / large
    many = 0.5 * (math.log(2 * math.pi) + jnp.log(large)) + series
    return jnp.where(x < _STIRLING, gammaln(small + 1.0) - small * jnp.log(small) + small, many)


def _gamma_poisson(d: Any, value: Any) -> Any:
    return _overdispersed(value, d.concentration, 1 / (1 + d.rate), d.rate / (1 + d.rate))


def _negative_binomial_counts(d: Any, value: Any) -> Any:
    return _overdispersed(value, d.total_count, sigmoid(d.logits), sigmoid(-d.logits))


# by the class whose density it is: the parameters that may be large where they are not known beforehand
_LARGE = {
    GammaPoisson: (("concentration",), _gamma_poisson),
    NegativeBinomialLogits: (("total_count",), _negative_binomial_logits),
    BetaBinomial: (("concentration1", "concentration0"), _beta_binomial),
    BetaNegativeBinomial: (("concentration1", "concentration0", "n"), _beta_negative_binomial),
    DirichletMultinomial: (("concentration",), _dirichlet_multinomial),
    Dirichlet: (("concentration",), _dirichlet),
    Beta: (("concentration1", "concentration0"), _beta),
    Gamma: (("concentration",), _gamma),
    StudentT: (("df",), _student),
}

# the same of counts, whose parameters are near them
_COUNTS = {
    GammaPoisson: (("concentration", "rate"), _gamma_poisson),
    Poisson: (("rate",), _poisson),
    BinomialProbs: (("probs",), _binomial_probs),
    BinomialLogits: (("logits",), _binomial_logits),
    MultinomialProbs: (("probs",), _multinomial),
    NegativeBinomialLogits: (("total_count", "logits"), _negative_binomial_counts),
}


def of_counts(family: str) -> bool:
    """Whether a family of NumPyro's, by its name, has another form for counts."""
    kind = getattr(numpyro.distributions, family, None)
    return isinstance(kind, type) and any(kind.log_prob is k.log_prob for k in _COUNTS)


@cache
def _better(kind: type, counts: bool) -> tuple[tuple[str, ...], type] | None:
    """The parameters that may be large, and the class with the density that holds there; None for others."""
    known = {**_LARGE, **_COUNTS} if counts else _LARGE
    found = next((v for k, v in known.items() if kind.log_prob is k.log_prob), None)
    if found is None:
        return None
    parameters, density = found

    class Held(kind):  # type: ignore[misc, valid-type]
        @validate_sample
        def log_prob(self, value: Any, intermediates: Any = None) -> Any:
            """The log density at a value, shape `batch_shape` broadcast with the value's."""
            return density(self, value)

    Held.__name__ = Held.__qualname__ = kind.__name__
    return parameters, Held


def held_in_tails(fn: Any, counts: bool = False) -> Any:
    """A distribution with the same density, of which the parts that lose their digits hold, those of `counts`
    too where these are asked for; itself where there are none."""
    if type(fn) in _OURS and type(fn.base_dist) is Normal:
        out = copy.copy(fn)
        out.__class__ = _OURS[type(fn)]
        return out
    sparse = getattr(fn, "is_sparse", False)  # a form of its own
    better = _better(type(fn), counts) if isinstance(fn, Distribution) and not sparse else None
    # numbers that are known now need none
    if better is not None and any(is_traced(getattr(fn, p)) for p in better[0]):
        out = copy.copy(fn)
        out.__class__ = better[1]
        return out
    for part in _PARTS:
        inner = getattr(fn, "__dict__", {}).get(part)
        if inner is not None and (better := held_in_tails(inner, counts)) is not inner:
            out = copy.copy(fn)
            setattr(out, part, better)
            return out
    return fn


class in_tails(Messenger):
    """A handler under which statements have the same densities, held in tails."""

    def process_message(self, msg: Any) -> None:
        """Puts the distribution that holds in the place of the statement's own."""
        if msg["type"] == "sample":
            msg["fn"] = held_in_tails(msg["fn"], counts=True)
