"""Joint Gaussian conditionals of one site: block by block, or as chains in time linear in their length."""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import cho_solve, solve_triangular

from gibbsite.conditional.conditional import Conditional
from gibbsite.conditional.factors.root import rounding_of
from gibbsite.conditional.forms.support import certify_quadratic, support_of
from gibbsite.conditional.forms.walk import Refused
from gibbsite.conditional.gaussian.chained import ChainedGaussian, Strand, Stringing, distance
from gibbsite.conditional.gaussian.curvature import Curvature, products
from gibbsite.conditional.linear.layout import GROUPS, MAX_COUPLED, Part
from gibbsite.conditional.reads.support import bounded_by
from gibbsite.conditional.reads.term_access import batch_axes
from gibbsite.conditional.update import Drawn
from gibbsite.density import Density
from gibbsite.density.passes.totals import Totals, in_totals
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
        self.part = Part(site, density.sites[site].shape, batch, GROUPS, 0)
        self.blocks, self.length = self.part.copies, self.part.slots
        touched = [t for t, _ in density.terms_of(site)]
        origins = ", ".join(dict.fromkeys(t.origin for t in touched))
        reason = (
            f"MultivariateNormal: the log density is a quadratic form of {site}, in the terms of {origins}"
        )
        n = sum(int(np.prod(t.shape, dtype=np.int64)) for t in touched)
        factorise = f"{self.blocks} factorisations of size {self.length}"
        self._products = products(density, site, degrees, batch)
        self._curvature = Curvature(density, self.part, degrees)
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
            slope = jax.grad(lambda x: self._logdensity(x, latents, data, curved | flat))(zero)
            vector = vector + self.part.split(slope)
        if curved:
            hessian = hessian + self._differentiated(curved, zero, latents, data)
        return vector, -hessian

    def _differentiated(self, chosen: set[int], zero: Any, latents: Mapping[str, Any], data: Any) -> Any:
        """The Hessian of some of the terms, one direction after another."""
        gradient = jax.grad(lambda x: self._logdensity(x, latents, data, chosen))

        def column(unit: Any) -> Any:
            # the same direction in every block at once: blocks do not meet
            direction = self.part.joined(jnp.broadcast_to(unit, (self.blocks, self.length)))
            return self.part.split(jax.jvp(gradient, (zero,), (direction,))[1])

        columns = jax.lax.map(column, jnp.eye(self.length, dtype=zero.dtype), batch_size=64)
        return jnp.moveaxis(columns, 0, -1)

    def update(self, key: Any, latents: Mapping[str, Any], data: Any) -> Any:
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
        return Drawn({self.site: self.part.joined(draw[..., 0]).astype(site.dtype)}, rounding)

    @cached_property
    def _keeps_digits(self) -> Any:
        """What draws the site where its factor would not; None where that is as good."""
        return None if self.precise is None else self.precise()

    def natural(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """`information` `[blocks, length]` and `precision` `[blocks, length, length]`."""
        vector, precision = self.information(self._latents(state), self._data)
        return {"information": vector, "precision": precision}

    def height(self, x: Any, state: Mapping[str, Any]) -> Any:
        """The log density at `x` given the rest of `state`, up to a constant: a scalar."""
        found, v = self.natural(state), self.part.split(x)
        curved = jnp.einsum("bi,bij,bj->", v, found["precision"], v)
        return jnp.sum(found["information"] * v) - 0.5 * curved

    @property
    def signature(self) -> str:
        pickers = [p.picker for p in self._products.values() if p is not None and p.picker is not None]
        told = self._keeps_digits is not None, [(p.site, p.values.tolist()) for p in pickers]
        return repr(("gaussian", self.site, self.part.batch, *told))


# Where the terms of a Gaussian site couple only elements that are near each other along one axis, the
# precision is block tridiagonal along it. Its blocks are read off with a few Hessian products, each of which
# serves every third place of the chain at once (Curtis, Powell and Reid 1974), and the draw is a block
# Cholesky factorisation with one substitution forwards and one backwards: the information form of the Kalman
# filter and of backward sampling (Rue 2001, "Fast sampling of Gaussian Markov random fields";
# Frühwirth-Schnatter 1994).


def chain_layout(
    density: Density, site: str, coupled: tuple[int, ...], batch: tuple[int, ...]
) -> Stringing | None:
    """The site laid out along that one of the coupled axes along which it is a chain that is worth it, if
    there is one; `reach` is the largest distance between coupled elements."""
    shape = density.sites[site].shape
    found = []
    for axis in coupled:
        reaches = [distance(density, [a.index[axis] for a in found]) for _, found in density.terms_of(site)]
        if any(r is None for r in reaches):
            continue
        reach = max(1, *(r for r in reaches if r is not None))
        width = reach * int(np.prod([shape[a] for a in coupled if a != axis], dtype=np.int64))
        if shape[axis] >= 8 * reach and width <= 64:
            found.append((width, Stringing({site: shape}, (Strand(site, axis, batch),), (), reach)))
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
        layout: Stringing,
    ):
        super().__init__(density, site, batch, degrees)
        self.chain = layout
        self._chained = ChainedGaussian(density, (site,), layout, degrees)
        self.places, self.steps, self.width = layout.places, layout.steps, layout.width
        axis = layout.strands[0].axis
        order = "a first-order" if layout.reach == 1 else f"an order-{layout.reach}"
        how = f"{order} chain along axis {axis}, drawn by forward filtering and backward sampling"
        self.reason = f"{self.reason.replace('MultivariateNormal', 'Gaussian chain', 1)}; it is {how}"
        n = sum(int(np.prod(t.shape, dtype=np.int64)) for t, _ in density.terms_of(site))
        self.cost = (
            f"{3 * self.width} gradients over {n} term elements, {self.steps} steps of width {self.width}"
        )

    def drawn(self, key: Any, latents: Mapping[str, Any], data: Any) -> Drawn:
        """One exact joint draw of the site; its own value, where there is one, says where the mean is looked
        for."""
        return self._chained.drawn(key, latents, data)

    def natural(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """`information`, `diagonal` and `below`; see the class."""
        found = self._chained.information(self._latents(state), self._data)
        return dict(zip(("information", "diagonal", "below"), found, strict=True))

    @property
    def signature(self) -> str:
        return repr(("gaussian chain", self.site, self.part.batch, self.chain))


class GaussianTotals(GaussianChain):
    """A Gaussian site that is a chain in its running totals; `natural` is of these."""

    def __init__(self, totals: Totals, site: str, batch: tuple[int, ...], layout: Stringing):
        super().__init__(totals.density, site, batch, certify_quadratic(totals.density, site), layout)
        self._totals = totals
        self.reason = f"{self.reason}, of the running totals of {site}"

    def drawn(self, key: Any, latents: Mapping[str, Any], data: Any) -> Drawn:
        found = super().drawn(key, self._totals.totals(latents), data)
        return found._replace(values=self._totals.steps(found.values))

    def natural(self, state: Mapping[str, Any]) -> dict[str, Any]:
        return super().natural(self._totals.totals(state))

    @property
    def signature(self) -> str:
        return repr(("totals", self._totals.along, super().signature))


# a dense factorisation below this is as fast as the steps of a chain
MIN_CHAIN = 16


def on_the_real_line(density: Density, site: str) -> bool:
    """Whether the support of a continuous latent is the whole real line."""
    try:
        return support_of(density, site).kind == "real"
    except Refused:
        return False


def gaussian_of(density: Density, site: str) -> GaussianConditional:
    """The joint Gaussian conditional of a site on the real line; `Refused` where it is not certified."""
    moved = bounded_by(density, site)
    if moved:
        raise Refused(f"it bounds the support of {', '.join(moved)}")
    degrees = certify_quadratic(density, site)
    if all(degrees[term.atom] < 2 for term, _ in density.terms_of(site)):
        raise Refused(f"no term is quadratic in {site}: nothing gives it a finite variance")
    batch = batch_axes(density, site)
    found = GaussianConditional(density, site, batch, degrees)
    if found.length >= MIN_CHAIN:
        layout = chain_layout(density, site, found.part.coupled, batch)
        if layout is not None:
            return GaussianChain(density, site, batch, degrees, layout)
        if (totals := in_totals(density, (site,))) is not None:
            batch = batch_axes(totals.density, site)
            coupled = Part(site, density.sites[site].shape, batch, GROUPS, 0).coupled
            layout = chain_layout(totals.density, site, coupled, batch)
            if layout is not None and {*totals.along[site]} == {layout.strands[0].axis}:
                return GaussianTotals(totals, site, batch, layout)
    if found.length > MAX_COUPLED:
        raise Refused(f"{found.length} elements of {site} are coupled, more than {MAX_COUPLED}")
    return found
