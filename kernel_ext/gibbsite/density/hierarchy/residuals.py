"""Where a density takes the difference between a site and its location.

Whoever knows that difference better than the two numbers do, of single precision, can give it there.
"""

import math
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp

from gibbsite.density.density import Density
from gibbsite.density.hierarchy.location_scale import LOGS, LocationScale, location_scales
from gibbsite.ground.once import once
from gibbsite.programs.jaxpr import primitives as op
from gibbsite.programs.jaxpr.compat import JaxprEqn, Literal

_SAME = op.CONVERTS | op.COPIES


@once
def distances(density: Density) -> Mapping[str, tuple[Any, ...]]:
    """Of every site with elements around locations, the variables that are how far it, or its logarithm, is
    from these; by site, of the sites that have any."""
    found: dict[str, list[Any]] = {}
    sites = {n: f for n, f in location_scales(density).items() if f.around_its_location}
    for eqn in density.closed.jaxpr.eqns:
        if op.of_kind(eqn, op.SUBTRACTS):
            for name, form in sites.items():
                if _is_distance(density, eqn, form):
                    found.setdefault(name, []).append(eqn.outvars[0])
    return {n: tuple(a) for n, a in found.items()}


def at_distances(density: Density, given: Mapping[str, Any]) -> dict[Any, Any]:
    """Values for an evaluator, by variable, from distances by site; those of another size are left out."""
    return {
        var: jnp.reshape(given[name], var.aval.shape).astype(var.aval.dtype)
        for name, found in (distances(density) if given else {}).items()
        if name in given and given[name].size == math.prod(density.sites[name].shape)
        for var in found
    }


def _is_distance(density: Density, eqn: JaxprEqn, form: LocationScale) -> bool:
    site, (whole, location) = density.sites[form.site], eqn.invars
    if eqn.outvars[0].aval.shape != site.shape:
        return False
    if form.form == LOGS:
        log = _behind(density, whole, _SAME)
        made = None if isinstance(log, Literal) else density.producer.get(log)
        if site.fn_name != "LogNormal" or made is None or not op.of_kind(made, op.LOGARITHMS):
            return False
        (whole,) = made.invars
    if _behind(density, whole, _SAME) is not density.latent_vars[form.site]:
        return False
    loc = density.outputs["parameters"][form.site]["loc"]
    return not isinstance(loc, Literal) and _behind(density, location, _SAME | op.SPREADS) is loc


def _behind(density: Density, atom: Any, moves: frozenset[str]) -> Any:
    """What an array is a copy of, at its own shape or stretched as NumPy stretches arrays."""

    def keeps(eqn: JaxprEqn) -> bool:
        own, out = (len(a.aval.shape) for a in (eqn.invars[0], eqn.outvars[0]))
        return not op.of_kind(eqn, op.SPREADS) or eqn.params["broadcast_dimensions"] == tuple(
            range(out - own, out)
        )

    return op.moved_from(density.producer, atom, moves, while_=keeps)
