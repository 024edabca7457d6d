"""Factorisations of batches of matrices, on machines with few cores.

JAX's LAPACK kernels for CPUs share a batch out over XLA's pool of threads and wait for it on a thread of that
pool (JAX 0.10.2): as many of them at once as the pool has threads wait for ever, and XLA runs up to five
operations of a program at once. Where the pool is not larger, batches are compiled as loops over single
matrices, which wait for nothing and give the same numbers. That costs some tenths of a microsecond a matrix,
and concerns every program that JAX compiles from then on, the user's own among them.
"""

import os

from gibbsite.trace.jaxpr.compat import loop_on_cpu

# above this, one program cannot make all threads wait
_ENOUGH_THREADS = 8
_FACTORISATIONS = (
    "cholesky", "eig", "eigh", "geqp3", "geqrf", "hessenberg", "householder_product", "lu", "ormqr", "schur",
    "svd", "triangular_solve", "tridiagonal", "tridiagonal_solve",
)  # fmt: skip


def threads() -> int:
    """How many threads XLA's pool has on this machine."""
    try:
        return int(os.environ["NPROC"])
    except (KeyError, ValueError):
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def loop_over_batches() -> None:
    """Compile batches as loops from now on, if XLA has few threads."""
    if threads() < _ENOUGH_THREADS:
        for name in _FACTORISATIONS:
            loop_on_cpu(name)
