"""Derivatives that stay finite where a table has a structural zero.

`log(p * z)` is −inf at `z = 0`; its entry has weight zero, but the derivative of the logarithm is infinite
and `0 * inf` is not a number. While a table is made, such functions have the derivative 0 at their singular
points: the entry is −inf for every value of the parameters nearby, and does not move.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from gibbsite.density import Density
from gibbsite.ground.once import once
from gibbsite.programs.evaluation.evaluate import materialise
from gibbsite.programs.jaxpr.primitives import name_of


def _guarded(value: Callable[..., Any], slopes: Callable[..., tuple[Any, ...]]) -> Callable[..., Any]:
    """`value` with the derivatives `slopes`, and 0 where they are not finite."""

    @partial(jax.custom_jvp, nondiff_argnums=(0,))
    def fn(params: tuple[Any, ...], *xs: Any) -> Any:
        return value(*xs, *params)

    @fn.defjvp
    def _(params: tuple[Any, ...], xs: Any, dxs: Any) -> tuple[Any, Any]:
        out = value(*xs, *params)
        found: Any = jnp.zeros_like(out)
        for slope, dx in zip(slopes(out, *xs, *params), dxs, strict=True):
            if dx.dtype == out.dtype:  # an integer exponent has no tangent
                found = found + jnp.where(jnp.isfinite(slope), slope, 0) * dx
        return out, found

    return fn


_LOG = _guarded(lax.log, lambda out, x: (jnp.where(x > 0, 1 / jnp.where(x > 0, x, 1), 0),))
_LOG1P = _guarded(lax.log1p, lambda out, x: (jnp.where(x > -1, 1 / jnp.where(x > -1, 1 + x, 1), 0),))
_SQRT = _guarded(lax.sqrt, lambda out, x: (jnp.where(x > 0, 0.5 / jnp.where(x > 0, out, 1), 0),))
_RSQRT = _guarded(lax.rsqrt, lambda out, x: (jnp.where(x > 0, -0.5 * out / jnp.where(x > 0, x, 1), 0),))


def _div_slopes(out: Any, x: Any, y: Any) -> tuple[Any, Any]:
    there = y != 0
    inverse = jnp.where(there, 1 / jnp.where(there, y, 1), 0)
    return inverse, jnp.where(there, -out * inverse, 0)


def _pow_slopes(out: Any, x: Any, y: Any) -> tuple[Any, Any]:
    base = jnp.where(x == 0, 1, x)
    at_zero = jnp.where(y == 1, 1.0, 0.0)
    by_exponent = out * jnp.log(jnp.where(x > 0, x, 1))
    return jnp.where(x == 0, at_zero, y * jnp.power(base, y - 1)), jnp.where(x > 0, by_exponent, 0)


def _integer_pow_slopes(out: Any, x: Any, y: int) -> tuple[Any, ...]:
    return (
        jnp.where((x != 0) | (y > 0), y * lax.integer_pow(jnp.where((x == 0) & (y < 1), 1, x), y - 1), 0),
    )


_DIV = _guarded(lax.div, _div_slopes)
_POW = _guarded(jnp.power, _pow_slopes)
_INTEGER_POW = _guarded(lax.integer_pow, _integer_pow_slopes)

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "log": _LOG,
    "log1p": _LOG1P,
    "sqrt": _SQRT,
    "rsqrt": _RSQRT,
    "div": _DIV,
    "pow": _POW,
    "integer_pow": _INTEGER_POW,
}


class _Guarded:
    """Stands for a primitive in an equation: same name, same value, other derivative."""

    multiple_results = False

    def __init__(self, name: str):
        self.name = name

    def get_bind_params(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        return params

    def bind(self, *xs: Any, **params: Any) -> Any:
        shape = jnp.broadcast_shapes(*map(jnp.shape, xs))
        xs = tuple(materialise(jnp.asarray(x), shape) for x in xs)
        return _FUNCTIONS[self.name]((params["y"],) if self.name == "integer_pow" else (), *xs)


@once
def guarded(density: Density) -> Density:
    """The same density, evaluated with finite derivatives at singular points."""
    out = {}
    for var, eqn in density.producer.items():
        smooth = jnp.issubdtype(eqn.outvars[0].aval.dtype, jnp.floating)
        if name_of(eqn) in _FUNCTIONS and smooth:
            eqn = eqn.replace(primitive=_Guarded(name_of(eqn)))
        out[var] = eqn
    found = replace(density, cache={})
    found.__dict__["producer"] = out  # the cached property of a frozen class
    return found
