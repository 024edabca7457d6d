"""Draws → the data that alone keep latents where they are, of which no draw tells what would be without them.

Where the support of data moves with a latent (`Uniform(0, top)`), the posterior without the datum at its end
reaches beyond that with it. Importance weights have no draws there, and Pareto's k does not see it. Nor does
it where a datum is on one side of a step in every draw, and far less likely on the other.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gibbsite.density import Density
from gibbsite.density.intervals import range_of_support
from gibbsite.density.known_elements import equations_behind
from gibbsite.diagnostics.predictive.likelihood import members_of
from gibbsite.diagnostics.predictive.probabilities import all_latents, density_of
from gibbsite.elimination.pointwise import likelihood_of
from gibbsite.plans.schedule.plan import Plan
from gibbsite.programs.passes.for_cpu import jitted

_STRETCHES = (1.1, 1.5, 3.0)
_MOST_DRAWS = 500
_SAME, _SEEN = 1e-6, 100
"""What rounding makes of one number; how many draws would be of a part of the posterior without a datum,
for it to be no matter that none of those with the datum is."""


def bounding(
    plan: Plan,
    draws: Mapping[str, np.ndarray],
    data: Mapping[str, np.ndarray],
    gone: Collection[str] = (),
) -> dict[str, Any]:
    """Which elements of observed sites, by name and of the shapes of `data`, alone rule out values of
    continuous latents further from the mean of the draws `[chain, draw, *shape]` than these are: by a bound,
    or by a step, where they are on one side in all draws and far less likely on the other, and others are
    not. Sites that are `gone`, integrated out, are not drawn with any datum."""
    density = density_of(plan)
    members = {n: members_of(plan, density, n) for n in density.outputs["observed"]}
    members = {n: found for n, found in members.items() if data.keys() >= {*found}}
    given = data
    data = {n: data[n] if of == (n,) else np.stack([data[m] for m in of]) for n, of in members.items()}
    found = _bounding(plan, density, draws, data, gone)
    each = {m: found[n] if of == (n,) else found[n][i] for n, of in members.items() for i, m in enumerate(of)}
    return {n: each.get(n, np.zeros(np.shape(v), bool)) for n, v in given.items()}


class _Stretched(NamedTuple):
    """Some draws, `[draw, *shape]` by latent, which may lie further from the means of smooth ones (`centre`);
    `count` is how many there are in all."""

    density: Density
    states: Mapping[str, Any]
    centre: Mapping[str, Any]
    count: int

    def further(self, state: Mapping[str, Any], factor: Any, moved: Collection[str]) -> Any:
        """An evaluator at a state whose latents in `moved` are so many times as far out."""
        at = {n: c + factor * (state[n] - c) for n, c in self.centre.items() if n in moved}
        return self.density.evaluator({**state, **at}, tuple(self.density.arguments.arrays))


def _bounding(
    plan: Plan,
    density: Density,
    draws: Mapping[str, np.ndarray],
    data: Mapping[str, np.ndarray],
    gone: Collection[str],
) -> dict[str, Any]:
    moving = [t for t in density.bounds if t.origin in data and t.shape == np.shape(data[t.origin])]
    out = {n: np.zeros(np.shape(v), bool) for n, v in data.items()}
    shapes = {n: density.outputs["log_prob"][n].aval.shape for n in data}
    stepping = [n for n in data if shapes[n] == out[n].shape and _sides(density, [n])]
    if not moving and not stepping:
        return out
    states = {n: np.asarray(v) for n, v in all_latents(plan, draws).items() if n in density.latent_vars}
    count = len(next(iter(states.values())))
    some = np.linspace(0, count - 1, min(count, _MOST_DRAWS)).astype(int)
    smooth = [n for n in states if not density.sites[n].discrete and n not in gone]
    centre = {n: states[n].mean(0) for n in smooth}
    at = _Stretched(density, {n: v[some] for n, v in states.items()}, centre, count)
    for name, mask in (*_by_bounds(at, moving), *_by_steps(at, stepping, data)):
        out[name] |= mask
    return out


def _by_bounds(at: _Stretched, moving: Sequence[Any]) -> Iterator[tuple[str, np.ndarray]]:
    """The data, by site, that alone rule out a state further out, by their bounds."""

    def against(state: Mapping[str, Any], factor: Any) -> list[Any]:
        ev = at.further(state, factor, at.centre.keys())
        return [jnp.broadcast_to(t.contribution(ev.full(t.atom), ev.full), t.shape) < 0 for t in moving]

    def alone(states: Mapping[str, Any], factor: Any) -> dict[str, Any]:
        held: dict[str, list[Any]] = {}
        for t, found in zip(moving, jax.vmap(against, (0, None))(states, factor), strict=True):
            held.setdefault(t.origin, []).append(found)
        ruled = {n: jnp.any(jnp.stack(v), 0) for n, v in held.items()}
        total = sum(jnp.sum(v, axis=tuple(range(1, v.ndim))) for v in ruled.values())
        return {n: jnp.any(jnp.moveaxis(v, 0, -1) & (total == 1), -1) for n, v in ruled.items()}

    program = jitted(alone)
    for factor in _STRETCHES if moving else ():
        yield from ((n, np.asarray(mask)) for n, mask in program(at.states, factor).items())


def _by_steps(
    at: _Stretched, stepping: Sequence[str], data: Collection[str]
) -> Iterator[tuple[str, np.ndarray]]:
    """The data, by site, that are on one side of a step in all draws, and far less likely on the other, where
    the rest is as likely as in the draws."""
    density, sides = at.density, _sides(at.density, stepping)
    movers = {m for v in sides for m in density.maps.latents(v)} & at.centre.keys()

    def sides_at(state: Mapping[str, Any], factor: Any) -> list[Any]:
        ev = at.further(state, factor, movers)
        return [ev.full(v) for v in sides]

    def likely(state: Mapping[str, Any], factor: Any, on: list[Any]) -> list[Any]:
        """By site of those with steps, and of all data and what moves together, with data on sides `on`."""
        ev = at.further(state, factor, movers)
        ev.give(dict(zip(sides, on, strict=True)))
        each = {n: likelihood_of(density, n, ev) for n in (*data, *movers)}
        total = sum(jnp.sum(v) for v in each.values())
        for n in movers:
            value, (low, high) = ev.full(density.latent_vars[n]), range_of_support(density.sites[n].support)
            total = jnp.where(jnp.all((value >= low) & (value <= high)), total, -jnp.inf)
        return [*(each[n] for n in stepping), total]

    def looked(states: Mapping[str, Any], factor: Any) -> tuple[list[Any], ...]:
        """At the draws, on their own sides and on those of the first of them; and further, where data are
        there and where they were."""
        own, there = (jax.vmap(sides_at, (0, None))(states, f) for f in (1.0, factor))
        each = jax.vmap(likely, (0, None, 0))
        first = jax.vmap(likely, (0, None, None))(states, 1.0, [v[0] for v in own])
        return each(states, 1.0, own), first, each(states, factor, there), each(states, factor, own)

    program = jitted(looked)
    for factor in _STRETCHES if stepping else ():
        (*drawn, whole), (*first, _), (*there, total), (*were, _) = (
            [np.asarray(v, float) for v in found] for found in program(at.states, factor)
        )
        for name, now, alike, then, as_was in zip(stepping, drawn, first, there, were, strict=True):
            beside = (slice(None), *(None,) * (now.ndim - 1))
            with np.errstate(invalid="ignore"):  # of what is impossible on both sides
                still = np.all(np.isclose(now, alike, rtol=_SAME, atol=0), axis=0)
                crossed = ~np.isclose(then, as_was, rtol=_SAME, atol=0)
                unseen = now - then > np.log(max(at.count / _SEEN, 1.0))
                as_likely = total[beside] - then >= np.min(whole[beside] - now, axis=0)
            yield name, np.any(still & crossed & unseen & as_likely, axis=0)


def _sides(density: Density, names: Sequence[str]) -> list[Any]:
    """What tells on which side of a step data are: comparisons and roundings of numbers that continuous
    latents move, behind the densities of sites."""

    def moves(v: Any) -> bool:
        return any(not density.sites[n].discrete for n in density.maps.latents(v))

    return [
        v
        for e in equations_behind(density, [density.outputs["log_prob"][n] for n in names])
        for v in e.outvars
        if (v.aval.dtype == bool or jnp.issubdtype(v.aval.dtype, jnp.integer)) and moves(v)
        and any(jnp.issubdtype(a.aval.dtype, jnp.floating) and moves(a) for a in e.invars)
    ]  # fmt: skip
