"""Gaussian chains: exact joint draws in time that is linear in the chain's length.

Where the terms of a Gaussian site couple only elements that are near each other along one axis, the precision
is block tridiagonal along it. Its blocks are read off with a few Hessian products, each of which serves every
third place of the chain at once (Curtis, Powell and Reid 1974), and the draw is a block Cholesky
factorisation with one substitution forwards and one backwards: the information form of the Kalman filter and
of backward sampling (Rue 2001, "Fast sampling of Gaussian Markov random fields"; Frühwirth-Schnatter 1994).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from gibbsite.conditional.gaussian.chained import ChainedGaussian, Pieces, Strand, Stringing, distance
from gibbsite.conditional.gaussian.joint import GaussianConditional
from gibbsite.conditional.update import Drawn
from gibbsite.density import Density


@dataclass(frozen=True)
class ChainAxis:
    """The axis of a site along which it is a chain, and the largest distance between coupled elements."""

    axis: int
    reach: int


def chain_axis(density: Density, site: str, coupled: tuple[int, ...]) -> ChainAxis | None:
    """The axis among the coupled ones along which the site is a chain that is worth it, if there is one."""
    shape = density.sites[site].shape
    found = []
    for axis in coupled:
        reaches = [distance(density, [a.index[axis] for a in found]) for _, found in density.terms_of(site)]
        if any(r is None for r in reaches):
            continue
        reach = max(1, *(r for r in reaches if r is not None))
        width = reach * int(np.prod([shape[a] for a in coupled if a != axis], dtype=np.int64))
        if shape[axis] >= 8 * reach and width <= 64:
            found.append((width, ChainAxis(axis, reach)))
    return min(found, key=lambda f: f[0])[1] if found else None


class GaussianChain(GaussianConditional):
    """A Gaussian site that is a chain along one axis, or a batch of such chains.

    `natural` gives the precision in blocks: `diagonal` `[steps, blocks, width, width]`, `below` (the block
    that couples a step with the one before it, zero for the first) of the same shape, and `information`
    `[steps, blocks, width]`. A step holds `reach` neighbouring places of the chain.
    """

    def __init__(
        self,
        density: Density,
        site: str,
        batch: tuple[int, ...],
        degrees: Mapping[Any, int],
        chain: ChainAxis,
    ):
        super().__init__(density, site, batch, degrees)
        self.chain = chain
        layout = Stringing(
            {site: density.sites[site].shape}, (Strand(site, chain.axis, batch),), (), chain.reach
        )
        self._chained = ChainedGaussian(density, (site,), layout)
        self.places, self.steps, self.width = layout.places, layout.steps, layout.width
        order = "a first-order" if chain.reach == 1 else f"an order-{chain.reach}"
        how = f"{order} chain along axis {chain.axis}, drawn by forward filtering and backward sampling"
        self.reason = f"{self.reason.replace('MultivariateNormal', 'Gaussian chain', 1)}; it is {how}"
        n = sum(int(np.prod(t.shape, dtype=np.int64)) for t, _ in density.terms_of(site))
        self.cost = (
            f"{3 * self.width} gradients over {n} term elements, {self.steps} steps of width {self.width}"
        )

    def _joined(self, blocks: Any) -> Any:
        return self._chained.layout.values(Pieces(blocks, jnp.zeros(0)))[self.site]

    def drawn(self, key: Any, latents: Mapping[str, Any], data: Any) -> Drawn:
        """One exact joint draw of the site; its own value, where there is one, says where the mean is looked
        for."""
        return self._chained.drawn(key, latents, data)

    def natural(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """`information`, `diagonal` and `below`; see the class."""
        latents = self.density.state_values(state, without=(self.site,))
        found = self._chained.information(latents, self._data)
        return dict(zip(("information", "diagonal", "below"), found, strict=True))

    @property
    def signature(self) -> str:
        return repr(("gaussian chain", self.site, self.batch, self.chain))
