"""Supports whose bounds are computed by the model: the values that the data give them."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import (
    ExpandedDistribution,
    Independent,
    MaskedDistribution,
    TransformedDistribution,
    constraints,
)

# Constraints whose check is a comparison. Others (simplex, positive definite, …) are met up to rounding by
# construction, and checking them with a tolerance would reject good values.
COMPARED = (
    constraints.greater_than,
    constraints.less_than,
    constraints.interval,
    constraints.integer_interval,
    constraints.integer_greater_than,
    constraints.multinomial,
    type(constraints.boolean),
)


def base_constraint(constraint: constraints.Constraint) -> constraints.Constraint:
    """The constraint on one element, with `independent` unwrapped."""
    while isinstance(constraint, constraints.independent):
        constraint = constraint.base_constraint
    return constraint


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


def support_indicator(fn: Any, value: Any) -> Any | None:
    """0 where a value lies in the support of its distribution and −inf elsewhere, element by element; 0 where
    it is masked out. None where no bound is computed by the model.

    NumPyro's log probabilities ignore supports unless validation is on; where a latent moves a bound, that
    would be another posterior.
    """
    masked = isinstance(fn, MaskedDistribution)
    fn, mask = (fn.base_dist, fn._mask) if masked else (fn, True)
    support = fn.support
    if not isinstance(base_constraint(support), COMPARED) or not computed_bounds(support):
        return None
    found = base_constraint(support)(jnp.asarray(value))  # NumPy's arrays cannot be compared with traced ones
    if masked:
        mask = jnp.broadcast_to(mask, fn.batch_shape)
        found = found | ~mask.reshape(mask.shape + (1,) * (jnp.ndim(found) - mask.ndim))
    return jnp.where(found, 0.0, -jnp.inf)


def bounds_inside(fn: Any) -> bool:
    """Whether a distribution out of its wrappers is made of others that have computed bounds, as a mixture of
    uniforms is."""
    return any(computed_bounds(p.support) is not None or bounds_inside(p) for p in _parts(fn))


def _parts(fn: Any) -> list[Any]:
    """The distributions that one out of its wrappers is made of."""
    parts = [getattr(fn, n, None) for n in ("base_dist", "component_distribution")]
    return [p for p in (*parts, *(getattr(fn, "component_distributions", None) or [])) if p is not None]


def ends_inside(fn: Any) -> list[Any]:
    """The computed bounds of a distribution and of those that it is made of: where its density ends, also
    where its support does not tell (`exp` of a `Uniform`, which NumPyro has on all positive numbers)."""
    return (computed_bounds(fn.support) or []) + [b for p in _parts(fn) for b in ends_inside(p)]


def within(fn: Any, value: Any) -> Any:
    """Whether values lie where the distributions inside of `fn` have their ends, element by element of the
    innermost values: what comes of a transform is looked at before it."""
    while isinstance(fn, Independent | ExpandedDistribution | MaskedDistribution):
        fn = fn.base_dist
    if isinstance(fn, TransformedDistribution):
        for transform in reversed(fn.transforms):
            value = transform._inverse(value)
        return within(fn.base_dist, value)
    support = base_constraint(fn.support)
    return support(jnp.asarray(value)) if isinstance(support, COMPARED) else jnp.asarray(True)


def all_inside(indicators: Mapping[str, Any]) -> Any:
    """Whether every element of every indicator is 0."""
    return jnp.all(jnp.array([True, *(jnp.all(v == 0) for v in indicators.values())]))
