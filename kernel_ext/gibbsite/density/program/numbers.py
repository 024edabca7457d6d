"""The values of a jaxpr's variables by NumPy alone, for what is looked at once: nothing is compiled."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gibbsite.trace.jaxpr.compat import Literal
from gibbsite.trace.jaxpr.primitives import MEANINGS


class Numbers:
    """Values of variables, computed when asked for, from those `given`; None where an operation is not known
    here."""

    def __init__(self, producer: Mapping[Any, Any], given: Mapping[Any, Any]):
        self._producer = producer
        self._known: dict[Any, np.ndarray | None] = {
            v: np.asarray(x) if isinstance(getattr(x, "dtype", None), np.dtype) else None
            for v, x in given.items()
        }

    def value(self, atom: Any) -> np.ndarray | None:
        """The value of an atom."""
        if isinstance(atom, Literal):
            return np.asarray(atom.val)
        self._compute(atom)
        return self._known[atom]

    def _compute(self, target: Any) -> None:
        stack = [target]
        while stack:
            var = stack[-1]
            if var in self._known:
                stack.pop()
                continue
            eqn = self._producer.get(var)
            if eqn is None or eqn.primitive.name not in MEANINGS or len(eqn.outvars) != 1:
                self._known[var] = None
                continue
            waiting = [a for a in eqn.invars if not isinstance(a, Literal) and a not in self._known]
            if waiting:
                stack += waiting
                continue
            operands = [np.asarray(a.val) if isinstance(a, Literal) else self._known[a] for a in eqn.invars]
            self._known[var] = computed(eqn, operands)


def computed(eqn: Any, operands: Sequence[np.ndarray | None]) -> np.ndarray | None:
    """The output of an equation on these operands; None where one is not known, or the operation is not."""
    rule, aval = MEANINGS.get(eqn.primitive.name), eqn.outvars[0].aval
    if rule is None or any(o is None for o in operands) or not isinstance(aval.dtype, np.dtype):
        return None
    with np.errstate(all="ignore"):
        found = rule(eqn.params, tuple(aval.shape), *operands)
        return None if found is None else np.asarray(found).astype(aval.dtype).reshape(aval.shape)
