"""How far a value that grows from a site is `a + b * site`, and what `a` and `b` are."""

from collections.abc import Callable, Collection
from typing import Any

import jax.numpy as jnp

from gibbsite.density.density import Density
from gibbsite.density.hierarchy.broadcast_parameters import MOVES, Lift, Read, filled, shape_of
from gibbsite.density.intervals import positive
from gibbsite.programs.jaxpr import primitives as op
from gibbsite.programs.jaxpr.compat import JaxprEqn, Literal
from gibbsite.programs.maps.access import Shape


class Affine:
    """`a` and `b` of a value, equation by equation: each element of it is `± f (a + b * site) + r` at one
    element of the site, with `f` and `r` free of that element.

    Factors and summands that are not one number per element of the site are part of `f` and `r`, and so are
    `taken` summands, which are the location of another site. `location` and `scale` are the latents that `a`
    and `b` read, `summands` the variables that `a` is the sum of; `certain` says that `b` is above 0.
    """

    def __init__(self, density: Density, site: str, taken: Collection[Any] = ()):
        self.density, self.site, self._taken = density, site, taken
        self.location: frozenset[str] = frozenset()
        self.scale: frozenset[str] = frozenset()
        self.summands: list[Any] = []
        self.certain = True
        self._steps: list[tuple[str, Any]] = []
        self._sign, self._stretched, self._shifted = 1, False, False

    def takes(self, eqn: JaxprEqn, here: Any, lift: Lift) -> bool:
        """Whether the value keeps the form after `eqn`, which reads it as `here`: then it is part of it."""
        if op.of_kind(eqn, MOVES):
            return eqn.invars[0] is here
        if op.of_kind(eqn, op.CONVERTS):
            return eqn.outvars[0].aval.dtype == here.aval.dtype
        if op.of_kind(eqn, op.SELECTS):
            return filled(self.density, eqn) is here
        if op.of_kind(eqn, op.NEGATES):
            self._sign = -self._sign
            return True
        if (
            not op.of_kind(eqn, op.ADDS, op.SUBTRACTS, op.MULTIPLIES, op.DIVIDES)
            or eqn.invars[0] is eqn.invars[1]
        ):
            return False
        first = eqn.invars[0] is here
        other = eqn.invars[1 if first else 0]
        if self.site in self.density.maps.latents(other):
            return False
        if op.of_kind(eqn, op.MULTIPLIES, op.DIVIDES):
            divides = op.of_kind(eqn, op.DIVIDES)
            return (first or not divides) and self._times("div" if divides else "mul", other, lift)
        if self._stretched or self._ends_at(other):
            return False
        own, others = op.signs(eqn) if first else op.signs(eqn)[::-1]
        self._sign *= own
        self._plus(other, others, lift)
        self._shifted = bool(self.location | self.scale)
        return True

    def _ends_at(self, other: Any) -> bool:
        """Whether a summand is data, such as those that a mean is taken from."""
        data = not self.density.maps.latents(other) and shape_of(other) != ()
        return data and bool(self.location | self.scale)

    def _times(self, kind: str, other: Any, lift: Lift) -> bool:
        if self._shifted:
            return False
        reads, part = self.density.maps.latents(other), lift(other)
        if part is None:
            self._stretched = True
            return not reads
        if self._stretched and not reads:
            return True
        self.scale = self.scale | reads
        self.certain = self.certain and positive(self.density, other)
        self._steps.append((kind, part))
        return True

    def _plus(self, other: Any, sign: int, lift: Lift) -> None:
        """Take in those summands of `other` that are one number per element of the site."""
        reads, part = self.density.maps.latents(other), lift(other)
        if not isinstance(other, Literal) and other in self._taken:
            return
        if part is not None:
            self.location = self.location | reads
            self.summands += [other] if reads else []
            self._steps.append(("add" if sign * self._sign > 0 else "sub", part))
            return
        eqn = None if isinstance(other, Literal) else self.density.producer.get(other)
        if eqn is not None and op.of_kind(eqn, op.ADDS, op.SUBTRACTS):
            for atom, own in zip(eqn.invars, op.signs(eqn), strict=True):
                self._plus(atom, sign * own, lift)

    def reader(self, shape: Shape) -> Callable[[Read], tuple[Any, Any]]:
        """Computes `a` and `b`, arrays of the site's shape, from the values of the jaxpr's variables."""
        steps = tuple(self._steps)

        def read(of: Read) -> tuple[Any, Any]:
            a, b = jnp.zeros(shape), jnp.ones(shape)
            for kind, part in steps:
                x = part(of)
                if kind == "mul":
                    a, b = a * x, b * x
                elif kind == "div":
                    a, b = a / x, b / x
                else:
                    a = a + x if kind == "add" else a - x
            return a, b

        return read
