"""Values of a density's arrays that are known when it is written down: constants, supports, ranges."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gibbsite.density.density import Density
from gibbsite.trace.domains.domain import results
from gibbsite.trace.domains.interval import ANY, INTERVALS, Interval, of_array, wraps
from gibbsite.trace.jaxpr.compat import Literal, bind_equation
from gibbsite.trace.jaxpr.primitives import ADDS, JOINS, MULTIPLIES, NEGATES, SUBTRACTS, of_kind
from gibbsite.trace.jaxpr.walker import OnDemand

_MOST = 100_000
_DEEP = 200


class Values:
    """What is known of a density's variables without any latent's value; results are kept."""

    def __init__(self, density: Density, producer: Any):
        self._density, self._producer = density, producer
        self._known: dict[Any, Any] = dict(
            zip(density.closed.jaxpr.constvars, density.closed.consts, strict=True)
        )
        self._sites = {v: n for n, v in density.latent_vars.items()}
        self._data = dict(zip(density.data_vars, density.arguments.arrays, strict=True))
        rule = partial(results, INTERVALS)
        self._intervals: OnDemand[Interval] = OnDemand(producer, self._leaf, rule)

    def give(self, var: Any, value: Any) -> None:
        """Tell a variable's value."""
        self._known[var] = value

    def constant(self, atom: Any, depth: int = 0) -> np.ndarray | None:
        """The value of an atom that depends on neither latents nor data; None where it does, or is large."""
        if isinstance(atom, Literal):
            return np.asarray(atom.val)
        if not isinstance(atom.aval.dtype, np.dtype):
            return None  # a random key
        if atom not in self._known:
            self._known[atom] = self._computed(atom, depth)
        value = self._known[atom]
        return None if value is None else np.asarray(value)

    def _computed(self, atom: Any, depth: int) -> Any:
        eqn = self._producer.get(atom)
        if eqn is None or eqn.effects or depth > _DEEP or any(v.aval.size > _MOST for v in eqn.outvars):
            return None
        operands = []
        for a in eqn.invars:
            operands.append(self.constant(a, depth + 1))
            if operands[-1] is None:
                return None
        with jax.ensure_compile_time_eval():
            out = bind_equation(eqn, [jnp.asarray(v) for v in operands])
        return np.asarray(out[eqn.outvars.index(atom)])

    def bounds(self, atom: Any) -> tuple[int, int] | None:
        """The least and the greatest value of an integer array, where they are certain."""
        dtype, found = (
            np.dtype(np.asarray(atom.val).dtype if isinstance(atom, Literal) else atom.aval.dtype),
            None,
        )
        if dtype.kind in "iub":
            found = self._intervals(atom)
        return None if found is None or not found.bounded else (int(found.low), int(found.high))

    def _leaf(self, atom: Any) -> Interval | None:
        value = self.constant(atom)
        if value is None and not isinstance(atom, Literal):
            value = self._data.get(atom)
        if value is not None:
            return of_array(np.asarray(value))
        if atom in self._sites:
            return self._support(self._sites[atom])
        return None if atom in self._producer else ANY

    def wraps(self, eqn: Any) -> bool:
        """Whether a sum, difference or product of integers may leave its type's range, and wrap around."""
        dtype = np.dtype(eqn.outvars[0].aval.dtype)
        if dtype.kind not in "iu" or not of_kind(eqn, ADDS, SUBTRACTS, MULTIPLIES, NEGATES):
            return False
        ends = [self._intervals(a) for a in eqn.invars]
        if not all(e.bounded for e in ends):
            return dtype.itemsize < 4 or dtype.kind == "u"
        return wraps(eqn, ends)

    def component(self, atom: Any, k: int) -> tuple[int, int] | None:
        """The bounds of `atom[..., k]`, an array of index vectors."""
        eqn = None if isinstance(atom, Literal) else self._producer.get(atom)
        if (
            eqn is not None
            and of_kind(eqn, JOINS)
            and (
                all(a.aval.shape[-1] == 1 for a in eqn.invars)
                and eqn.params["dimension"] == len(atom.aval.shape) - 1
            )
        ):
            return self.bounds(eqn.invars[k])
        value = self.constant(atom)
        return self.bounds(atom) if value is None else (int(value[..., k].min()), int(value[..., k].max()))

    def _support(self, site: str) -> Interval:
        density = self._density
        if site in density.enumerated:
            return of_array(np.asarray(density.enumerated[site]))
        ends = density.outputs.get("bounds", {}).get(site)
        if not ends:
            return ANY
        low, high = map(self._intervals, ends)
        return Interval(low.low, high.high, low.open_low, high.open_high)
