"""`Density` and a site → `Conditional`: finite, chain, conjugate."""

from gibbsite.conditional.conditional import Conditional
from gibbsite.conditional.dispatch import conditional_of
from gibbsite.conditional.finite.discrete import FiniteConditional

__all__ = ["Conditional", "FiniteConditional", "conditional_of"]
