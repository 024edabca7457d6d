"""Locations of truncated normals: what data beyond a bound know of them is a share of the squared scale.

Where a location lies far below the lower bound, what is above is nearly exponential, of rate
`(low - loc) / scale²`. Data tell that rate, and leave the way along which location and square grow together:
a band that is the narrower the smaller the location is, so that no step size fits it. `loc / scale²`, a
natural parameter of the family, is straight there. It is learnt as a degree of centring about 0 is, with the
square for a scale: 1 leaves the location as it is, where data lie within the bounds, 0 is that parameter.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp

from gibbsite.density.density import Density
from gibbsite.density.hierarchy.location_scale import (
    TILTED,
    LocationScale,
    in_program_order,
    location_scales,
    on_the_real_line,
)
from gibbsite.ground.once import once
from gibbsite.programs.jaxpr.compat import Literal

_LOC, _SCALE = "0 Normal/loc", "0 Normal/scale"
_FAMILIES = ("LeftTruncatedDistribution", "RightTruncatedDistribution", "TwoSidedTruncatedDistribution")


@once
def tilted_locations(density: Density) -> Mapping[str, LocationScale]:
    """The latents on the real line that the location of truncated normals reads, whose scale is one number or
    of their own shape and reads others, by name; not those that are centred themselves."""
    found: dict[str, LocationScale] = {}
    for name, site in density.sites.items():
        parameters = density.outputs["parameters"].get(name, {})
        if site.fn_name not in _FAMILIES or not {_LOC, _SCALE} <= set(parameters) or site.in_scan:
            continue
        read = density.maps.latents(parameters[_SCALE])
        for latent in density.maps.latents(parameters[_LOC]) - read:
            if latent not in location_scales(density):
                form = _tilted(density, latent, parameters[_SCALE], read)
                found.update({} if form is None or latent in found else {latent: form})
    return {n: found[n] for n in density.latents if n in found}


def _tilted(density: Density, latent: str, scale: Any, read: frozenset[str]) -> LocationScale | None:
    site = density.sites[latent]
    shape = () if isinstance(scale, Literal) else scale.aval.shape
    one = math.prod(shape) == 1
    plain = not site.discrete and not site.in_scan and not density.transforms.get(latent)
    if not read or not plain or not (one or shape == site.shape) or not on_the_real_line(site.support):
        return None

    def square(of: Callable[[Any], Any]) -> tuple[Any, Any]:
        by = jnp.asarray(of(scale))
        by = jnp.broadcast_to(jnp.reshape(by, ()) if one else by, site.shape) ** 2
        return jnp.zeros_like(by), by

    return LocationScale(latent, (), in_program_order(density, read), TILTED, square)
