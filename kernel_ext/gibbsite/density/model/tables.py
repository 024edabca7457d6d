"""Tables at the door: columns of data frames become arrays, categories become codes, and their labels are
kept.

Narwhals reads pandas, polars and others alike; xarray and NumPy's structured arrays speak for themselves.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import narwhals.stable.v1 as nw
import numpy as np

from gibbsite.errors import DataError

Labels = dict[str, tuple[str, ...]]


@jax.tree_util.register_pytree_with_keys_class
class Table:
    """Columns of equal length by name: `table["floor"]`, `table.floor`, `len(table)`, `table.columns`."""

    def __init__(self, columns: Mapping[str, Any]):
        self.__dict__["_columns"] = dict(columns)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns' names, in order."""
        return tuple(self._columns)

    def __getitem__(self, name: Any) -> Any:
        if isinstance(name, list):
            return Table({n: self[n] for n in name})
        if name not in self._columns:
            raise DataError(f"the table has no column {name!r}; it has {', '.join(map(repr, self._columns))}")
        return self._columns[name]

    def __getattr__(self, name: str) -> Any:
        columns = self.__dict__.get("_columns", {})
        if name not in columns:
            raise AttributeError(f"the table has no column {name!r}; it has {', '.join(map(repr, columns))}")
        return columns[name]

    def __len__(self) -> int:
        return 0 if not self._columns else int(next(iter(self._columns.values())).shape[0])

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def to_numpy(self) -> Any:
        """All columns side by side, `[row, column]`."""
        return jax.numpy.stack(list(self._columns.values()), axis=1)

    def tree_flatten_with_keys(self) -> tuple[list[tuple[Any, Any]], tuple[str, ...]]:
        """For JAX: the columns, and their names."""
        return [(jax.tree_util.DictKey(n), c) for n, c in self._columns.items()], self.columns

    @classmethod
    def tree_unflatten(cls, names: tuple[str, ...], columns: Sequence[Any]) -> "Table":
        """For JAX."""
        return cls(dict(zip(names, columns, strict=True)))

    def __repr__(self) -> str:
        return f"Table({', '.join(self._columns)})"


def as_arrays(value: Any, name: str, labels: Labels) -> Any:
    """An argument as the model gets it: what is a table or a column of one, as arrays; else as it is.

    Labels of categories go into `labels` by the argument's name (`county`, `df['county']`), row labels of an
    index under `index of <name>`. Raises `DataError` for columns that are no numbers and no categories.
    """
    if type(value).__module__.partition(".")[0] == "xarray":
        return _from_xarray(value, name, labels)
    if isinstance(value, np.ma.MaskedArray) and value.dtype.kind in "biuf":
        return np.ma.filled(value.astype(float), np.nan) if np.ma.is_masked(value) else np.asarray(value)
    if isinstance(value, np.ndarray) and value.dtype.names:
        return Table({n: as_arrays(value[n], f"{name}[{n!r}]", labels) for n in value.dtype.names})
    if isinstance(value, np.ndarray) and value.dtype.kind in "SU" and value.ndim == 1 and value.size:
        return _codes([str(v) for v in value], None, name, labels)
    to_series: Any = getattr(value, "to_series", None)
    if to_series is not None and type(value).__module__.partition(".")[0] == "pandas":
        value = to_series()  # an index
    found = nw.from_native(value, pass_through=True, allow_series=True, eager_only=True)
    if isinstance(found, nw.DataFrame):
        return Table({c: _column(found[c], f"{name}[{c!r}]", labels) for c in found.columns})
    if isinstance(found, nw.Series):
        _row_labels(value, name, labels)
        return _column(found, name, labels)
    if isinstance(value, tuple | list) and any(_is_table(v) for v in value):
        kept = [as_arrays(v, f"{name}[{i}]", labels) for i, v in enumerate(value)]
        return type(value)(kept) if type(value) in (tuple, list) else value
    if type(value) is dict:
        return {k: as_arrays(v, f"{name}[{k!r}]", labels) for k, v in value.items()}
    return value


def _is_table(value: Any) -> bool:
    found = nw.from_native(value, pass_through=True, allow_series=True, eager_only=True)
    return isinstance(found, nw.DataFrame | nw.Series)


def _column(column: Any, name: str, labels: Labels) -> np.ndarray:
    dtype = column.dtype
    missing = int(column.null_count())
    if dtype.is_numeric() or dtype == nw.Boolean:
        if missing and not dtype.is_float():
            column = column.cast(nw.Float64)  # NaN is how a missing number is written
        return np.asarray(column.to_numpy())
    if dtype in (nw.Categorical, nw.Enum, nw.String, nw.Object):
        if missing:
            raise DataError(
                f"{name} has {missing} missing values among its categories: drop those rows, or give the "
                f"missing ones a category of their own"
            )
        ordered = dtype in (nw.Categorical, nw.Enum)
        known = [str(v) for v in column.cat.get_categories().to_list()] if ordered else None
        return _codes([str(v) for v in column.to_list()], known, name, labels)
    if dtype in (nw.Datetime, nw.Date, nw.Duration, nw.Time):
        raise DataError(
            f"{name} holds times ({dtype}): say in which unit the model counts them, as in "
            f"`(t - t.min()).dt.days` for whole days"
        )
    raise DataError(f"{name} holds {dtype}, which is no number and no category")


def _codes(texts: list[str], known: list[str] | None, name: str, labels: Labels) -> np.ndarray:
    """Each text's place among the categories: in the order given, or else sorted."""
    known = sorted(set(texts)) if known is None else known
    places = {label: i for i, label in enumerate(known)}
    labels[name] = tuple(known)
    return np.fromiter((places[t] for t in texts), np.int32, len(texts))


def _row_labels(series: Any, name: str, labels: Labels) -> None:
    index = getattr(series, "index", None)
    if index is None or callable(index) or type(index).__name__ == "RangeIndex":
        return
    texts = tuple(map(str, index))
    if len(set(texts)) == len(texts):
        labels[f"index of {name}"] = texts


def _from_xarray(value: Any, name: str, labels: Labels) -> Any:
    if hasattr(value, "data_vars"):
        return Table({str(n): _from_xarray(v, f"{name}[{n!r}]", labels) for n, v in value.data_vars.items()})
    if not hasattr(value, "dims") or not hasattr(value, "values"):
        return value
    for dim in value.dims:
        if dim in value.coords:
            labels[f"{dim} of {name}"] = tuple(map(str, np.asarray(value.coords[dim].values)))
    return as_arrays(np.asarray(value.values), name, labels)


def plate_labels(sizes: Mapping[str, int], labels: Mapping[str, Sequence[str]]) -> Labels:
    """Labels by plate: of the one set of labels that a plate is as long as. Where several sets are, a set
    that is called as the plate is; else none, since a wrong label is worse than a number."""
    out: Labels = {}
    for plate, size in sizes.items():
        fitting = {name: tuple(known) for name, known in labels.items() if len(known) == size}
        named = [known for name, known in fitting.items() if plate in name]
        choices = set(named) or set(fitting.values())
        if len(choices) == 1:
            out[plate] = next(iter(choices))
    return out
