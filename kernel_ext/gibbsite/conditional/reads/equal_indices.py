"""Whether two indices are the same by how they are computed, though each use computed its own."""

from typing import Any

import numpy as np

from gibbsite.density import Density
from gibbsite.ground.once import once
from gibbsite.programs.jaxpr.compat import Literal, Var
from gibbsite.programs.maps.access import Affine, Component, Table, Whole


def index_id(density: Density, component: Component) -> Any:
    """Equal for components that hold the same index: `u[subject]` and `slope[subject]` each bring
    `subject` into range by equations of their own."""
    if isinstance(component, Affine | Whole):
        return component
    return component.shape, _renamed(component.key, _numbers(density))


def same_values(density: Density, one: Any, two: Any) -> bool:
    """Whether two variables hold the same values by how they are computed."""
    numbers = _numbers(density)
    return numbers[one] == numbers[two]


def _renamed(key: Any, numbers: dict[Any, int]) -> Any:
    if isinstance(key, Var):
        return "variable", numbers[key]
    if isinstance(key, Table):
        return key.shape, _renamed(key.key, numbers)
    return tuple(_renamed(k, numbers) for k in key) if isinstance(key, tuple) else key


@once
def _numbers(density: Density) -> dict[Any, int]:
    """A number per variable, equal for variables that the same operations on the same inputs compute."""
    closed = density.closed
    numbers: dict[Any, int] = {}
    seen: dict[Any, int] = {}
    for var, const in zip(closed.jaxpr.constvars, closed.consts, strict=True):
        array = np.asarray(const)
        numbers[var] = seen.setdefault((array.shape, array.dtype.str, array.tobytes()), len(seen))
    for var in closed.jaxpr.invars:
        numbers[var] = seen.setdefault(var, len(seen))

    def operand(atom: Any) -> Any:
        if not isinstance(atom, Literal):
            return numbers[atom]
        array = np.asarray(atom.val)
        return str(atom.aval), array.tobytes()

    for eqn in closed.jaxpr.eqns:
        made = eqn.primitive, str(sorted(eqn.params.items())), tuple(map(operand, eqn.invars))
        for i, var in enumerate(eqn.outvars):
            numbers[var] = seen.setdefault((*made, i), len(seen))
    return numbers
