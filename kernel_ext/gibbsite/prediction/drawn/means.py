"""A distribution → its mean, by NumPyro's formula or by draws; what stands in where a mean is infinite."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import (
    CategoricalLogits,
    CategoricalProbs,
    IntervalCensoredDistribution,
    LeftCensoredDistribution,
    Normal,
    RightCensoredDistribution,
    TransformedDistribution,
)
from numpyro.distributions.transforms import AffineTransform, ExpTransform

from gibbsite.density.model.collect import base_distribution

MEAN_OF, _LEAST, _NUMBERS = 256, 32, 2**16
"""Draws whose mean stands for a mean without a formula: the variance of an outcome / 256 comes on top. Fewer
of many elements, over which people average."""


def mean_of(fn: Any, shape: tuple[int, ...], key: Any) -> Any:
    """A distribution's mean, of the shape of what is drawn, that of categories over their codes; of what
    NumPyro has no formula for (truncated, transformed), the mean of up to `MEAN_OF` draws."""
    base = base_distribution(fn)
    if isinstance(base, LeftCensoredDistribution | RightCensoredDistribution | IntervalCensoredDistribution):
        return mean_of(base.base_dist, shape, key)  # which is what is drawn: of nobody's censoring
    if isinstance(base, CategoricalProbs | CategoricalLogits):
        chances = jnp.asarray(base.probs)
        return jnp.broadcast_to(chances @ jnp.arange(chances.shape[-1], dtype=float), shape)
    if isinstance(base, TransformedDistribution) and len(base.transforms) == 1:
        inner, transform = base.base_dist, base.transforms[0]
        if isinstance(inner, Normal) and isinstance(transform, ExpTransform):
            loc, scale = jnp.asarray(inner.loc), jnp.asarray(inner.scale)
            return jnp.broadcast_to(jnp.exp(loc + scale**2 / 2), shape).astype(float)
        if isinstance(transform, AffineTransform):
            return jnp.broadcast_to(transform(mean_of(inner, inner.shape(), key)), shape).astype(float)
    try:
        return jnp.broadcast_to(fn.mean, shape).astype(float)
    except (
        NotImplementedError
    ):  # what `Distribution.mean` raises of a class without a formula, wrapped or not
        return _mean_of_draws(fn, shape, key)


def _mean_of_draws(fn: Any, shape: tuple[int, ...], key: Any) -> Any:
    count = int(np.clip(_NUMBERS // max(1, int(np.prod(shape))), _LEAST, MEAN_OF))

    def more(total: Any, key: Any) -> tuple[Any, None]:
        return total + jnp.broadcast_to(fn.sample(key), shape), None

    total, _ = jax.lax.scan(more, jnp.zeros(shape), jax.random.split(key, count))
    return total / count


def finite(
    means: Mapping[str, np.ndarray], draws: Mapping[str, np.ndarray]
) -> tuple[dict[str, Any], list[str]]:
    """Means `[chain, draw, *shape]` by site, with those of other draws in place of what is not finite, which
    no average takes; what is drawn, of elements that have no finite one. And a sentence for each such
    site."""
    out, said = {}, []
    for name, values in means.items():
        lost = ~np.isfinite(values)
        out[name] = values
        if not lost.any():
            continue
        flat, gone = values.reshape(-1, values[0, 0].size), lost.reshape(-1, values[0, 0].size)
        found, drawn = flat.copy(), np.asarray(draws[name]).reshape(flat.shape)
        for e in np.flatnonzero(gone.any(axis=0)):
            there = np.flatnonzero(~gone[:, e])
            if len(there):
                at = np.flatnonzero(gone[:, e])
                found[at, e] = flat[there[np.searchsorted(there, at) % len(there)], e]
            else:
                found[:, e] = drawn[:, e]
        out[name] = found.reshape(values.shape)
        count, whole = int(gone.any(axis=1).sum()), len(gone)
        what = ": what is expected of it is what is drawn, noise and all"
        if not gone.all(axis=0).any():
            what = f" at {count:,} of {whole:,} draws: others stand in for these in what is expected"
        said.append(f"{name}'s distribution has no finite mean{what}")
    return out, said
