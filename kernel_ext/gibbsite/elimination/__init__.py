"""`Density` and sites → `Marginal`: summed or integrated out exactly, drawn jointly, and what it costs."""

from gibbsite.elimination.dispatch import joint_marginal, marginal_of
from gibbsite.elimination.integrals.conjugate import Message, Moments
from gibbsite.elimination.integrals.improper import improper
from gibbsite.elimination.integrals.parts import eliminable
from gibbsite.elimination.marginal import Marginal
from gibbsite.elimination.own import Own
from gibbsite.elimination.pointwise import CHANGED, MissingFraction, Pointwise
from gibbsite.elimination.series import SeriesMarginal
from gibbsite.elimination.tabled import TableMarginal

__all__ = [
    "CHANGED",
    "Marginal",
    "Message",
    "MissingFraction",
    "Moments",
    "Own",
    "Pointwise",
    "SeriesMarginal",
    "TableMarginal",
    "eliminable",
    "improper",
    "joint_marginal",
    "marginal_of",
]
