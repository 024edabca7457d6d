"""Arrays whose constant axes have size 1, at the sizes that an equation needs them at."""

from typing import Any

import jax.numpy as jnp

from gibbsite.programs.jaxpr.compat import JaxprEqn, bind_equation, shape_of
from gibbsite.programs.maps.access import Shape


def materialise(x: Any, shape: Shape, axes: Any = None) -> Any:
    """Broadcast `x` to `shape`, along `axes` only if given."""
    target = tuple(n if axes is None or a in axes else x.shape[a] for a, n in enumerate(shape))
    return x if tuple(x.shape) == target else jnp.broadcast_to(x, target)


def at_full_size(eqn: JaxprEqn, xs: list[Any]) -> list[Any]:
    """An equation applied to operands at their full size."""
    return bind_equation(eqn, [materialise(x, shape_of(a)) for x, a in zip(xs, eqn.invars, strict=True)])
