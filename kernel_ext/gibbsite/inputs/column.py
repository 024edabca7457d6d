"""What a model asks columns of tables for, and known arrays that answer to it.

Within a model columns are arrays: JAX's, or NumPy's where Python needed their values. A function that was
written for tables says `df.x.values` and `df.shop.nunique()` of them.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gibbsite.inputs.compared import categories, categories_within, comparable, labels_within


class Codes:
    """What pandas has as `column.cat` of a column of labels, which holds their codes here."""

    def __init__(self, codes: Any):
        self.codes = codes
        if found := categories_within(codes):
            self.categories = found

    def __getattr__(self, name: str) -> Any:
        known = vars(self).get("categories")
        if known is None or name.startswith("__"):  # as of columns: see `explain`
            raise AttributeError(f"'ndarray' object has no attribute {name!r}")
        told, instead = f"the categories of {known.name}", ", but `cat.codes` and `cat.categories`"
        raise categories.no_method(told, f"cat.{name}", instead)


def _nunique(column: Any) -> Callable[..., int]:
    def nunique(dropna: bool = True) -> int:
        if labels := labels_within(column):
            return len(labels)
        found = np.asarray(column)
        missing = np.isnan(found) if found.dtype.kind == "f" else np.zeros(found.shape, bool)
        return len(np.unique(found[~missing])) + int(not dropna and missing.any())

    return nunique


def _to_list(column: Any) -> Callable[[], list[Any]]:
    return lambda: np.asarray(column).tolist()


def _unique(column: Any) -> Callable[[], Any]:
    def unique() -> Any:
        found = np.asarray(column)
        _, first = np.unique(found, return_index=True)
        return as_column(found[np.sort(first)])  # in the order in which they come, as pandas has it

    return unique


def _cat(column: Any) -> Codes:
    if np.dtype(column.dtype).kind not in "iu":
        raise AttributeError("'ndarray' object has no attribute 'cat'")  # of numbers, in pandas neither
    return Codes(column)


ATTRIBUTES: Mapping[str, Callable[[Any], Any]] = {
    "values": lambda column: column,
    "to_numpy": lambda column: lambda *_, **__: column,
    "nunique": _nunique,
    "unique": _unique,
    "to_list": _to_list,
    "cat": _cat,
}
"""The attribute of a column by its name in pandas or polars."""


class Column(np.ndarray):
    """NumPy's array with `ATTRIBUTES`."""

    def __getattr__(self, name: str) -> Any:
        if name not in ATTRIBUTES:
            raise AttributeError(f"'numpy.ndarray' object has no attribute {name!r}")
        return ATTRIBUTES[name](self)

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        return array[()] if return_scalar else array.view(type(self))

    def __repr__(self) -> str:
        return repr(np.asarray(self))

    __hash__ = None  # type: ignore[assignment]  # as NumPy's arrays


def _comparing(how: str) -> Callable[[Any, Any], Any]:
    plain = getattr(np.ndarray, f"__{how}__")
    return lambda column, other: plain(column, comparable(column, other, how))


for _how in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(Column, f"__{_how}__", _comparing(_how))


def as_column(value: Any) -> Any:
    """Arrays of numbers as columns; what is none as it is."""
    return value.view(Column) if type(value) is np.ndarray and value.dtype.kind in "biufc" else value
