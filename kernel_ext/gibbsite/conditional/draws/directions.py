"""Sites that are angles: all numbers are, in whatever turn."""

import math
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
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
    low, high = base.lower_bound, base.upper_bound
    if not (isinstance(low, int | float) and isinstance(high, int | float)):
        return None
    return Turning(low, high) if abs(high - low - 2 * math.pi) < _ROUNDED else None


def turns_of(sites: Mapping[str, Any]) -> dict[str, float]:
    """How long a turn is, of those sites that are angles."""
    found = {n: turning(s.support) for n, s in sites.items() if s.support is not None}
    return {n: around.high - around.low for n, around in found.items() if around is not None}
