"""Supports whose bounds are computed by the model: the values that the data give them."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import jax
import numpy as np
from numpyro.distributions import constraints


def computed_bounds(support: Any) -> list[Any] | None:
    """The bounds of a constraint if any is more than a Python number, else None."""
    leaves = jax.tree.leaves(support)
    return leaves if any(not isinstance(b, int | float) for b in leaves) else None


def known_support(support: Any, bounds: list[Any | None]) -> Any:
    """`support` with its bounds replaced by arrays; a bound that is None moves with a latent, and is dropped.

    The result holds for every value of the latents: an interval with an unknown end is unbounded there.
    """
    if isinstance(support, constraints.independent):
        return constraints.independent(
            known_support(support.base_constraint, bounds), support.reinterpreted_batch_ndims
        )
    if all(b is not None for b in bounds):
        return jax.tree.unflatten(jax.tree.structure(support), bounds)
    low = bounds[0] if not isinstance(support, constraints.less_than) else None
    high = bounds[-1] if len(bounds) == 2 or isinstance(support, constraints.less_than) else None
    if getattr(support, "is_discrete", False):
        return support
    if low is not None:
        return constraints.greater_than(low)
    return constraints.real if high is None else constraints.less_than(high)


def with_known_supports(
    sites: Mapping[str, Any],
    atoms: Mapping[str, list[Any]],
    moves: Callable[[Any], bool],
    read: Callable[[Any], Any],
) -> dict[str, Any]:
    """Sites with the computed bounds of their supports (`atoms`) read off the data.

    `moves` tells whether an atom depends on a latent, `read` gives the value of one that does not.
    """
    out = dict(sites)
    for name, bounds in atoms.items():
        values = [None if moves(b) else np.asarray(read(b)) for b in bounds]
        out[name] = replace(out[name], support=known_support(out[name].support, values))
    return out
