"""Labels whose weights are broken off a stick, which alone tells them apart.

Of a Dirichlet process's `w_k = v_k (1 - v_1) … (1 - v_{k-1})` (Sethuraman 1994) the components have equal
priors, but their order is not free: early ones are large. Two labels exchanged in all that bears them, and in
the sticks so that the weights change places, leave everything but the sticks' own prior as it is.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from gibbsite.density.density import Density
from gibbsite.density.hierarchy.exchangeability import Exchange, Unchanged, labelled, whole
from gibbsite.ground.once import once


@dataclass(frozen=True)
class StickLabels:
    """`count` labels: the site of their `sticks`, the axes of other sites that have an element per label, and
    discrete sites whose values are labels."""

    count: int
    sticks: str
    axes: Mapping[str, tuple[int, ...]]
    labels: frozenset[str]

    @property
    def continuous(self) -> tuple[str, ...]:
        """The sites that have an element per label, the sticks first."""
        return (self.sticks, *(n for n, a in self.axes.items() if a))

    def exchanged(self, values: Mapping[str, Any], order: jax.Array) -> dict[str, Any]:
        """Values of any of the sites with the labels of two components exchanged, as `order` says; the sticks
        left alone."""
        out = dict(values)
        for name in values:
            if name in self.labels:
                out[name] = order[values[name]].astype(values[name].dtype)
            for axis in self.axes.get(name, ()):
                out[name] = jnp.take(out[name], order, axis=axis)
        return out


@once
def stick_labels(density: Density) -> StickLabels | None:
    """The labels of a model whose order only sticks tell; None where there are none."""
    unchanged: Unchanged | None = None
    for name in density.latents:
        shape = density.sites[name].shape
        if len(shape) != 1 or shape[0] < 2 or whole(density, name) != 1.0 or density.sites[name].in_scan:
            continue
        for count in (shape[0] + 1, shape[0]):
            order = (1, 0, *range(2, count))
            for axes, families, labels in labelled(density, count):
                axes = {n: a for n, a in axes.items() if n != name}
                if families or not any(axes.values()):
                    continue
                unchanged = unchanged or Unchanged(density)
                if unchanged.by(Exchange(order, axes, labels=labels, sticks=name)):
                    return StickLabels(count, name, {n: a for n, a in axes.items() if a}, labels)
    return None
