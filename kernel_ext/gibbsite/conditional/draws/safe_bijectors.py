"""Supports → transforms to them that have no edge where there is none, and whose values are never on one by
rounding.

Beyond the smallest number of a dtype NumPyro's transforms give 0, or stop at that number while the Jacobian
goes on as if they had not. There a density with a small concentration is infinite, or flat without end, so
that a chain that gets there never comes back. Here a value stops at the smallest normal number, and the
Jacobian falls on: no mass lies where no number does. An angle between -π and π has NumPyro's ends, which a
chain does not cross, though they are one direction; here all numbers are angles, in whatever turn, and those
of a uniform prior that is one turn wide.
"""

from typing import Any

import jax
import jax.numpy as jnp
from numpyro.distributions.transforms import (
    ExpTransform,
    IndependentTransform,
    StickBreakingTransform,
    biject_to,
)

from gibbsite.conditional.draws.directions import turning


class Exp(ExpTransform):
    """NumPyro's, above 0."""

    def __call__(self, x: Any) -> Any:
        return jnp.maximum(jnp.exp(x), jnp.finfo(jnp.result_type(x)).tiny)


class StickBreaking(StickBreakingTransform):
    """NumPyro's, from logarithms: no stick is lost that is short beside the others."""

    def __call__(self, x: Any) -> Any:
        taken, left = _sticks(x)
        whole = jnp.zeros((*x.shape[:-1], 1), left.dtype)
        before = jnp.concatenate([whole, jnp.cumsum(left, axis=-1)], axis=-1)
        taken = jnp.concatenate([taken, whole], axis=-1)
        y = jnp.exp(taken + before)
        # their sum is 1 but for rounding, of which thousands of sticks gather some
        return jnp.maximum(y / jnp.sum(y, axis=-1, keepdims=True), jnp.finfo(y.dtype).tiny)

    def log_abs_det_jacobian(self, x: Any, y: Any, intermediates: Any = None) -> Any:
        taken, left = _sticks(x)
        # each stick's length is that of what is left before it
        return jnp.sum(taken + jnp.cumsum(left, axis=-1), axis=-1)


def _sticks(x: Any) -> tuple[Any, Any]:
    """Logarithms of the parts of what is left that each stick takes, and leaves."""
    size = x.shape[-1]
    x = x - jnp.log(size - jnp.arange(size))
    return jax.nn.log_sigmoid(x), jax.nn.log_sigmoid(-x)


_HERE = {ExpTransform: Exp, StickBreakingTransform: StickBreaking}


def transform_to(support: Any) -> Any:
    """The transform of unconstrained values to a support: but for angles the same function as NumPyro's
    `biject_to`."""
    around = turning(support)
    if around is not None:
        return IndependentTransform(around, support.event_dim) if support.event_dim else around
    theirs = biject_to(support)
    return _HERE[type(theirs)]() if type(theirs) in _HERE else theirs
