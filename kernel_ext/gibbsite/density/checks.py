"""Checks of the data bound to a model."""

import numpy as np
from numpyro.distributions import constraints

from gibbsite.density.density import Density
from gibbsite.density.maps.access import Whole, component_array
from gibbsite.density.observed import observed_values
from gibbsite.errors import DataError, ModelError

_BOUNDED = (constraints.interval, constraints.unit_interval, constraints.simplex, constraints.circular)


def check_data(density: Density) -> None:
    """Refuse NaN in observed values that no mask takes out; raises `DataError` naming site and place."""
    values = observed_values(density)
    suspects = {n: v for n, v in values.items() if v.dtype.kind == "f" and np.isnan(v).any()}
    for name, value in suspects.items():
        counted = [t for t in density.terms if t.origin == name]
        if counted and all(t.weight.scalar is not None for t in counted):
            rows = np.argwhere(np.isnan(value))
            first = ", ".join(map(str, rows[0]))
            raise DataError(
                f"the data of {name!r} hold {len(rows)} NaN (the first at [{first}]); drop those rows, or "
                f"keep them out of the density with `numpyro.handlers.mask(mask=~jnp.isnan(…))`"
            )


def check_proper(density: Density) -> None:
    """Refuse elements of improper priors that no term reads; raises `ModelError` naming site and element.

    Their posterior is as improper as their prior, and any draw of them would be made up.
    """
    for name in density.latents:
        site = density.sites[name]
        support = site.support
        while isinstance(support, constraints.independent):
            support = support.base_constraint
        bounded = any(support is c or (isinstance(c, type) and type(support) is c) for c in _BOUNDED)
        if site.fn_name != "ImproperUniform" or bounded:
            continue
        untouched = np.argwhere(~_touched(density, name))
        if not len(untouched):
            continue
        where = (
            f" of {len(untouched)} of its elements (the first: {untouched[0].tolist()})" if site.shape else ""
        )
        raise ModelError(
            f"the prior of {name!r} is improper, and neither data nor other sites say anything{where}, so "
            f"that there is no posterior to draw from; give {name!r} a proper prior, or leave it out"
        )


def _touched(density: Density, name: str) -> np.ndarray:
    """Which elements of a site any term may read."""
    shape = density.sites[name].shape
    out = np.zeros(shape, bool)
    read = density.evaluator({}).full
    for term, accesses in density.terms_of(name):
        for access in accesses:
            if any(isinstance(c, Whole) for c in access.index) or access.latents():
                return np.ones(shape, bool)
            box = tuple(slice(*w) for w in access.window)
            index = [
                np.broadcast_to(np.asarray(component_array(c, term.shape, read)), term.shape)[box]  # type: ignore[arg-type]
                for c in access.index
            ]
            out[tuple(index)] = True
    return out
