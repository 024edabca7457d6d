"""The values of a program's variables where these are known, each computed when it is asked for.

NumPy computes them, by what the table of primitives says that they mean: nothing is compiled for what is
looked at once. JAX computes the others, where it may.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gibbsite.programs.jaxpr.compat import JaxprEqn, Literal, bind_equation, is_traced
from gibbsite.programs.jaxpr.primitives import meaning
from gibbsite.programs.jaxpr.walker import OnDemand

FEW = 4096
"""Numbers of an array that is kept in a program, or looked at wherever it is met."""
_UNKNOWN = object()


class Values:
    """Values of variables, from those `given`; None where they are not known.

    `producer` tells which equation computes a variable. With `by_jax` operations that NumPy does not know are
    JAX's to compute, one by one; arrays of more than `most` elements are not computed.
    """

    def __init__(
        self,
        producer: Mapping[Any, JaxprEqn],
        given: Mapping[Any, Any],
        by_jax: bool = False,
        most: float = np.inf,
    ):
        self._producer, self._given, self._by_jax, self._most = producer, dict(given), by_jax, most
        self._values: OnDemand[Any] = OnDemand(producer, self._leaf, self._results)

    def give(self, var: Any, value: Any) -> None:
        """Tell a variable's value, before what reads it is asked for."""
        self._given[var] = value

    def value(self, atom: Any) -> np.ndarray | None:
        """The value of an atom."""
        found = self._values(atom)
        return found if isinstance(found, np.ndarray) else None

    def _leaf(self, atom: Any) -> Any:
        if isinstance(atom, Literal):
            return np.asarray(atom.val)
        if atom in self._given:
            value = self._given[atom]
            known = value is not None and not is_traced(value)
            self._values.found[atom] = _plain(value) if known else _UNKNOWN
            return self._values.found[atom]
        eqn = self._producer.get(atom)
        if eqn is None or eqn.effects or any(v.aval.size > self._most for v in eqn.outvars):
            return _UNKNOWN
        return None

    def _results(self, eqn: JaxprEqn, operands: list[Any]) -> list[Any]:
        if any(x is _UNKNOWN for x in operands):
            return [_UNKNOWN] * len(eqn.outvars)
        found = computed(eqn, operands)
        if found is not None:
            return [found]
        if not self._by_jax:
            return [_UNKNOWN] * len(eqn.outvars)
        with jax.ensure_compile_time_eval():
            return list(map(_plain, bind_equation(eqn, list(map(jnp.asarray, operands)))))


def _plain(value: Any) -> Any:
    """An array of NumPy's; random keys, whose dtype is one of JAX's own, stay what they are."""
    return np.asarray(value) if isinstance(value.dtype, np.dtype) else value


def computed(eqn: JaxprEqn, operands: Sequence[np.ndarray | None]) -> np.ndarray | None:
    """The output of an equation on these operands, by NumPy; None where one is not known, or the operation
    is not."""
    rule, aval = meaning(eqn), eqn.outvars[0].aval
    if rule is None or not all(isinstance(o, np.ndarray) for o in operands):
        return None
    with np.errstate(all="ignore"):
        found = rule(eqn.params, tuple(aval.shape), *operands)
        return None if found is None else np.asarray(found).astype(aval.dtype).reshape(aval.shape)


def is_small(aval: Any) -> bool:
    """Whether an array is one of few integers or Booleans, such as Python's indices make: literals that pass
    through a few operations (`z[-1]` adds the length where the index is negative)."""
    return isinstance(aval.dtype, np.dtype) and aval.dtype.kind in "iub" and aval.size <= FEW


def small(eqn: JaxprEqn, operands: Sequence[np.ndarray | None]) -> np.ndarray | None:
    """As `computed`, of few integers or Booleans alone."""
    alone = len(eqn.outvars) == 1 and is_small(eqn.outvars[0].aval)
    return computed(eqn, operands) if alone else None
