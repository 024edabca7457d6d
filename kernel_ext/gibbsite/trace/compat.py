"""The one module that touches parts of JAX which JAX does not promise to keep stable."""

from collections.abc import Sequence
from typing import Any

from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Primitive, Var, jaxpr_as_fun
from jax.interpreters.partial_eval import dce_jaxpr

__all__ = ["ClosedJaxpr", "Jaxpr", "JaxprEqn", "Literal", "Primitive", "Var", "bind_equation", "closed_call_body", "dce_jaxpr", "jaxpr_as_fun", "jaxpr_outputs", "make_jaxpr_like"]


# primitives that only wrap a body, with the parameter that holds it
_CALLS = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vjp_call_jaxpr": "fun_jaxpr",
    "remat2": "jaxpr",
    "checkpoint": "jaxpr",
}


def closed_call_body(eqn: JaxprEqn) -> ClosedJaxpr | None:
    """The body of an equation that merely calls a jaxpr (jit, custom derivatives, remat), else None."""
    param = _CALLS.get(eqn.primitive.name)
    if param is None:
        return None
    body = eqn.params[param]
    return body if isinstance(body, ClosedJaxpr) else ClosedJaxpr(body, ())


def jaxpr_outputs(jaxpr: Jaxpr, positions: Sequence[int], keep_inputs: bool = False) -> tuple[Jaxpr, list[bool]]:
    """`jaxpr` cut to the outputs at `positions` (ascending), and which inputs that needs.

    With `keep_inputs` the result still takes all inputs.
    """
    wanted = set(positions)
    return dce_jaxpr(jaxpr, [i in wanted for i in range(len(jaxpr.outvars))], instantiate=keep_inputs)


def make_jaxpr_like(
    template: Jaxpr,
    constvars: Sequence[Var],
    invars: Sequence[Var],
    outvars: Sequence[Any],
    eqns: Sequence[JaxprEqn],
) -> Jaxpr:
    """A jaxpr of the given parts, with the debug information and effects of `template`."""
    return Jaxpr(
        list(constvars),
        list(invars),
        list(outvars),
        list(eqns),
        effects=template.effects,
        debug_info=template.debug_info,
    )


def bind_equation(eqn: JaxprEqn, operands: Sequence[Any]) -> list[Any]:
    """Apply the primitive of `eqn` to other operands; always a list of results."""
    with eqn.ctx.manager:
        out = eqn.primitive.bind(*operands, **eqn.primitive.get_bind_params(eqn.params))
    return list(out) if eqn.primitive.multiple_results else [out]


def equation_frames(eqn: JaxprEqn) -> list[tuple[str, int]]:
    """File names and line numbers of the stack on which an equation was traced, innermost first."""
    traceback = eqn.source_info.traceback
    if traceback is None:
        return []
    return [(frame.file_name, frame.line_num) for frame in traceback.frames]
