"""What chains share while they step: an axis that the engine names when it runs them side by side.

Only chains on one device share it, so that none waits for another device in every step.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

AXIS = "gibbsite chains"


def bound() -> bool:
    """Whether several chains run side by side under Gibbsite's engine."""
    try:
        lax.axis_size(AXIS)
    except NameError:
        return False
    return True


def number() -> int:
    """How many chains run side by side; 1 where there are no others."""
    return lax.axis_size(AXIS) if bound() else 1


def mean(x: jax.Array) -> jax.Array:
    """The mean over chains; `x` itself where there are no others. A number that is not finite counts as 0."""
    x = jnp.where(jnp.isfinite(x), x, 0.0)
    return lax.pmean(x, AXIS) if bound() else x


def same(x: Any) -> Any:
    """A whole number that is the same in every chain, as one: a condition on it is one branch and not two."""
    return lax.pmax(x, AXIS) if bound() else x


def any_of(x: jax.Array) -> jax.Array:
    """Whether a condition holds in any chain, as one: for a loop until it holds in none."""
    return lax.pmax(x.astype(jnp.int32), AXIS) > 0 if bound() else x
