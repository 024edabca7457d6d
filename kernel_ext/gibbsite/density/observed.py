"""The observed values of a model."""

import numpy as np

from gibbsite.density.density import Density
from gibbsite.density.passes.reroll import rerolled
from gibbsite.ground.once import once


@once
def observed_values(density: Density) -> dict[str, np.ndarray]:
    """The value of every observed site that no latent reaches, by site, in program order.

    They are read from the re-rolled density, so that the sites of a loop cost one array together.
    """
    grouped = rerolled(density)
    read = grouped.evaluator({}).full
    found: dict[str, np.ndarray] = {}
    for name, atom in grouped.outputs["observed"].items():
        if grouped.maps.latents(atom):
            continue
        value = np.asarray(read(atom))
        if name in density.sites:
            found[name] = value
        else:
            found.update(zip(density.groups[name], value, strict=True))
    return {n: found[n] for n in density.sites if n in found}
