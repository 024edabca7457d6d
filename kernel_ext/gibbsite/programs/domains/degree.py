"""Of which degree an array is as a polynomial in inputs: linear, affine and quadratic are read off it."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp

from gibbsite.programs.jaxpr import primitives as op
from gibbsite.programs.jaxpr.compat import JaxprEqn

Degree = float
NONE: Degree = math.inf
"""Of what is no polynomial."""


class Degrees:
    """The domain: the largest degree of any element, 0 of what is free of the inputs."""

    def __init__(self) -> None:
        # what reads degrees takes slopes equation by equation, which loops have none of
        self.rules: Mapping[str, Any] = {"scan": lambda eqn, ds: [NONE if any(ds) else 0] * len(eqn.outvars)}

    def of_constant(self, value: Any) -> Degree:
        return 0

    def join(self, parts: Sequence[Degree]) -> Degree:
        return max(parts)

    def moved(self, eqn: JaxprEqn, parts: Sequence[Degree], places: Sequence[Degree]) -> Degree:
        cut = any(parts) and op.of_kind(eqn, op.FLAT, op.ROUNDS)
        return NONE if any(places) or cut else max(parts)

    def computed(self, eqn: JaxprEqn, operands: Sequence[Degree]) -> Degree:
        power = op.whole_power(eqn)
        if not any(operands) or power == 0:
            return 0
        if power is not None:
            return power * operands[0] if power > 0 else NONE
        if op.is_product(eqn):
            return sum(operands)
        linear = op.linear_operands(eqn)
        alone = not any(d for i, d in enumerate(operands) if i not in linear)
        cut = op.of_kind(eqn, op.CONVERTS) and eqn.outvars[0].aval.dtype.kind != "f"
        return max(operands[i] for i in linear) if linear and alone and not cut else NONE


DEGREES = Degrees()


ADD = op.ADDS | op.SUBTRACTS | op.JOINS
"""Linear in all operands together: those that no latent reaches are added, too."""


def linear_in(eqn: JaxprEqn, free: Callable[[Any], bool]) -> list[int] | None:
    """The positions of the operands that depend on a latent, where the equation is linear in these together;
    None where it is not. `free` tells which atoms depend on no latent."""
    out = eqn.outvars[0].aval
    floating = jnp.issubdtype(out.dtype, jnp.floating)
    if not op.of_kind(eqn, op.TAKEN_APART) or not (floating or _adds_up(eqn)) or len(eqn.outvars) > 1:
        return None
    live = [i for i, a in enumerate(eqn.invars) if not free(a)]
    if op.is_product(eqn):
        return live if len(live) == 1 else None
    if op.of_kind(eqn, op.CONVERTS):
        source = eqn.invars[0].aval.dtype
        number_like = jnp.issubdtype(source, jnp.floating) or jnp.issubdtype(source, jnp.integer)
        return live if number_like and (floating or source == out.dtype) else None
    whole = op.of_kind(eqn, op.DIVIDES) and not floating
    return live if not whole and set(live) <= set(op.linear_operands(eqn)) else None


def _adds_up(eqn: JaxprEqn) -> bool:
    """Whether an equation on integers is linear in numbers too: narrow and unsigned ones wrap around, and
    products of any do."""
    return wide(eqn.outvars[0].aval.dtype) and not op.is_product(eqn)


def wide(dtype: Any) -> bool:
    """Whether sums of such integers are taken not to wrap around."""
    return jnp.issubdtype(dtype, jnp.signedinteger) and dtype.itemsize >= 4
