"""`Density` and discrete sites → `Marginal`: summed out exactly, drawn jointly, and what it costs."""

from gibbsite.elimination.marginal import Marginal, joint_marginal, marginal_of

__all__ = ["Marginal", "joint_marginal", "marginal_of"]
