"""Gibbsite: dependency graphs, derived Gibbs kernels and live sampling for NumPyro models in notebooks."""

from gibbsite.errors import GibbsiteError

__all__ = ["GibbsiteError"]
__version__ = "0.1.0"
