"""The programs inside an equation; JAX 0.9 and 0.10 have this in different places."""

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr


def inner_jaxprs(eqn):
    """Those in the parameters of an equation, of loops, branches and calls."""
    for value in jax.tree.leaves(list(eqn.params.values())):
        if isinstance(value, ClosedJaxpr):
            yield value.jaxpr
        elif isinstance(value, Jaxpr):
            yield value
