"""Exact draws from log-concave densities on an interval, by rejection.

The hull has three pieces: the mode's height in the middle, and on each side the tangent where the log
density has fallen by one (Devroye 1986, *Non-Uniform Random Variate Generation*, VII.2; Gilks and Wild 1992
for tangents as hulls). Where these points lie decides only how many proposals are rejected, never what is
drawn.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax, random

from gibbsite.conditional.draws.passes import accepted

# of the mass under the hull, the part under a Normal: sqrt(π) / 2; under flat and exponential densities all
_ACCEPTED = 0.89


class LogConcave(NamedTuple):
    """Densities, one per element: all arrays have one shape.

    `fall(t)` is the log density less its value at `mode`, `slope(t)` its derivative; `low` and `high` may be
    infinite.
    """

    fall: Callable[[Any], Any]
    slope: Callable[[Any], Any]
    mode: Any
    low: Any
    high: Any


class _Side(NamedTuple):
    """What lies on one side of the mode, as distances from it: a plateau up to `edge`, then a tangent of
    slope `-rate` up to `end`."""

    edge: Any
    rate: Any
    end: Any

    @property
    def tail(self) -> Any:
        """Mass under the tangent."""
        safe = jnp.where(self.rate > 0, self.rate, 1.0)
        mass = -jnp.expm1(-safe * (self.end - self.edge)) / safe
        return jnp.where((self.rate > 0) & (self.end > self.edge), mass, 0.0)

    def in_tail(self, u: Any) -> Any:
        """The distance below which a fraction `u` of the tangent's mass lies."""
        safe = jnp.where(self.rate > 0, self.rate, 1.0)
        kept = -jnp.expm1(-safe * (self.end - self.edge))
        return jnp.minimum(self.edge - jnp.log1p(-u * kept) / safe, self.end)


def bracket(beyond: Callable[[Any], Any], like: Any) -> tuple[Any, Any]:
    """Logarithms of two distances close to each other between which `beyond` becomes true, which is searched
    for over e^-40 … e^40; in arrays like `like`."""

    def halve(_: int, ends: Any) -> Any:
        near, far = ends
        middle = 0.5 * (near + far)
        over = beyond(jnp.exp(middle))
        return jnp.where(over, near, middle), jnp.where(over, middle, far)

    return lax.fori_loop(0, 24, halve, (jnp.full_like(like, -40.0), jnp.full_like(like, 40.0)))


def _side(d: LogConcave, sign: float) -> _Side:
    end = jnp.maximum((d.high - d.mode) if sign > 0 else (d.mode - d.low), 0.0)
    near, far = bracket(lambda reach: d.fall(d.mode + sign * reach) < -1.0, d.mode)
    reach = jnp.minimum(jnp.exp(0.5 * (near + far)), end)
    at = d.mode + sign * reach
    rate = jnp.maximum(-sign * d.slope(at), 0.0)
    # where the tangent meets the plateau
    edge = jnp.where(rate > 0, reach + d.fall(at) / jnp.where(rate > 0, rate, 1.0), end)
    return _Side(jnp.clip(edge, 0.0, end), rate, end)


def sample_log_concave(key: Any, d: LogConcave) -> Any:
    """One exact draw per element; NaN where the density has no finite mode, and so cannot be normalised."""
    sides = _side(d, -1.0), _side(d, 1.0)
    left, right = sides
    parts = jnp.stack([left.tail, left.edge, right.edge, right.tail])
    ends = jnp.cumsum(parts, axis=0)
    shape, dtype = d.mode.shape, d.mode.dtype

    def propose(key: Any) -> tuple[Any, Any]:
        key_piece, key_place, key_accept = random.split(key, 3)
        u = random.uniform(key_piece, shape, dtype) * ends[-1]
        v = random.uniform(key_place, shape, dtype)
        middle = -left.edge + v * (left.edge + right.edge)
        step = jnp.where(u < ends[0], -left.in_tail(v), jnp.where(u < ends[2], middle, right.in_tail(v)))
        over_left = left.rate * jnp.maximum(-step - left.edge, 0.0)
        over_right = right.rate * jnp.maximum(step - right.edge, 0.0)
        hull = -jnp.maximum(over_left, over_right)
        t = d.mode + step
        return t, jnp.log(random.uniform(key_accept, shape, dtype)) <= d.fall(t) - hull

    lost = ~(jnp.isfinite(d.mode) & jnp.isfinite(ends[-1]))
    return jnp.clip(accepted(key, propose, d.mode, lost, _ACCEPTED), d.low, d.high)


def log_mass(d: LogConcave, points: int = 2001) -> Any:
    """Logarithm of the integral of the density over its value at the mode, by the trapezoidal rule over the
    part that has not fallen by forty."""
    pieces = []
    for sign in (-1.0, 1.0):
        side = _side(d, sign)
        width = jnp.minimum(side.end, side.edge + 40.0 / jnp.where(side.rate > 0, side.rate, jnp.inf))
        width = jnp.where(jnp.isfinite(width), width, side.end)
        at = jnp.linspace(0.0, 1.0, points, dtype=d.mode.dtype).reshape((-1,) + (1,) * d.mode.ndim)
        heights = jnp.exp(jax.vmap(d.fall)(d.mode + sign * at * width))
        pieces.append(jnp.trapezoid(heights, dx=1.0 / (points - 1), axis=0) * width)
    return jnp.log(pieces[0] + pieces[1])
