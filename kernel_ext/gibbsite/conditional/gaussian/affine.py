"""Terms as products of two affine functions of Gaussian sites: their factors, slopes and weights."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gibbsite.conditional.factors.sums import exact_product, long_product
from gibbsite.density import Density
from gibbsite.density.terms import Term
from gibbsite.programs.evaluation.evaluate import Evaluator, evaluate_lazily
from gibbsite.programs.jaxpr import primitives as op
from gibbsite.programs.jaxpr.compat import Literal
from gibbsite.programs.jaxpr.walker import OnDemand
from gibbsite.programs.maps.access import Shape

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
        moves = not isinstance(a, Literal) and degrees.get(a, 0) > 0 and site in density.maps.latents(a)
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


def summed(x: Any, shape: Shape, axes: Shape) -> Any:
    """The sum over `axes` of an array of `shape` with constant axes at size 1; keeps the axes."""
    copies = int(np.prod([shape[a] for a in axes if x.shape[a] == 1], dtype=np.int64))
    return copies * jnp.sum(x, axis=axes, keepdims=True)


def total(x: Any, slopes: Any, shape: Shape) -> Any:
    """The sums over all of `x * slope`, one per slope, of one array or (one axis more) of several."""
    several = x.ndim > len(shape)
    xs = x if several else x[None]
    flat = tuple(a for a in range(len(shape)) if slopes.shape[1 + a] == 1)
    xs = jax.vmap(lambda one: summed(one, shape, flat))(xs)
    full = tuple(1 if a in flat else n for a, n in enumerate(shape))
    left, right = (jnp.broadcast_to(v, (v.shape[0], *full)).reshape(v.shape[0], -1) for v in (xs, slopes))
    return exact_product(left, right.T) if several else long_product(right, left[0])
