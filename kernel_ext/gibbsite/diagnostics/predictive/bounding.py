"""Draws → the data that alone keep latents where they are, of which no draw tells what would be without them.

Where the support of data moves with a latent (`Uniform(0, top)`), the posterior without the datum at its end
reaches beyond that with it. Importance weights have no draws there, and Pareto's k does not see it.
"""

from collections.abc import Collection, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gibbsite.diagnostics.predictive.probabilities import all_latents, density_of
from gibbsite.plans.schedule.plan import Plan
from gibbsite.programs.passes.for_cpu import jitted

_STRETCHES = (1.1, 1.5, 3.0)
_MOST_DRAWS = 500


def bounding(
    plan: Plan,
    draws: Mapping[str, np.ndarray],
    data: Mapping[str, np.ndarray],
    gone: Collection[str] = (),
) -> dict[str, Any]:
    """Which elements of observed sites, by name and of the shapes of `data`, alone rule out values of
    continuous latents further from the mean of the draws `[chain, draw, *shape]` than these are. Sites that
    are `gone`, integrated out, are not drawn with any datum."""
    density = density_of(plan)
    moving = [t for t in density.bounds if t.origin in data and t.shape == np.shape(data[t.origin])]
    out = {n: np.zeros(np.shape(v), bool) for n, v in data.items()}
    if not moving:
        return out
    inputs = tuple(density.arguments.arrays)
    states = {n: np.asarray(v) for n, v in all_latents(plan, draws).items() if n in density.latent_vars}
    count = len(next(iter(states.values())))
    some = np.linspace(0, count - 1, min(count, _MOST_DRAWS)).astype(int)
    smooth = [n for n in states if not density.sites[n].discrete and n not in gone]
    centre = {n: states[n].mean(0) for n in smooth}
    states = {n: v[some] for n, v in states.items()}

    def against(state: Mapping[str, Any], factor: Any) -> dict[str, Any]:
        """What rules these values out, of each term."""
        far = {n: centre[n] + factor * (v - centre[n]) if n in centre else v for n, v in state.items()}
        ev = density.evaluator(far, inputs)
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
    for factor in _STRETCHES:
        for name, mask in program(states, factor).items():
            out[name] = out[name] | np.asarray(mask)
    return out
