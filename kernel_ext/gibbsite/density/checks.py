"""Checks of the data bound to a model."""

import numpy as np

from gibbsite.density.density import Density
from gibbsite.errors import DataError


def check_data(density: Density) -> None:
    """Refuse NaN in observed values that no mask takes out; raises `DataError` naming site and place."""
    suspects = {
        name: value
        for name, atom in density.outputs["observed"].items()
        if not density.maps.latents(atom)
        and (value := np.asarray(density.evaluator({}).full(atom))).dtype.kind == "f"
        and np.isnan(value).any()
    }
    for name, value in suspects.items():
        counted = [t for t in density.terms if t.origin == name]
        if counted and all(t.weight.scalar is not None for t in counted):
            rows = np.argwhere(np.isnan(value))
            first = ", ".join(map(str, rows[0]))
            raise DataError(
                f"the data of {name!r} hold {len(rows)} NaN (the first at [{first}]); drop those rows, or "
                f"keep them out of the density with `numpyro.handlers.mask(mask=~jnp.isnan(…))`"
            )
