"""One reduction, four readings: the sum, and by its derivative posterior marginals, a draw, the best values.

Only the derivative of the reduction differs: softmax, a one-hot draw, a one-hot argmax. Marginals, an exact
joint draw and the joint maximum are then the reverse pass through one and the same elimination (Eisner 2016,
"Inside-outside and forward-backward algorithms are just backprop"; Rush 2020, "Torch-Struct").
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from gibbsite.conditional.draws.categorical import invert

SUM, DRAW, BEST = "sum", "draw", "best"
SMOOTH = "smooth"
"""As SUM, to be differentiated forwards as well."""

_UNROLL = 24


def _rows(x: Any) -> list[Any]:
    return [x[i] for i in range(x.shape[0])]


def _top(x: Any) -> Any:
    """The maximum over axis 0, 0 where it is infinite; unrolled, since XLA on CPUs is slow on short axes."""
    if x.shape[0] > _UNROLL:
        top = jnp.max(x, axis=0)
    else:
        top, *rest = _rows(x)
        for row in rest:
            top = jnp.maximum(top, row)
    return jnp.where(jnp.isfinite(top), top, 0)


def _total(x: Any) -> Any:
    if x.shape[0] > _UNROLL:
        return jnp.sum(x, axis=0)
    total, *rest = _rows(x)
    for row in rest:
        total = total + row
    return total


def _log_sum(x: Any) -> Any:
    top = _top(x)
    return jnp.log(_total(jnp.exp(x - top))) + top


def weights(x: Any) -> Any:
    """Softmax over axis 0; 0 where everything is −inf.

    Divided by their own sum, and not `exp(x - log_sum)`: at logits of −2e4 that loses 3 % in float32.
    """
    e = jnp.exp(x - _top(x))
    total = _total(e)
    return e / jnp.where(total > 0, total, 1)


@jax.custom_jvp
def _sum(x: Any) -> Any:
    return _log_sum(x)


@_sum.defjvp
def _(primals: Any, tangents: Any) -> tuple[Any, Any]:
    (x,), (dx,) = primals, tangents
    # pulled back, this is the weights alone, without a zero for each of the other rows
    return _log_sum(x), jnp.sum(weights(x) * dx, axis=0)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def _pick(x: Any, u: Any, mode: str) -> Any:
    """The sum or the maximum, whose derivative is the indicator of one value."""
    return jnp.max(x, axis=0) if mode == BEST else _log_sum(x)


def _pick_fwd(x: Any, u: Any, mode: str) -> Any:
    return _pick(x, u, mode), (x, u)


def _pick_bwd(mode: str, kept: Any, g: Any) -> Any:
    x, u = kept
    chosen = jnp.argmax(x, axis=0) if mode == BEST else invert(jnp.broadcast_to(u, x.shape[1:]), x)
    ids = jnp.arange(x.shape[0]).reshape((-1,) + (1,) * (x.ndim - 1))
    return (ids == chosen) * g, None


_pick.defvjp(_pick_fwd, _pick_bwd)


def reduce_first(x: Any, uniform: Any, mode: str) -> Any:
    """`log sum exp` of `x` over axis 0, or its maximum where `mode` is BEST.

    `uniform` broadcasts against the result; only DRAW reads it. One uniform per element is enough, since of
    the other axes only one entry is live.
    """
    return _sum(x) if mode in (SUM, SMOOTH) else _pick(x, uniform, mode)


# Filters with their derivative: every step is linearised as it is made, and the steps are pushed or pulled.
#
# Leaving the derivative to a scan's own costs up to twice as much: here only the recursion itself runs step
# by step, while the derivatives of the tables are computed for all steps together. With weights in {0, 1}
# the same pass backwards draws (forward filtering, backward sampling; Scott 2002, "Bayesian methods for
# hidden Markov models", §2) or finds the best path (Viterbi 1967).


Advance = Callable[[Any, Any, Any, Any], Any]
"""`(message, moving tables now, standing tables, uniforms) -> message` of one step."""


def _normalised(after: Any) -> tuple[Any, Any]:
    """Carried as they are, messages of 10^5 steps lose all that is finer than 0.01 in float32."""
    top = jnp.max(after, axis=tuple(range(after.ndim - 1)))
    top = jnp.where(jnp.isfinite(top), top, 0)
    return after - top, top


def _scanned(advance: Advance, message: Any, moving: Any, standing: Any, uniforms: Any) -> tuple[Any, Any]:
    def step(a: Any, at: Any) -> tuple[Any, Any]:
        now, u = at
        return _normalised(jnp.broadcast_to(advance(a, now, standing, u), a.shape))

    last, tops = lax.scan(step, message, (moving, uniforms))
    return last, jnp.sum(tops, axis=0)


def _with_pulls(advance: Advance, message: Any, moving: Any, standing: Any, uniforms: Any) -> Any:
    """The same, and of every step the function that pulls a cotangent back to message and tables."""

    def step(a: Any, at: Any) -> tuple[Any, Any]:
        now, u = at

        def one(a: Any, now: Any, standing: Any) -> Any:
            return jnp.broadcast_to(advance(a, now, standing, u), a.shape)

        after, pull = jax.vjp(one, a, now, standing)
        carried, top = _normalised(after)
        return carried, (top, pull)

    last, (tops, pulls) = lax.scan(step, message, (moving, uniforms))
    return (last, jnp.sum(tops, axis=0)), pulls


def filtered(
    advance: Advance, message: Any, moving: Any, standing: Any, uniforms: Any, mode: str
) -> tuple[Any, Any]:
    """The message after all steps, and what to add to it.

    `message` has the chains on its last axis; `moving` tables and `uniforms` have the steps on axis 0. What
    is to be added counts as constant in derivatives; the message carries them all. Forwards they exist in
    SMOOTH mode alone: pulled back, XLA runs that up to five times as long on CPUs (JAX 0.10.2).
    """
    of = _smooth if mode == SMOOTH else _pulled
    return of(advance, message, moving, standing, uniforms)


_smooth = jax.custom_jvp(_scanned, nondiff_argnums=(0,))


@_smooth.defjvp
def _(advance: Advance, primals: Any, tangents: Any) -> Any:
    message, dmessage, dmoving, dstanding = primals[0], *tangents[:3]
    (last, total), pulls = _with_pulls(advance, *primals)

    def pushed(pull: Any, tangent: Any, parts: slice) -> Any:
        (out,) = jax.linear_transpose(lambda g: pull(g)[parts], message)(tangent)
        return out

    into = jax.vmap(lambda pull, now: pushed(pull, (now, dstanding), slice(1, 3)))(pulls, dmoving)
    dlast, _ = lax.scan(
        lambda da, at: (pushed(at[0], (da,), slice(0, 1)) + at[1], None), dmessage, (pulls, into)
    )
    return (last, total), (dlast, jnp.zeros_like(total))


_pulled = jax.custom_vjp(_scanned, nondiff_argnums=(0,))


def _pulled_bwd(advance: Advance, pulls: Any, cotangents: Any) -> Any:
    first, after = lax.scan(lambda g, pull: (pull(g)[0], g), cotangents[0], pulls, reverse=True)
    of_moving, of_standing = jax.vmap(lambda pull, g: pull(g)[1:])(pulls, after)
    return first, of_moving, jax.tree.map(lambda g: jnp.sum(g, axis=0), of_standing), None


_pulled.defvjp(_with_pulls, _pulled_bwd)
