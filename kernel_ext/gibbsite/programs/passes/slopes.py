"""Derivatives of x log y where x and y are 0, which JAX takes for 0 / 0.

Where nothing is counted the logarithm of a rate has no weight, and x log y is 0 for every y: so is its
derivative by y. A rate or a probability of 0 comes from data as people write them (`at_risk * rate`) and from
discrete sites (`present * p`), and one such element made the whole gradient undefined.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.special import xlog1py, xlogy

from gibbsite.programs.jaxpr.compat import JaxprEqn, custom_name, jaxpr_as_fun
from gibbsite.programs.passes.replaced import Replacement, changes, replayed


def with_slopes(fn: Callable[[jax.Array], jax.Array]) -> Callable[[jax.Array], jax.Array]:
    """`fn` with these derivatives, which is run once to find such products."""

    def run(x: jax.Array) -> jax.Array:
        closed: Any = jax.make_jaxpr(fn)(x)
        if changes(closed, slopes, shut=True):
            return replayed(closed, [x], slopes, shut=True)[0]
        (same,) = jaxpr_as_fun(closed)(x)
        return same

    return run


def slopes(eqn: JaxprEqn) -> Replacement | None:
    """The same product with these derivatives; None for other equations."""
    product = _PRODUCTS.get(custom_name(eqn))
    return None if product is None else lambda _, xs: [product(*xs)]


@jax.custom_jvp
def _xlogy(x: Any, y: Any) -> Any:
    return xlogy(x, y)


@_xlogy.defjvp
def _(xs: Any, dxs: Any) -> Any:
    (x, y), (dx, dy) = xs, dxs
    nothing = x == 0
    return xlogy(x, y), dx * jnp.log(y) + dy * jnp.where(nothing, 0, x / jnp.where(nothing, 1, y))


@jax.custom_jvp
def _xlog1py(x: Any, y: Any) -> Any:
    return xlog1py(x, y)


@_xlog1py.defjvp
def _(xs: Any, dxs: Any) -> Any:
    (x, y), (dx, dy) = xs, dxs
    nothing = x == 0
    return xlog1py(x, y), dx * jnp.log1p(y) + dy * jnp.where(nothing, 0, x / jnp.where(nothing, 1, 1 + y))


_PRODUCTS: dict[str, Callable[..., Any]] = {"xlogy": _xlogy, "xlog1py": _xlog1py}
