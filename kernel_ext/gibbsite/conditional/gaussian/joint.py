"""Joint Gaussian conditionals: the whole site is drawn together, its elements coupled as they are."""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import cho_solve, solve_triangular

from gibbsite.conditional.conditional import Conditional
from gibbsite.conditional.factors.rounding import rounding_of
from gibbsite.conditional.gaussian.curvature import Curvature, products
from gibbsite.conditional.update import Drawn
from gibbsite.density import Density
from gibbsite.density.terms import summed


class GaussianConditional(Conditional):
    """A site whose log density is a quadratic form of all its elements: a multivariate Normal.

    `batch` are the axes of the site along which elements do not meet in any term; the blocks along them are
    drawn as independent vectors. The precision is minus the Hessian, exact because the form is quadratic;
    `degrees` are those of the certificate. `precise` finds another way to draw it where columns of data
    nearly make up for each other, if there is one (see `linear.alike`).
    """

    kind = "conjugate"
    measured = True
    precise: Callable[[], Any] | None = None

    def __init__(self, density: Density, site: str, batch: tuple[int, ...], degrees: Mapping[Any, int]):
        shape = density.sites[site].shape
        self.batch = batch
        self.coupled = tuple(a for a in range(len(shape)) if a not in batch)
        self.blocks = int(np.prod([shape[a] for a in batch], dtype=np.int64))
        self.length = int(np.prod([shape[a] for a in self.coupled], dtype=np.int64))
        touched = [t for t, _ in density.terms_of(site)]
        origins = ", ".join(dict.fromkeys(t.origin for t in touched))
        reason = (
            f"MultivariateNormal: the log density is a quadratic form of {site}, in the terms of {origins}"
        )
        n = sum(int(np.prod(t.shape, dtype=np.int64)) for t in touched)
        factorise = f"{self.blocks} factorisations of size {self.length}"
        self._products = products(density, site, degrees, batch)
        self._curvature = Curvature(density, site, degrees, batch, self.coupled)
        plain = all(p is not None for p in self._products.values())
        passes = "values and slopes" if plain else f"up to {1 + self.length} gradients"
        super().__init__(density, site, reason, f"{passes} of {n} term elements, {factorise}")

    def _logdensity(self, x: Any, latents: Mapping[str, Any], data: Any, chosen: set[int]) -> Any:
        ev = self.density.evaluator({**latents, self.site: x}, data)
        terms = (t for i, (t, _) in enumerate(self.density.terms_of(self.site)) if i in chosen)
        return summed(terms, ev, jnp.zeros((), x.dtype))

    def information(self, latents: Mapping[str, Any], data: Any) -> tuple[Any, Any]:
        """Information vectors `[blocks, length]` and precision matrices `[blocks, length, length]`."""
        site = self.density.sites[self.site]
        zero = jnp.zeros(site.shape, site.dtype)
        vector = jnp.zeros((self.blocks, self.length), site.dtype)
        hessian = jnp.zeros((self.blocks, self.length, self.length), site.dtype)
        curved, flat = set(), set(range(len(self.density.terms_of(self.site)))) - set(self._products)
        for i, product in self._products.items():
            part = None if product is None else self._curvature.expansion(product, latents, data)
            if part is None:
                curved.add(i)
            else:
                vector, hessian = vector + part[0], hessian + part[1]
        if curved or flat:
            rest = curved | flat
            vector = vector + self._split(jax.grad(lambda x: self._logdensity(x, latents, data, rest))(zero))
        if curved:
            hessian = hessian + self._differentiated(curved, zero, latents, data)
        return vector, -hessian

    def _differentiated(self, chosen: set[int], zero: Any, latents: Mapping[str, Any], data: Any) -> Any:
        """The Hessian of some of the terms, one direction after another."""
        gradient = jax.grad(lambda x: self._logdensity(x, latents, data, chosen))

        def column(unit: Any) -> Any:
            # the same direction in every block at once: blocks do not meet
            direction = self._joined(jnp.broadcast_to(unit, (self.blocks, self.length)))
            return self._split(jax.jvp(gradient, (zero,), (direction,))[1])

        columns = jax.lax.map(column, jnp.eye(self.length, dtype=zero.dtype), batch_size=64)
        return jnp.moveaxis(columns, 0, -1)

    def _split(self, x: Any) -> Any:
        return jnp.transpose(x, (*self.batch, *self.coupled)).reshape(self.blocks, self.length)

    def _joined(self, blocks: Any) -> Any:
        shape = self.density.sites[self.site].shape
        order = (*self.batch, *self.coupled)
        x = blocks.reshape(tuple(shape[a] for a in order))
        return jnp.transpose(x, tuple(order.index(a) for a in range(len(order)))) if order else x

    def update(self, key: Any, latents: Mapping[str, Any], data: Any) -> Any:
        """One exact joint draw of the site, pure in latent values and data arrays."""
        return self.drawn(key, latents, data).values[self.site]

    def drawn(self, key: Any, latents: Mapping[str, Any], data: Any) -> Drawn:
        """As `update`, and what rounding leaves of it: what pivots lose, and what values do by being held as
        they are."""
        if self._keeps_digits is not None:
            return self._keeps_digits.drawn(key, latents, data)
        site = self.density.sites[self.site]
        others = {n: v for n, v in latents.items() if n != self.site}
        vector, precision = self.information(others, data)
        factor = jnp.linalg.cholesky(precision)
        noise = jax.random.normal(key, (self.blocks, self.length, 1), site.dtype)
        mean = cho_solve((factor, True), vector[..., None])
        draw = mean + solve_triangular(factor, noise, trans="T", lower=True)
        rounding = rounding_of(precision, factor, mean[..., 0])
        return Drawn({self.site: self._joined(draw[..., 0]).astype(site.dtype)}, rounding)

    @cached_property
    def _keeps_digits(self) -> Any:
        """What draws the site where its factor would not; None where that is as good."""
        return None if self.precise is None else self.precise()

    def natural(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """`information` `[blocks, length]` and `precision` `[blocks, length, length]`."""
        latents = self.density.state_values(state, without=(self.site,))
        vector, precision = self.information(latents, self._data)
        return {"information": vector, "precision": precision}

    def height(self, x: Any, state: Mapping[str, Any]) -> Any:
        """The log density at `x` given the rest of `state`, up to a constant: a scalar."""
        found, v = self.natural(state), self._split(x)
        curved = jnp.einsum("bi,bij,bj->", v, found["precision"], v)
        return jnp.sum(found["information"] * v) - 0.5 * curved

    @property
    def signature(self) -> str:
        pickers = [p.picker for p in self._products.values() if p is not None and p.picker is not None]
        kept = self._keeps_digits is not None
        return repr(("gaussian", self.site, self.batch, kept, [(p.site, p.values.tolist()) for p in pickers]))
