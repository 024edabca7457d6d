"""Values of a density's arrays that are known when it is written down: constants, supports, ranges."""

from typing import Any

import numpy as np

from gibbsite.density.density import Density
from gibbsite.density.intervals import of_support
from gibbsite.programs.domains.domain import results
from gibbsite.programs.domains.interval import ANY, INTERVALS, Interval, of_array, wraps
from gibbsite.programs.jaxpr.compat import Literal
from gibbsite.programs.jaxpr.primitives import ADDS, JOINS, MULTIPLIES, NEGATES, SUBTRACTS, of_kind
from gibbsite.programs.jaxpr.values import Values as Known
from gibbsite.programs.jaxpr.walker import OnDemand

_MOST = 100_000
Ends = tuple[int, int]


class Values:
    """What is known of a density's variables without any latent's value; results are kept."""

    def __init__(self, density: Density, producer: Any):
        self._density, self._producer = density, producer
        consts = zip(density.closed.jaxpr.constvars, density.closed.consts, strict=True)
        known = Known(producer, dict(consts), by_jax=True, most=_MOST)
        self.give, self.constant = known.give, known.value
        self._sites = {v: n for n, v in density.latent_vars.items()}
        self._data = dict(zip(density.data_vars, density.arguments.arrays, strict=True))
        self._intervals: OnDemand[Interval] = OnDemand(
            producer, self._leaf, lambda eqn, xs: results(INTERVALS, eqn, xs)
        )

    def _leaf(self, atom: Any) -> Interval | None:
        if isinstance(atom, Literal):
            return of_array(atom.val)
        if atom in self._data:
            return of_array(self._data[atom])
        if atom in self._sites:
            return self._support(self._sites[atom])
        value = self.constant(atom)
        return of_array(value) if value is not None else None if atom in self._producer else ANY

    def bounds(self, atom: Any) -> Ends | None:
        """The least and the greatest value of an integer array, where they are certain."""
        dtype = np.asarray(atom.val).dtype if isinstance(atom, Literal) else atom.aval.dtype
        if not isinstance(dtype, np.dtype) or dtype.kind not in "iub":
            return None
        found = self._intervals(atom)
        return (int(found.low), int(found.high)) if found.bounded else None

    def wraps(self, eqn: Any) -> bool:
        """Whether a sum, difference or product of integers may leave its type's range, and wrap around."""
        dtype = np.dtype(eqn.outvars[0].aval.dtype)
        if not of_kind(eqn, ADDS, SUBTRACTS, MULTIPLIES, NEGATES) or dtype.kind not in "iu":
            return False
        ends = [self._intervals(a) for a in eqn.invars]
        if not all(e.bounded for e in ends):
            return dtype.itemsize < 4 or dtype.kind == "u"
        return wraps(eqn, ends)

    def component(self, atom: Any, k: int) -> Ends | None:
        """The bounds of `atom[..., k]`, an array of index vectors."""
        eqn = None if isinstance(atom, Literal) else self._producer.get(atom)
        if of_kind(eqn, JOINS):
            last = eqn.params["dimension"] == len(atom.aval.shape) - 1  # type: ignore[union-attr]
            parts = eqn.invars  # type: ignore[union-attr]
            if last and all(a.aval.shape[-1] == 1 for a in parts):
                return self.bounds(parts[k])
        value = self.constant(atom)
        return self.bounds(atom) if value is None else (int(value[..., k].min()), int(value[..., k].max()))

    def _support(self, site: str) -> Interval:
        density = self._density
        if site in density.enumerated:
            return of_array(np.asarray(density.enumerated[site]))
        ends = density.outputs.get("bounds", {}).get(site)
        if not ends:
            return of_support(density.sites[site].support)
        low, high = map(self._intervals, ends)
        return Interval(low.low, high.high, False, False)
