"""A slice update of a number, or of many independent ones (Neal 2003, "Slice sampling", figures 3 and 5)."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import random

from gibbsite.conditional.draws.passes import looped, rounds

_MAX_SHRINKS = 100
# Evaluations where the width fits: the two ends, about one more step out, and places of which about every
# second one lies in the slice. As measured, of Normals with standard deviations of a tenth to a half of the
# width: 4.7 to 5.1 of one element, 8.9 to 11.8 of the longest of a hundred.
_OUT, _WITHIN = 3.0, 0.5
_FIRST, _LEFT, _RIGHT, _SHRINK, _DONE = range(5)


class _Search(NamedTuple):
    """A search under way: `phase`, the interval, the steps left to either side, where the log density is
    wanted next, and how often it was evaluated."""

    phase: jax.Array
    low: jax.Array
    high: jax.Array
    left: jax.Array
    right: jax.Array
    at: jax.Array
    here: jax.Array
    height: jax.Array
    count: jax.Array
    shrinks: jax.Array


def evaluations(known: bool, elements: int = 1) -> float:
    """How often an update of so many elements side by side is expected to evaluate the log density, whose
    value at the start is `known` or not."""
    return (not known) + _OUT + rounds(_WITHIN, elements)


def slice_element(
    key: jax.Array, logdensity: Any, x: jax.Array, here: jax.Array | None, width: jax.Array, max_steps: int
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """One slice update of a scalar `x` with logdensity `here`, None where it is not known: new value, its
    logdensity, evaluations.

    An array `x` of any shape, with a log density and a width for each element, is as many updates side by
    side, right where the elements are independent; an evaluation is then one of all elements.

    One loop with one evaluation in its body: the log density is compiled once, and chains that are updated
    together wait for the longest search, not for the longest of each of its parts.
    """
    key_height, key_place, key_split, key_draw = random.split(key, 4)
    shape = jnp.shape(x)
    drop = random.exponential(key_height, shape, x.dtype)
    low = x - width * random.uniform(key_place, shape, x.dtype)
    high = low + width
    # the budget of steps is divided at random, which keeps the update reversible
    left = jnp.floor(max_steps * random.uniform(key_split, shape)).astype(jnp.int32)
    known = here is not None
    value = jnp.asarray(here, x.dtype) if known else jnp.zeros_like(x)
    phase = jnp.full(shape, _LEFT if known else _FIRST, jnp.int32)
    count, shrinks = jnp.zeros((), jnp.int32), jnp.zeros(shape, jnp.int32)
    start = _Search(
        phase, low, high, left, max_steps - 1 - left, low if known else x, value, value - drop, count, shrinks
    )

    def body(s: _Search) -> _Search:
        value = jnp.asarray(logdensity(s.at), x.dtype)
        first, to_left, to_right = s.phase == _FIRST, s.phase == _LEFT, s.phase == _RIGHT
        above = value > s.height
        here, height = jnp.where(first, value, s.here), jnp.where(first, value - drop, s.height)
        # out to the left, then to the right, while the ends lie above
        go_left, go_right = to_left & above & (s.left > 0), to_right & above & (s.right > 0)
        low, high = jnp.where(go_left, s.low - width, s.low), jnp.where(go_right, s.high + width, s.high)
        # then in: a rejected place is the new end on its side
        shrinking = s.phase == _SHRINK
        low = jnp.where(shrinking & ~above & (s.at < x), s.at, low)
        high = jnp.where(shrinking & ~above & (s.at >= x), s.at, high)
        shrinks = s.shrinks + shrinking
        phase = s.phase + (first | (to_left & ~go_left) | (to_right & ~go_right))
        phase = jnp.where(shrinking & (above | (shrinks == _MAX_SHRINKS)), _DONE, phase)
        # after so many shrinks the interval has collapsed onto x
        here = jnp.where(shrinking & above, value, here)
        # an element that draws again has shrunk, so that the sum has grown since it drew last
        drawn = low + (high - low) * random.uniform(
            random.fold_in(key_draw, jnp.sum(shrinks)), shape, x.dtype
        )
        at = jnp.where(phase == _LEFT, low, jnp.where(phase == _RIGHT, high, drawn))
        kept = jnp.where(above, s.at, x)
        at = jnp.where(s.phase == _DONE, s.at, jnp.where(phase == _DONE, kept, at))
        return _Search(
            phase, low, high, s.left - go_left, s.right - go_right, at, here, height, s.count + 1, shrinks
        )

    end = looped(evaluations(known, x.size), lambda s: jnp.any(s.phase != _DONE), body, start)
    return end.at, end.here, end.count


def slice_in_turn(
    key: Any, logdensity: Any, start: jax.Array, width: Any, max_steps: int, known: bool = True
) -> tuple[jax.Array, jax.Array]:
    """A slice through each number of a vector in turn, with a width for each or one for all: the new vector,
    evaluations. Where the log density stays as it is `known`, none is made again where the last one ended."""
    widths = jnp.broadcast_to(jnp.asarray(width, start.dtype), start.shape)

    def update(i: Any, carry: Any) -> Any:
        flat, here, count = carry
        x, here, more = slice_element(
            random.fold_in(key, i),
            lambda x: logdensity(flat.at[i].set(x)),
            flat[i],
            here if known else None,
            widths[i],
            max_steps,
        )
        return flat.at[i].set(x), here, count + more

    here = logdensity(start) if known else jnp.zeros((), start.dtype)
    first = start, here, jnp.asarray(known, jnp.int32)
    flat, _, count = jax.lax.fori_loop(0, start.size, update, first)
    return flat, count
