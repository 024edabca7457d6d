"""Checks of priors that leave nothing to draw from."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import biject_to, constraints

from gibbsite.density.density import Density
from gibbsite.density.model.bounds import base_constraint
from gibbsite.density.needed import flat_elements, loose_sites, needed_by
from gibbsite.errors import ModelError


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
    for end, word in ((0, "lowest"), (1, "highest")):
        _check_chosen(density, end, word)


def _check_chosen(density: Density, end: int, word: str) -> None:
    """Elements that are read through discrete latents, where these all have the first or last value."""
    loose = loose_sites(density)
    ends = {n: _ends(density.sites[n].support) for n in density.latents if density.sites[n].discrete}
    given = {n: jnp.full(density.sites[n].shape, e[end]) for n, e in ends.items() if e is not None}
    if not loose or not given:
        return
    roots = [*density.outputs["log_prob"].values(), *(t.atom for t in density.bounds)]
    need = needed_by(density, roots, given)
    for name in loose:
        free = ~np.broadcast_to(need.get(density.latent_vars[name], False), density.sites[name].shape)
        if free.any() and _possible(density, given):
            improper = density.sites[name].fn_name == "ImproperUniform"
            raise ModelError(
                f"the prior of {name!r} is {'improper' if improper else 'masked out'}, and where all of "
                f"{', '.join(given)} have their {word} value, nothing says anything{_of_elements(free)}: "
                f"that has a probability above zero, so that there is no posterior to draw from; give "
                f"{name!r} a proper prior"
            )


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
