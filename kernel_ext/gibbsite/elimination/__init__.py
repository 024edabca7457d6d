"""`Density` and discrete sites → `Marginal`: summed out exactly, drawn jointly, and what it costs."""

from gibbsite.elimination.marginal import Marginal, joint_marginal, marginal_of
from gibbsite.elimination.missing import MissingFraction, missing_fraction
from gibbsite.elimination.pointwise import CHANGED, Pointwise, pointwise

__all__ = [
    "CHANGED",
    "Marginal",
    "MissingFraction",
    "Pointwise",
    "joint_marginal",
    "marginal_of",
    "missing_fraction",
    "pointwise",
]
