"""What warm-up learns, and how it is learnt anew at the end of a window."""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gibbsite.kernels.learnt.centring import Fit, learnt
from gibbsite.kernels.learnt.coordinates import Coordinates, Form, Surroundings
from gibbsite.kernels.learnt.metric import Metric, divergence, fisher_diagonal, low_rank, unit_metric
from gibbsite.kernels.learnt.power_transform import Bends, bent, learnt_bends, straight

_LEAST_DRAWS = 50
"""Draws of all chains from which a degree of centring can be told."""
_LEAST_BENT = 50
"""Draws of all chains from which a bend can be told."""
_MANY = 512
"""Of how many draws of all chains degrees of centring and bends are learnt at most."""
_LEAST_WHITE, _SOME, _MARGIN = 16, 128, 0.25
"""Draws of all chains from which it can be told whether a site is better white: soon, since the wrong one has
the longest trajectories; how many are looked at; and by how much the site as written has to be better (what a
walk leaves between neighbours is hardly seen element by element)."""
PER_DIMENSION = 3
_STRAIGHT = 0.5
"""Mean divergence per coordinate above which draws are not nearly normal in any linear coordinates."""
_MOST_LEFT = 1 / 3
"""Of the divergence that a diagonal metric leaves, up to which directions are worth it however bent they are:
a spline of twice summed steps under an unknown scale (.5 to 1.2 left of 3.8) takes 1023 gradients a step by
its diagonal, 71 to 75 by its directions, for as many effective draws. Volatilities, errors in x and a local
trend leave .44 to .62; by directions they had .6 to 23 times the effective draws a gradient, in one run of
six with 115 divergences for none, which is no clear gain."""

_OTHER_MODES, _LEAST_ALONE = 1.0, 20
"""By how much draws of all chains are less nearly normal than those of each where modes are told apart (a
spread e times as large as a mode's), and the draws of each from which that is asked."""

FIRST_TARGET, MOST_TARGET = 0.85, 0.95
_ONE_IN = 200
_SETTLED_FROM = 100
"""Steps before which trajectories go astray because of the metric."""


class Rows(NamedTuple):
    """Draws in the order in which they came, `[n, …]`: unconstrained values as written, the gradient by them,
    and what other blocks held then, one flat vector each."""

    v: jax.Array
    g: jax.Array
    siblings: jax.Array


class Tuning(NamedTuple):
    """Degrees of centring `[degrees]` and how they fit, bends and F of every element that may be bent as
    written and with them, and the metric in the coordinates that they make."""

    lam: jax.Array
    fit: Fit
    bends: Bends
    bends_fit: tuple[jax.Array, jax.Array]
    metric: Metric

    @property
    def form(self) -> Form:
        """What the coordinates want of it."""
        return Form(self.lam, self.bends)


def untuned(coordinates: Coordinates, lam: jax.Array, metric: Metric) -> Tuning:
    """What there is before anything is learnt, at degrees `lam`."""
    none, unbent = jnp.zeros(coordinates.degrees), jnp.zeros(len(coordinates.bent_at))
    fit = Fit(none, none, none, none)
    return Tuning(lam, fit, straight(unbent.size), (unbent, unbent), metric)


def refit(
    coordinates: Coordinates,
    rows: Rows,
    weight: jax.Array,
    tuning: Tuning,
    data: object,
    rank: int,
    last: jax.Array | None,
) -> Tuning:
    """A tuning learnt from the rows that `weight` (0 or 1, `[n]`) counts; `last`: of this warm-up, or None
    where the degrees of centring stay.

    Draws with a gradient that is not finite count for nothing.
    """
    finite = jnp.isfinite(rows.v).all(1) & jnp.isfinite(rows.g).all(1)
    weight = jnp.where(finite, weight, 0.0)
    v, g = (jnp.where(finite[:, None], a, 0.0) for a in (rows.v, rows.g))
    rows = Rows(v, g, rows.siblings)
    lam, fit = tuning.lam, tuning.fit
    u, slope = v, g
    if coordinates.degrees and last is not None:
        few, own = evenly(rows, weight, _MANY)
        loc, scale = jax.vmap(lambda r: coordinates.locations(r.v, around(coordinates, r.siblings, data)))(
            few
        )
        x, slope_x = coordinates.centred_values(few.v, few.g, loc, scale)
        # whatever cannot be told apart from nothing stays what it was
        new, new_fit = learnt(x, slope_x, loc, scale, own, coordinates.site, coordinates.written, last)
        enough = weight.sum() >= _LEAST_DRAWS
        learns = enough & jnp.isfinite(new_fit.used) & ~coordinates.whole
        lam = jnp.where(learns, new, lam)
        fit = jax.tree.map(lambda a, b: jnp.where(enough & ~coordinates.whole, a, b), new_fit, fit)
        if coordinates.whole.any():
            lam, fit = whitened(coordinates, rows, weight, lam, fit, data)
    if coordinates.follows:
        u, slope = jax.vmap(lambda r: moved(coordinates, r, lam, data))(rows)
        whole = jnp.isfinite(u).all(1) & jnp.isfinite(slope).all(1)
        weight = jnp.where(whole, weight, 0.0)
        u, slope = (jnp.where(whole[:, None], a, 0.0) for a in (u, slope))
    bends, bends_fit, places = tuning.bends, tuning.bends_fit, coordinates.bent_at
    if places.size and last is not None:
        enough = weight.sum() >= _LEAST_BENT
        some, own = evenly((u[:, places], slope[:, places]), weight, _MANY)
        found = learnt_bends(*some, own)
        bends, bends_fit = jax.tree.map(lambda a, b: jnp.where(enough, a, b), found, (bends, bends_fit))
        new_u, new_slope = bent(u[:, places], slope[:, places], bends)
        u, slope = u.at[:, places].set(new_u), slope.at[:, places].set(new_slope)
    learnt_form = Tuning(lam, fit, bends, bends_fit, tuning.metric)
    scale = fisher_diagonal(u, slope, weight)
    plain = unit_metric(scale, rank)
    if not rank or u.shape[0] < PER_DIMENSION * u.shape[1]:
        return learnt_form._replace(metric=plain)
    better = low_rank(u, slope, weight, scale, rank)
    w, w_slope = jax.vmap(better.inverse)(u), jax.vmap(better.transposed)(slope)
    left, left_by_plain = divergence(w, w_slope, weight).mean(), divergence(u, slope, weight).mean()
    even = (left < _STRAIGHT) | (left < _MOST_LEFT * left_by_plain)
    enough = weight.sum() >= PER_DIMENSION * u.shape[1]
    metric = jax.tree.map(lambda a, b: jnp.where(enough & even, a, b), better, plain)
    return learnt_form._replace(metric=metric)


def whitened(
    coordinates: Coordinates, rows: Rows, weight: jax.Array, lam: jax.Array, fit: Fit, data: object
) -> tuple[jax.Array, Fit]:
    """Degrees, and how they fit, with those of sites that are whitened as a whole learnt anew: each site is
    white, unless all coordinates together are more nearly normal with it as written, by some draws."""
    few, own = evenly(rows, weight, _SOME)
    enough = weight.sum() >= _LEAST_WHITE
    for part in coordinates.centred:
        at = part.degrees
        if at is None or not coordinates.whole[at].any():
            continue
        white, written = (lam.at[at].set(degree) for degree in (0.0, 1.0))

        def spread(degrees: jax.Array) -> jax.Array:
            u, slope = jax.vmap(lambda r: moved(coordinates, r, degrees, data))(few)
            found = divergence(u, slope, own)
            return jnp.where(jnp.isfinite(found), found, jnp.inf)

        f_white, f_written = spread(white), spread(written)
        stays = f_written.mean() + _MARGIN < f_white.mean()
        lam = jnp.where(enough, jnp.where(stays, written, white), lam)
        one, other = f_white[part.at], f_written[part.at]
        new = Fit(other, other, one, jnp.where(stays, other, one))
        fit = jax.tree.map(lambda a, b, at=at: jnp.where(enough, a.at[at].set(b), a), fit, new)
    return lam, fit


def in_other_places(rows: Rows, weight: jax.Array) -> jax.Array:
    """Whether chains, `[chain, n, …]`, are in different modes: along some coordinate the draws of each by
    itself are nearly normal, as their divergence says, and those of all together are not.

    Chains that hold the components of a mixture in other orders are; slow ones, each in a part of one mode,
    are not: there each chain's own draws are narrower than its gradients say.
    """
    finite = jnp.isfinite(rows.v).all(2) & jnp.isfinite(rows.g).all(2)
    own = jnp.where(finite, weight, 0.0)
    v, g = (jnp.where(finite[..., None], a, 0.0) for a in (rows.v, rows.g))
    each = jnp.abs(jax.vmap(divergence)(v, g, own)).max(0)
    all_v, all_g = (a.reshape(-1, a.shape[-1]) for a in (v, g))
    whole = divergence(all_v, all_g, own.ravel())
    return jnp.any(whole - each > _OTHER_MODES) & (own.sum(1).min() >= _LEAST_ALONE)


def evenly(rows: Any, weight: jax.Array, most: int) -> tuple[Any, jax.Array]:
    """At most so many of the rows that `weight` (0 or 1, `[n]`) counts, evenly spaced among them, and their
    weights: 0 where there are fewer."""
    if len(weight) <= most:
        return rows, weight
    order = jnp.argsort(weight == 0, stable=True)  # those that count come first
    count, at = weight.sum().astype(jnp.int32), jnp.arange(most)
    picked = order[jnp.where(count > most, at * count // most, at)]
    return jax.tree.map(lambda a: a[picked], rows), jnp.where(at < count, 1, 0).astype(weight.dtype)


def around(coordinates: Coordinates, siblings: jax.Array, data: object) -> Surroundings:
    """The surroundings whose values one flat vector holds."""
    out, at = {}, 0
    for name in coordinates.siblings:
        site = coordinates.density.sites[name]
        size = math.prod(site.shape)
        out[name] = siblings[at : at + size].reshape(site.shape).astype(site.dtype)
        at += size
    return Surroundings(out, data)


def as_vector(coordinates: Coordinates, surroundings: Surroundings, dtype: Any) -> jax.Array:
    """The inverse of `around`."""
    held = [jnp.ravel(surroundings.siblings[n]).astype(dtype) for n in coordinates.siblings]
    return jnp.concatenate([jnp.zeros(0, dtype), *held])


def moved(coordinates: Coordinates, row: Rows, lam: Any, data: object) -> tuple[jax.Array, jax.Array]:
    """A draw and its gradient in the coordinates of degrees `lam`."""
    surroundings = around(coordinates, row.siblings, data)
    u = coordinates.learnt_from(row.v, lam, surroundings)
    _, pull = jax.vjp(lambda u: coordinates.written_from(u, lam, surroundings), u)
    return u, pull((row.g, jnp.ones((), u.dtype)))[0]


def unmoved(
    coordinates: Coordinates, u: jax.Array, slope: jax.Array, lam: Any, surroundings: Surroundings
) -> tuple[jax.Array, jax.Array]:
    """The inverse of `moved`, from u: v, and the gradient by v of the logdensity of v."""
    v, _ = coordinates.written_from(u, lam, surroundings)
    if not coordinates.follows and not coordinates.bent:
        return v, slope

    def forth(v: jax.Array) -> tuple[jax.Array, jax.Array]:
        u = coordinates.learnt_from(v, lam, surroundings)
        return u, -coordinates.written_from(u, lam, surroundings)[1]

    _, pull = jax.vjp(forth, v)
    return v, pull((slope, jnp.ones((), u.dtype)))[0]


def raised(states: Any, ends: tuple[int, ...], together: bool) -> jax.Array:
    """The acceptance to aim at from the end of this window on, `[chain]`: half as far from 1 as before, but
    .95 at most, where trajectories went `astray` too often."""
    nearer = jnp.minimum(1 - (1 - states.target) / 2, jnp.maximum(MOST_TARGET, states.target))
    return jnp.where(astray(states, jnp.asarray(ends), together), nearer, states.target)


def astray(states: Any, ends: Any, together: bool) -> Any:
    """Whether more trajectories than one in 200 went astray in the window that ends here, `[chain]`: of all
    chains or (not `together`) of each. Of arrays of JAX or of NumPy.

    A step size that fits most of a posterior may be too large for a part of it, which trajectories then do
    not enter, or do not leave; divergences tell (Betancourt 2016, arXiv 1604.00695).

    `ends` are the ends of all windows.
    """
    steps = states.i[0]
    length = steps - (ends * (ends < steps)).max()
    found, chains = (states.astray.sum(), states.astray.size) if together else (states.astray, 1)
    return states.raises & (found * _ONE_IN > length * chains) & (steps >= _SETTLED_FROM)
