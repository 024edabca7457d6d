"""Shares broken off a stick one after another, and the weights that they are. Of NumPy's arrays or JAX's."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

_ROUNDED = 64
"""How many units of rounding a share must stay away from one: what it leaves is then right to a hundredth."""


def weights_of(shares: Any) -> Any:
    """What is broken off, and what is left at the end: `[size + 1]` of shares `[size]` between 0 and 1."""
    xp = jnp if isinstance(shares, jax.Array) else np
    left = xp.concatenate([xp.ones(1, shares.dtype), xp.cumprod(1 - shares)])
    return xp.append(left[:-1] * shares, left[-1])


def reordered(shares: Any, order: Any) -> tuple[Any, Any]:
    """The shares `[size]` whose k-th weight is that of `order[k]` now, and the log of the absolute value of
    the determinant of that map's derivative: minus infinity, and the shares as they were, where rounding
    leaves nothing to break off.

    `order` is of all `size + 1` weights, or without the last. Shares before the first and after the last
    weight that changes its place stay as they are. The inverse order leads back.
    """
    xp = jnp if isinstance(shares, jax.Array) else np
    size = shares.shape[0]
    order = xp.concatenate([xp.asarray(order), xp.arange(len(order), size + 1)])
    moved = order != xp.arange(size + 1)
    inside = ((xp.cumsum(moved) > 0) & (xp.cumsum(moved[::-1])[::-1] > 0))[:-1]
    left = xp.concatenate([xp.ones(1, shares.dtype), xp.cumprod(1 - shares)])
    weights = weights_of(shares)[order]
    then = xp.cumsum(weights[::-1])[::-1][:-1]
    new = xp.where(inside, weights[:-1] / xp.where(inside, then, 1.0), shares).astype(shares.dtype)
    # weights that change places keep the volume; shares have of it what is left before each
    log = xp.sum(xp.where(inside, xp.log(left[:-1]) - xp.log(xp.where(inside, then, 1.0)), 0.0))
    rounded = inside & (xp.minimum(1 - shares, 1 - new) < _ROUNDED * xp.finfo(shares.dtype).eps)
    good = ~xp.any(rounded) & xp.isfinite(log)
    return xp.where(good, new, shares), xp.where(good, log, -xp.inf)
