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
from numpyro.primitives import Messenger, apply_stack

_FAMILIES = (
    *(dist.Normal, dist.StudentT, dist.Cauchy, dist.Laplace, dist.Logistic, dist.Gumbel),
    *(dist.MultivariateNormal, dist.MultivariateStudentT, dist.CAR),
)
_ASKED = "distances"
_AROUND = (dist.ExpandedDistribution, dist.Independent, dist.MaskedDistribution)
_MOVED = (dist.LogNormal, dist.TransformedDistribution)
"""Of these it is the number before the transform whose distance is known."""


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
        """Puts the distance in the place of the value; tells all distances to a model that asks for them."""
        if msg["type"] == _ASKED:
            msg["value"] = {**self._offsets}
            return
        distance = (
            self._offsets.get(msg["name"]) if msg["type"] == "sample" and not msg["is_observed"] else None
        )
        if distance is None or jnp.size(msg["value"]) != distance.size:
            return
        apart = _apart(msg["fn"], jnp.reshape(distance, jnp.shape(msg["value"])))
        msg["fn"] = msg["fn"] if apart is None else apart


def known_distances() -> dict[str, jax.Array]:
    """What handlers around a model know about how far sites are from their locations, by site.

    For models that evaluate a density of all their sites by themselves.
    """
    asked = {"type": _ASKED, "value": None, "fn": dict, "args": (), "kwargs": {}, "is_observed": False}
    return dict(apply_stack(asked)["value"])


def _apart(fn: Any, distance: jax.Array) -> Any:
    """The distribution with the log probability of that distance; None where it has no location."""
    if type(fn) in _FAMILIES:
        found = copy.copy(fn)
        found.loc = jnp.zeros_like(fn.loc)
        return _Offset(found, distance)
    if type(fn) not in (*_AROUND, *_MOVED) or (type(fn) in _MOVED and not _by_element(fn)):
        return None
    base = _apart(fn.base_dist, distance)
    if base is None:
        return None
    found = copy.copy(fn)
    found.base_dist = base
    return found


def _by_element(fn: Any) -> bool:
    """Whether one transform, of each element by itself, is all that stands between base and value."""
    return len(fn.transforms) == 1 and fn.transforms[0].domain.event_dim == 0
