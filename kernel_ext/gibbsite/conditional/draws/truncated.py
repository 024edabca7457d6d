"""Distributions on an interval that NumPyro lacks, drawn exactly.

NumPyro's truncated Gamma needs a positive shape and a normaliser that does not underflow; a flat prior on a
standard deviation meets neither where a group holds one observation, or where the data lie far outside the
interval. Its truncated Normal leaves the interval in single precision where that lies far out in a tail. A
truncated Beta it has not.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from numpyro.distributions import constraints

from gibbsite.conditional.draws.concave_convex import Bent, log_mass_of, sample_bent
from gibbsite.conditional.draws.gamma import share
from gibbsite.conditional.draws.logconcave import LogConcave, log_mass, sample_log_concave


def _same_shape(*values: Any) -> list[Any]:
    dtype = jnp.result_type(float)
    return list(jnp.broadcast_arrays(*[jnp.asarray(v, dtype) for v in values]))


class _Truncated(dist.Distribution):
    """A distribution on an interval, drawn in a coordinate to which `_to` leads (the log of its derivative is
    `_slope`) and `_back` from. There the log density is concave (`_free`), or `_bent` with what is convex."""

    low: Any
    high: Any
    _free: Any
    _bent: Any
    _to: Any = staticmethod(lambda x: x)
    _back: Any = staticmethod(lambda t: t)
    _slope: Any = staticmethod(lambda x: 0.0)

    @constraints.dependent_property(is_discrete=False, event_dim=0)  # type: ignore[reportArgumentType]
    def support(self) -> Any:
        """The interval."""
        return constraints.interval(self.low, self.high)

    @property
    def _ends(self) -> tuple[Any, Any]:
        """Where draws may lie: rounding must not leave the interval."""
        return self.low, self.high

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Any:
        """Exact draws, shape `sample_shape + batch_shape`."""
        d, bent = self._free(), self._bent()
        shape = sample_shape + d.mode.shape

        def spread(x: Any, names: tuple[str, ...]) -> Any:
            return x._replace(**{n: jnp.broadcast_to(getattr(x, n), shape) for n in names})

        key_concave, key_bent = jax.random.split(key)
        concave = sample_log_concave(key_concave, spread(d, ("mode", "low", "high")))
        t = jnp.where(bent.wanted, sample_bent(key_bent, spread(bent, ("low", "high", "wanted"))), concave)
        return jnp.clip(self._back(t), *self._ends)

    def log_prob(self, value: Any) -> Any:
        """Normalised by quadrature."""
        d, bent, t = self._free(), self._bent(), self._to(value)
        convex = bent.down(t) + bent.up(t) - log_mass_of(bent)
        normalised = jnp.where(bent.wanted, convex, d.fall(t) - log_mass(d)) + self._slope(value)
        return jnp.where((value >= self.low) & (value <= self.high), normalised, -jnp.inf)


class TruncatedPowerGamma(_Truncated):
    """Density proportional to `x^(a-1) exp(-b x^power)` for `low < x < high`, where `low >= 0`.

    `a` and `b` are any real numbers, as far as the interval keeps the integral finite. `power` -1 gives
    truncated inverse Gammas, -2 standard deviations of Normals, `b = 0` truncated power laws. Draws are NaN
    where the integral is infinite.
    """

    pytree_data_fields = ("a", "b", "low", "high")
    pytree_aux_fields = ("power",)
    _to, _back = staticmethod(jnp.log), staticmethod(jnp.exp)
    _slope = staticmethod(lambda x: -jnp.log(x))

    def __init__(self, a: Any, b: Any, power: float = 1.0, low: Any = 0.0, high: Any = jnp.inf):
        self.power = power
        self.a, self.b, self.low, self.high = _same_shape(a, b, low, high)
        super().__init__(self.a.shape)

    @property
    def _ends(self) -> tuple[Any, Any]:
        # no end of the positive numbers is one of them: see `gibbsite.conditional.draws.gamma`
        return jnp.maximum(self.low, jnp.finfo(self.low.dtype).tiny), self.high

    def _free(self) -> LogConcave:
        """In `t = log x`, where the log density is `a t - b exp(power t)`."""
        a, b, p = self.a, self.b, self.power
        low, high = jnp.log(self.low), jnp.log(self.high)
        ratio = a / jnp.where(b > 0, p * b, 1.0)
        turns = (b > 0) & (ratio > 0)
        rising = jnp.where(b > 0, p < 0, a > 0)
        end = jnp.where(rising, high, low)
        end = jnp.where((a == 0) & (b == 0), 0.5 * (low + high), end)
        inside = jnp.log(jnp.where(turns, ratio, 1.0)) / p
        mode = jnp.where(b >= 0, jnp.clip(jnp.where(turns, inside, end), low, high), jnp.nan)
        weight = jnp.where(b > 0, b * jnp.exp(p * mode), 0.0)

        def fall(t: Any) -> Any:
            # what is infinite far out on a piece without weight must not meet its zero
            risen = jnp.where(weight > 0, jnp.expm1(p * (t - mode)), 0.0)
            return a * (t - mode) - weight * risen

        def slope(t: Any) -> Any:
            return a - p * weight * jnp.where(weight > 0, jnp.exp(p * (t - mode)), 0.0)

        return LogConcave(fall, slope, mode, low, high)

    def _bent(self) -> Bent:
        """Where `b < 0`: a line and a convex function."""
        a, b, p = self.a, self.b, self.power
        low, high = jnp.log(self.low), jnp.log(self.high)
        # with both ends open, or where `x^power` grows without end, nothing is integrable
        grows = ~jnp.isfinite(high if p > 0 else low)
        return Bent(
            lambda t: a * t,
            lambda t: a + 0.0 * t,
            lambda t: -b * jnp.exp(p * t),
            low,
            high,
            (b < 0) & ~grows,
        )


class TruncatedBeta(_Truncated):
    """Density proportional to `x^(a-1) (1-x)^(b-1)` for `low < x < high`, an interval in `[0, 1]`.

    `a` and `b` are any real numbers, as far as the interval keeps the integral finite; draws are NaN
    otherwise.
    """

    pytree_data_fields = ("a", "b", "low", "high")
    _to = staticmethod(lambda x: jnp.log(x) - jnp.log1p(-x))
    _back = staticmethod(jax.nn.sigmoid)
    _slope = staticmethod(lambda x: -jnp.log(x) - jnp.log1p(-x))

    def __init__(self, a: Any, b: Any, low: Any = 0.0, high: Any = 1.0):
        self.a, self.b, self.low, self.high = _same_shape(a, b, low, high)
        super().__init__(self.a.shape)

    @property
    def _ends(self) -> tuple[Any, Any]:
        return share(self.low), share(self.high)

    def _free(self) -> LogConcave:
        """In `t = logit x`, where the log density is `a log σ(t) + b log σ(-t)`."""
        a, b = self.a, self.b
        low, high = (jnp.log(x) - jnp.log1p(-x) for x in (self.low, self.high))
        turns = (a > 0) & (b > 0)
        end = jnp.where(a > 0, high, jnp.where(b > 0, low, 0.5 * (low + high)))
        inside = jnp.log(jnp.where(turns, a, 1.0)) - jnp.log(jnp.where(turns, b, 1.0))
        mode = jnp.where((a >= 0) & (b >= 0), jnp.clip(jnp.where(turns, inside, end), low, high), jnp.nan)
        up, down = jax.nn.log_sigmoid(mode), jax.nn.log_sigmoid(-mode)

        def fall(t: Any) -> Any:
            return a * (jax.nn.log_sigmoid(t) - up) + b * (jax.nn.log_sigmoid(-t) - down)

        def slope(t: Any) -> Any:
            return a * jax.nn.sigmoid(-t) - b * jax.nn.sigmoid(t)

        return LogConcave(fall, slope, mode, low, high)

    def _bent(self) -> Bent:
        """Where `a < 0` or `b < 0`."""
        a, b = self.a, self.b
        low, high = (jnp.log(x) - jnp.log1p(-x) for x in (self.low, self.high))
        up_a, up_b = jnp.maximum(a, 0.0), jnp.maximum(b, 0.0)
        down_a, down_b = jnp.minimum(a, 0.0), jnp.minimum(b, 0.0)
        open_ends = ((low == -jnp.inf) & (a <= 0)) | ((high == jnp.inf) & (b <= 0))
        return Bent(
            lambda t: up_a * jax.nn.log_sigmoid(t) + up_b * jax.nn.log_sigmoid(-t),
            lambda t: up_a * jax.nn.sigmoid(-t) - up_b * jax.nn.sigmoid(t),
            lambda t: down_a * jax.nn.log_sigmoid(t) + down_b * jax.nn.log_sigmoid(-t),
            low,
            high,
            ((a < 0) | (b < 0)) & ~open_ends,
        )


class TruncatedGaussian(_Truncated):
    """Density proportional to `exp(information x - precision x^2 / 2)` for `low < x < high`.

    `precision` is any real number, as far as the interval keeps the integral finite; draws are NaN otherwise.
    """

    pytree_data_fields = ("information", "precision", "low", "high")

    def __init__(self, information: Any, precision: Any, low: Any = -jnp.inf, high: Any = jnp.inf):
        arrays = _same_shape(information, precision, low, high)
        self.information, self.precision, self.low, self.high = arrays
        super().__init__(self.low.shape)

    def _free(self) -> LogConcave:
        s, h, low, high = self.information, self.precision, self.low, self.high
        end = jnp.where(s > 0, high, jnp.where(s < 0, low, 0.5 * (low + high)))
        top = jnp.where(h > 0, s / jnp.where(h > 0, h, 1.0), end)
        mode = jnp.where(h >= 0, jnp.clip(top, low, high), jnp.nan)

        def fall(x: Any) -> Any:
            return (s - h * mode) * (x - mode) - 0.5 * h * (x - mode) ** 2

        def slope(x: Any) -> Any:
            return s - h * x

        return LogConcave(fall, slope, mode, low, high)

    def _bent(self) -> Bent:
        """Where the precision is negative."""
        s, h = self.information, self.precision
        closed = jnp.isfinite(self.low) & jnp.isfinite(self.high)
        return Bent(
            lambda x: s * x,
            lambda x: s + 0.0 * x,
            lambda x: -0.5 * h * x**2,
            self.low,
            self.high,
            (h < 0) & closed,
        )
