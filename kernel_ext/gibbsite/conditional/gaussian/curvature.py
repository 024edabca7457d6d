"""Gradient and Hessian of a quadratic log density, read off the products of affine functions it is made of.

A term that is `w a b`, with `a` and `b` affine in the site, has the Hessian `w (a' b'^T + b' a'^T)`, whatever
the values of `a` and `b`, and at zero the gradient `w (a b' + b a')`. The slopes `a'` change along fewer axes
than the values do: that of `y - mu[z]` is the same for every point of a component, so that the Hessian of all
points costs as much as one point's per component, and a regression's is one product of matrices.
Differentiating twice would carry them along every axis, once per direction. Terms of another form are left to
automatic differentiation.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gibbsite.conditional.factors.sums import exact_product, long_product
from gibbsite.conditional.linear.layout import Part
from gibbsite.conditional.reads.reduce import reduce_onto, sum_axes
from gibbsite.conditional.reads.support import listed
from gibbsite.density import Density
from gibbsite.density.terms import Term
from gibbsite.programs.evaluation.evaluate import Evaluator, evaluate_lazily
from gibbsite.programs.jaxpr import primitives as op
from gibbsite.programs.jaxpr.compat import Literal
from gibbsite.programs.jaxpr.walker import OnDemand
from gibbsite.programs.maps.access import (
    Access,
    Affine,
    Component,
    Shape,
    Table,
    clipped,
    component_array,
    full_window,
)

_STILL = object()
"""Stands for the slope of what does not change."""


class NotPlain(Exception):
    """A term whose slopes are not simpler than its values."""


@dataclass(frozen=True, eq=False)
class Peeled:
    """A term's array as `sign * left * right * factors`: two affine functions of the sites, the rest free of
    them. Of `factors`, each comes with whether it divides."""

    left: Any
    right: Any
    factors: tuple[tuple[Any, bool], ...]
    sign: float


def peeled(density: Density, degrees: Mapping[Any, int], term: Term) -> Peeled | None:
    """The two affine functions that a term of certified `degrees` is the product of, if it is one."""
    atom, sign, factors = term.atom, 1.0, []
    while True:
        eqn = density.producer.get(atom)
        if eqn is None:
            return None
        degree = [0 if isinstance(a, Literal) else degrees.get(a, 0) for a in eqn.invars]
        if any(d and tuple(a.aval.shape) != term.shape for a, d in zip(eqn.invars, degree, strict=True)):
            return None
        if op.whole_power(eqn) == 2:
            left = right = eqn.invars[0]
            break
        divides = op.of_kind(eqn, op.DIVIDES)
        if op.of_kind(eqn, op.MULTIPLIES) and degree == [1, 1]:
            left, right = eqn.invars
            break
        if op.of_kind(eqn, op.NEGATES):
            atom, sign = eqn.invars[0], -sign
        elif op.of_kind(eqn, op.MULTIPLIES, op.DIVIDES) and 0 in degree and not (divides and degree[1]):
            free = degree.index(0)
            factors.append((eqn.invars[free], divides))
            atom = eqn.invars[1 - free]
        else:
            return None
    return Peeled(left, right, tuple(factors), sign) if degrees[left] == 1 else None


def weight_of(term: Term, product: Peeled, ev: Evaluator) -> Any:
    """What the product of the two affine functions is multiplied with, constant axes at size 1."""
    rank = len(term.shape)
    w = product.sign * jnp.reshape(term.weight.value(ev.full), term.weight.shape or (1,) * rank)
    for atom, divides in product.factors:
        x = ev.lazy(atom)
        x = jnp.reshape(x, (1,) * rank) if x.ndim == 0 else x
        w = jnp.where(w == 0, 0, w / x if divides else w * x)
    return w


def slope_along(
    density: Density, degrees: Mapping[Any, int], site: str, direction: Any, atom: Any, ev: Evaluator
) -> Any:
    """The change of the affine `atom` per step of `site` along `direction`, constant axes at size 1.

    `direction` is of the site's rank, constant axes at size 1, too. Raises `NotPlain` where an operation on
    the way is not known to be linear.
    """

    def leaf(a: Any) -> Any:
        moves = site in density.maps.latents(a) and degrees.get(a, 0) > 0
        return None if moves else _STILL

    def rule(eqn: Any, slopes: list[Any]) -> Any:
        together = op.linear_operands(eqn)
        fills = op.of_kind(eqn, op.GATHERS) and "FILL" in str(eqn.params["mode"])
        if not (together or op.is_product(eqn)) or fills or len(eqn.outvars) != 1:
            raise NotPlain
        operands = []
        for i, (a, slope) in enumerate(zip(eqn.invars, slopes, strict=True)):
            if slope is not _STILL:
                operands.append(slope)
            elif i in together:  # a constant beside it
                operands.append(jnp.zeros((1,) * len(a.aval.shape), a.aval.dtype))
            else:
                operands.append(ev.lazy(a))
        return evaluate_lazily(eqn, operands)

    return OnDemand(density.producer, leaf, rule, {density.latent_vars[site]: direction})(atom)


def slopes_along(density: Density, degrees: Mapping[Any, int], part: Part, atom: Any, ev: Evaluator) -> Any:
    """The change of `atom` per step of each element of one copy of a part, in all copies:
    `[slots, *atom's shape]`, constant axes at size 1."""
    shape = tuple(1 if a in part.batch else n for a, n in enumerate(part.shape))
    if not part.slots:  # a design without columns
        return jnp.zeros((0, *(1 for _ in atom.aval.shape)), density.sites[part.site].dtype)
    units = jnp.eye(part.slots, dtype=density.sites[part.site].dtype)
    return jax.vmap(lambda u: slope_along(density, degrees, part.site, u.reshape(shape), atom, ev))(units)


def total(x: Any, slopes: Any, shape: Shape) -> Any:
    """The sums over all of `x * slope`, one per slope, of one array or (one axis more) of several."""
    several = x.ndim > len(shape)
    xs = x if several else x[None]
    flat = tuple(a for a in range(len(shape)) if slopes.shape[1 + a] == 1)
    xs = jax.vmap(lambda one: sum_axes(one, shape, flat))(xs)
    full = tuple(1 if a in flat else n for a, n in enumerate(shape))
    left, right = (
        jnp.broadcast_to(v, (v.shape[0], *full)).reshape(v.shape[0], math.prod(full)) for v in (xs, slopes)
    )
    return exact_product(left, right.T) if several else long_product(right, left[0])


def same_index(component: Component, ev: Evaluator) -> Any | None:
    """The index as a scalar, if it is the same for all elements at the values that `ev` holds; else None.

    Told by how the table was derived (`Table.key`), from variables that `ev` finds constant along all axes.
    """
    if isinstance(component, Affine):
        return None if component.axes else component.offset
    return _of_key(component.key, ev) if isinstance(component, Table) else None


def _of_key(key: Any, ev: Evaluator) -> Any | None:
    kind, *rest = key
    if kind == "look up":  # a table that is constant is so wherever it is read
        return _of_key(rest[0], ev)
    if kind == "gather":
        var, k, _, high = rest
        x = ev.lazy(var)
        if any(n != 1 for n in x.shape[:-1]):
            return None
        return clipped(x.reshape(-1)[min(k, x.shape[-1] - 1)], high)
    if kind == "sum":
        parts, total, _ = rest
        for coef, c in parts:
            index = same_index(c, ev)
            if index is None:
                return None
            total = total + coef * index
        return total
    return None


# products of slopes that are formed element by element before they are summed onto a site's blocks
_FORMED = 2**20


@dataclass(frozen=True, eq=False)
class Picker:
    """The discrete site that alone says which block an element reads: its values, and how it is read."""

    site: str
    values: np.ndarray
    access: Access


@dataclass(frozen=True, eq=False)
class Product:
    """A term that is a `peeled` product of two affine functions of the site.

    `blocks` tells which block of the site an element reads, `picker` what that depends on besides the data
    (None: nothing).
    """

    term: Term
    peeled: Peeled
    blocks: Access
    picker: Picker | None = None


def products(
    density: Density, site: str, degrees: Mapping[Any, int], batch: Sequence[int]
) -> dict[int, Product | None]:
    """Of the terms that touch `site`, by number: the product that each one is, None where it is none.

    Terms without curvature are left out. `degrees` as certified; `batch` are the axes of the site's blocks.
    """
    out: dict[int, Product | None] = {}
    for i, (term, accesses) in enumerate(density.terms_of(site)):
        if degrees[term.atom] > 1:
            out[i] = _product(density, degrees, batch, term, accesses)
    return out


def _product(
    density: Density,
    degrees: Mapping[Any, int],
    batch: Sequence[int],
    term: Term,
    accesses: Sequence[Access],
) -> Product | None:
    blocks = Access(tuple(accesses[0].index[a] for a in batch), accesses[0].window)
    if any(a.window != full_window(term.shape) for a in accesses) or not blocks.single:
        return None
    found = peeled(density, degrees, term)
    if found is None:
        return None
    pickers = blocks.latents()
    picker = _picker(density, term, *pickers) if len(pickers) == 1 else None
    if pickers and picker is None:
        return None
    return Product(term, found, blocks, picker)


def _picker(density: Density, term: Term, name: str) -> Picker | None:
    """None where the site has no list of values, or elements of the term read several of its elements."""
    support = listed(density, name)
    accesses = density.maps[term.atom].get(name, ())
    if support is None or len(accesses) != 1:
        return None
    (access,) = accesses
    plain = access.single and access.window == full_window(term.shape) and not access.latents()
    return Picker(name, support.values, access) if plain else None


@dataclass(frozen=True)
class Curvature:
    """Expands the products of one site around zero, block by block."""

    density: Density
    part: Part
    degrees: Mapping[Any, int]

    def expansion(self, product: Product, latents: Mapping[str, Any], data: Any) -> tuple[Any, Any] | None:
        """Gradient `[blocks, length]` and Hessian `[blocks, length, length]` of one term at zero.

        None where slopes are no simpler than values.
        """
        site = self.density.sites[self.part.site]
        ev = self.density.evaluator({**latents, self.part.site: jnp.zeros(site.shape, site.dtype)}, data)
        try:
            if not self.part.batch:
                gradient, hessian = self._contracted(product, ev, weight_of(product.term, product.peeled, ev))
                return gradient[None], hessian[None]
            if product.picker is not None:
                return self._by_value(product, product.picker, ev, latents, data)
            return self._by_block(product, ev)
        except NotPlain:
            return None

    def _slopes(self, atom: Any, ev: Evaluator) -> Any:
        return slopes_along(self.density, self.degrees, self.part, atom, ev)

    def _contracted(self, product: Product, ev: Evaluator, w: Any, even: Shape = ()) -> tuple[Any, Any]:
        """The sums over the whole term, whose slopes must not change along axes `even`."""
        a = self._slopes(product.peeled.left, ev)
        b = a if product.peeled.right is product.peeled.left else self._slopes(product.peeled.right, ev)
        if any(x.shape[1 + axis] != 1 for x in (a, b) for axis in even):
            raise NotPlain
        shape = product.term.shape
        # what is masked out may hold anything
        both = product.peeled.left, product.peeled.right
        left, right = (jnp.where(w == 0, 0, w * ev.lazy(x)) for x in both)
        gradient = total(left, b, shape) + total(right, a, shape)
        flat = tuple(x for x in range(len(shape)) if a.shape[1 + x] == b.shape[1 + x] == 1)
        half = total(
            a * sum_axes(w, shape, flat), b, tuple(1 if x in flat else n for x, n in enumerate(shape))
        )
        return gradient, half + half.T

    def _by_value(
        self, product: Product, picker: Picker, now: Evaluator, latents: Mapping[str, Any], data: Any
    ) -> tuple[Any, Any]:
        """A block for each value of the site that picks, and the sum of the weights of what picks it."""
        shape, z = product.term.shape, jnp.asarray(latents[picker.site])
        index = tuple(component_array(c, shape, now.full) for c in picker.access.index)  # type: ignore[arg-type]
        picked = z[index] if index else jnp.reshape(z, (1,) * len(shape))

        site = self.density.sites[self.part.site]
        zero = jnp.zeros(site.shape, site.dtype)

        def at(value: Any) -> tuple[Any, Any]:
            # one matrix solves for all points of its component: in turn, each would be solved for by itself
            filled = {**latents, self.part.site: zero, picker.site: jnp.reshape(value, (1,) * z.ndim)}
            ev = self.density.evaluator(filled, data)
            w = jnp.where(picked == value, weight_of(product.term, product.peeled, ev), 0)
            varies = tuple(a for a, n in enumerate(picked.shape) if n != 1)
            return self._contracted(product, ev, w, varies), self._block(product, ev)

        parts, blocks = jax.vmap(at)(jnp.asarray(picker.values, z.dtype))
        return jax.tree.map(lambda x: jax.ops.segment_sum(x, blocks, self.part.copies), parts)

    def _block(self, product: Product, ev: Evaluator) -> Any:
        """The number of the block that every element reads, the same for all of them."""
        flat: Any = 0
        for c, n in zip(product.blocks.index, self.part.sizes, strict=True):
            i = same_index(c, ev)
            if i is None:
                raise NotPlain
            flat = flat * n + i
        return flat

    def _by_block(self, product: Product, ev: Evaluator) -> Any:
        """Small terms whose blocks are fixed: every product of two slopes, summed onto the blocks."""
        a, b = self._slopes(product.peeled.left, ev), self._slopes(product.peeled.right, ev)
        length, shape = a.shape[0], product.term.shape
        if length**2 * int(np.prod(shape, dtype=np.int64)) > _FORMED:
            raise NotPlain
        w = weight_of(product.term, product.peeled, ev)

        def onto(x: Any) -> Any:
            summed = reduce_onto(x, shape, product.blocks, self.part.sizes, ev.full)
            return jnp.broadcast_to(summed, self.part.sizes).reshape(-1)

        left, right = ev.lazy(product.peeled.left), ev.lazy(product.peeled.right)
        gradient = jax.vmap(lambda x, y: onto(w * (left * y + right * x)))
        half = jax.vmap(lambda x: jax.vmap(lambda y: onto(w * x * y))(b))(a)
        return gradient(a, b).T, jnp.moveaxis(half + jnp.swapaxes(half, 0, 1), -1, 0)
