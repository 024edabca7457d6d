"""Programs made of functions, and of equations."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax

from gibbsite.programs.jaxpr.compat import ClosedJaxpr, Jaxpr, JaxprEqn, Var, dce_jaxpr, make_jaxpr_like


def traced(fn: Callable[..., Any], atoms: Sequence[Any]) -> ClosedJaxpr:
    """The program of `fn` applied to arrays like these variables and literals."""
    specs = [jax.ShapeDtypeStruct(a.aval.shape, a.aval.dtype) for a in atoms]
    closed: Any = jax.make_jaxpr(fn)(*specs)
    return closed


def jaxpr_of_parts(
    constvars: Sequence[Var], invars: Sequence[Var], outvars: Sequence[Any], eqns: Sequence[JaxprEqn]
) -> Jaxpr:
    """A jaxpr made of equations; its debug information, which names inputs and outputs, is that of another
    one of the same size."""
    template = traced(lambda *xs: [0.0] * len(outvars), invars).jaxpr
    return make_jaxpr_like(template, constvars, invars, outvars, eqns)


def given(closed: ClosedJaxpr, variables: Iterable[Any], outputs: Sequence[Any] | None = None) -> ClosedJaxpr:
    """`closed` with some of its variables as further inputs, after all others, instead of being computed;
    `outputs` are others than its own."""
    jaxpr, taken = closed.jaxpr, dict.fromkeys(variables)

    def kept(eqn: JaxprEqn) -> JaxprEqn:
        if not any(v in taken for v in eqn.outvars):
            return eqn
        return eqn.replace(outvars=[Var(v.aval) if v in taken else v for v in eqn.outvars])

    inputs = [*jaxpr.invars, *(v for v in taken if v not in set(jaxpr.invars))]
    outputs = jaxpr.outvars if outputs is None else outputs
    cut = jaxpr_of_parts(jaxpr.constvars, inputs, outputs, list(map(kept, jaxpr.eqns)))
    return ClosedJaxpr(live(cut), closed.consts)


def live(jaxpr: Jaxpr) -> Jaxpr:
    """`jaxpr` without the equations that no output needs; inputs and outputs stay."""
    return dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars), instantiate=True)[0]
