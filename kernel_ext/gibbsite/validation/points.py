"""A few points of the space of latents, near and far, and what parameters are there: by NumPy, in no time."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpyro.distributions import constraints

from gibbsite.density.density import Density
from gibbsite.density.intervals import range_of_support
from gibbsite.density.known_elements import known_numbers
from gibbsite.density.model.bounds import base_constraint
from gibbsite.programs.jaxpr.values import Values
from gibbsite.validation.certain import undecided
from gibbsite.validation.draws import Impossible
from gibbsite.validation.limits import kind_of, outside

_RADII = (2.0, 2.0, 6.0, 20.0)


def fails_somewhere(density: Density, site: str, name: str) -> bool:
    """Whether a parameter is impossible at any of a few points, near and far, of the space that starts are
    drawn from; also where that cannot be told without compiling."""
    constraint, atom = density.parameter_constraints[site][name], density.outputs["parameters"][site][name]
    for point in _points(density):
        value = point.value(atom)
        if value is None or np.any(outside(constraint, value, True)):
            return True
    return False


def impossible_at(density: Density, values: Mapping[str, Any]) -> Impossible | None:
    """The first parameter that is impossible at the values of all latents, among those that may be."""
    numbers = known_numbers(density, {n: np.asarray(values[n]) for n in density.latents})
    for site, name in undecided(density)[1]:
        constraint = density.parameter_constraints[site][name]
        value = numbers.value(density.outputs["parameters"][site][name])
        wrong = np.zeros(()) if value is None else np.asarray(outside(constraint, value, True))
        if wrong.any():
            at = tuple(int(i) for i in np.argwhere(wrong)[0])
            found = np.asarray(value)[at]
            return Impossible(site, name, constraint, 1.0, at, found if found.ndim else found.item())
    return None


def _points(density: Density) -> list[Values]:
    if "points" not in density.cache:
        rng = np.random.default_rng(0)
        density.cache["points"] = [
            known_numbers(density, {n: _drawn(density.sites[n], rng, radius) for n in density.latents})
            for radius in _RADII
        ]
    return density.cache["points"]


def _drawn(site: Any, rng: np.random.Generator, radius: float) -> Any:
    """A value of a site, uniform on ±radius in coordinates without bounds; None for the rarer supports."""
    base, shape = base_constraint(site.support), site.shape
    free = rng.uniform(-radius, radius, shape).astype(site.dtype if not site.discrete else float)
    if site.discrete:
        low, high = range_of_support(site.support)
        if not np.isfinite(low):
            return None
        return rng.integers(int(low), int(min(high, low + radius)) + 1, shape).astype(site.dtype)
    if isinstance(base, type(constraints.simplex)):
        weights = np.exp(free)
        return weights / weights.sum(-1, keepdims=True)
    if isinstance(base, type(constraints.ordered_vector)):
        return np.cumsum(np.abs(free), -1) - radius
    if kind_of(base) != "interval":
        return None
    low, high = range_of_support(base)
    if np.isfinite(low) and np.isfinite(high):
        return low + (high - low) * (free / radius + 1) / 2
    return np.exp(free) + low if np.isfinite(low) else high - np.exp(free) if np.isfinite(high) else free
