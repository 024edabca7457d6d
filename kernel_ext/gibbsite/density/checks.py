"""Checks of priors that leave nothing to draw from."""

import numpy as np

from gibbsite.density.density import Density
from gibbsite.density.needed import flat_elements
from gibbsite.errors import ModelError


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
