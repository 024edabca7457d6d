"""Which operands an equation is linear in: what sums of log densities are taken apart by."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from gibbsite.trace.jaxpr.compat import JaxprEqn
from gibbsite.trace.jaxpr.primitives import PASSES, REARRANGES, SPREADS

ADD = frozenset(["add", "add_any", "sub", "concatenate"])
"""Linear in all operands together: those that no latent reaches are added, too."""
_ALWAYS = ADD | REARRANGES | PASSES | SPREADS | {"neg", "reduce_sum"}


def linear_in(eqn: JaxprEqn, free: Callable[[Any], bool]) -> list[int] | None:
    """The positions of the operands that depend on a latent, where the equation is linear in these together;
    None where it is not. `free` tells which atoms depend on no latent."""
    name, out = eqn.primitive.name, eqn.outvars[0].aval
    floating = jnp.issubdtype(out.dtype, jnp.floating)
    if not floating and not _adds_up(eqn):
        return None
    live = [i for i, a in enumerate(eqn.invars) if not free(a)]
    if name in _ALWAYS:
        return live if name in ADD or len(eqn.invars) == 1 else None
    if name in ("mul", "dot_general"):
        return live if len(live) == 1 else None
    if name == "div":
        return live if floating and live == [0] else None
    if name == "select_n":
        return None if 0 in live else live
    if name == "convert_element_type":
        source = eqn.invars[0].aval.dtype
        number_like = jnp.issubdtype(source, jnp.floating) or jnp.issubdtype(source, jnp.integer)
        return live if number_like and (floating or source == out.dtype) else None
    return None


def _adds_up(eqn: JaxprEqn) -> bool:
    """Whether an equation on integers is linear in numbers too: narrow and unsigned ones wrap around, and
    products of any do."""
    aval = eqn.outvars[0].aval
    return wide(aval.dtype) and eqn.primitive.name not in ("mul", "dot_general")


def wide(dtype: Any) -> bool:
    """Whether sums of such integers are taken not to wrap around."""
    return jnp.issubdtype(dtype, jnp.signedinteger) and dtype.itemsize >= 4
