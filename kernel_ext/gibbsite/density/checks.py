"""Checks of the data bound to a model."""

import numpy as np

from gibbsite.density.density import Density
from gibbsite.density.observed import observed_values
from gibbsite.errors import DataError


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
