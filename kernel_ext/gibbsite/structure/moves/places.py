"""What a latent site is in one structure, and what of it is an element that another structure may have."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import Dirichlet, ExpandedDistribution, Independent, MaskedDistribution, biject_to
from numpyro.distributions.constraints import positive

from gibbsite.conditional.reads.support import listed_values
from gibbsite.density import Density
from gibbsite.density.model.bounds import base_constraint
from gibbsite.programs.jaxpr.compat import is_traced

_WEIGHTS = "Dirichlet weights"


@dataclass(frozen=True)
class Place:
    """What a latent site is in one structure: its shape, of which the last `event_dim` axes are one element,
    the kind of its support, in words, and how many values that lists (0: none). Elements are shared by sites
    of one kind.

    Axes that `to_event` has made a vector of are axes of elements, and so is that of Dirichlet `weights`:
    without some of them, the others are as much of what is left as they were of the whole.
    """

    shape: tuple[int, ...]
    dtype: Any
    event_dim: int
    kind: str
    values: int = 0
    coordinate: Any = None  # what makes each number of an element of a real one; None: not known
    positive: bool = False

    @property
    def batch(self) -> tuple[int, ...]:
        """The axes along which elements are shared with other structures."""
        return self.shape[: len(self.shape) - self.event_dim]

    @property
    def weights(self) -> bool:
        """Whether elements along the last axis are shares of a whole."""
        return self.kind == _WEIGHTS

    @property
    def adds_up(self) -> bool:
        """Whether elements are positive numbers in a row, which may be shares of their sum."""
        return len(self.shape) == 1 and (self.positive or self.weights)

    def like(self, other: "Place") -> bool:
        """Whether an element of one can be an element of the other."""
        events = self.shape[len(self.batch) :], other.shape[len(other.batch) :]
        ranks = len(self.shape), len(other.shape)
        return events[0] == events[1] and ranks[0] == ranks[1] and self.kind == other.kind


def place_of(density: Density, name: str, fn: Any) -> Place:
    """That of a latent site with the distribution `fn`, which may be None."""
    site = density.sites[name]
    kind = type(site.support).__name__ if site.discrete else str(site.support)
    dtype, values = np.dtype(site.dtype), len(listed_values(density, name))
    base = None if fn is None else by_element(fn)
    if base is not None and tuple(base.shape()) == tuple(site.shape):
        if concentration(base) is not None:
            return Place(site.shape, dtype, 0, _WEIGHTS)
        event_dim = len(base.event_shape)
    else:
        event_dim = len(site.event_shape)
    if site.discrete:
        return Place(site.shape, dtype, event_dim, kind, values)
    own = base_constraint(site.support)
    return Place(
        site.shape, dtype, event_dim, kind, values, _coordinate(own), isinstance(own, type(positive))
    )


def by_element(fn: Any) -> Any:
    """A site's distribution without masks, and without `to_event`."""
    while isinstance(fn, MaskedDistribution | Independent):
        fn = fn.base_dist
    return fn


def concentration(fn: Any) -> Any:
    """That of a Dirichlet distribution, `[*batch, event]`; None of another."""
    base = fn
    while isinstance(base, ExpandedDistribution):
        base = base.base_dist
    return jnp.broadcast_to(base.concentration, fn.shape()) if isinstance(base, Dirichlet) else None


def _coordinate(support: Any) -> Any:
    """What takes any real number to a number of a support that every number of an element has by itself, and
    whose bounds are known; None where there is none."""
    if support.event_dim or any(is_traced(b) or np.ndim(b) for b in jax.tree.leaves(support)):
        return None
    try:
        found = biject_to(support)
    except NotImplementedError:  # the registry's answer, which has no other: nothing of it can be split
        return None
    return found if found.domain.event_dim == 0 else None
