"""One reduction, four readings: the sum, and by its derivative posterior marginals, a draw, the best values.

Only the derivative of the reduction differs: softmax, a one-hot draw, a one-hot argmax. Marginals, an exact
joint draw and the joint maximum are then the reverse pass through one and the same elimination (Eisner 2016,
"Inside-outside and forward-backward algorithms are just backprop"; Rush 2020, "Torch-Struct").
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

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
