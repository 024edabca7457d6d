"""Draws → the data that alone keep latents where they are, of which no draw tells what would be without them.

Where the support of data moves with a latent (`Uniform(0, top)`), the posterior without the datum at its end
reaches beyond that with it. Importance weights have no draws there, and Pareto's k does not see it. Nor does
it where a datum is on one side of a step in every draw, which is far less likely on the other.
"""

from collections.abc import Collection, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gibbsite.density import Density
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
    or by a step, where they are as likely in all draws and far less beyond, and the others are not. Sites
    that are `gone`, integrated out, are not drawn with any datum."""
    density = density_of(plan)
    members = {n: members_of(plan, density, n) for n in density.outputs["observed"]}
    members = {n: found for n, found in members.items() if data.keys() >= {*found}}
    given = data
    data = {n: data[n] if of == (n,) else np.stack([data[m] for m in of]) for n, of in members.items()}
    found = _bounding(plan, density, draws, data, gone)
    each = {m: found[n] if of == (n,) else found[n][i] for n, of in members.items() for i, m in enumerate(of)}
    return {n: each.get(n, np.zeros(np.shape(v), bool)) for n, v in given.items()}


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
    stepping = [n for n in data if shapes[n] == out[n].shape and _steps(density, n)]
    if not moving and not stepping:
        return out
    inputs = tuple(density.arguments.arrays)
    states = {n: np.asarray(v) for n, v in all_latents(plan, draws).items() if n in density.latent_vars}
    count = len(next(iter(states.values())))
    some = np.linspace(0, count - 1, min(count, _MOST_DRAWS)).astype(int)
    smooth = [n for n in states if not density.sites[n].discrete and n not in gone]
    centre = {n: states[n].mean(0) for n in smooth}
    states = {n: v[some] for n, v in states.items()}

    def further(state: Mapping[str, Any], factor: Any) -> Any:
        far = {n: centre[n] + factor * (v - centre[n]) if n in centre else v for n, v in state.items()}
        return density.evaluator(far, inputs)

    def against(state: Mapping[str, Any], factor: Any) -> dict[str, Any]:
        """What rules these values out, of each term."""
        ev = further(state, factor)
        return {
            str(i): jnp.broadcast_to(t.contribution(ev.full(t.atom), ev.full), t.shape) < 0
            for i, t in enumerate(moving)
        }

    def alone(states: Mapping[str, Any], factor: Any) -> dict[str, Any]:
        found = jax.vmap(against, (0, None))(states, factor)
        held = {n: [found[str(i)] for i, t in enumerate(moving) if t.origin == n] for n in out}
        ruled = {n: jnp.any(jnp.stack(v), 0) for n, v in held.items() if v}
        total = sum(jnp.sum(v, axis=tuple(range(1, v.ndim))) for v in ruled.values())
        return {n: jnp.any(jnp.moveaxis(v, 0, -1) & (total == 1), -1) for n, v in ruled.items()}

    program = jitted(alone)
    for factor in _STRETCHES if moving else ():
        for name, mask in program(states, factor).items():
            out[name] = out[name] | np.asarray(mask)
    if not stepping:
        return out

    def likely(states: Mapping[str, Any], factor: Any) -> list[Any]:
        """By site of those with steps, and of all data together."""

        def at(state: Mapping[str, Any]) -> list[Any]:
            each = {n: likelihood_of(density, n, further(state, factor)) for n in data}
            return [*(each[n] for n in stepping), sum(jnp.sum(v) for v in each.values())]

        return jax.vmap(at)(states)

    steps = jitted(likely)
    *drawn, whole = (np.asarray(v, float) for v in steps(states, 1.0))
    for factor in _STRETCHES:
        *there, total = (np.asarray(v, float) for v in steps(states, factor))
        for name, now, then in zip(stepping, drawn, there, strict=True):
            beside = (slice(None), *(None,) * (now.ndim - 1))
            still = np.ptp(now, axis=0) <= _SAME * np.abs(now[0])
            unseen = now[0] - then > np.log(max(count / _SEEN, 1.0))
            as_likely = total[beside] - then >= np.min(whole[beside] - now, axis=0)
            out[name] |= np.any(still & unseen & as_likely, axis=0)
    return out


def _steps(density: Density, name: str) -> bool:
    """Whether an observed site's density has continuous latents in a comparison or a rounding."""
    compared = [v for e in equations_behind(density, [density.outputs["log_prob"][name]]) for v in e.outvars]
    return any(
        v.aval.dtype == bool and any(not density.sites[n].discrete for n in density.maps.latents(v))
        for v in compared
    )
