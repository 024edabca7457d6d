"""A function of every row of long arrays, piece by piece: of every draw of a run.

Between pieces one can interrupt it, and is told how far it is. The program that is compiled fastest runs
first, and a better one where that would take longer.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gibbsite.ground.telling import Telling
from gibbsite.programs.jaxpr.compat import side_by_side
from gibbsite.programs.jaxpr.compiling import Repeated, lowered

_NOTHING = nullcontext()
_ROWS = 64
"""Rows of a piece, at the least: a few milliseconds of the cheapest functions."""


def in_marked(marked: Any, new: Any, old: Any, where: Callable[..., Any] = jnp.where) -> Any:
    """The tree `new` where the leading axes are marked, else `old`; by JAX's `where` or NumPy's."""

    def of(a: Any, b: Any) -> Any:
        return where(marked.reshape(*marked.shape, *(1,) * (np.ndim(b) - marked.ndim)), a, b)

    return jax.tree.map(of, new, old)


def in_pieces(
    fn: Callable[[Any, Any], Any],
    rows: Any,
    others: Any,
    at_once: int,
    what: str,
    numbers: int = 0,
    within: AbstractContextManager = _NOTHING,
) -> Any:
    """`fn(row, others)` of every row of the tree `rows`, as NumPy's arrays with an axis of rows in front.

    `at_once` rows are computed by one call; `what` is told to take so long; `numbers` are how many it
    computes of all rows, by which the first program is chosen; the function is traced `within` a context.
    """
    rows = jax.tree.map(np.asarray, rows)  # to take pieces of JAX's own arrays is a program itself
    count = len(jax.tree.leaves(rows)[0])
    size = min(count, -(-_ROWS // at_once) * at_once)

    def piece(rows: Any, others: Any) -> Any:
        return side_by_side(lambda row: fn(row, others), rows, at_once)

    def taken(start: int) -> Any:
        at = np.minimum(np.arange(start, start + size), count - 1)  # the last piece is as long as the others
        return jax.tree.map(lambda x: x[at], rows)

    with within:
        traced = lowered(piece, taken(0), others)
    program = Repeated(traced, (taken(0), others), numbers)
    telling, found = Telling(what, count), None
    for start in range(0, count, size):
        stop = min(start + size, count)
        out = program(taken(start), others, left=-(-(count - stop) // size))
        if found is None:
            found = jax.tree.map(lambda x: np.empty((count, *x.shape[1:]), x.dtype), out)
        for whole, part in zip(jax.tree.leaves(found), jax.tree.leaves(out), strict=True):
            whole[start:stop] = part[: stop - start]
        telling.at(stop)
    return found
