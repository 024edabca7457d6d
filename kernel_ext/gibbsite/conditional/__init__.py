"""`Density` and a site → `Conditional`: finite, chain, conjugate."""

from gibbsite.conditional.chains.discrete import FiniteConditional
from gibbsite.conditional.conditional import Conditional
from gibbsite.conditional.dispatch import conditional_of

__all__ = ["Conditional", "FiniteConditional", "conditional_of"]
