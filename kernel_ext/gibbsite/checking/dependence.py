"""Index maps against what moves when an element of a site does."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from gibbsite.checking.finding import NO_PLACE, Finding
from gibbsite.checking.perturbation import misses, moves
from gibbsite.checking.truth import Place

_ELEMENTS = 6


def dependence(model: Any, at: Sequence[Place]) -> Finding:
    """No array of the density may move where its maps say that it cannot."""
    density = model.density
    found = [place.values for place in at]
    if len(found) < 2:
        return Finding("index maps", "open", NO_PLACE)
    order = sorted(density.latent_vars)
    inputs = [jnp.asarray(found[0][n], density.sites[n].dtype) for n in order]
    inputs += [jnp.asarray(a) for a in density.arguments.arrays]
    sites = {n: (i, found[1][n]) for i, n in enumerate(order)}
    total, missed = misses(density.maps, moves(density.closed, inputs, sites, limit=_ELEMENTS))
    text = f"{total} values moved when elements of {len(sites)} site{'s' * (len(sites) > 1)} did"
    blind = f"elements beyond the first {_ELEMENTS} of a site, and values that only move elsewhere"
    if missed:
        return Finding("index maps", "wrong", f"{text}; {missed} of them where the maps exclude it", blind)
    return Finding("index maps", "right", f"{text}, none of them where the maps exclude it", blind)
