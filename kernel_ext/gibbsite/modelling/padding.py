"""Masked elements that nothing else reads: drawn from their prior, which takes nothing from the others.

`handlers.mask` takes the prior of padding out of the density together with its data, which leaves a flat
direction without end: no draw of it is right, and gradients walk along it for ever. With its prior kept, the
padding integrates out, and the posterior of everything else stays as it is.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpyro.distributions import Distribution, ExpandedDistribution, Independent, MaskedDistribution
from numpyro.primitives import Messenger

from gibbsite.density import Density
from gibbsite.density.liveness import flat_elements
from gibbsite.inputs.other_data import ANEW


def kept_padding(fn: Callable, density: Density) -> Callable | None:
    """`fn` with the priors of masked elements that nothing else reads; None where there are none."""
    free = {n: f for n, f in flat_elements(density).items() if density.sites[n].fn_name != "ImproperUniform"}
    if not free:
        return None

    @functools.wraps(fn)
    def kept(*args: Any, **kwargs: Any) -> Any:
        if ANEW.get():
            return fn(*args, **kwargs)  # other rows, whose padding is elsewhere
        with _Unmasked(None, free):
            return fn(*args, **kwargs)

    return kept


class _Unmasked(Messenger):
    """Takes masks off the elements `free`, by site."""

    def __init__(self, fn: Any, free: Mapping[str, np.ndarray]):
        super().__init__(fn)
        self._free = free

    def process_message(self, msg: dict[str, Any]) -> None:
        """Take it off."""
        if msg["type"] == "sample" and msg["name"] in self._free:
            msg["fn"] = _unmasked(msg["fn"], self._free[msg["name"]])


def _unmasked(fn: Distribution, free: Any) -> Distribution:
    """`fn` without masks over the elements `free`, an array of its batch and event shape."""
    if isinstance(fn, MaskedDistribution):
        base, mask = _unmasked(fn.base_dist, free), fn._mask
        lifted = free.all(axis=tuple(range(len(fn.batch_shape), free.ndim)))
        if isinstance(mask, bool):
            mask = jnp.full(lifted.shape, mask)
        return base.mask(mask | jnp.asarray(lifted))
    if isinstance(fn, Independent):
        return Independent(_unmasked(fn.base_dist, free), fn.reinterpreted_batch_ndims)
    if isinstance(fn, ExpandedDistribution):
        inner = fn.base_dist.batch_shape
        free = free.all(axis=tuple(range(len(fn.batch_shape) - len(inner))))
        repeated = tuple(a for a, n in enumerate(inner) if n != free.shape[a])
        base = _unmasked(fn.base_dist, free.all(axis=repeated, keepdims=True))
        return ExpandedDistribution(base, fn.batch_shape)
    return fn
