"""The finite support of a discrete site."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from gibbsite.density import Density
from gibbsite.errors import ModelError

Shape = tuple[int, ...]


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
    """The support of a discrete latent site; None where it is not finite.

    Raises `ModelError` where the support depends on a latent value.
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


def _integer_range(density: Density, name: str) -> FiniteSupport:
    site = density.site(name)
    atoms = density.outputs["bounds"][name]
    blame = sorted(frozenset().union(*(density.maps.latents(a) for a in atoms)))
    if blame:
        raise ModelError(
            f"the support of {name!r} depends on the latent site {blame[0]!r}, so its size changes from draw "
            f"to draw; give it a fixed upper bound and put the dependence into its probabilities"
        )
    read = density.evaluator({}).full
    low, high = (np.asarray(read(a)) for a in atoms)
    values = np.arange(low.min(), high.max() + 1)
    valid = None
    if low.min() != low.max() or high.min() != high.max():
        column = values.reshape((-1,) + (1,) * len(site.shape))
        inside: Any = (column >= low) & (column <= high)
        valid = np.broadcast_to(inside, (len(values), *site.shape))
    return FiniteSupport(values.astype(site.dtype), site.shape, valid)
