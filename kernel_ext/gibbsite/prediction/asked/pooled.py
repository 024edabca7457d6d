"""Which columns enter a row through numbers of all rows, as a mean that is subtracted within the model.

Of new rows these numbers are the new table's: what was standardised by one mean is by another, and nothing
in the draws tells. One value of a column is moved, and the parameters of all other rows are looked at.
"""

from typing import Any

import numpy as np

from gibbsite.density import Density
from gibbsite.density.current import current
from gibbsite.density.hierarchy.exchangeability import random_state

_MOST = 12
"""Columns that are looked at, each by one evaluation of the parameters of data."""
_MOST_ROWS = 100_000


def pooled_columns(density: Density, outcomes: Any) -> frozenset[str]:
    """Names of the arrays among the model's data, but for `outcomes`, of which one value moves the parameters
    of more than half of all other rows of some observed site. Steps of a loop and values that are drawn as a
    whole are no rows."""
    if "pooled columns" not in density.cache:
        density.cache["pooled columns"] = _pooled(density, frozenset(outcomes))
    return density.cache["pooled columns"]


def _pooled(density: Density, outcomes: frozenset[str]) -> frozenset[str]:
    sites = [n for n in current(density).data if n in density.sites]
    sites = [n for n in sites if not density.sites[n].in_scan and len(density.sites[n].shape) == 1]
    sites = [n for n in sites if 2 < density.sites[n].shape[0] <= _MOST_ROWS]
    arrays = list(density.arguments.arrays)
    columns = [
        (i, name)
        for i, (name, a) in enumerate(zip(density.arguments.names, arrays, strict=True))
        if name not in outcomes and np.asarray(a).dtype.kind == "f" and np.ndim(a) == 1
        and any(np.shape(a) == density.sites[n].shape for n in sites)
    ][:_MOST]  # fmt: skip
    state = random_state(density) if columns else None
    if state is None:
        return frozenset()
    before = _parameters(density, sites, state, arrays)
    found = set()
    for i, name in columns:
        own = np.asarray(arrays[i], float)
        step = np.nanstd(own) or 1.0
        for row in (0, len(own) - 1):  # the first of a lag or a difference moves one other row
            moved = own.copy()
            moved[row] += 10 * step
            now = _parameters(
                density, sites, state, [*arrays[:i], moved.astype(arrays[i].dtype), *arrays[i + 1 :]]
            )
            share = max((_changed(b, n, row) for b, n in zip(before, now, strict=True)), default=0.0)
            if share <= 0.5:
                break
        else:
            found.add(name)
    return frozenset(found)


def _parameters(density: Density, sites: Any, state: Any, arrays: Any) -> list[np.ndarray]:
    """Of each parameter of the sites that has a value for every row, these."""
    ev = density.evaluator(state, tuple(arrays))
    atoms = [(a, density.sites[n].shape[0]) for n in sites for a in density.outputs["parameters"][n].values()]
    found = [(np.asarray(ev.full(a)), rows) for a, rows in atoms]
    return [v for v, rows in found if v.ndim and v.shape[0] == rows]


def _changed(before: np.ndarray, now: np.ndarray, row: int) -> float:
    """The share of all other rows that changed."""
    a, b = (np.delete(np.asarray(v, float), row, axis=0) for v in (before, now))
    apart = ~np.isclose(a, b, rtol=1e-5, atol=1e-7, equal_nan=True)
    return float(apart.reshape(len(a), -1).any(axis=1).mean())
