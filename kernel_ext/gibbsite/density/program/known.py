"""Values that are known when the program is analysed: small integer arrays made of literals.

Python indices reach the jaxpr as literals that pass through a few operations (`z[-1]` adds the length where
the index is negative), so NumPy is enough to recover them.
"""

from typing import Any

import numpy as np

from gibbsite.density.program.numbers import computed

MAX_KNOWN = 4096


def known_constant(value: Any) -> np.ndarray | None:
    """The value of a constant, if it is a small array of integers or Booleans."""
    kind = value.dtype.kind if isinstance(value.dtype, np.dtype) else ""
    return np.asarray(value) if kind and kind in "iub" and value.size <= MAX_KNOWN else None


def fold(eqn: Any, args: list[Any]) -> np.ndarray | None:
    """The value of an equation's output, if it is a small integer or boolean array of known operands."""
    aval = eqn.outvars[0].aval
    small = isinstance(aval.dtype, np.dtype) and aval.dtype.kind in "iub" and aval.size <= MAX_KNOWN
    if len(eqn.outvars) != 1 or not small:
        return None
    return computed(eqn, [a.known for a in args])
