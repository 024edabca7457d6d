"""The one index that all elements read, where the sites that pick it have the same value everywhere."""

from typing import Any

from gibbsite.programs.evaluation.evaluate import Evaluator
from gibbsite.programs.maps.access import Affine, Component, Table, clipped


def same_index(component: Component, ev: Evaluator) -> Any | None:
    """The index as a scalar, if it is the same for all elements at the values that `ev` holds; else None.

    Told by how the table was derived (`Table.key`), from variables that `ev` finds constant along all axes.
    """
    if isinstance(component, Affine):
        return None if component.axes else component.offset
    return _of_key(component.key, ev) if isinstance(component, Table) else None


def _of_key(key: Any, ev: Evaluator) -> Any | None:
    kind, *rest = key
    if kind == "look up":  # a table that is constant is so wherever it is read
        return _of_key(rest[0], ev)
    if kind == "gather":
        var, k, _, high = rest
        x = ev.lazy(var)
        if any(n != 1 for n in x.shape[:-1]):
            return None
        return clipped(x.reshape(-1)[min(k, x.shape[-1] - 1)], high)
    if kind == "sum":
        parts, total, _ = rest
        for coef, c in parts:
            index = same_index(c, ev)
            if index is None:
                return None
            total = total + coef * index
        return total
    return None
