"""Programs in the form that XLA runs well on CPUs (JAX 0.10.2); their results are the same, bit by bit, but
for the rounding of triangular solves for many right-hand sides.

Three things are replaced. Factorisations of batches may become loops, and so may such solves: see `lapack`.

A scatter that writes one row becomes a select over the rows. XLA compiles a small `while` loop into one
function, unless there is a scatter in it; then every operation of the loop is a task of its own, which costs
more than the operation. A loop has one where chains are batched and each writes to a row of its own, such as
the checkpoints of NumPyro's NUTS.

A gather along an axis of a few rows, as of parameters by category, becomes a choice among them, which is
computed for many elements at once: a quarter less for value and gradient of tables by category, and half
where chains are batched.
"""

import math
import os
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.lax import GatherScatterMode

from gibbsite.programs.jaxpr.compat import JaxprEqn, bind_equation, jit
from gibbsite.programs.jaxpr.primitives import GATHERS, LAPACK, SCATTERS, SOLVES, of_kind
from gibbsite.programs.passes.replaced import Replacement, changes, replayed

# Factorisations of batches of matrices, on machines with few cores.
#
# JAX's LAPACK kernels for CPUs share a batch out over XLA's pool of threads and wait for it on a thread of
# that pool (JAX 0.10.2): as many of them at once as the pool has threads wait for ever, and XLA runs up to
# five operations of a program at once. Where the pool is not larger, our programs hold loops over single
# matrices in the place of batches: they wait for nothing and give the same numbers. That costs some tenths
# of a microsecond a matrix. Programs of others are theirs: see `docs/upstream.md`.
#
# Triangular solves that are large enough OpenBLAS shares out over threads of its own, which look for work
# without sleeping: where they are fewer than what runs on the machine, a solve of 60 by 60 numbers took
# between 15 and 2000 µs instead of 7. It keeps those to itself that have few right-hand sides, so they are
# solved some at a time.


# above this, one program cannot make all threads wait
_ENOUGH_THREADS = 8
# OpenBLAS shares no solve of fewer numbers than these (0.3.27 and later, interface/trsm.c)
_SHARED_FROM = 1024
# right-hand sides that its kernels compute side by side: cut there, most numbers are the same, bit by bit
_AT_ONCE = 8
_LARGEST_SPLIT = (_SHARED_FROM - 1) // _AT_ONCE


def threads() -> int:
    """How many threads XLA's pool has on this machine."""
    try:
        return int(os.environ["NPROC"])
    except (KeyError, ValueError):
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def loops(eqn: JaxprEqn) -> Replacement | None:
    """One matrix after the other in place of a factorisation that may wait for ever, or shares out what need
    not be, on a machine of few threads; None for others."""
    return looped if waits_for_threads(eqn) else None


def waits_for_threads(eqn: JaxprEqn) -> bool:
    """Whether an equation factorises a batch that may wait for ever, or shares out what need not be, on a
    machine of few threads."""
    if not of_kind(eqn, LAPACK) or threads() >= _ENOUGH_THREADS:
        return False
    return math.prod(_batch(eqn)) > 1 or _shared(eqn)


def _shared(eqn: JaxprEqn) -> bool:
    """Whether OpenBLAS shares out each solve of an equation, and need not."""
    if not of_kind(eqn, SOLVES):
        return False
    matrix, sides = (v.aval.shape[-2:] for v in eqn.invars)
    return matrix[-1] <= _LARGEST_SPLIT and math.prod(sides) >= _SHARED_FROM


def _batch(eqn: JaxprEqn) -> tuple[int, ...]:
    axes = max(v.aval.ndim for v in eqn.invars) - 2
    return tuple(eqn.invars[0].aval.shape[:axes])


def looped(eqn: JaxprEqn, operands: list[Any]) -> list[Any]:
    """The equation, one matrix after the other, and few right-hand sides at a time."""
    one = _split if _shared(eqn) else bind_equation
    if not (batch := _batch(eqn)):
        return one(eqn, operands)
    count = math.prod(batch)  # sides may be none
    flat = [x.reshape(count, *x.shape[len(batch) :]) for x in operands]
    out = jax.lax.map(lambda parts: one(eqn, parts), flat)
    return [y.reshape(*batch, *y.shape[1:]) for y in out]


def _split(eqn: JaxprEqn, operands: Sequence[Any]) -> list[Any]:
    """The solves of one matrix, some right-hand sides at a time; they are columns, or rows of what stands to
    the left of the matrix."""
    matrix, sides = operands
    size, axis = matrix.shape[-1], 1 if eqn.params["left_side"] else 0
    few = (_SHARED_FROM - 1) // size // _AT_ONCE * _AT_ONCE
    whole = sides.shape[axis] // few * few

    def solved(part: Any) -> Any:
        return bind_equation(eqn, [matrix, part])[0]

    first, rest = jax.lax.split(sides, (whole, sides.shape[axis] - whole), axis)
    shape = list(first.shape)
    shape[axis : axis + 1] = [whole // few, few]
    parts = jnp.moveaxis(first.reshape(shape), axis, 0)
    found = jnp.moveaxis(jax.lax.map(solved, parts), 0, axis).reshape(first.shape)
    return [jnp.concatenate([found, solved(rest)], axis) if rest.size else found]


# all rows are looked at to write one: worth it while they are few and short
_MOST_NUMBERS = 2**14
# more rows to choose among cost more than one by one; fewer elements than this gain nothing
_FEW_ROWS = 4
_MANY_ELEMENTS = 64


def for_cpu(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn` in that form: the last thing to do before compiling, after derivatives and batching."""

    def run(*args: Any) -> Any:
        traced: Any = jax.make_jaxpr(fn, return_shape=True)(*args)
        closed, shapes = traced
        flat = replayed(closed, jax.tree.leaves(args), _better)
        return jax.tree.unflatten(jax.tree.structure(shapes), flat)

    return run


def lowered_for_cpu(fn: Callable[..., Any], *args: Any) -> Any:
    """`jax.jit(for_cpu(fn)).lower(*args)`, without tracing again what stays as it is."""
    traced = jax.jit(fn).trace(*args)
    closed, tree = traced.jaxpr, jax.tree.structure(traced.out_info)
    if not changes(closed, _better):
        return traced.lower()

    def run(*args: Any) -> Any:
        return jax.tree.unflatten(tree, replayed(closed, jax.tree.leaves(args), _better))

    return jax.jit(run).lower(*args)


def jitted(fn: Callable[..., Any]) -> Any:
    """`jax.jit` of a function of arrays, in that form where JAX's default device is a CPU."""

    def run(*args: Any) -> Any:
        return (for_cpu(fn) if jax.default_backend() == "cpu" else fn)(*args)

    return jit(run)


def rows(eqn: JaxprEqn) -> Replacement | None:
    """A select in place of a scatter of rows, a choice in place of a gather from a few; None for others."""
    if of_kind(eqn, SCATTERS) and _writes_rows(eqn):
        return _selected
    return _chosen if of_kind(eqn, GATHERS) and _picks_rows(eqn) else None


def _better(eqn: JaxprEqn) -> Replacement | None:
    return rows(eqn) or loops(eqn)


def _writes_rows(eqn: JaxprEqn) -> bool:
    """Whether this replaces one row, found by one number, in each element of leading batches."""
    if eqn.params.get("update_jaxpr") is not None:
        return False
    array, index, rows = (v.aval for v in eqn.invars)
    how = eqn.params["dimension_numbers"]
    axes, batch = tuple(how.scatter_dims_to_operand_dims), tuple(how.operand_batching_dims)
    plain = axes == tuple(how.inserted_window_dims) and len(axes) == 1
    whole = tuple(n for a, n in enumerate(array.shape) if a not in axes) == tuple(rows.shape)
    leading = batch == tuple(how.scatter_indices_batching_dims) == tuple(range(len(batch)))
    one_each = tuple(index.shape) == (*(array.shape[a] for a in batch), 1)
    windows = tuple(range(len(batch), len(rows.shape))) == tuple(how.update_window_dims)
    return plain and whole and leading and one_each and windows and array.size <= _MOST_NUMBERS


def _selected(eqn: JaxprEqn, xs: list[Any]) -> list[Any]:
    array, index, rows = xs
    axis = int(eqn.params["dimension_numbers"].scatter_dims_to_operand_dims[0])
    at = index.reshape(index.shape[:-1] + (1,) * (array.ndim - index.ndim + 1))
    if eqn.params["mode"] == GatherScatterMode.CLIP:
        at = jnp.clip(at, 0, array.shape[axis] - 1)
    here = jax.lax.broadcasted_iota(index.dtype, array.shape, axis) == at
    return [jax.lax.select(here, jnp.broadcast_to(jnp.expand_dims(rows, axis), array.shape), array)]


def _picks_rows(eqn: JaxprEqn) -> bool:
    """Whether this takes many rows, each found by one number, along an axis of a few."""
    array, index = (v.aval for v in eqn.invars)
    how, sizes = eqn.params["dimension_numbers"], eqn.params["slice_sizes"]
    if tuple(how.collapsed_slice_dims) != tuple(how.start_index_map) or index.shape[-1] != 1:
        return False
    (axis,) = how.start_index_map
    one = (axis, *how.operand_batching_dims)
    whole = all(size == (1 if a in one else array.shape[a]) for a, size in enumerate(sizes))
    known = eqn.params["mode"] in (GatherScatterMode.CLIP, GatherScatterMode.PROMISE_IN_BOUNDS)
    few = array.shape[axis] <= _FEW_ROWS and eqn.outvars[0].aval.size >= _MANY_ELEMENTS
    return whole and known and few


def _chosen(eqn: JaxprEqn, xs: list[Any]) -> list[Any]:
    array, index = xs
    how, shape = eqn.params["dimension_numbers"], eqn.outvars[0].aval.shape
    (axis,) = how.start_index_map
    found_by = [a for a in range(len(shape)) if a not in how.offset_dims]
    batch = dict(zip(how.operand_batching_dims, how.start_indices_batching_dims, strict=True))
    offsets = iter(how.offset_dims)
    rest = [a for a in range(array.ndim) if a != axis]
    places = [found_by[batch[a]] if a in batch else next(offsets) for a in rest]
    order = sorted(range(len(rest)), key=places.__getitem__)
    index = jax.lax.broadcast_in_dim(index.reshape(index.shape[:-1]), shape, found_by)

    def row(i: int) -> Any:
        part = jnp.transpose(jax.lax.index_in_dim(array, i, axis, keepdims=False), order)
        return jax.lax.broadcast_in_dim(part, shape, sorted(places))

    last = array.shape[axis] - 1
    out = row(last)
    for i in reversed(range(last)):  # what lies beyond is clipped
        out = jax.lax.select(index <= i, row(i), out)
    return [out]
