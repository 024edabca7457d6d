"""Known arrays inside of a model, which answer to what columns of tables are asked for."""

from typing import Any

import numpy as np


class Column(np.ndarray):
    """NumPy's array with `values` and `to_numpy()`, as pandas' and polars' columns have them: a model that
    was written for tables works as it is."""

    @property
    def values(self) -> np.ndarray:
        """The array, as NumPy's."""
        return np.asarray(self)

    def to_numpy(self, *_: Any, **__: Any) -> np.ndarray:
        """The array, as NumPy's."""
        return np.asarray(self)

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        return array[()] if return_scalar else array.view(type(self))

    def __repr__(self) -> str:
        return repr(np.asarray(self))


def as_column(value: Any) -> Any:
    """Arrays of numbers as columns; what is none as it is."""
    return value.view(Column) if type(value) is np.ndarray and value.dtype.kind in "biufc" else value
