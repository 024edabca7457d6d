"""A model → whether what was derived for it, and its whole schedule, are right: `Model.check`.

What is asked here comes from elsewhere than what is checked: NumPyro's own log density, draws of the
statements, sums and quadrature.
"""

from gibbsite.checking.check import Check
from gibbsite.checking.finding import Finding

__all__ = ["Check", "Finding"]
