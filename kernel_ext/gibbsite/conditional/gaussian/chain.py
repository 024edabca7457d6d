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

import jax
import jax.numpy as jnp
import numpy as np

from gibbsite.conditional.factors.rounding import lost_by_holding
from gibbsite.conditional.gaussian.chained import ChainedGaussian, Pieces, Strand, Stringing
from gibbsite.conditional.gaussian.joint import GaussianConditional
from gibbsite.conditional.gaussian.tridiagonal import tridiagonal
from gibbsite.conditional.update import Drawn
from gibbsite.density import Density
from gibbsite.density.maps.access import Accesses, Affine, Whole


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
        reaches = [_reach(accesses, axis) for _, accesses in density.terms_of(site)]
        if any(r is None for r in reaches):
            continue
        reach = max(1, *(r for r in reaches if r is not None))
        width = reach * int(np.prod([shape[a] for a in coupled if a != axis], dtype=np.int64))
        if shape[axis] >= 8 * reach and width <= 64:
            found.append((width, ChainAxis(axis, reach)))
    return min(found, key=lambda f: f[0])[1] if found else None


def _reach(accesses: Accesses, axis: int) -> int | None:
    """The largest distance along an axis between elements that one term element reads; None if unknown."""
    components = [access.index[axis] for access in accesses]
    if any(isinstance(c, Whole) for c in components):
        return None
    if all(c == components[0] for c in components):
        return 0
    if not all(isinstance(c, Affine) and c.coefs == components[0].coefs for c in components):  # type: ignore[union-attr]
        return None
    offsets = [c.offset for c in components if isinstance(c, Affine)]
    return max(offsets) - min(offsets)


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

    def _split(self, x: Any) -> Any:
        """`[steps, blocks, width]`; places beyond the chain's end are zero."""
        return self._chained.layout.vector({self.site: x}).chain

    def _joined(self, blocks: Any) -> Any:
        return self._chained.layout.values(Pieces(blocks, jnp.zeros(0)))[self.site]

    def chain_information(
        self, latents: Mapping[str, Any], data: Any, at: Any = None
    ) -> tuple[Any, Any, Any]:
        """Information vectors, diagonal blocks and blocks below the diagonal, as `natural` names them; the
        gradient `at` a value of the site in the vectors' place, where there is one."""
        return self._chained.information(latents, data, None if at is None else {self.site: at})

    def drawn(self, key: Any, latents: Mapping[str, Any], data: Any) -> Drawn:
        """One exact joint draw of the site, and what rounding leaves of it: what values lose by being held as
        they are, and what entries of the precision do.

        The site's own value, where there is one, says where the mean is looked for: from close by, nothing is
        lost to numbers that cancel.
        """
        site = self.density.sites[self.site]
        others = {n: v for n, v in latents.items() if n != self.site}
        start = jnp.asarray(latents.get(self.site, jnp.zeros(site.shape)), site.dtype)
        start = jnp.where(jnp.isfinite(start), start, 0)
        vector, diagonal, below = self.chain_information(others, data, start)
        noise = jax.random.normal(key, vector.shape, site.dtype)
        draw = self._split(start) + sample_chain(vector, diagonal, below, noise)
        own = jnp.diagonal(diagonal, axis1=-2, axis2=-1)
        lost = lost_by_holding(own, draw) + _lost_by_coupling(diagonal, below, self.chain.reach) ** 2
        return Drawn({self.site: self._joined(draw).astype(site.dtype)}, jnp.sqrt(lost))

    def natural(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """`information`, `diagonal` and `below`; see the class."""
        latents = self.density.state_values(state, without=(self.site,))
        found = self.chain_information(latents, self._data)
        return dict(zip(("information", "diagonal", "below"), found, strict=True))

    @property
    def signature(self) -> str:
        """Equal for conditionals whose compiled programs are the same for any data they are given."""
        return repr(("gaussian chain", self.site, self.batch, self.chain))


def _lost_by_coupling(diagonal: Any, below: Any, reach: int) -> Any:
    """The largest relative error of what is known of a chain's level: couplings of places add nothing to it,
    but their rounding does. Of a component of a place at a time, `1^T P 1` is told from the rounding of P."""
    whole = jnp.sum(diagonal + below + jnp.swapaxes(below, -1, -2), axis=0)
    own = jnp.sum(jnp.diagonal(diagonal, axis1=-2, axis2=-1), axis=0)
    blocks, width = own.shape
    each = width // reach
    level = jnp.sum(whole.reshape(blocks, reach, each, reach, each), axis=(1, 3))
    level = jnp.diagonal(level, axis1=-2, axis2=-1)
    lost = jnp.finfo(own.dtype).eps * jnp.sum(own.reshape(blocks, reach, each), axis=1)
    return jnp.max(lost / jnp.maximum(level, lost))


def sample_chain(vector: Any, diagonal: Any, below: Any, noise: Any) -> Any:
    """A draw of the Gaussian with a block tridiagonal precision, shape `[steps, blocks, width]`.

    `vector` and standard Normal `noise` have the draw's shape, `diagonal` and `below` one more axis of size
    `width`; `below[t]` couples step `t` with step `t - 1`.
    """
    factor = tridiagonal(diagonal, below)
    return factor.backward(factor.forward(vector[..., None]) + noise[..., None])[..., 0]
