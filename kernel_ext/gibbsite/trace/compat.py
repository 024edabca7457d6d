"""The one module that touches parts of JAX which JAX does not promise to keep stable."""

from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Primitive, Var, jaxpr_as_fun
from jax.interpreters.partial_eval import dce_jaxpr

__all__ = ["ClosedJaxpr", "Jaxpr", "JaxprEqn", "Literal", "Primitive", "Var", "dce_jaxpr", "jaxpr_as_fun"]
