"""Filters with their derivative: every step is linearised as it is made, and the steps are pulled back.

Leaving the derivative to a scan's own costs up to twice as much: here only the recursion itself runs step by
step backwards, while the derivatives of the tables are computed for all steps together. With weights in
{0, 1} the same pass draws (forward filtering, backward sampling; Scott 2002, "Bayesian methods for hidden
Markov models", §2) or finds the best path (Viterbi 1967).
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

Advance = Callable[[Any, Any, Any, Any], Any]
"""`(message, moving tables now, standing tables, uniforms) -> message` of one step."""


def _normalised(after: Any) -> tuple[Any, Any]:
    """Carried as they are, messages of 10^5 steps lose all that is finer than 0.01 in float32."""
    top = jnp.max(after, axis=tuple(range(after.ndim - 1)))
    top = jnp.where(jnp.isfinite(top), top, 0)
    return after - top, top


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def filtered(advance: Advance, message: Any, moving: Any, standing: Any, uniforms: Any) -> tuple[Any, Any]:
    """The message after all steps, and what to add to it.

    `message` has the chains on its last axis; `moving` tables and `uniforms` have the steps on axis 0. What
    is to be added counts as constant in derivatives; the message carries them all.
    """

    def step(a: Any, at: Any) -> tuple[Any, Any]:
        now, u = at
        return _normalised(jnp.broadcast_to(advance(a, now, standing, u), a.shape))

    last, tops = lax.scan(step, message, (moving, uniforms))
    return last, jnp.sum(tops, axis=0)


def _filtered_fwd(advance: Advance, message: Any, moving: Any, standing: Any, uniforms: Any) -> Any:
    def step(a: Any, at: Any) -> tuple[Any, Any]:
        now, u = at

        def one(a: Any, now: Any, standing: Any) -> Any:
            return jnp.broadcast_to(advance(a, now, standing, u), a.shape)

        after, pull = jax.vjp(one, a, now, standing)
        carried, top = _normalised(after)
        return carried, (top, pull)

    last, (tops, pulls) = lax.scan(step, message, (moving, uniforms))
    return (last, jnp.sum(tops, axis=0)), pulls


def _filtered_bwd(advance: Advance, pulls: Any, cotangents: Any) -> Any:
    first, after = lax.scan(lambda g, pull: (pull(g)[0], g), cotangents[0], pulls, reverse=True)
    of_moving, of_standing = jax.vmap(lambda pull, g: pull(g)[1:])(pulls, after)
    return first, of_moving, jax.tree.map(lambda g: jnp.sum(g, axis=0), of_standing), None


filtered.defvjp(_filtered_fwd, _filtered_bwd)
