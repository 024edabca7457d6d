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
from jax import lax

from gibbsite.conditional.gaussian.joint import GaussianConditional
from gibbsite.conditional.gaussian.tridiagonal import tridiagonal
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
        shape = density.sites[site].shape
        self.places = shape[chain.axis]
        self.steps = -(-self.places // chain.reach)
        self.width = chain.reach * (self.length // self.places)
        order = "a first-order" if chain.reach == 1 else f"an order-{chain.reach}"
        how = f"{order} chain along axis {chain.axis}, drawn by forward filtering and backward sampling"
        self.reason = f"{self.reason.replace('MultivariateNormal', 'Gaussian chain', 1)}; it is {how}"
        n = sum(int(np.prod(t.shape, dtype=np.int64)) for t, _ in density.terms_of(site))
        self.cost = (
            f"{3 * self.width} gradients over {n} term elements, {self.steps} steps of width {self.width}"
        )

    def _split(self, x: Any) -> Any:
        """`[steps, blocks, width]`; places beyond the chain's end are zero."""
        axis, reach = self.chain.axis, self.chain.reach
        rest = tuple(a for a in self.coupled if a != axis)
        x = jnp.transpose(x, (axis, *self.batch, *rest)).reshape(self.places, self.blocks, -1)
        x = jnp.pad(x, ((0, self.steps * reach - self.places), (0, 0), (0, 0)))
        x = x.reshape(self.steps, reach, self.blocks, -1)
        return jnp.moveaxis(x, 1, 2).reshape(self.steps, self.blocks, self.width)

    def _joined(self, blocks: Any) -> Any:
        axis, reach = self.chain.axis, self.chain.reach
        shape = self.density.sites[self.site].shape
        order = (axis, *self.batch, *(a for a in self.coupled if a != axis))
        x = blocks.reshape(self.steps, self.blocks, reach, -1)
        x = jnp.moveaxis(x, 2, 1).reshape(self.steps * reach, self.blocks, -1)[: self.places]
        x = x.reshape(tuple(shape[a] for a in order))
        return jnp.transpose(x, tuple(order.index(a) for a in range(len(order))))

    def chain_information(self, latents: Mapping[str, Any], data: Any) -> tuple[Any, Any, Any]:
        """Information vectors, diagonal blocks and blocks below the diagonal, as `natural` names them."""
        site = self.density.sites[self.site]
        every = set(range(len(self.density.terms_of(self.site))))
        gradient = jax.grad(lambda x: self._logdensity(x, latents, data, every))
        zero = jnp.zeros(site.shape, site.dtype)
        turn = jnp.arange(self.steps) % 3

        def column(direction: tuple[Any, Any]) -> Any:
            unit, third = direction
            # every third step at once: what these reach does not overlap
            chosen = jnp.where((turn == third)[:, None, None], unit, 0.0)
            chosen = jnp.broadcast_to(chosen, (self.steps, self.blocks, self.width)).astype(site.dtype)
            return -self._split(jax.jvp(gradient, (zero,), (self._joined(chosen),))[1])

        units = jnp.eye(self.width, dtype=site.dtype)
        thirds = jnp.repeat(jnp.arange(3), self.width)
        found = lax.map(column, (jnp.tile(units, (3, 1)), thirds))
        found = found.reshape(3, self.width, self.steps, self.blocks, self.width)
        # indexed [third, column, step, block, row]
        found = jnp.moveaxis(found, 1, -1)
        steps = jnp.arange(self.steps)
        diagonal = found[turn, steps]
        below = jnp.where((steps > 0)[:, None, None, None], found[(steps - 1) % 3, steps], 0.0)
        inside = self._split(jnp.ones(site.shape, site.dtype))
        diagonal = diagonal + jnp.eye(self.width, dtype=site.dtype) * (1.0 - inside)[..., None, :]
        return self._split(gradient(zero)), diagonal, below

    def update(self, key: Any, latents: Mapping[str, Any], data: Any) -> Any:
        """One exact joint draw of the site, pure in latent values and data arrays."""
        site = self.density.sites[self.site]
        others = {n: v for n, v in latents.items() if n != self.site}
        vector, diagonal, below = self.chain_information(others, data)
        noise = jax.random.normal(key, vector.shape, site.dtype)
        return self._joined(sample_chain(vector, diagonal, below, noise)).astype(site.dtype)

    def natural(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """`information`, `diagonal` and `below`; see the class."""
        latents = self.density.state_values(state, without=(self.site,))
        found = self.chain_information(latents, self._data)
        return dict(zip(("information", "diagonal", "below"), found, strict=True))

    @property
    def signature(self) -> str:
        """Equal for conditionals whose compiled programs are the same for any data they are given."""
        return repr(("gaussian chain", self.site, self.batch, self.chain))


def sample_chain(vector: Any, diagonal: Any, below: Any, noise: Any) -> Any:
    """A draw of the Gaussian with a block tridiagonal precision, shape `[steps, blocks, width]`.

    `vector` and standard Normal `noise` have the draw's shape, `diagonal` and `below` one more axis of size
    `width`; `below[t]` couples step `t` with step `t - 1`.
    """
    factor = tridiagonal(diagonal, below)
    return factor.backward(factor.forward(vector[..., None]) + noise[..., None])[..., 0]
