"""Draw from many small categorical distributions at once."""

from typing import Any

import jax
import jax.numpy as jnp

_UNROLL = 64


def draw_index(key: Any, logits: Any, shape: tuple[int, ...]) -> Any:
    """Indices of shape `shape` drawn from unnormalised `logits` of shape `(K, *shape)`; see `invert`."""
    return invert(jax.random.uniform(key, shape, jnp.result_type(logits)), logits)


def invert(uniform: Any, logits: Any) -> Any:
    """The indices at which the distribution functions of `logits`, `(K, *shape)`, pass `uniform`, `(*shape)`.

    Drawing so takes one uniform per element instead of K Gumbel variates. The loop
    over K is unrolled, because XLA on CPUs is slow on an argmax into which the logits are fused. Entries of
    an element whose logits hold NaN, or are all minus infinity, come out as -1.
    """
    shape = uniform.shape
    logits = jnp.broadcast_to(logits, (logits.shape[0], *shape))
    top = jnp.max(logits, axis=0)
    weights = jnp.exp(logits - jnp.where(jnp.isfinite(top), top, 0))
    k = logits.shape[0]
    if k <= _UNROLL:
        sums = [weights[0]]
        for i in range(1, k):
            sums.append(sums[-1] + weights[i])
        total = sums[-1]
        # strictly below the total, so that a value of probability zero is never chosen at the end
        mark = jnp.minimum(uniform * total, jnp.nextafter(total, jnp.zeros_like(total)))
        index = jnp.zeros(shape, jnp.int32)
        for s in sums[:-1]:
            index = index + (s <= mark)
    else:
        sums = jnp.cumsum(weights, axis=0)
        total = sums[-1]
        mark = jnp.minimum(uniform * total, jnp.nextafter(total, jnp.zeros_like(total)))
        index = jnp.sum(sums[:-1] <= mark, axis=0, dtype=jnp.int32)
    return jnp.where((total > 0) & (total < jnp.inf), index, -1)
