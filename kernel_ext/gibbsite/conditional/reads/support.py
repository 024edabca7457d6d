"""The finite support of a discrete site."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gibbsite.density import Density
from gibbsite.errors import ModelError

Shape = tuple[int, ...]

_MOST_BOUNDS = 4096


@dataclass(frozen=True)
class FiniteSupport:
    """`values` has shape `(K, *event)`: event is empty unless one draw of the site is itself a vector.

    `elements` is the shape of the site's elements (the site's shape without that event). `valid`, of shape
    `(K, *elements)`, tells which values each element may take where elements differ; None where they agree.
    """

    values: np.ndarray
    elements: Shape
    valid: np.ndarray | None

    @property
    def size(self) -> int:
        """Number of values."""
        return self.values.shape[0]


def finite_support(density: Density, name: str) -> FiniteSupport | None:
    """The support of a discrete latent site; None where it is not finite, as that of a count out of one that
    has no end.

    Raises `ModelError` where the support depends on many latent values.
    """
    site = density.site(name)
    if not site.discrete:
        return None
    if name in density.outputs["bounds"]:
        return _integer_range(density, name)
    values = density.enumerated.get(name)
    if values is None:
        return None
    event = values.ndim - 1
    elements = site.shape[: len(site.shape) - event] if event else site.shape
    return FiniteSupport(values.astype(site.dtype), elements, None)


def _integer_range(density: Density, name: str) -> FiniteSupport | None:
    site = density.site(name)
    atoms = density.outputs["bounds"][name]
    if any(density.maps.latents(a) for a in atoms):
        return _widest_range(density, name, atoms)
    read = density.evaluator({}).full
    low, high = (np.asarray(read(a)) for a in atoms)
    values = np.arange(low.min(), high.max() + 1)
    valid = None
    if low.min() != low.max() or high.min() != high.max():
        column = values.reshape((-1,) + (1,) * len(site.shape))
        inside: Any = (column >= low) & (column <= high)
        valid = np.broadcast_to(inside, (len(values), *site.shape))
    return FiniteSupport(values.astype(site.dtype), site.shape, valid)


def _widest_range(density: Density, name: str, atoms: Sequence[Any]) -> FiniteSupport | None:
    """All values that a site may have, whatever the values of the sites that bound it. Terms of the density
    rule out those that are too large or too small at the time."""
    site = density.site(name)
    blame = sorted(frozenset().union(*(density.maps.latents(a) for a in atoms)))
    supports = {n: finite_support(density, n) for n in blame}
    endless = [n for n, s in supports.items() if s is None or s.values.ndim > 1]
    mixed = [n for n in blame for a in atoms if not all(x.single for x in density.maps[a].get(n, ()))]
    many = int(np.prod([s.size for s in supports.values() if s], dtype=np.int64)) > _MOST_BOUNDS
    if mixed or many:
        first = (mixed + blame)[0]
        raise ModelError(
            f"the support of {name!r} depends on the latent site {first!r}, so its size changes from draw "
            f"to draw, and it reads many values of {first!r}; give it a fixed upper bound and put the "
            f"dependence into its probabilities"
        )
    if endless:
        return None
    low, high = np.inf, -np.inf
    for values in itertools.product(*(s.values for s in supports.values() if s)):
        filled = {
            n: np.full(density.sites[n].shape, v, density.sites[n].dtype)
            for n, v in zip(blame, values, strict=True)
        }
        read = density.evaluator(filled).full
        ends = [np.asarray(read(a)) for a in atoms]
        low, high = min(low, ends[0].min()), max(high, ends[1].max())
    return FiniteSupport(np.arange(int(low), int(high) + 1).astype(site.dtype), site.shape, None)
