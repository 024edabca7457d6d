"""Factorisations of batches of matrices, on machines with few cores.

JAX's LAPACK kernels for CPUs share a batch out over XLA's pool of threads and wait for it on a thread of that
pool (JAX 0.10.2): as many of them at once as the pool has threads wait for ever, and XLA runs up to five
operations of a program at once. Where the pool is not larger, our programs hold loops over single matrices in
the place of batches: they wait for nothing and give the same numbers. That costs some tenths of a microsecond
a matrix. Programs of others are theirs: see `docs/upstream.md`.

Triangular solves that are large enough OpenBLAS shares out over threads of its own, which look for work
without sleeping: where they are fewer than what runs on the machine, a solve of 60 by 60 numbers took between
15 and 2000 µs instead of 7. It keeps those to itself that have few right-hand sides, so they are solved some
at a time.
"""

import math
import os
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from gibbsite.programs.jaxpr.compat import JaxprEqn, bind_equation
from gibbsite.programs.jaxpr.primitives import LAPACK, SOLVES, of_kind
from gibbsite.programs.passes.replaced import Replacement

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
    flat = [x.reshape(-1, *x.shape[len(batch) :]) for x in operands]
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
