"""`Density` and a site → `Conditional`: finite, chain, conjugate."""

from gibbsite.conditional.conditional import Conditional, FiniteConditional, conditional_of

__all__ = ["Conditional", "FiniteConditional", "conditional_of"]
