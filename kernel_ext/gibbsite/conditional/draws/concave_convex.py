"""Exact draws on an interval from log densities that are a concave and a convex function together.

The hull is piecewise linear: on each piece the concave part lies below its tangents at the two ends, the
convex part below its chord (Görür and Teh 2011, "Concave-convex adaptive rejection sampling"). The places of
the pieces decide only how many proposals are rejected; they are moved a few times to where the hull's mass
is.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax, random

from gibbsite.conditional.draws.logconcave import bracket
from gibbsite.conditional.draws.passes import accepted, looped

_PIECES = 32
_MOVES = 6
# proposals that are accepted with so many pieces, as measured
_ACCEPTED = 0.99


class Bent(NamedTuple):
    """Densities, one per element: all arrays have one shape.

    The log density is `down(t) + up(t)`: `down` concave with derivative `slope`, `up` convex. One of `low`
    and `high` may be infinite; towards it `up` must fall, and `down` without end. `wanted` says which
    elements are to be drawn at all.
    """

    down: Callable[[Any], Any]
    slope: Callable[[Any], Any]
    up: Callable[[Any], Any]
    low: Any
    high: Any
    wanted: Any


class _Hull(NamedTuple):
    """Pieces along the first axis: where each starts and ends, its height at the start, its slope and the
    logarithm of its mass."""

    start: Any
    end: Any
    height: Any
    rise: Any
    mass: Any


def _ends(d: Bent) -> tuple[Any, Any]:
    """The ends, an infinite one replaced by a place where the density has fallen by forty."""

    def reach(at: Any, sign: float) -> Any:
        top = d.down(at) + d.up(at)

        def fallen(reach: Any) -> Any:
            t = at + sign * reach
            return d.down(t) + d.up(t) < top - 40.0

        return at + sign * jnp.exp(bracket(fallen, at)[1])

    low_finite, high_finite = jnp.isfinite(d.low), jnp.isfinite(d.high)
    low = jnp.where(low_finite, d.low, reach(jnp.where(high_finite, d.high, 0.0), -1.0))
    return low, jnp.where(high_finite, d.high, reach(jnp.where(low_finite, d.low, 0.0), 1.0))


def _line(height: Any, rise: Any, width: Any) -> Any:
    """Logarithm of the integral of `exp(height + rise s)` for `s` from 0 to `width`."""
    steep = jnp.abs(rise) * width
    top = height + jnp.maximum(rise * width, 0.0)
    small = steep < 1e-3
    safe = jnp.where(small, 1.0, steep)
    inside = jnp.where(small, -0.5 * steep, jnp.log(-jnp.expm1(-safe)) - jnp.log(safe))
    return jnp.where(width > 0, top + jnp.log(jnp.where(width > 0, width, 1.0)) + inside, -jnp.inf)


def _hull(d: Bent, nodes: Any) -> _Hull:
    """The hull over pieces between consecutive `nodes`, cut in two each, and beyond infinite ends."""
    down, slope, up = d.down(nodes), d.slope(nodes), d.up(nodes)
    left, right = nodes[:-1], nodes[1:]
    width = right - left
    chord = jnp.where(width > 0, (up[1:] - up[:-1]) / jnp.where(width > 0, width, 1.0), 0.0)
    bend = slope[:-1] - slope[1:]
    # where the tangents at the two ends meet
    gap = down[1:] - down[:-1] - slope[1:] * width
    meet = jnp.clip(jnp.where(bend > 0, gap / jnp.where(bend > 0, bend, 1.0), 0.5 * width), 0.0, width)
    middle = left + meet
    before = down[:-1] + up[:-1]
    after = down[1:] + slope[1:] * (middle - right) + up[:-1] + chord * meet
    tails = []
    for edge, open_end, sign in ((0, ~jnp.isfinite(d.low), -1.0), (-1, ~jnp.isfinite(d.high), 1.0)):
        rate = -sign * slope[edge]
        falls = open_end & (rate > 0)
        height = down[edge] + up[edge]
        mass = jnp.where(falls, height - jnp.log(jnp.where(falls, rate, 1.0)), -jnp.inf)
        mass = jnp.where(open_end & ~falls, jnp.nan, mass)
        tails.append((nodes[edge], jnp.full_like(rate, sign * jnp.inf), height, slope[edge], mass))
    pieces = [
        (left, middle, before, slope[:-1] + chord, _line(before, slope[:-1] + chord, meet)),
        (middle, right, after, slope[1:] + chord, _line(after, slope[1:] + chord, width - meet)),
    ]
    rows = zip(zip(*pieces, strict=True), zip(*tails, strict=True), strict=True)
    return _Hull(
        *(
            jnp.concatenate([jnp.stack(both, 1).reshape(-1, *both[0].shape[1:]), jnp.stack(ends)])
            for both, ends in rows
        )
    )


def _within(start: Any, end: Any, rise: Any, u: Any) -> Any:
    """The place on a piece below which a fraction `u` of its mass lies."""
    width = end - start
    tail = jnp.isinf(width)
    finite = jnp.where(tail, 1.0, width)
    steep = rise * finite
    small = jnp.abs(steep) < 1e-3
    # from the higher end, where nothing overflows
    v = jnp.where(steep > 0, 1.0 - u, u)
    safe = jnp.where(small, 1.0, jnp.abs(steep))
    part = -jnp.log1p(v * jnp.expm1(-safe)) / safe
    part = jnp.where(small, u, jnp.where(steep > 0, 1.0 - part, part))
    beyond = jnp.sign(width) * -jnp.log(u) / jnp.where(tail, jnp.abs(rise), 1.0)
    return start + jnp.where(tail, beyond, part * finite)


def _moved(d: Bent, nodes: Any) -> Any:
    """Nodes at about equal shares of the hull's mass between the outermost ones."""
    hull = _hull(d, nodes)
    start, end, mass = (x[:-2] for x in (hull.start, hull.end, hull.mass))
    weight = jnp.exp(mass - jnp.max(mass, axis=0))
    after = jnp.cumsum(weight, axis=0)
    total = after[-1]
    after, own = after / total, weight / total
    share = (jnp.arange(1, _PIECES) / _PIECES).reshape((-1, 1) + (1,) * (nodes.ndim - 1))
    part = (share - (after - own)) / jnp.where(own > 0, own, 1.0)
    here = (part > 0) & (share <= after)
    places = jnp.where(here, start + jnp.clip(part, 0.0, 1.0) * (end - start), -jnp.inf)
    inner = jnp.max(places, axis=1)
    inner = jnp.where(jnp.isfinite(inner), inner, nodes[1:-1])
    # in order already, but for rounding
    return lax.cummax(jnp.concatenate([nodes[:1], jnp.clip(inner, nodes[0], nodes[-1]), nodes[-1:]]), axis=0)


def _nodes(d: Bent) -> Any:
    """The places of the hull's pieces, moved to where its mass is."""
    low, high = _ends(d)
    steps = jnp.linspace(0.0, 1.0, _PIECES + 1, dtype=low.dtype).reshape((-1,) + (1,) * low.ndim)
    return lax.fori_loop(0, _MOVES, lambda _, x: _moved(d, x), low + steps * (high - low))


def sample_bent(key: Any, d: Bent) -> Any:
    """One exact draw per wanted element; NaN for the others, and where the integral is infinite."""
    # a loop of one round, not a branch: batched over chains, it costs nothing where no element is wanted
    nothing = jnp.full(d.low.shape, jnp.nan, d.low.dtype)
    first = jnp.any(d.wanted), nothing
    # densities of the families and what is conjugate to them are concave: those of factors alone may not be
    return looped(0, lambda c: c[0], lambda c: (jnp.zeros_like(c[0]), _drawn(key, d)), first)[1]


def _drawn(key: Any, d: Bent) -> Any:
    nodes = _nodes(d)
    hull = _hull(d, nodes)
    top = jnp.max(jnp.where(jnp.isnan(hull.mass), -jnp.inf, hull.mass), axis=0)
    parts = jnp.exp(hull.mass - top)
    ends = jnp.cumsum(parts, axis=0)
    lost = ~(d.wanted & jnp.isfinite(top) & jnp.isfinite(ends[-1]))
    shape, dtype = nodes.shape[1:], nodes.dtype

    def propose(key: Any) -> tuple[Any, Any]:
        key_piece, key_place, key_accept = random.split(key, 3)
        u = random.uniform(key_piece, shape, dtype) * ends[-1]
        at = (u < ends) & (u >= ends - parts) & (parts > 0)
        at = at & (jnp.cumsum(at, axis=0) == 1)
        start, end, height, rise, _ = (jnp.sum(jnp.where(at, x, 0.0), axis=0) for x in hull)
        v = random.uniform(key_place, shape, dtype, minval=jnp.finfo(dtype).tiny)
        t = jnp.clip(_within(start, end, rise, v), d.low, d.high)
        over = height + rise * (t - start)
        return t, jnp.log(random.uniform(key_accept, shape, dtype)) <= d.down(t) + d.up(t) - over

    return accepted(key, propose, nodes[0], lost, _ACCEPTED)


def log_mass_of(d: Bent, points: int = 4001) -> Any:
    """Logarithm of the integral of the density, by Simpson's rule on pieces of equal mass."""
    nodes = _nodes(d)
    count = 2 * (points // (2 * _PIECES)) + 1
    inside = jnp.linspace(0.0, 1.0, count, dtype=nodes.dtype).reshape((1, -1) + (1,) * d.low.ndim)
    width = (nodes[1:] - nodes[:-1])[:, None]
    t = nodes[:-1][:, None] + inside * width
    value = d.down(t) + d.up(t)
    top = jnp.max(value, axis=(0, 1))
    weights = jnp.where(jnp.arange(count) % 2 == 1, 4.0, 2.0).at[jnp.array([0, -1])].set(1.0)
    weights = weights.reshape((1, -1) + (1,) * d.low.ndim) / (3 * (count - 1))
    return top + jnp.log(jnp.sum(jnp.exp(value - top) * weights * width, axis=(0, 1)))
