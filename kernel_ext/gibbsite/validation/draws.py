"""Parameters on draws from the prior: all of them and all draws in one compiled pass."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from numpyro import handlers
from numpyro.distributions import ImproperUniform, constraints

from gibbsite.density.density import Density
from gibbsite.density.intervals import range_of_support
from gibbsite.density.known_elements import known_numbers
from gibbsite.density.model.alone import handlers_alone
from gibbsite.density.model.bounds import base_constraint, computed_bounds
from gibbsite.density.model.collect import base_distribution, feasible, parameters_of, weights_of
from gibbsite.ground.once import once
from gibbsite.programs.jaxpr.compiling import once as compiled_once
from gibbsite.programs.jaxpr.values import Values
from gibbsite.validation.limits import kind_of, outside, undecided

DRAWS = 64
"""Draws from the prior that parameters are looked at on."""


@dataclass(frozen=True)
class Impossible:
    """A parameter that does not meet its constraint: on which `share` of the draws from the prior (`drawn`;
    without latents there are none, and the share is 1), which share of all its `elements` there, and the
    first `index` and `value` that do not; for vectors and matrices the value is a whole event."""

    site: str
    parameter: str
    constraint: Any
    share: float
    index: tuple[int, ...]
    value: Any
    drawn: bool = False
    elements: float = 1.0


def impossible_on_draws(fn: Callable, density: Density, wanted: list[tuple[str, str]]) -> list[Impossible]:
    """Which of the `wanted` parameters (site, name) of the model `fn` are impossible, on any draw."""
    teller = jax.vmap(_teller(fn, density, wanted), (0, None))

    def on_draws(data: Any) -> dict[tuple[str, str], Any]:
        return teller(jax.random.split(jax.random.key(0), DRAWS), data)

    return _found(density, jax.device_get(compiled_once(on_draws, density.arguments.arrays)))


def _found(density: Density, told: Mapping[tuple[str, str], Any]) -> list[Impossible]:
    """What `_teller` found on several draws."""
    found = []
    for (site, name), (bad, index, value, shape, others) in told.items():
        bad, index, value, shape = (x[others] for x in (bad, index, value, shape))
        if bad.any():
            draw = int(np.argmax(bad > 0))
            dims = tuple(int(n) for n in shape[draw])
            at = tuple(int(i) for i in np.unravel_index(int(index[draw]), dims)) if dims else ()
            constraint = density.parameter_constraints[site][name]
            plain = value[draw] if np.ndim(value[draw]) else value[draw].item()
            share = float((bad > 0).mean())
            found.append(Impossible(site, name, constraint, share, at, plain, True, float(bad.mean())))
    return found


def _teller(fn: Callable, density: Density, wanted: list[tuple[str, str]]) -> Callable:
    """A function of a key and the data: for each wanted parameter, which share of its elements is impossible
    on a draw from the prior, the first such in the flattened batch, its value, the batch's shape, and whether
    the draw is one that the data of other sites leave possible."""

    def improper(msg: Mapping[str, Any]) -> Any:
        drawn = msg["type"] == "sample" and isinstance(base_distribution(msg["fn"]), ImproperUniform)
        return feasible(msg) if drawn else None

    def on_draw(key: Any, data: Any) -> dict[tuple[str, str], Any]:
        args, kwargs = density.arguments.rebuild(data)
        model = handlers.seed(handlers.substitute(fn, substitute_fn=improper), key)
        with handlers_alone, numpyro.validation_enabled(False):
            trace = handlers.trace(model).get_trace(*args, **kwargs)
        return _told(trace, wanted)

    return on_draw


def _told(trace: Mapping[str, Any], wanted: list[tuple[str, str]]) -> dict[Any, Any]:
    """Of each wanted parameter of a NumPyro trace: the share of impossible elements, where, and a value; and
    whether the observations of all other sites lie in their supports."""
    out = {}
    inside = {
        n: jnp.all(site["fn"].support(site["value"]))
        for n, site in trace.items()
        if site["type"] == "sample"
        and site["is_observed"]
        and computed_bounds(site["fn"].support) is not None
    }
    for site, name in wanted:
        value, _, constraint = parameters_of(trace[site]["fn"])[name]
        wrong, value = outside(constraint, value, True), jnp.asarray(value)
        for weight in weights_of(trace[site]):
            if np.shape(weight) == wrong.shape:
                wrong = wrong & (weight != 0)
        first = jnp.argmax(wrong.reshape(-1)) if wrong.ndim else jnp.zeros((), int)
        events = value.reshape(wrong.size, *value.shape[wrong.ndim :])
        others = jnp.all(jnp.asarray([ok for n, ok in inside.items() if n != site], bool))
        out[site, name] = jnp.mean(wrong), first, events[first], jnp.asarray(wrong.shape, int), others
    return out


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


@once
def _points(density: Density) -> list[Values]:
    rng = np.random.default_rng(0)
    return [
        known_numbers(density, {n: _drawn(density.sites[n], rng, radius) for n in density.latents})
        for radius in _RADII
    ]


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
