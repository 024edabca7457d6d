"""Sites that are angles: all numbers are, in whatever turn."""

import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import constraints
from numpyro.distributions.transforms import Transform

from gibbsite.density.model.bounds import base_constraint
from gibbsite.ground.angles import once_around

_ROUNDED = 0.01  # people write 6.28


class Turning(Transform[Any]):
    """An angle in any turn → the same from `low` to `high`, a turn apart. It covers the interval without end:
    a chain that steps by a density of period `high - low` has the same draws there, and meets no edge."""

    def __init__(self, low: float, high: float):
        self.low, self.high = low, high

    @property
    def domain(self) -> Any:
        """All numbers."""
        return constraints.real

    @property
    def codomain(self) -> Any:
        """One turn."""
        return constraints.interval(self.low, self.high)

    def __call__(self, x: Any) -> Any:
        return jnp.minimum(once_around(x, self.low, self.high - self.low, by=jnp), self.high)

    def _inverse(self, y: Any) -> Any:
        return y

    def log_abs_det_jacobian(self, x: Any, y: Any, intermediates: Any = None) -> Any:
        return jnp.zeros_like(x)

    def tree_flatten(self) -> Any:
        return (), ((), {"low": self.low, "high": self.high})

    def eq(self, other: object, static: bool = False) -> bool:
        return isinstance(other, Turning) and (self.low, self.high) == (other.low, other.high)


def turning(support: Any) -> Turning | None:
    """How all numbers are angles of a support that is one turn; None where it is something else."""
    base = base_constraint(support)
    if not isinstance(base, constraints.interval):
        return None
    low, high = _known(base.lower_bound), _known(base.upper_bound)
    if low is None or high is None or abs(high - low - 2 * math.pi) > _ROUNDED:
        return None
    return Turning(low, high)


def _known(end: Any) -> float | None:
    """The number that the end of an interval is for all elements; None where it is none, or not known yet."""
    if isinstance(end, int | float):
        return float(end)
    if not isinstance(end, np.ndarray | np.number | jax.Array):
        return None
    try:
        values = np.unique(np.asarray(end))
    except jax.errors.TracerArrayConversionError:
        return None
    return float(values[0]) if len(values) == 1 else None


def turns_of(sites: Mapping[str, Any]) -> dict[str, float]:
    """How long a turn is, of those sites that are angles."""
    found = {n: turning(s.support) for n, s in sites.items() if s.support is not None}
    return {n: around.high - around.low for n, around in found.items() if around is not None}
