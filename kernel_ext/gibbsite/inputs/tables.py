"""Tables at the door: columns of data frames become arrays, categories become codes, and their labels are
kept.

Narwhals reads pandas, polars and others alike; xarray and NumPy's structured arrays speak for themselves.
"""

import datetime
import math
import sys
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import jax
import numpy as np

from gibbsite.errors import DataError
from gibbsite.ground.lazy_import import later
from gibbsite.inputs.compared import labels_within
from gibbsite.inputs.table import Table

nw = later("narwhals.stable.v1")
Labels = dict[str, tuple[str, ...]]


@dataclass
class Known:
    """What arrays do not say of themselves, by the argument's name (`county`, `df['county']`): `labels` of
    codes, and under `index of <name>` of rows; `units` of numbers that were times; how many rows there are
    that are only `numbered`; whose table the first was, where it was none of pandas (`library`);
    which columns of categories name the rows, each once and in their order (`naming`), and have an order that
    nobody gave, that of the alphabet (`alphabetical`); over which column a plate is made (`plates`); and
    which times have a zone (`zoned`), in UTC then."""

    labels: Labels = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)
    numbered: dict[str, int] = field(default_factory=dict)
    library: str = ""
    naming: set[str] = field(default_factory=set)
    alphabetical: set[str] = field(default_factory=set)
    plates: dict[str, str] = field(default_factory=dict)
    zoned: set[str] = field(default_factory=set)


def from_objects(values: Sequence[Any], name: str, known: Known) -> np.ndarray:
    """Numbers, texts or times, with None and the like among them, as one array; what is missing is NaN.

    Raises `DataError` for anything else, and for a mixture of kinds.
    """
    gone = [missing(v) for v in values]
    there = [v for v, g in zip(values, gone, strict=True) if not g]
    if all(isinstance(v, str) for v in there) and there:
        return codes([None if g else v for v, g in zip(values, gone, strict=True)], None, name, known)
    if is_numbers(there):
        if not any(gone) and (exact := np.asarray(there)).dtype.kind in "biuf":
            return exact
        return np.array([math.nan if g else float(v) for v, g in zip(values, gone, strict=True)])
    for kind, unit in ((datetime.date | np.datetime64, "M8[us]"), (datetime.timedelta, "m8[us]")):
        if there and all(isinstance(v, kind) for v in there):
            plain = ["NaT" if g else _naive(v) for v, g in zip(values, gone, strict=True)]
            known.zoned |= {name} if any(getattr(v, "tzinfo", None) for v in there) else set()
            return days(np.array(plain, unit), name, known)
    kinds = ", ".join(sorted({type(v).__name__ for v in there}))
    raise DataError(f"{name} holds {kinds or 'nothing'}, which is no number and no category").at(
        None, "no-numbers"
    )


def missing(value: Any) -> bool:
    """Whether a value says that there is none: None, NaN, and those of pandas."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating) and math.isnan(value)


def is_numbers(values: Sequence[Any]) -> bool:
    """Whether there are values, and all are numbers."""
    kinds = (bool, int, float, Decimal, np.number, np.bool_)
    return bool(values) and all(isinstance(v, kinds) for v in values)


def codes(texts: Sequence[str | None], among: list[str] | None, name: str, known: Known) -> np.ndarray:
    """Each text's place among the categories: in the order given, or else sorted; NaN for None, which makes
    them decimal numbers."""
    there = {t for t in texts if t is not None}
    order = sorted(there) if among is None else among
    places = {label: i for i, label in enumerate(order)}
    known.labels[name] = tuple(order)
    if among is None:
        known.alphabetical.add(name)
    if tuple(order) == tuple(texts):
        known.naming.add(name)
    if None in texts:
        return np.array([math.nan if t is None else places[t] for t in texts])
    return np.fromiter((places[t] for t in texts if t is not None), np.int32, len(texts))


def days(times: np.ndarray, name: str, known: Known) -> np.ndarray:
    """Times as days since the first of them, durations as days; NaN where there is none."""
    if times.dtype.kind == "M":
        there = times[~np.isnat(times)]
        first = there.min() if there.size else np.datetime64("1970-01-01")
        midnight = first == first.astype("M8[D]")
        known.units[name] = f"days since {first.astype('M8[D]') if midnight else first.astype('M8[s]')}"
        times = times - first
    else:
        known.units[name] = "days"
    return times / np.timedelta64(1, "D")


def _naive(value: Any) -> Any:
    """A time with a zone, in UTC and without it."""
    zone = getattr(value, "tzinfo", None)
    return value if zone is None else value.astimezone(datetime.UTC).replace(tzinfo=None)


def check_range(name: str, leaf: Any) -> None:
    """Refuse whole numbers that would wrap around, and finite ones that would become infinite, in the types
    that JAX computes in: raises `DataError` with the first of them."""
    given, used = np.dtype(leaf.dtype), np.dtype(jax.dtypes.canonicalize_dtype(leaf.dtype))
    if given == used or given.kind not in "iuf" or not leaf.size:
        return
    value = np.asarray(leaf)
    if given.kind == "f":
        wrong = np.isfinite(value) & (np.abs(value) > np.finfo(used).max)
    else:
        limits = np.iinfo(used)
        wrong = (value > limits.max) | (value < limits.min)
    if wrong.any():
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        where = f" at {list(at)}" if at else ""
        raise DataError(
            f"{name} holds {value[at]}{where}, which {used} cannot hold; JAX would compute with "
            f"another number. Turn on 64-bit numbers (`jax.config.update('jax_enable_x64', True)`), or "
            f"rescale"
        )


def as_arrays(value: Any, name: str, known: Known) -> Any:
    """An argument as the model gets it: what is a table, a column of one or a list of numbers, as arrays;
    else as it is.

    Times become days since the first of them. Labels and units go into `known` by the argument's name.
    Raises `DataError` for columns that are no numbers and no categories; those of a table are refused where
    the model asks for them.
    """
    if type(value).__module__.partition(".")[0] == "xarray":
        return _from_xarray(value, name, known)
    if isinstance(value, np.ndarray):
        return whole(_from_numpy(value, name, known), value)
    if isinstance(value, jax.Array):
        return whole(value)
    to_series: Any = getattr(value, "to_series", None)
    if to_series is not None and type(value).__module__.partition(".")[0] == "pandas":
        value = to_series()  # an index
    if type(value).__module__.partition(".")[0] == "pandas":
        of_pandas = sys.modules["pandas"]
        if isinstance(value, of_pandas.api.extensions.ExtensionArray):
            value = of_pandas.Series(value)  # `.values` of categories, and of numbers with gaps
    if _is_pandas_frame(value):
        _row_labels(value, name, known)
        return _table(_pandas_columns(value), name, known)
    if _is_foreign(value):
        found = nw.from_native(value, pass_through=True, allow_series=True)
        if isinstance(found, nw.LazyFrame):
            found = found.collect()
        if isinstance(found, nw.DataFrame):
            known.library = known.library or found.implementation.value
            return _table(((c, found[c]) for c in found.columns), name, known)
        if isinstance(found, nw.Series):
            _row_labels(value, name, known)
            return whole(_column(found, name, known))
    if isinstance(value, tuple | list) and any(_is_table(v) for v in value):
        kept = [as_arrays(v, f"{name}[{i}]", known) for i, v in enumerate(value)]
        return type(value)(kept) if type(value) in (tuple, list) else value
    if type(value) is list:
        return _from_list(value, name, known)
    if type(value) is dict:
        return {k: as_arrays(v, f"{name}[{k!r}]", known) for k, v in value.items()}
    return value


def whole(value: Any, given: Any = None) -> Any:
    """An array as a model computes with it: whole numbers of a narrow type, or of one without a sign, in
    which `-x` or `x * y` would wrap, in a wide one that holds them. Never the array `given` itself, which may
    be changed later."""
    dtype = getattr(value, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.kind in "iu" and dtype.itemsize < 4:
        return value.astype(np.int32)
    if isinstance(value, np.ndarray) and value.dtype.kind == "u" and value.size:  # JAX's own may be keys
        widest = np.dtype(jax.dtypes.canonicalize_dtype(np.int64))
        if int(value.max()) <= np.iinfo(widest).max:
            return value.astype(widest)
    return value.copy() if value is given else value


def levels(column: Any) -> tuple[str, ...]:
    """The categories of a column, in the order of the codes that a model gets in its place: a plate over them
    is `plate("shop", len(gibbsite.levels(df.shop)))`, and `effects[df.shop]` looks them up.

    Raises `DataError` for a column of numbers or times, which have no categories.
    """
    if within := labels_within(column):
        return within
    known = Known()
    as_arrays(column, "column", known)
    if "column" not in known.labels:
        raise DataError(
            "levels: this column holds numbers or times; astype('category') makes categories of them"
        )
    return tuple(known.labels["column"])


def _from_numpy(value: np.ndarray, name: str, known: Known) -> Any:
    if isinstance(value, np.ma.MaskedArray) and value.dtype.kind in "biuf":
        return np.ma.filled(value.astype(float), np.nan) if np.ma.is_masked(value) else np.array(value)
    if value.dtype.names:
        return _table(((n, value[n]) for n in value.dtype.names), name, known)
    if value.dtype.kind in "mM":
        return days(value, name, known)
    if value.dtype.kind in "SUO" and value.ndim == 1 and value.size:
        texts = value.dtype.kind in "SU"
        try:
            return from_objects([str(v) for v in value] if texts else value.tolist(), name, known)
        except DataError:  # said where a statement takes it for data
            return value
    if value.dtype == np.longdouble and np.longdouble is not np.float64:  # which JAX has not
        return value.astype(np.float64)
    return value


def _from_list(value: list, name: str, known: Known) -> Any:
    """Lists of numbers, times or texts that repeat are data; texts that are all different may be names, and
    everything else is the program's."""
    there = [v for v in value if not missing(v)]
    if any(isinstance(v, list) for v in there):
        try:
            nested = np.asarray(value)
            return nested if nested.dtype.kind in "biuf" else np.asarray(value, float)
        except (TypeError, ValueError):  # ragged, or of texts
            return value
    if is_numbers(there):
        return from_objects(value, name, known)
    texts = bool(there) and all(isinstance(v, str) for v in there)
    if texts and len(set(there)) == len(there):
        return value
    try:
        return from_objects(value, name, known)
    except DataError:
        return value


def _is_table(value: Any) -> bool:
    if _is_pandas_frame(value):
        return True
    if not _is_foreign(value):
        return False
    found = nw.from_native(value, pass_through=True, allow_series=True)
    return isinstance(found, nw.DataFrame | nw.Series | nw.LazyFrame)


def _is_foreign(value: Any) -> bool:
    """Whether a value may be a table of another package: not one of Python's, NumPy's or JAX's."""
    return type(value).__module__.partition(".")[0] not in ("builtins", "numpy", "jax", "jaxlib")


def _is_pandas_frame(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] == "pandas" and hasattr(value, "columns")


def _pandas_columns(frame: Any) -> Iterator[tuple[Hashable, Any]]:
    """By position: names may be numbers, pairs of names, or the same twice."""
    for i, column in enumerate(frame.columns):
        yield column, nw.from_native(frame.iloc[:, i], series_only=True)


def _table(columns: Iterable[tuple[Hashable, Any]], name: str, known: Known) -> Table:
    """Columns that cannot be arrays are refused where the model asks for them, not here: a table may hold
    what the model does not read."""
    kept: dict[Hashable, Any] = {}
    refused: dict[Hashable, str] = {}
    for column, values in columns:
        called = f"{name}[{column!r}]"
        try:
            one = not isinstance(values, np.ndarray)
            if column in kept or column in refused:
                kept.pop(column, None)
                raise DataError(f"{name!r} has several columns {column!r}: give each a name of its own")
            found = whole(
                _column(values, called, known) if one else _from_numpy(values, called, known), values
            )
            check_range(called, found)
            kept[column] = found
        except DataError as error:
            refused[column] = str(error)
    return Table(kept, refused)


def _column(column: Any, name: str, known: Known) -> np.ndarray:
    dtype = column.dtype
    if dtype.is_numeric() or dtype == nw.Boolean:
        if column.null_count() and not dtype.is_float():
            column = column.cast(nw.Float64)  # NaN is how a missing number is written
        found = np.array(column.to_numpy())  # and no view of what may be changed later
        return found.astype(float) if found.dtype.kind == "O" else found  # decimals of a database
    if dtype in (nw.Categorical, nw.Enum):
        order = [str(v) for v in _categories(column)]
        if order == sorted(order) and not getattr(column.to_native().dtype, "ordered", dtype == nw.Enum):
            known.alphabetical.add(name)
        return codes([None if missing(v) else str(v) for v in column.to_list()], order, name, known)
    if dtype in (nw.Datetime, nw.Date):
        times = column.cast(nw.Datetime) if dtype == nw.Date else column
        if times.dtype.time_zone is not None:  # type: ignore[attr-defined]
            known.zoned.add(name)
            times = times.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        return days(np.asarray(times.to_numpy()).astype("M8[us]"), name, known)
    if dtype == nw.Duration:
        return days(np.asarray(column.to_numpy()).astype("m8[us]"), name, known)
    if dtype in (nw.String, nw.Object):
        return from_objects(column.to_list(), name, known)
    native = column.to_native()
    if hasattr(native, "sparse"):
        return np.asarray(native)
    if getattr(native.dtype, "tz", None) is not None:  # a zone whose name narwhals does not read: New_York
        known.zoned.add(name)
        return days(native.dt.tz_convert(None).to_numpy().astype("M8[us]"), name, known)
    if str(native.dtype).startswith("period"):
        return days(np.asarray(native.dt.to_timestamp()).astype("M8[us]"), name, known)
    raise DataError(f"{name} holds {native.dtype}, which is no number and no category").at(None, "no-numbers")


def _categories(column: Any) -> list[Any]:
    """All that an element may be, in their order. A categorical of polars knows no order and no value that is
    not there: those that appear, as they do."""
    if not column.implementation.is_polars():
        return column.cat.get_categories().to_list()
    if column.dtype == nw.Enum:
        return column.to_native().dtype.categories.to_list()
    return column.unique(maintain_order=True).drop_nulls().to_list()


def _row_labels(series: Any, name: str, known: Known) -> None:
    index = getattr(series, "index", None)
    if index is None or callable(index):
        return
    if type(index).__name__ == "RangeIndex" and index.start == 0 and index.step == 1:
        known.numbered[name] = len(index)
        return
    texts = _as_texts(index)
    if len(set(texts)) == len(texts):
        known.labels[f"index of {name}"] = texts


def _as_texts(index: Any) -> tuple[str, ...]:
    texts = tuple(map(str, index))
    if all(t.endswith(" 00:00:00") for t in texts):  # days
        texts = tuple(t.removesuffix(" 00:00:00") for t in texts)
    return texts


def in_order_of(value: Any, labels: Mapping[str, tuple[str, ...]], source: Any = None) -> Any:
    """A series of pandas whose labels are those of the rows it is asked for, in another order, in theirs; all
    else as it is. The rows are those of `source`, where that is a table of as many, or else have `labels`, or
    are numbered."""
    index = getattr(value, "index", None)
    if index is None or callable(index):
        return value
    count = len(index)
    own = getattr(source, "index", None)
    found = [_as_texts(own)] if own is not None and not callable(own) and len(own) == count else []
    found += [t for n, t in labels.items() if n.startswith("index of ") and len(t) == count]
    rows = next(iter(found), tuple(map(str, range(count))))
    texts = _as_texts(index)
    if texts == rows or len({*texts}) < count or {*texts} != {*rows}:
        return value
    places = {t: i for i, t in enumerate(texts)}
    return value.iloc[[places[t] for t in rows]]


def order_notes(known: Known) -> tuple[str, ...]:
    """A sentence for arguments whose rows, or whose rows and the codes of whose categories, have the same
    labels in another order: pandas would bring them together by label, and a model takes them by place."""
    rows = {n.removeprefix("index of "): t for n, t in known.labels.items() if n.startswith("index of ")}
    labelled = dict(rows)
    rows |= {n: tuple(map(str, range(k))) for n, k in known.numbered.items() if rows}
    first: dict[frozenset[str], str] = {}
    notes = []
    for name, texts in rows.items():
        other = first.setdefault(frozenset(texts), name)
        if rows[other] != texts and len(rows[other]) == len(texts):
            notes.append(
                f"{other} and {name} have the same row labels in another order, and rows are taken as they "
                f"stand: if they belong together by label, `{name}.loc[{other}.index]` brings them in order"
            )
    notes += _coordinate_notes(known)
    for column, texts in known.labels.items():
        table = column.partition("[")[0]
        for name, there in labelled.items():
            if " of " in column or name == table or not set(texts) <= set(there):
                continue
            if wrong := next(((i, t) for i, t in enumerate(texts) if there[i] != t), None):
                notes.append(
                    f"{column} is {wrong[1]!r} where it is {wrong[0]}, and row {wrong[0]} of {name} is "
                    f"{there[wrong[0]]!r}: if its categories are the rows of {name}, number them so, by "
                    f"`pd.Categorical({column}, {name}.index)`"
                )
    return tuple(notes)


def _coordinate_notes(known: Known) -> Iterator[str]:
    """The same of arrays with coordinates, which xarray would bring together by these."""
    first: dict[str, tuple[str, tuple[str, ...]]] = {}
    for called, texts in known.labels.items():
        dim, of, name = called.partition(" of ")
        if not of or dim == "index":
            continue
        other, there = first.setdefault(dim, (name, texts))
        if there != texts and set(there) == set(texts) and len(there) == len(texts):
            yield (
                f"{other} and {name} have the same {dim} in another order, and are taken as they stand: "
                f"`{name}.sel({dim}={other}.{dim})` brings them in order"
            )


def _from_xarray(value: Any, name: str, known: Known) -> Any:
    if hasattr(value, "data_vars"):
        return Table({str(n): _from_xarray(v, f"{name}[{n!r}]", known) for n, v in value.data_vars.items()})
    if not hasattr(value, "dims") or not hasattr(value, "values"):
        return value
    for dim in value.dims:
        if dim in value.coords:
            known.labels[f"{dim} of {name}"] = tuple(map(str, np.asarray(value.coords[dim].values)))
    return as_arrays(np.asarray(value.values), name, known)


def plate_labels(sizes: Mapping[str, int], labels: Mapping[str, Sequence[str]]) -> Labels:
    """Labels by plate: of the one set of labels that a plate is as long as. Where several sets are, a set
    that is called as the plate is; else none, since a wrong label is worse than a number."""
    out: Labels = {}
    for plate, size in sizes.items():
        fitting = {name: tuple(kept) for name, kept in labels.items() if len(kept) == size}
        named = [kept for name, kept in fitting.items() if plate in name]
        choices = set(named) or set(fitting.values())
        if len(choices) == 1:
            out[plate] = next(iter(choices))
    return out
