"""Gibbsite: dependency graphs, derived Gibbs kernels and live sampling for NumPyro models in notebooks."""

from typing import Any

from gibbsite.errors import GibbsiteError

__all__ = ["GibbsiteError"]
__version__ = "0.1.0"


def load_ipython_extension(shell: Any) -> None:
    """Register the magics: `%load_ext gibbsite`. JAX is imported when a model is defined, not here."""
    from gibbsite_magics import load

    load(shell)
