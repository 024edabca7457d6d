"""The log density of a continuous site, element by element, where these are independent given the rest."""

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
from numpyro.distributions import constraints
from numpyro.distributions.transforms import biject_to

from gibbsite.conditional.forms.walk import Refused
from gibbsite.conditional.reads.reduce import onto_elements
from gibbsite.conditional.reads.support import support_movers
from gibbsite.conditional.reads.term_access import SINGLE, touches
from gibbsite.density import Density
from gibbsite.density.model.bounds import base_constraint
from gibbsite.ground.once import once

# supports whose elements are free of each other
_ELEMENTWISE = (
    type(constraints.real),
    constraints.greater_than,
    constraints.less_than,
    constraints.interval,
)


class ElementDensity:
    """The full conditionals of all elements of `site`, in unconstrained coordinates. Raises `Refused` where
    elements are coupled, or their support moves."""

    def __init__(self, density: Density, site: str):
        found = density.sites[site]
        if found.discrete:
            raise Refused(f"{site} is discrete")
        support = base_constraint(found.support)
        if not isinstance(support, _ELEMENTWISE):
            raise Refused(f"the support of {site} ({support}) couples its elements")
        if support_movers(density, site) or site in density.outputs["bounds"]:
            raise Refused(f"the support of {site} moves")
        self._touches = touches(density, site, len(found.shape))
        for touch in self._touches:
            if touch.kind != SINGLE:
                raise Refused(f"the terms of {touch.term.origin} couple elements of {site}")
        self._density, self._site, self._shape = density, site, found.shape
        self._transform = biject_to(support)

    def constrained(self, u: Any) -> Any:
        """Values of unconstrained coordinates, both of the site's shape."""
        return self._transform(u)

    def unconstrained(self, x: Any) -> Any:
        """The way back, of values with any leading axes."""
        return self._transform.inv(x)

    def at(self, u: Any, others: Mapping[str, Any], data: Any) -> Any:
        """Log densities of the elements at unconstrained coordinates `u`, an array of the site's shape, up to
        constants; −inf outside of what is possible. Pure in `others`, the values of the other latents, and
        in the data arrays."""
        x = self._transform(u)
        ev = self._density.evaluator({**others, self._site: x}, data)
        total, outside = onto_elements(self._touches, self._density.bounds, ev, self._shape)
        total = jnp.broadcast_to(total + self._transform.log_abs_det_jacobian(u, x), self._shape)
        return jnp.where((outside < 0) | jnp.isnan(total), -jnp.inf, total)


@once
def element_density(density: Density, site: str) -> ElementDensity | None:
    """The conditionals of a site's elements, derived once per density; None where they are coupled."""
    try:
        return ElementDensity(density, site)
    except Refused:
        return None
