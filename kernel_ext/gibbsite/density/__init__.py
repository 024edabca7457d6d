"""A NumPyro model → `Density`: named sites and additive terms, each with its index maps."""

from gibbsite.density.build import build_density
from gibbsite.density.density import Density
from gibbsite.density.model.sites import Plate, Site
from gibbsite.density.passes.reroll import rerolled

__all__ = ["Density", "Plate", "Site", "build_density", "rerolled"]
