"""Equations that stand for others: calls, choices by platform, stacks and barriers of several arrays."""

from typing import Any

from jax import lax

from gibbsite.programs.jaxpr.compat import (
    ClosedJaxpr,
    JaxprEqn,
    Var,
    closed_call_body,
    only_by_its_own_slope,
    platform_default,
)
from gibbsite.programs.jaxpr.primitives import BARRIERS, STACKS, of_kind
from gibbsite.programs.passes.parts import jaxpr_of_parts, traced


def inlined(eqn: JaxprEqn, known: Any) -> ClosedJaxpr | None:
    """What a call runs (`jit`, custom derivatives, `remat`; not what has gradients by a rule
    of its own alone), or the usual branch of a choice by platform."""
    body = closed_call_body(eqn)
    if body is not None:
        return None if only_by_its_own_slope(eqn) else body
    if (portable := platform_default(eqn)) is None:
        return None
    jaxpr, choice = portable.jaxpr, Var(eqn.invars[0].aval)
    taken = jaxpr_of_parts(jaxpr.constvars, [choice, *jaxpr.invars], jaxpr.outvars, jaxpr.eqns)
    return ClosedJaxpr(taken, portable.consts)


def unstacked(eqn: JaxprEqn, known: Any) -> ClosedJaxpr | None:
    """`jnp.stack`, a primitive of its own in recent versions of JAX, as a concatenation."""
    if not of_kind(eqn, STACKS):
        return None
    axis = eqn.params["axis"]
    return traced(lambda *xs: lax.concatenate([lax.expand_dims(x, [axis]) for x in xs], axis), eqn.invars)


def one_each(eqn: JaxprEqn, known: Any) -> ClosedJaxpr | None:
    """A barrier of several arrays as one of each: it hands on every one of them, none for another."""
    if not of_kind(eqn, BARRIERS) or len(eqn.invars) < 2:
        return None
    return traced(lambda *xs: [lax.optimization_barrier(x) for x in xs], eqn.invars)
