"""Products with zeros and ones are choices, which conjugate forms go through case by case.

`Bernoulli(p * z)` is `Bernoulli(where(z, p, 0))`, and `Bernoulli(z * hit + (1 - z) * miss)`, as false answers
are written, is `Bernoulli(where(z, hit, miss))`.
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from gibbsite.conditional.forms.branches import Branches, depends
from gibbsite.conditional.reads.equal_indices import same_values
from gibbsite.density import Density
from gibbsite.ground.once import once
from gibbsite.programs.jaxpr import primitives as op
from gibbsite.programs.jaxpr.compat import Literal


class Gates:
    """The choices of one evaluation: `read` gives the values of atoms that are free of the site."""

    def __init__(self, density: Density, read: Callable[[Any], Any]):
        self._density, self._read = density, read
        self._known: list[tuple[Any, Any]] = []

    def product(self, eqn: Any, values: list[Any]) -> Branches | None:
        """A form times zeros and ones; None where it is none."""
        for i, j in ((0, 1), (1, 0)):
            if depends(values[j]) and not depends(values[i]) and is_binary(self._density, eqn.invars[i]):
                return self._cases(eqn.invars[i], values[j], _zero(eqn))
        return None

    def total(self, eqn: Any, values: list[Any]) -> Branches | None:
        """Such a product and another that is nothing wherever it is not, by the same zeros and ones; None
        where it is none."""
        for i, j in ((0, 1), (1, 0)):
            made = None if isinstance(eqn.invars[i], Literal) else self._density.producer.get(eqn.invars[i])
            if depends(values[i]) or not isinstance(values[j], Branches):
                continue
            if made is None or not op.of_kind(made, op.MULTIPLIES):
                continue
            for gate, other in (made.invars, made.invars[::-1]):
                found = (
                    self._cases(gate, self._read(other), _zero(eqn))
                    if is_binary(self._density, gate)
                    else None
                )
                cases = None if found is None else _put_together(found, values[j])
                if cases is not None:
                    return Branches(values[j].which, cases)
        return None

    def _cases(self, gate: Any, value: Any, zero: Any) -> Branches:
        """`value` where `gate` is one."""
        base, flipped = _complement(self._density, gate)
        which = next((w for b, w in self._known if b is base or same_values(self._density, b, base)), None)
        if which is None:
            which = jnp.asarray(self._read(base) != 0, jnp.int32)
            self._known.append((base, which))
        return Branches(which, (value, zero) if flipped else (zero, value))


def _zero(eqn: Any) -> np.ndarray:
    aval = eqn.outvars[0].aval
    return np.zeros((1,) * len(aval.shape), aval.dtype)


def _put_together(one: Branches, two: Branches) -> tuple[Any, ...] | None:
    """The sums of cases of which one is nothing."""
    if one.which is not two.which or len(one.cases) != len(two.cases):
        return None
    pairs = list(zip(one.cases, two.cases, strict=True))
    if not all(_nothing(a) or _nothing(b) for a, b in pairs):
        return None
    return tuple(b if _nothing(a) else a for a, b in pairs)


def _nothing(case: Any) -> bool:
    return isinstance(case, np.ndarray) and not case.any()


def _complement(density: Density, atom: Any) -> tuple[Any, bool]:
    """`z` and whether `atom` is `1 - z`."""
    flipped = False
    while (eqn := density.producer.get(atom)) is not None:
        if op.of_kind(eqn, op.CONVERTS):
            atom = eqn.invars[0]
        elif op.of_kind(eqn, op.SUBTRACTS) and not isinstance(eqn.invars[1], Literal):
            atom, flipped = eqn.invars[1], not flipped
        elif op.of_kind(eqn, op.NEGATIONS):
            atom, flipped = eqn.invars[0], not flipped
        else:
            break
    return atom, flipped


def is_binary(density: Density, atom: Any) -> bool:
    """Whether every element is 0 or 1 whatever the latents and the data, and not all of them are known:
    comparisons, sites of these values, copies and complements of them."""
    return not isinstance(atom, Literal) and _binary(density, atom)


@once
def _binary(density: Density, atom: Any) -> bool:
    if not isinstance(atom.aval.dtype, np.dtype):
        return False  # a random key
    if atom.aval.dtype.kind == "b":
        return True
    for name, var in density.latent_vars.items():
        if var is atom:
            values = density.enumerated.get(name)
            return values is not None and _zeros_and_ones(values)
    eqn = density.producer.get(atom)
    if eqn is None:
        return False
    if op.of_kind(eqn, op.SUBTRACTS):
        one, other = eqn.invars
        return isinstance(one, Literal) and bool(np.all(one.val == 1)) and is_binary(density, other)
    if op.of_kind(eqn, op.GATHERS) and "FILL" in str(eqn.params.get("mode")):
        return False
    if op.of_kind(eqn, op.JOINS):  # as a chain's first value stands before the others
        return all(is_binary(density, a) or _known(density, a) for a in eqn.invars)
    return op.of_kind(eqn, op.MOVES, op.CONVERTS) and is_binary(density, eqn.invars[0])


def _known(density: Density, atom: Any) -> bool:
    atom = op.moved_from(density.producer, atom, op.SPREADS, op.REARRANGES, op.CONVERTS)
    if isinstance(atom, Literal):
        return _zeros_and_ones(atom.val)
    consts = density.closed.jaxpr.constvars
    return any(v is atom and _zeros_and_ones(c) for v, c in zip(consts, density.closed.consts, strict=True))


def _zeros_and_ones(values: Any) -> bool:
    return bool(np.isin(np.asarray(values), (0, 1)).all())
