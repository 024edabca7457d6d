"""Log densities of what is close to its location, from the difference and not from the two numbers.

Where a scale is tiny, `(theta - mu) / tau` of single precision is rounding: below a millionth of mu it moves
by whole units from one number to the next, and a chain that comes there finds one that is likely and stays.
The coordinates know the difference itself.
"""

import copy
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from numpyro.primitives import Messenger

_FAMILIES = (dist.Normal, dist.StudentT, dist.Cauchy, dist.Laplace, dist.Logistic)
_AROUND = (dist.ExpandedDistribution, dist.Independent, dist.MaskedDistribution)


class _Offset:
    """A distribution whose log probability is that of a known distance from its location."""

    def __init__(self, fn: Any, distance: jax.Array):
        self._fn, self._distance = fn, distance

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fn, name)

    def log_prob(self, value: Any, intermediates: Any = None) -> Any:
        return self._fn.log_prob(self._distance)


class from_their_locations(Messenger):
    """A handler under which the sites in `offsets` have the log densities of these distances from their
    locations; others, and families without a location, those of their values."""

    def __init__(self, offsets: Mapping[str, jax.Array]):
        super().__init__(None)
        self._offsets = offsets

    def process_message(self, msg: Any) -> None:
        """Puts the distance in the place of the value."""
        distance = (
            self._offsets.get(msg["name"]) if msg["type"] == "sample" and not msg["is_observed"] else None
        )
        if distance is None or jnp.size(msg["value"]) != distance.size:
            return
        around = _at_zero(msg["fn"])
        if around is not None:
            msg["fn"] = _Offset(around, jnp.reshape(distance, jnp.shape(msg["value"])))


def _at_zero(fn: Any) -> Any:
    """The distribution with its location at zero; None where it has none."""
    if type(fn) in _FAMILIES:
        found = copy.copy(fn)
        found.loc = jnp.zeros_like(fn.loc)
        return found
    base = _at_zero(fn.base_dist) if type(fn) in _AROUND else None
    if base is None:
        return None
    found = copy.copy(fn)
    found.base_dist = base
    return found
