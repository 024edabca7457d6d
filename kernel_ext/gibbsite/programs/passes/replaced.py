"""A program with some of its equations computed otherwise, in bodies of calls, loops and branches too."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.special import xlog1py, xlogy

from gibbsite.programs.jaxpr.compat import (
    ClosedJaxpr,
    Jaxpr,
    JaxprEqn,
    Var,
    bind_equation,
    closed_call_body,
    custom_name,
    dce_jaxpr,
    has_own_derivative,
    jaxpr_as_fun,
    make_jaxpr_like,
)
from gibbsite.programs.jaxpr.walker import walk

Replacement = Callable[[JaxprEqn, list[Any]], list[Any]]
Choice = Callable[[JaxprEqn], Replacement | None]
"""What to do in place of an equation; None where it stays."""


def replayed(closed: ClosedJaxpr, operands: Sequence[Any], choice: Choice, shut: bool = False) -> list[Any]:
    """The outputs of a program, with what `choice` has for its equations in their place.

    With `shut`, functions that have a derivative of their own are not looked into: they would lose it.
    """

    def rule(eqn: JaxprEqn, xs: list[Any]) -> list[Any]:
        other = choice(eqn)
        if other is not None:
            return other(eqn, xs)
        inner = bodies(eqn, shut)
        if not any(changes(b, choice, shut) for parts in inner.values() for b in parts):
            return bind_equation(eqn, xs)
        called = closed_call_body(eqn)
        if called is not None:
            return replayed(called, xs, choice, shut)
        return bind_equation(eqn, xs, **{n: _changed(eqn.params[n], choice, shut) for n in inner})

    return walk(closed.jaxpr, closed.consts, operands, {}, rule, lambda value: value)


def changes(closed: ClosedJaxpr, choice: Choice, shut: bool = False) -> bool:
    """Whether anything in a program is to be replaced."""
    return any(
        choice(eqn) is not None
        or any(changes(b, choice, shut) for parts in bodies(eqn, shut).values() for b in parts)
        for eqn in closed.jaxpr.eqns
    )


def bodies(eqn: JaxprEqn, shut: bool = False) -> dict[str, list[ClosedJaxpr]]:
    """The programs that an equation runs, by parameter."""
    if shut and has_own_derivative(eqn):
        return {}
    called = closed_call_body(eqn)
    if called is not None:
        return {"": [called]}
    found: dict[str, list[ClosedJaxpr]] = {}
    for name, value in eqn.params.items():
        parts = value if isinstance(value, tuple) else (value,)
        programs = [p for p in parts if isinstance(p, ClosedJaxpr)]
        if programs:
            found[name] = programs
    return found


def _changed(body: Any, choice: Choice, shut: bool) -> Any:
    if isinstance(body, tuple):
        parts = [_changed(b, choice, shut) if isinstance(b, ClosedJaxpr) else b for b in body]
        return type(body)(*parts) if hasattr(body, "_fields") else tuple(parts)
    specs = [
        jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype, weak_type=getattr(v.aval, "weak_type", False))
        for v in body.jaxpr.invars
    ]
    return jax.make_jaxpr(lambda *xs: replayed(body, xs, choice, shut))(*specs)


# Derivatives of x log y where x and y are 0, which JAX takes for 0 / 0.
#
# Where nothing is counted the logarithm of a rate has no weight, and x log y is 0 for every y: so is its
# derivative by y. A rate or a probability of 0 comes from data as people write them (`at_risk * rate`) and
# from discrete sites (`present * p`), and one such element made the whole gradient undefined.


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


def _product(
    fn: Callable[..., Any], log: Callable[[Any], Any], of: Callable[[Any], Any]
) -> Callable[..., Any]:
    """`x log(of(y))`, which `fn` computes, and `log` the logarithm of."""

    @jax.custom_jvp
    def product(x: Any, y: Any) -> Any:
        return fn(x, y)

    @product.defjvp
    def _(xs: Any, dxs: Any) -> Any:
        (x, y), (dx, dy) = xs, dxs
        nothing = x == 0
        return fn(x, y), dx * log(y) + dy * jnp.where(nothing, 0, x / jnp.where(nothing, 1, of(y)))

    return product


_PRODUCTS: dict[str, Callable[..., Any]] = {
    "xlogy": _product(xlogy, jnp.log, lambda y: y),
    "xlog1py": _product(xlog1py, jnp.log1p, lambda y: 1 + y),
}


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
