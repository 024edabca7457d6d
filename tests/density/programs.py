"""Random programs over the primitives that have index-map rules, on small arrays."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

N = 6


def _unary(rng: Any) -> Any:
    axis_free = [
        lambda x, i: x * 2 + 1,
        lambda x, i: jnp.where(x > 0, x, -x),
        lambda x, i: jnp.roll(x, 1),
        lambda x, i: x[::-1],
        lambda x, i: x[jnp.clip(i, 0, x.shape[0] - 1)],
        lambda x, i: jnp.concatenate([x[:1] * 0, x[:-1]]),
        lambda x, i: jnp.concatenate([x[2:], x[:2]]),
        lambda x, i: jnp.cumsum(x),
        lambda x, i: jnp.sort(x),
        lambda x, i: x.reshape(2, 3).T.reshape(6),
        lambda x, i: x.reshape(3, 2)[:, ::-1].reshape(6),
        lambda x, i: x.reshape(2, 3).sum(0, keepdims=True).repeat(2, 0).reshape(6),
        lambda x, i: jnp.pad(x[1:-1], (1, 1)),
        lambda x, i: jnp.pad(x[::2], (2, 1)),
        lambda x, i: x.at[2].set(x[4]),
        lambda x, i: x.at[jnp.array([0, 3])].add(x[jnp.array([1, 1])]),
        lambda x, i: lax.dynamic_update_slice(x, x[:2] * 3, (3,)),
        lambda x, i: jnp.tile(lax.dynamic_slice(x, (i[1] % 4,), (3,)), 2),
        lambda x, i: jnp.stack([x, x[::-1]], 1)[:, 0] + jnp.stack([x, x[::-1]], 1)[:, 1],
        lambda x, i: jnp.outer(x, jnp.arange(1, 4))[:, 1],
        lambda x, i: jax.nn.one_hot(jnp.abs(x.astype(int)) % 3, 3).astype(x.dtype) @ jnp.ones(3, x.dtype),
        lambda x, i: jnp.full(N, x.max()) * (jnp.arange(N) == 3) + x,
        lambda x, i: jnp.triu(jnp.outer(x, jnp.ones(N, x.dtype))).sum(1),
        lambda x, i: lax.scan(lambda c, v: (v, c + v), x[0] * 0, x)[1],
        lambda x, i: lax.scan(lambda c, v: (c + v, c), x[0] * 0, x)[1],
        lambda x, i: lax.scan(lambda c, v: ((v, c[0]), c[1] + v), (x[0] * 0, x[0] * 0), x, reverse=True)[1],
        lambda x, i: lax.cond(i[0] > 2, lambda v: v[::-1], lambda v: v * 2, x),
        lambda x, i: lax.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, jnp.roll(c[1], 1)), (0, x))[1],
        lambda x, i: jax.jit(lambda v: v - v[0])(x),
        lambda x, i: jax.checkpoint(lambda v: jnp.roll(v, -1) * 2)(x),
        lambda x, i: jnp.full(N, jnp.argmax(x)).astype(x.dtype),
        lambda x, i: jax.vmap(lambda v, j: v * j)(x, i.astype(x.dtype)),
        lambda x, i: jnp.take_along_axis(jnp.outer(x, x), i[:, None] % N, 1)[:, 0],
        lambda x, i: jnp.split(x, 3)[1].repeat(3),
        lambda x, i: jnp.clip(x, -1, 1),
        lambda x, i: x[-1] + x,
    ]  # fmt: skip
    return axis_free[rng.integers(len(axis_free))]


def _mixing(rng: Any) -> Any:
    several = [
        lambda a, z, i: a + z,
        lambda a, z, i: a[jnp.abs(z.astype(int)) % N],
        lambda a, z, i: jnp.where(z > 1, a, a[::-1]),
        lambda a, z, i: jnp.concatenate([a[:3], z[3:].astype(a.dtype)]),
        lambda a, z, i: a * (z[i % N]).astype(a.dtype),
        lambda a, z, i: jnp.dot(a.reshape(2, 3), z.reshape(3, 2).astype(a.dtype)).sum(1).repeat(3),
    ]
    return several[rng.integers(len(several))]


def random_program(seed: int) -> tuple[Any, tuple]:
    """A random function of `(z, y, index)` and arguments for it: values, and what to move them to."""
    rng = np.random.default_rng(seed)
    steps = [(_unary(rng), rng.integers(2)) for _ in range(rng.integers(2, 5))]
    mixes = [_mixing(rng) for _ in range(rng.integers(1, 3))]

    def program(z: Any, y: Any, index: Any) -> Any:
        values = [z, y]
        for step, which in steps:
            values[which] = step(values[which], index)
        out = values[1]
        for mix in mixes:
            out = mix(out, values[0], index)
        return out * 1.5

    z, y = rng.integers(0, 4, N), rng.normal(size=N).round(3)
    target_z = (z + rng.integers(1, 4, N)) % 4
    target_y = (y + rng.normal(size=N)).round(3)
    index = rng.integers(0, N, N)
    arrays = (jnp.asarray(z), jnp.asarray(y, jnp.float32), jnp.asarray(index), target_z, np.float32(target_y))
    return program, arrays
