"""Factorisations of batches of matrices, on machines with few cores.

JAX's LAPACK kernels for CPUs share a batch out over XLA's pool of threads and wait for it on a thread of that
pool (JAX 0.10.2): as many of them at once as the pool has threads wait for ever, and XLA runs up to five
operations of a program at once. Where the pool is not larger, our programs hold loops over single matrices in
the place of batches: they wait for nothing and give the same numbers. That costs some tenths of a microsecond
a matrix. Programs of others are theirs: see `docs/upstream.md`.
"""

import math
import os
from typing import Any

import jax

from gibbsite.trace.jaxpr.compat import JaxprEqn, bind_equation

# above this, one program cannot make all threads wait
_ENOUGH_THREADS = 8
FACTORISATIONS = frozenset([
    "cholesky", "eig", "eigh", "geqp3", "geqrf", "hessenberg", "householder_product", "lu", "ormqr", "qr",
    "schur", "svd", "triangular_solve", "tridiagonal", "tridiagonal_solve",
])  # fmt: skip


def threads() -> int:
    """How many threads XLA's pool has on this machine."""
    try:
        return int(os.environ["NPROC"])
    except (KeyError, ValueError):
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def waits_for_threads(eqn: JaxprEqn) -> bool:
    """Whether an equation factorises a batch, on a machine where batches may wait for ever."""
    if eqn.primitive.name not in FACTORISATIONS or threads() >= _ENOUGH_THREADS:
        return False
    return math.prod(_batch(eqn)) > 1


def _batch(eqn: JaxprEqn) -> tuple[int, ...]:
    axes = max(v.aval.ndim for v in eqn.invars) - 2
    return tuple(eqn.invars[0].aval.shape[:axes])


def looped(eqn: JaxprEqn, operands: list[Any]) -> list[Any]:
    """The equation, one matrix after the other."""
    batch = _batch(eqn)
    flat = [x.reshape(-1, *x.shape[len(batch) :]) for x in operands]
    out = jax.lax.map(lambda parts: bind_equation(eqn, parts), flat)
    return [y.reshape(*batch, *y.shape[1:]) for y in out]
