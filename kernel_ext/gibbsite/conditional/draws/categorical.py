"""Draw from many small categorical distributions at once."""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

# XLA computes the maximum of unrolled rows anew for each row that reads it, which takes programs of K²
# operations (13 seconds of compiling for 111 values of two elements). Loops over rows are as fast from some
# rows on, and many times as fast as cumulative sums, but for a single element of many values; on GPUs every
# pass of a loop costs a launch
_UNROLL, _ALONE = 24, 256


def draw_index(key: Any, logits: Any, shape: tuple[int, ...]) -> Any:
    """Indices of shape `shape` drawn from unnormalised `logits` of shape `(K, *shape)`; see `invert`."""
    return invert(jax.random.uniform(key, shape, jnp.result_type(logits)), logits)


def invert(uniform: Any, logits: Any) -> Any:
    """The indices at which the distribution functions of `logits`, `(K, *shape)`, pass `uniform`, `(*shape)`.

    Drawing so takes one uniform per element instead of K Gumbel variates. A few rows are unrolled, because
    XLA on CPUs is slow on a maximum over a short leading axis. Entries of an element whose logits hold NaN,
    or are all minus infinity, come out as -1.

    A uniform of JAX is a multiple of the last bit of 1 and below it, and the total is at least 1, so that
    their product rounds to less than the total: a value of probability zero is not chosen at the end.
    """
    shape, k = uniform.shape, logits.shape[0]
    logits = jnp.broadcast_to(logits, (k, *shape))
    if k <= _UNROLL:
        rows = [logits[i] for i in range(k)]
        top = rows[0]
        for row in rows[1:]:
            top = jnp.maximum(top, row)
        low = jnp.where(jnp.isfinite(top), top, 0)
        sums = [jnp.exp(rows[0] - low)]
        for row in rows[1:]:
            sums.append(sums[-1] + jnp.exp(row - low))
        total = sums[-1]
        mark = uniform * total
        index = jnp.zeros(shape, jnp.int32)
        for s in sums[:-1]:
            index = index + (s <= mark)
    elif jax.default_backend() == "cpu" and (k <= _ALONE or math.prod(shape) > 1):
        total, index = _in_turn(uniform, logits)
    else:
        top = jnp.max(logits, axis=0)
        sums = jnp.cumsum(jnp.exp(logits - jnp.where(jnp.isfinite(top), top, 0)), axis=0)
        total = sums[-1]
        mark = uniform * total
        index = jnp.sum(sums[:-1] <= mark, axis=0, dtype=jnp.int32)
    return jnp.where((total > 0) & (total < jnp.inf), index, -1)


def _in_turn(uniform: Any, logits: Any) -> tuple[Any, Any]:
    """The total over the values, and the index of the one that holds the uniform number: row by row."""
    shape, k = uniform.shape, logits.shape[0]
    top = lax.fori_loop(1, k, lambda i, top: jnp.maximum(top, logits[i]), logits[0])
    shares = jnp.exp(logits - jnp.where(jnp.isfinite(top), top, 0))
    total = lax.fori_loop(1, k, lambda i, sum_: sum_ + shares[i], shares[0])
    mark = uniform * total

    def passed(i: Any, carry: tuple[Any, Any]) -> tuple[Any, Any]:
        sum_, index = carry
        sum_ = sum_ + shares[i]
        return sum_, index + (sum_ <= mark)

    start = jnp.zeros(shape, total.dtype), jnp.zeros(shape, jnp.int32)
    return total, lax.fori_loop(0, k - 1, passed, start)[1]
