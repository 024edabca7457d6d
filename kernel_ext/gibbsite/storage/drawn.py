"""Draws by site, as people meet them: a dictionary of arrays that prints shapes, not numbers."""

from collections.abc import Iterable, Mapping
from typing import Any

import jax
import numpy as np

from gibbsite.density.named import Named

_LISTED = 60


class Drawn(Named):
    """Site → array `[chain, draw, *shape]`. A `dict`, and a pytree of JAX's as a `dict` is."""

    def __init__(self, arrays: Mapping[str, Any] | Iterable[tuple[str, Any]] = ()):
        super().__init__("site with draws", arrays)

    def __reduce__(self) -> Any:
        return type(self), (dict(self),)

    def copy(self) -> "Drawn":
        """The same arrays in another dictionary."""
        return type(self)(self)

    def __repr__(self) -> str:
        if not self:
            return "<no draws: no sites>"
        leading = np.shape(next(iter(self.values())))[:2]
        head = "<draws" if len(leading) < 2 else f"<draws of {leading[0]} chains × {leading[1]}"
        width = max(len(n) for n in self)
        lines = [f"  {n.ljust(width)}  {_form(v)}" for n, v in list(self.items())[:_LISTED]]
        more = len(self) - len(lines)
        return "\n".join(
            [f"{head}, [chain, draw, …] by site>", *lines, *([f"  … {more} more"] if more else [])]
        )


def _form(array: Any) -> str:
    shape, dtype = getattr(array, "shape", None), getattr(array, "dtype", type(array).__name__)
    return str(dtype) if shape is None else f"{dtype} [{', '.join(map(str, shape))}]"


def _flat(drawn: Drawn) -> tuple[list[tuple[Any, Any]], tuple[str, ...]]:
    names = sorted(drawn)  # as JAX orders dictionaries
    return [(jax.tree_util.DictKey(n), drawn[n]) for n in names], tuple(names)


def _whole(names: tuple[str, ...], arrays: Iterable[Any]) -> Drawn:
    return Drawn(zip(names, arrays, strict=True))


jax.tree_util.register_pytree_with_keys(Drawn, _flat, _whole)
