"""Along which of its axes a site falls into parts that no term reads together."""

from typing import Any

from gibbsite.density import Density
from gibbsite.programs.maps.access import Whole


def batch_axes(density: Density, site: str) -> tuple[int, ...]:
    """Axes of a site along which no term element reads two different indices."""
    axes = []
    for a in range(len(density.sites[site].shape)):
        if all(_same_index(accesses, a) for _, accesses in density.terms_of(site)):
            axes.append(a)
    return tuple(axes)


def _same_index(accesses: Any, axis: int) -> bool:
    components = [access.index[axis] for access in accesses]
    return not any(isinstance(c, Whole) for c in components) and all(c == components[0] for c in components)
