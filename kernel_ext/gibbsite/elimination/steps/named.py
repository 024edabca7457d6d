"""Tables whose value axes have names: added, and summed out one name after another."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from gibbsite.conditional.tables.rows import aligned
from gibbsite.elimination.steps.semiring import reduce_first

Name = Any
"""Anything that can be compared and hashed."""
Named = tuple[Sequence[Name], Any]
"""Names of the value axes, and an array with the rows on one more axis, the last."""


def added(tables: Sequence[Named], names: Sequence[Name]) -> Any:
    """The sum of tables, with an axis for each of `names`."""
    total = None
    for own, x in tables:
        x = aligned(x, own, names)
        total = x if total is None else total + x
    return total


def _scope(tables: Sequence[Named], name: Name) -> list[Name]:
    return [name, *dict.fromkeys(n for own, _ in tables if name in own for n in own if n != name)]


def summed_out(tables: Sequence[Named], names: Sequence[Name], uniforms: Any, mode: str) -> list[Named]:
    """`tables` with `names` summed out, smallest table first; `uniforms[i]` belongs to `names[i]`."""
    pool, left = list(tables), list(names)
    while left:
        sizes = {}
        for name in left:
            mine = [t for t in pool if name in t[0]]
            axes = {n: x.shape[own.index(n)] for own, x in mine for n in own}
            sizes[name] = float(np.prod(list(axes.values()), dtype=float))
        name = min(left, key=sizes.__getitem__)
        left.remove(name)
        mine = [t for t in pool if name in t[0]]
        if not mine:
            continue
        scope = _scope(mine, name)
        u = None if uniforms is None else uniforms[names.index(name)]
        pool = [t for t in pool if name not in t[0]]
        pool.append((scope[1:], reduce_first(added(mine, scope), u, mode)))
    return pool
