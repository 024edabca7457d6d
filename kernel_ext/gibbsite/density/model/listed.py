"""Finite supports that a distribution does not list itself: Booleans in any shape, and small counts."""

import itertools
import math
from typing import Any

import numpy as np
from numpyro.distributions import constraints

from gibbsite.density.model.bounds import base_constraint
from gibbsite.programs.jaxpr.compat import is_traced

MOST_COUNTS = 4096
"""Vectors of counts that are listed at most."""


def listed(fn: Any) -> np.ndarray | None:
    """The values of a discrete distribution out of its wrappers, `(K,)` or `(K, categories)`; None where they
    cannot be listed.

    The elements of a vector of Booleans are values of their own, whatever couples them.
    """
    support = base_constraint(fn.support)
    if support is constraints.boolean:
        return np.arange(2)
    if isinstance(support, constraints.multinomial):
        return _counts(fn)
    return None


def _counts(fn: Any) -> np.ndarray | None:
    """All ways to deal out the same known number of trials to a few categories."""
    total = fn.total_count
    if is_traced(total) or np.unique(total).size != 1:
        return None
    n, categories = int(np.unique(total)[0]), fn.event_shape[-1]
    if math.comb(n + categories - 1, categories - 1) > MOST_COUNTS:
        return None
    bars = itertools.combinations(range(n + categories - 1), categories - 1)
    return np.array([np.diff([-1, *b, n + categories - 1]) - 1 for b in bars])
