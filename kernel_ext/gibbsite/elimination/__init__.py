"""`Density` and discrete sites → `Marginal`: summed out exactly, drawn jointly, and what it costs."""

from gibbsite.elimination.marginal import Marginal, marginal_of

__all__ = ["Marginal", "marginal_of"]
