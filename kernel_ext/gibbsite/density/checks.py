"""Checks of the data bound to a model."""

import numpy as np

from gibbsite.density.density import Density
from gibbsite.density.needed import flat_elements
from gibbsite.density.observed import observed_values
from gibbsite.errors import DataError, ModelError


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
    for name, free in flat_elements(density).items():
        site = density.sites[name]
        if site.fn_name != "ImproperUniform":
            continue
        first = np.argwhere(free)[0].tolist()
        where = f" of {free.sum()} of its elements (the first: {first})" if site.shape else ""
        raise ModelError(
            f"the prior of {name!r} is improper, and neither data nor other sites say anything{where}, so "
            f"that there is no posterior to draw from; give {name!r} a proper prior, or leave it out"
        )
