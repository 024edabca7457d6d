"""Random programs over the primitives that have index-map rules, and some that have none, on small arrays.

A program is a random composition of steps. Each step takes an array of `N` elements to another; it is made by
a maker, which draws its own constants (shifts, strides, axes, paddings) from the program's generator.
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from helpers.models.program_functions import FUNCTIONS, halved, mended, two_results

N = 6
Step = Callable[[Any, Any], Any]
Maker = Callable[[Any], Step]

SHAPES = [(2, 3), (3, 2), (6, 1), (1, 6), (1, 2, 3), (2, 1, 3), (3, 2, 1)]
CUMULATIVE = [lax.cumsum, lax.cumprod, lax.cummax, lax.cummin, lax.cumlogsumexp]
REDUCTIONS = [jnp.sum, jnp.max, jnp.min, jnp.prod, jnp.mean, jnp.argmax, jnp.argmin]


def real(x: Any) -> Any:
    """As floating point, in a range where no function overflows."""
    return jnp.clip(jnp.asarray(x, jnp.float32), -8, 8)


def shaped(rng: Any) -> tuple[int, ...]:
    return SHAPES[rng.integers(len(SHAPES))]


def axis_of(rng: Any, shape: tuple[int, ...]) -> int:
    return int(rng.integers(len(shape)))


def matrix(x: Any, size: int = 3) -> Any:
    """A positive definite matrix of `size` that depends on all of `x`."""
    a = jnp.resize(real(x) / 8, (size, size))
    return a @ a.T + jnp.eye(size)


def elementwise(rng: Any) -> Step:
    f = FUNCTIONS[rng.integers(len(FUNCTIONS))]
    return lambda x, i: f(real(x))


def rolled(rng: Any) -> Step:
    k = int(rng.integers(1, N))
    return lambda x, i: jnp.roll(x, k)


def sliced(rng: Any) -> Step:
    start, step = int(rng.integers(0, 3)), int(rng.integers(1, 3))
    return lambda x, i: jnp.resize(x[start::step], N)


def windowed(rng: Any) -> Step:
    size, at = int(rng.integers(1, N)), int(rng.integers(3))
    return lambda x, i: jnp.resize(lax.dynamic_slice(x, (i[at] - 1,), (size,)), N)


def concatenated(rng: Any) -> Step:
    a, b = sorted(rng.integers(0, N + 1, 2))
    return lambda x, i: jnp.concatenate([x[b:], x[a:b][::-1], x[:a] * 2])


def concatenated_rows(rng: Any) -> Step:
    shape = shaped(rng)
    axis = axis_of(rng, shape)

    def step(x: Any, i: Any) -> Any:
        m = x.reshape(shape)
        return lax.slice_in_dim(jnp.concatenate([m * 2, m], axis), 1, 1 + shape[axis], axis=axis).reshape(N)

    return step


def padded(rng: Any) -> Step:
    low, high, inside = (int(v) for v in rng.integers((-2, -2, 0), (3, 3, 2)))
    return lambda x, i: jnp.resize(lax.pad(x, x[0] * 0 + 1, [(low, high, inside)]), N)


def padded_rows(rng: Any) -> Step:
    low = int(rng.integers(-1, 2))
    rows = int(rng.integers(0, 2))

    def step(x: Any, i: Any) -> Any:
        wide = lax.pad(x.reshape(2, 3), x[1], [(rows, 0, 0), (low, 1, 0)])
        return jnp.resize(wide, N)

    return step


def reshaped(rng: Any) -> Step:
    shape = shaped(rng)
    order = rng.permutation(len(shape))
    flip = axis_of(rng, shape)
    return lambda x, i: jnp.flip(jnp.transpose(x.reshape(shape), order), flip).reshape(N)


def broadcast(rng: Any) -> Step:
    axis = int(rng.integers(2))
    return lambda x, i: (x.reshape(2, 3).sum(axis, keepdims=True) + jnp.zeros((2, 3), x.dtype)).reshape(N)


def reduced(rng: Any) -> Step:
    f, shape = REDUCTIONS[rng.integers(len(REDUCTIONS))], shaped(rng)
    axis = axis_of(rng, shape)
    return lambda x, i: jnp.broadcast_to(f(x.reshape(shape), axis, keepdims=True), shape).reshape(N) + 0 * x


def reduced_bits(rng: Any) -> Step:
    f = [jnp.any, jnp.all][rng.integers(2)]
    return lambda x, i: jnp.where(f(x.reshape(2, 3) > 0, 0), 1.0, 2.0).repeat(2)


def exclusive_or(rng: Any) -> Step:
    def step(x: Any, i: Any) -> Any:
        bits = real(x).astype(jnp.int32).reshape(2, 3)
        return lax.reduce(bits, np.int32(0), lax.bitwise_xor, (0,)).repeat(2)

    return step


def reduced_by_hand(rng: Any) -> Step:
    """`reduce` with a function of its own."""
    axis = int(rng.integers(2))

    def step(x: Any, i: Any) -> Any:
        out = lax.reduce(real(x).reshape(2, 3), np.float32(0), lambda a, b: a * 0.5 + b, (axis,))
        return jnp.resize(out, N)

    return step


def cumulative(rng: Any) -> Step:
    f, shape, back = CUMULATIVE[rng.integers(len(CUMULATIVE))], shaped(rng), bool(rng.integers(2))
    axis = axis_of(rng, shape)
    return lambda x, i: f(real(x).reshape(shape), axis=axis, reverse=back).reshape(N)


def sorted_rows(rng: Any) -> Step:
    shape = shaped(rng)
    axis = axis_of(rng, shape)
    return lambda x, i: jnp.sort(x.reshape(shape), axis).reshape(N)


def argsorted(rng: Any) -> Step:
    return lambda x, i: jnp.argsort(x.reshape(2, 3), 1).reshape(N) + 0 * x


def sorted_together(rng: Any) -> Step:
    return lambda x, i: lax.sort((x.reshape(3, 2), jnp.arange(6).reshape(3, 2)), dimension=0, num_keys=1)[
        1
    ].reshape(N)


def top(rng: Any) -> Step:
    k = int(rng.integers(1, 4))
    return lambda x, i: jnp.resize(lax.top_k(x.reshape(2, 3), k)[0], N)


def gathered(rng: Any) -> Step:
    mode = ["clip", "fill", "promise_in_bounds"][rng.integers(3)]
    far = 0 if mode == "promise_in_bounds" else int(rng.integers(0, 3))
    return lambda x, i: x.at[i + far].get(mode=mode)


def gathered_by_constants(rng: Any) -> Step:
    at = rng.integers(0, N, N)
    return lambda x, i: x[at]


def gathered_rows(rng: Any) -> Step:
    at = rng.integers(0, 2, 3)
    return lambda x, i: jnp.where(i[0] > 2, x.reshape(2, 3)[at][:2], x.reshape(2, 3)[i[:2] % 2]).reshape(N)


def gathered_points(rng: Any) -> Step:
    return lambda x, i: x.reshape(2, 3)[i % 2, i[::-1] % 3]


def gathered_windows(rng: Any) -> Step:
    def step(x: Any, i: Any) -> Any:
        return jax.vmap(lambda s: lax.dynamic_slice(x, (s,), (2,)))(i[:3]).reshape(N)

    return step


def gathered_in_batches(rng: Any) -> Step:
    axis = int(rng.integers(2))
    return lambda x, i: jnp.take_along_axis(jnp.outer(x, x), i[:, None] % N if axis else i[None] % N, axis)[
        (slice(None), 0) if axis else (0, slice(None))
    ]


def batched_windows(rng: Any) -> Step:
    def step(x: Any, i: Any) -> Any:
        rows = jnp.outer(x, jnp.arange(1.0, 4))
        return jax.vmap(lambda row, s: lax.dynamic_slice(row, (s,), (2,)))(rows, i % 2).sum(1)

    return step


def scattered(rng: Any) -> Step:
    places = rng.choice(N, 2, replace=False)
    how = ["set", "add", "multiply", "min", "max"][rng.integers(5)]
    source = rng.integers(0, N, 2)
    return lambda x, i: getattr(x.at[places], how)(x[source])


def scattered_by_data(rng: Any) -> Step:
    how = ["set", "subtract", "max"][rng.integers(3)]
    mode = ["drop", "clip"][rng.integers(2)]
    return lambda x, i: getattr(x.at[i[:3] + 2], how)(x[3:], mode=mode)


def scattered_rows(rng: Any) -> Step:
    row = int(rng.integers(2))
    return lambda x, i: x.reshape(2, 3).at[row].set(x[3 * (1 - row) : 3 * (1 - row) + 3] * 2).reshape(N)


def scattered_in_batches(rng: Any) -> Step:
    def step(x: Any, i: Any) -> Any:
        rows = jnp.outer(x, jnp.arange(1.0, 4))
        return jax.vmap(lambda row, s: row.at[s].set(row[0] - 1))(rows, i % 3).sum(1)

    return step


def segments(rng: Any) -> Step:
    f = [jax.ops.segment_sum, jax.ops.segment_max][rng.integers(2)]
    return lambda x, i: jnp.clip(f(real(x), i % 3, 3), -99, 99)[i[::-1] % 3]


def updated(rng: Any) -> Step:
    size, at = int(rng.integers(1, N)), int(rng.integers(0, N))
    return lambda x, i: lax.dynamic_update_slice(x, x[:size] * 3, (at,))


def updated_at_data(rng: Any) -> Step:
    size = int(rng.integers(1, N))
    return lambda x, i: lax.dynamic_update_slice(x, x[:size] * 3, (i[0],))


def tiled(rng: Any) -> Step:
    return lambda x, i: jnp.tile(lax.dynamic_slice(x, (i[1] % 4,), (3,)), 2)


def stacked(rng: Any) -> Step:
    axis = int(rng.integers(2))
    return lambda x, i: jnp.stack([x[:3], x[::2], x[3:][::-1]], axis)[:, 1:].reshape(N)


def split(rng: Any) -> Step:
    k = int(rng.integers(3))
    return lambda x, i: jnp.split(x, 3)[k].repeat(3)


def one_hot(rng: Any) -> Step:
    return lambda x, i: jax.nn.one_hot(jnp.abs(real(x).astype(int)) % 3, 3) @ jnp.arange(1.0, 4)


def iota(rng: Any) -> Step:
    at = int(rng.integers(N))
    return lambda x, i: jnp.full(N, x.max()) * (jnp.arange(N) == at) + x


def triangle(rng: Any) -> Step:
    f = [jnp.triu, jnp.tril][rng.integers(2)]
    return lambda x, i: f(jnp.outer(x, jnp.ones(N, x.dtype))).sum(int(f is jnp.triu))


def product(rng: Any) -> Step:
    a = rng.normal(size=(N, N)).round(1) * (rng.random((N, N)) < 0.5)
    return lambda x, i: jnp.asarray(a, jnp.float32) @ real(x)


def batched_product(rng: Any) -> Step:
    text = ["bij,bjk->bk", "bij,bjk->bij", "bij,bij->bi", "bij,cij->bi", "bij,bjk->jb"][rng.integers(5)]

    def step(x: Any, i: Any) -> Any:
        a = real(x).reshape(3, 1, 2)
        b = a if text[4:7] in ("bij", "cij") else real(x)[::-1].reshape(3, 2, 1)
        return jnp.resize(jnp.einsum(text, a, b), N)

    return step


def outer(rng: Any) -> Step:
    return lambda x, i: jnp.outer(x, jnp.arange(1, 4))[:, int(rng.integers(3)) * 0 + 1]


def convolved(rng: Any) -> Step:
    return lambda x, i: jnp.convolve(real(x), jnp.array([1.0, -1.0, 0.5]), mode="same")


def pooled(rng: Any) -> Step:
    return lambda x, i: lax.reduce_window(real(x), -jnp.inf, lax.max, (2,), (1,), "SAME")


def solved(rng: Any) -> Step:
    left, lower = bool(rng.integers(2)), bool(rng.integers(2))

    def step(x: Any, i: Any) -> Any:
        a = jnp.eye(3) * 2 + jnp.ones((3, 3))
        b = real(x).reshape(3, 2) if left else real(x).reshape(2, 3)
        return lax.linalg.triangular_solve(a, b, left_side=left, lower=lower).reshape(N)

    return step


def solved_by_latents(rng: Any) -> Step:
    def step(x: Any, i: Any) -> Any:
        a = real(x).reshape(3, 1, 2) * jnp.array([[1.0], [0.5]]) / 4 + 3 * jnp.eye(2)
        return jax.vmap(lambda m, b: lax.linalg.triangular_solve(m, b, left_side=True, lower=True))(
            a, jnp.ones((3, 2, 1))
        ).reshape(N)

    return step


def factorised(rng: Any) -> Step:
    kind = int(rng.integers(4))

    def step(x: Any, i: Any) -> Any:
        a = matrix(x)
        if kind == 0:
            return jnp.resize(jnp.linalg.cholesky(a), N)
        if kind == 1:
            return jnp.resize(jnp.linalg.eigvalsh(a), N)
        if kind == 2:
            return jnp.resize(jnp.linalg.solve(a, jnp.ones(3)), N)
        return jnp.resize(jnp.linalg.qr(a)[1], N)

    return step


def factorised_in_batches(rng: Any) -> Step:
    def step(x: Any, i: Any) -> Any:
        a = real(x).reshape(3, 2, 1) / 4
        return jnp.linalg.cholesky(a @ a.transpose(0, 2, 1) + jnp.eye(2))[:, 1].reshape(N)

    return step


def scanned(rng: Any) -> Step:
    kind, back = int(rng.integers(6)), bool(rng.integers(2))

    def step(x: Any, i: Any) -> Any:
        x0 = x[0] * 0
        if kind == 0:
            return lax.scan(lambda c, v: (v, c + v), x0, x, reverse=back)[1]
        if kind == 1:
            return lax.scan(lambda c, v: (c + v, c), x0, x, reverse=back)[1]
        if kind == 2:
            return lax.scan(lambda c, v: ((v, c[0]), c[1] + v), (x0, x0), x, reverse=back)[1]
        if kind == 3:  # a counter indexes what is not scanned over
            return lax.scan(lambda c, v: (c + 1, x[c] * 2), 0, None, length=N, reverse=back)[1]
        if kind == 4:  # an invariant carry, and an array taken along
            return lax.scan(lambda c, v: (c, c[1] + v.sum()), x[:2], x.reshape(3, 2), reverse=back)[1].repeat(
                2
            )
        return lax.scan(lambda c, v: ((c[1], v), c[0] - c[1]), (x0, x[2]), x[::-1], reverse=back)[1]

    return step


def mapped(rng: Any) -> Step:
    return lambda x, i: lax.map(lambda v: v * 2 + x[0], x)


def associative(rng: Any) -> Step:
    back = bool(rng.integers(2))
    return lambda x, i: lax.associative_scan(jnp.add, x, reverse=back)


def branched(rng: Any) -> Step:
    kind = int(rng.integers(3))

    def step(x: Any, i: Any) -> Any:
        if kind == 0:
            return lax.cond(i[0] > 2, lambda v: v[::-1], lambda v: v * 2, x)
        if kind == 1:
            return lax.switch(i[1] % 3, [lambda v: jnp.roll(v, 2), lambda v: v + v[0], lambda v: v], x)
        return lax.cond(x[0] > 0, lambda v: v, lambda v: -v, x)

    return step


def looped(rng: Any) -> Step:
    kind = int(rng.integers(3))

    def step(x: Any, i: Any) -> Any:
        if kind == 0:
            return lax.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, jnp.roll(c[1], 1)), (0, x))[1]
        if kind == 1:
            return lax.fori_loop(0, 3, lambda k, v: v.at[k].set(v[k + 1]), x)
        most = jnp.abs(real(x).astype(int)[0]) % 3
        return lax.while_loop(lambda c: c[0] < most, lambda c: (c[0] + 1, c[1] * 2), (0, x))[1]

    return step


def wrapped(rng: Any) -> Step:
    kind = int(rng.integers(6))
    inner = [halved, mended, jax.jit(lambda v: v - v[0]), jax.checkpoint(lambda v: jnp.roll(v, -1) * 2)]
    inner += [lambda v: jax.vmap(halved)(v.reshape(3, 2)).reshape(N), lambda v: two_results(v)[1]]
    return lambda x, i: inner[kind](real(x))


def statistics(rng: Any) -> Step:
    f = [jnp.median, jnp.std, lambda v: jnp.quantile(v, 0.3), jax.nn.logsumexp][rng.integers(4)]
    return lambda x, i: f(real(x)[1:4]) + x


def differences(rng: Any) -> Step:
    return lambda x, i: jnp.diff(x, prepend=x[:1])


def normalised(rng: Any) -> Step:
    axis = int(rng.integers(2))
    return lambda x, i: jax.nn.softmax(real(x).reshape(3, 2), axis).reshape(N)


def last_added(rng: Any) -> Step:
    at = int(rng.integers(N))
    return lambda x, i: x[at] + x


def interpolated(rng: Any) -> Step:
    return lambda x, i: jnp.interp(jnp.arange(N) * 0.7, jnp.arange(N), real(x))


def transformed(rng: Any) -> Step:
    f = [jnp.fft.fft, jnp.fft.rfft, jnp.fft.fft2][rng.integers(3)]
    return lambda x, i: jnp.resize(f(real(x).reshape(2, 3)).real, N)


STEPS: Mapping[str, Maker] = {
    f.__name__: f
    for f in (
        elementwise, rolled, sliced, windowed, concatenated, concatenated_rows, padded, padded_rows, reshaped,
        broadcast, reduced, reduced_bits, exclusive_or, reduced_by_hand, cumulative, sorted_rows, argsorted,
        sorted_together, top, gathered, gathered_by_constants, gathered_rows, gathered_points,
        gathered_windows, gathered_in_batches, batched_windows, scattered, scattered_by_data, scattered_rows,
        scattered_in_batches, segments, updated, updated_at_data, tiled, stacked, split, one_hot, iota,
        triangle, product, batched_product, outer, convolved, pooled, solved, solved_by_latents, factorised,
        factorised_in_batches, scanned, mapped, associative, branched, looped, wrapped, statistics,
        differences, normalised, last_added, interpolated, transformed,
    )
}  # fmt: skip


def _places(z: Any) -> Any:
    return jnp.abs(real(z).astype(int)) % N


MIXES: list[Callable[[Any, Any, Any], Any]] = [
    lambda a, z, i: a + z,
    lambda a, z, i: a[_places(z)],
    lambda a, z, i: jnp.where(z > 1, a, a[::-1]),
    lambda a, z, i: jnp.concatenate([a[:3], z[3:].astype(a.dtype)]),
    lambda a, z, i: a * (z[i % N]).astype(a.dtype),
    lambda a, z, i: jnp.dot(a.reshape(2, 3), z.reshape(3, 2).astype(a.dtype)).sum(1).repeat(3),
    lambda a, z, i: jnp.outer(a, jnp.arange(1.0, 7))[_places(z)[::-1], _places(z)],
    lambda a, z, i: a.at[_places(z)[:2]].set(a[4:] * 2),
    lambda a, z, i: a.at[_places(z)].add(1.0),
    lambda a, z, i: jnp.resize(lax.dynamic_slice(a, (_places(z)[1],), (3,)), N),
    lambda a, z, i: lax.dynamic_update_slice(a, a[:2] * 3, (_places(z)[0],)),
    lambda a, z, i: lax.cond(z[2] > 1, lambda v, w: v, lambda v, w: w.astype(v.dtype), a, z),
    lambda a, z, i: jnp.take_along_axis(a.reshape(2, 3), _places(z).reshape(2, 3) % 3, 1).reshape(N),
    lambda a, z, i: jax.nn.one_hot(_places(z), N) @ a,
    lambda a, z, i: lax.scan(lambda c, v: (v[1], c + v[0]), a[0] * 0, (a, z.astype(a.dtype)))[1],
    lambda a, z, i: lax.while_loop(
        lambda c: c[0] < _places(z)[3] % 3, lambda c: (c[0] + 1, c[1][::-1]), (0, a)
    )[1],
    # each copy of a loop decides for itself when it ends, under a map and within another loop
    lambda a, z, i: jax.vmap(
        lambda v, n: lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] * 2), (0, v))[1]
    )(a, _places(z) % 3),
    lambda a, z, i: lax.scan(
        lambda s, n: (s, lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] + s), (0, s))[1]),
        a[0],
        _places(z) % 3,
    )[1],
    lambda a, z, i: lax.select_n(_places(z) % 3, a, a * 2, jnp.roll(a, 1)),
    lambda a, z, i: jnp.stack([a, z.astype(a.dtype)])[i % 2, jnp.arange(N)],
    lambda a, z, i: jax.ops.segment_sum(a, _places(z), N),
    lambda a, z, i: lax.clamp(z.min().astype(a.dtype), a, z.astype(a.dtype) + 2),
]  # fmt: skip

FLATTEN: list[Callable[[Any], Any]] = [
    lambda m: m.reshape(N),
    lambda m: m.T.reshape(N),
    lambda m: jnp.concatenate([m[0], m[1]]),
    lambda m: jnp.stack([m[0], m[1][::-1]], 1).reshape(N),
    lambda m: (m[:, :, None] * jnp.ones(2)).sum(2).ravel(),
    lambda m: m[jnp.array([1, 0])].ravel(),
]


def random_program(seed: int) -> tuple[Any, tuple]:
    """A random function of `(z, y, index)` and arguments for it: values, and what to move them to.

    `z` and `index` have shape `(N,)`, `y` has `(2, 3)`.
    """
    rng = np.random.default_rng(seed)
    makers = [*STEPS.values(), *[elementwise, reduced, cumulative] * 3]  # these stand for many primitives
    steps = [(makers[rng.integers(len(makers))](rng), rng.integers(2)) for _ in range(rng.integers(2, 5))]
    mixes = [MIXES[rng.integers(len(MIXES))] for _ in range(rng.integers(1, 3))]
    flatten = FLATTEN[rng.integers(len(FLATTEN))]

    def program(z: Any, y: Any, index: Any) -> Any:
        values = [z, flatten(y)]
        for step, which in steps:
            values[which] = step(values[which], index)
        out = real(values[1])
        for mix in mixes:
            out = real(mix(out, values[0], index))
        return out * 1.5

    z, y = rng.integers(0, 4, N), rng.normal(size=(2, 3)).round(3)
    target_z = (z + rng.integers(1, 4, N)) % 4
    target_y = (y + rng.normal(size=(2, 3))).round(3)
    index = rng.integers(0, N, N)
    arrays = (jnp.asarray(z), jnp.asarray(y, jnp.float32), jnp.asarray(index), target_z, np.float32(target_y))
    return program, arrays
