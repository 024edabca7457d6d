"""What single precision leaves of a Gaussian draw, in standard deviations."""

from typing import Any

import jax.numpy as jnp

# the root mean square of a number's rounding, of its unit of relative rounding: figures are spread evenly,
# and the last is worth between a half and the whole of that unit
_OF_A_UNIT = 0.2
# sums of squares, and what is subtracted from them in a factorisation, are right to some units
_UNITS = 8.0


def lost_by_holding(own: Any, x: Any) -> Any:
    """The square of what values lose by being held as they are; `own` is the precision's diagonal, of their
    shape. Errors of many values are independent: what counts is the worst direction, of two that make up for
    each other."""
    lost = _OF_A_UNIT * jnp.finfo(x.dtype).eps * x
    return 2 * jnp.max(own * lost * lost)


def lost_by_pivots(whole: Any, left: Any) -> Any:
    """The largest relative error of a column's precision given the ones before: `left` of `whole` remains."""
    return jnp.max(_UNITS * jnp.finfo(left.dtype).eps * whole / left)


def rounding_of(precision: Any, factor: Any, mean: Any) -> Any:
    """Both, of draws by a Cholesky factor `[…, n, n]` with means `[…, n]`."""
    own, pivot = (jnp.diagonal(x, axis1=-2, axis2=-1) for x in (precision, factor))
    return jnp.sqrt(lost_by_pivots(own, pivot * pivot) ** 2 + lost_by_holding(own, mean))
