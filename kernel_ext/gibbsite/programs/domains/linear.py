"""Which operands an equation is linear in: what sums of log densities are taken apart by."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from gibbsite.programs.jaxpr import primitives as op
from gibbsite.programs.jaxpr.compat import JaxprEqn

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
