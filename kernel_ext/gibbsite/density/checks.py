"""Checks of priors that leave nothing to draw from."""

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import biject_to, constraints

from gibbsite.density.density import Density
from gibbsite.density.liveness import flat_elements, loose_sites, needed_by
from gibbsite.density.model.bounds import base_constraint
from gibbsite.errors import ModelError
from gibbsite.programs.jaxpr.compat import is_traced

_ALIKE = 16
_AT_RANDOM = 16


def check_proper(density: Density) -> None:
    """Refuse elements without a proper prior that no term reads, or none where discrete sites take values
    that they may take; raises `ModelError` naming site and element.

    Their posterior is as improper as their prior, and any draw of them would be made up.
    """
    for name, free in flat_elements(density).items():
        if density.sites[name].fn_name == "ImproperUniform":
            raise ModelError(
                f"the prior of {name!r} is improper, and neither data nor other sites say anything"
                f"{_of_elements(free)}, so that there is no posterior to draw from; give {name!r} a proper "
                f"prior, or leave it out"
            )
    _check_chosen(density)


def _check_chosen(density: Density) -> None:
    """Elements that are read through discrete latents: whether they are, wherever these may be. Looked at
    where all discrete elements have one value, which reads least, and at some values at random."""
    loose = loose_sites(density)
    if not loose:
        return
    ends = {n: _ends(density.sites[n].support) for n in density.latents if density.sites[n].discrete}
    known = {n: e for n, e in ends.items() if e is not None}
    if not known:
        return
    roots = [*density.outputs["log_prob"].values(), *(t.atom for t in density.bounds)]
    for given in _values(density, known):
        need = needed_by(density, roots, given)
        for name in loose:
            free = ~np.broadcast_to(need.get(density.latent_vars[name], False), density.sites[name].shape)
            if free.any() and _possible(density, given):
                prior = "improper" if density.sites[name].fn_name == "ImproperUniform" else "masked out"
                raise ModelError(
                    f"the prior of {name!r} is {prior}, and at some values of {', '.join(given)} nothing "
                    f"else says anything{_of_elements(free)}: these have a chance above zero, so that there "
                    f"is no posterior to draw from; give {name!r} a proper prior"
                )


def _values(density: Density, ends: dict[str, tuple[int, int]]) -> Iterator[dict[str, np.ndarray]]:
    """Values of the discrete sites: all elements alike, then some at random."""
    rng = np.random.default_rng(0)
    shapes = {n: density.sites[n].shape for n in ends}
    for k in range(min(max(high - low for low, high in ends.values()) + 1, _ALIKE)):
        yield {n: np.full(shapes[n], min(low + k, high)) for n, (low, high) in ends.items()}
    for _ in range(_AT_RANDOM):
        yield {n: rng.integers(low, high + 1, shapes[n]) for n, (low, high) in ends.items()}


def _of_elements(free: np.ndarray) -> str:
    first = np.argwhere(free)[0].tolist()
    return f" of {free.sum()} of its elements (the first: {first})" if free.shape else ""


def _ends(support: Any) -> tuple[Any, Any] | None:
    """The first and last value of a finite support, where they are known."""
    support = base_constraint(support)
    if support is constraints.boolean:
        return 0, 1
    if isinstance(support, constraints.integer_interval):
        low, high = support.lower_bound, support.upper_bound
        if any(is_traced(b) for b in (low, high)):  # other sites say how far it goes
            return None
        if all(isinstance(b, int | np.ndarray | jax.Array) and np.size(b) == 1 for b in (low, high)):
            return int(np.ravel(low)[0]), int(np.ravel(high)[0])
    return None


def _possible(density: Density, given: dict[str, Any]) -> bool:
    """Whether the density is above zero there, at some place of everything else."""
    state = dict(given)
    for name in density.latents:
        site = density.sites[name]
        if name not in state:
            if site.discrete:
                return False
            to = biject_to(site.support)
            state[name] = to(jnp.full(to.inverse_shape(site.shape), 0.1))
    read = density.evaluator(density.state_values(state)).full
    with jax.ensure_compile_time_eval():
        parts = [
            jnp.sum(read(a))
            for a in [*density.outputs["log_prob"].values(), *(t.atom for t in density.bounds)]
        ]
        return bool(np.isfinite(np.sum([np.asarray(p) for p in parts])))
