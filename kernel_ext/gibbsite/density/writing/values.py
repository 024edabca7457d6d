"""Values of a density's arrays that are known when it is written down: constants, supports, ranges."""

from typing import Any

import numpy as np

from gibbsite.density.density import Density
from gibbsite.trace.jaxpr.compat import Literal
from gibbsite.trace.jaxpr.primitives import CONVERTS, MOVES
from gibbsite.trace.jaxpr.values import Values as Known

_MOST = 100_000
_DEEP = 200


class Values:
    """What is known of a density's variables without any latent's value; results are kept."""

    def __init__(self, density: Density, producer: Any):
        self._density, self._producer = density, producer
        consts = zip(density.closed.jaxpr.constvars, density.closed.consts, strict=True)
        self._constants = Known(producer, dict(consts), by_jax=True, most=_MOST)
        self.give, self.constant = self._constants.give, self._constants.value
        self._sites = {v: n for n, v in density.latent_vars.items()}
        self._data = dict(zip(density.data_vars, density.arguments.arrays, strict=True))

    def bounds(self, atom: Any, depth: int = 0) -> tuple[int, int] | None:
        """The least and the greatest value of an integer array, where they are certain."""
        value = self.constant(atom)
        if value is None and not isinstance(atom, Literal) and atom in self._data:
            value = np.asarray(self._data[atom])
        if value is not None:
            ok = value.size and value.dtype.kind in "iub"
            return (int(value.min()), int(value.max())) if ok else None
        if atom in self._sites:
            return self._support(self._sites[atom])
        eqn = self._producer.get(atom)
        if eqn is None or depth > _DEEP:
            return None
        name = eqn.primitive.name
        if name in _KEEP:
            return _held(self.bounds(eqn.invars[0], depth + 1), atom)
        if name == "select_n" and (ends := self._wrapped(eqn, depth)) is not None:
            return ends
        if name in ("select_n", "concatenate"):
            cases = [self.bounds(a, depth + 1) for a in eqn.invars[name == "select_n" :]]
            found = [c for c in cases if c is not None]
            whole = len(found) == len(cases)
            return (min(c[0] for c in found), max(c[1] for c in found)) if whole else None
        if name in _ARITHMETIC:
            a, b = (self.bounds(x, depth + 1) for x in eqn.invars)
            if a is not None and b is not None:
                return _held(_ARITHMETIC[name](a, b), atom)
        return None

    def wraps(self, eqn: Any) -> bool:
        """Whether a sum, difference or product of integers may leave its type's range, and wrap around."""
        name, atom = eqn.primitive.name, eqn.outvars[0]
        if name not in ("add", "sub", "mul", "neg") or np.dtype(atom.aval.dtype).kind not in "iu":
            return False
        ends = [self.bounds(x) for x in eqn.invars]
        if any(e is None for e in ends):
            return np.dtype(atom.aval.dtype).itemsize < 4 or np.dtype(atom.aval.dtype).kind == "u"
        found = (-ends[0][1], -ends[0][0]) if name == "neg" else _ARITHMETIC[name](*ends)  # type: ignore[index]
        return _held(found, atom) != found

    def _wrapped(self, eqn: Any, depth: int) -> tuple[int, int] | None:
        """The bounds of `where(i < 0, i + n, i)`, where `i` is never, or always, negative."""
        test = self._producer.get(eqn.invars[0]) if not isinstance(eqn.invars[0], Literal) else None
        if test is None or test.primitive.name != "lt" or len(eqn.invars) != 3:
            return None
        tested, zero = self.bounds(test.invars[0], depth + 1), self.constant(test.invars[1])
        if tested is None or zero is None or zero.any():
            return None
        if tested[0] >= 0:
            return self.bounds(eqn.invars[1], depth + 1)
        return self.bounds(eqn.invars[2], depth + 1) if tested[1] < 0 else None

    def component(self, atom: Any, k: int) -> tuple[int, int] | None:
        """The bounds of `atom[..., k]`, an array of index vectors."""
        eqn = None if isinstance(atom, Literal) else self._producer.get(atom)
        if (
            eqn is not None
            and eqn.primitive.name == "concatenate"
            and (
                all(a.aval.shape[-1] == 1 for a in eqn.invars)
                and eqn.params["dimension"] == len(atom.aval.shape) - 1
            )
        ):
            return self.bounds(eqn.invars[k])
        value = self.constant(atom)
        return self.bounds(atom) if value is None else (int(value[..., k].min()), int(value[..., k].max()))

    def _support(self, site: str) -> tuple[int, int] | None:
        density = self._density
        if site in density.enumerated:
            values = np.asarray(density.enumerated[site])
            return (int(values.min()), int(values.max())) if values.dtype.kind in "iub" else None
        ends = density.outputs.get("bounds", {}).get(site)
        if not ends:
            return None
        low, high = (self.bounds(e) for e in ends)
        return (low[0], high[1]) if low is not None and high is not None else None


def _held(ends: tuple[int, int] | None, atom: Any) -> tuple[int, int] | None:
    """Bounds of numbers as an array's type holds them: what does not fit wraps around to anywhere in it."""
    dtype = np.dtype(atom.aval.dtype)
    if ends is None or dtype.kind not in "iu":
        return ends
    info = np.iinfo(dtype)
    fits = info.min <= ends[0] and ends[1] <= info.max
    return ends if fits else (int(info.min), int(info.max))


_KEEP = MOVES | CONVERTS
_ARITHMETIC = {
    "add": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "sub": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "mul": lambda a, b: (
        min(x * y for x in a for y in b),
        max(x * y for x in a for y in b),
    ),
    "max": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    "min": lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
}
