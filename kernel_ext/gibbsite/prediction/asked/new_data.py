"""Arguments as people give them for a prediction → the model's arguments: codes of its own categories, days
since its own first day, groups by their names."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np

from gibbsite.density.build import parameters_of_function
from gibbsite.density.model.arguments import split_arguments
from gibbsite.density.model.names import printed
from gibbsite.errors import DataError, OptionError, UnknownNameError
from gibbsite.ground.arguments import InOrder, shown
from gibbsite.inputs.table import Table
from gibbsite.inputs.tables import Known, Labels, as_arrays
from gibbsite.prediction.asked.arguments import Asked, bound_arguments, leaves_of, only_observed, outcomes_of
from gibbsite.prediction.asked.groups import Groups, argument_of, groups_of, with_rows

_SINCE = re.compile(r"days since (\S+)")


def in_days(unit: str, value: Any) -> Any:
    """Times, or durations, or texts of these, in a unit of the model's own; raises `ValueError`."""
    since = _SINCE.fullmatch(unit)
    kind = "datetime64" if since else "timedelta64"
    times = np.asarray(value, f"{kind}[ns]") if np.asarray(value).dtype.kind in "USOMm" else None
    if times is None:
        return value
    first = np.datetime64(since[1], "ns") if since else np.timedelta64(0, "ns")
    return (times - first) / np.timedelta64(1, "D")


def asked_of(origin: Any, table: Any, given: Mapping[str, Any]) -> Asked:
    """The model's arguments with `given` in their places, and the columns of `table`.

    Raises `UnknownNameError` for a name that is no argument, `DataError` for values of another kind than the
    model's (numbers for categories, other axes), `OptionError` for a table that no argument takes.
    """
    bound = bound_arguments(origin)
    given = _by_name(origin, bound, table, given)
    reading = _Reading(origin, bound)
    for name, value in sorted(given.items(), key=lambda item: item[0] not in reading.groups):
        if value is None:
            reading.take_none(name)
        else:
            reading.take(name, value, _index(table, value))
    source = table if table is not None else _source(origin, given, reading.groups)
    return Asked(
        reading.values,
        reading.labels,
        frozenset(reading.new),
        frozenset(reading.absent),
        reading.unknown,
        reading.tables,
        source,
    )


class _Reading:
    """What becomes of a model's arguments, whose new values are taken one after another: tables of groups
    first, which say what groups there are. Fields as those of `Asked`."""

    def __init__(self, origin: Any, bound: Mapping[str, Any]):
        self._origin, self._bound, self._before = origin, bound, leaves_of(origin, bound)
        self.values, self.labels = dict(bound), dict[str, tuple[str, ...]](origin.labels)
        self.new, self.absent = set[str](), set[str]()
        self.unknown: dict[str, tuple[str, ...]] = {}
        self.groups = groups_of(origin, bound)
        self.tables: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {}
        self._every: dict[tuple[str, ...], tuple[Groups, tuple[str, ...]]] = {}  # groups, by the model's own

    def _own(self, name: str) -> set[str]:
        return {n for n in self._before if argument_of(n) == name}

    def take_none(self, name: str) -> None:
        """An argument that holds nothing."""
        self.values[name] = None
        self.new |= self._own(name)
        self.absent |= self._own(name)

    def take(self, name: str, value: Any, index: Any) -> None:
        """An argument's new value, whose rows have the labels `index`. Raises `DataError`."""
        known, was, own = Known(), self._bound.get(name), self._own(name)
        if isinstance(was, Table) and np.ndim(value) == 1 and not isinstance(value, Mapping):
            raise DataError(
                f"{name!r} is a table in the model; give a table, not {shown(value)} (of pandas one row is "
                "frame.iloc[[0]])"
            )
        made = _arrays(self._origin, was, value, name, known)
        if isinstance(made, Table) and isinstance(was, Table):
            made = self._with_outcomes(name, made).like(was)
        leaves = _leaves(made, name)
        self._check_kind(name, value, made, leaves, own)
        mine = self.groups.get(name)
        texts = mine.texts(known.labels, leaves) if mine is not None else None
        if mine is not None and texts is not None:
            known_ones = {*mine.own}
            more = tuple(t for t in texts if t not in known_ones)
            self._every.setdefault(mine.own, (mine, (*mine.own, *more)))
        for leaf, array in leaves.items():
            if not np.size(array) and np.size(self._before.get(leaf, 1)):
                raise DataError(f"{leaf!r} has no elements: there is nothing to predict for")
            if leaf in own:
                rows = _plate_of_rows(self._origin, leaf, array, known) if texts is None else None
                leaves[leaf] = self._read(leaf, array, known, index, rows)
        self.labels = {n: v for n, v in self.labels.items() if _row_of(n) != name}
        fresh = {n: v for n, v in known.labels.items() if n not in self.labels and _row_of(n) == name}
        if mine is not None and texts is not None:
            every = self._every[mine.own][1]
            rows = mine.rows(texts, every)
            leaves = {n: with_rows(self._before[n], a, rows) if n in own else a for n, a in leaves.items()}
            self.tables[name], fresh = (mine.own, every), {mine.named: every}
        self.labels |= fresh
        self.values[name] = _with(made, leaves, name)
        self.new |= set(leaves) | own
        self.absent |= own - set(leaves)
        if isinstance(was, Table) and not isinstance(self.values[name], Table):
            raise DataError(f"{name!r} is a table in the model; give a table, not {shown(value)}")

    def _with_outcomes(self, name: str, made: Table) -> Table:
        """The new table, with gaps for the columns that it lacks and of which the model only makes what it
        observes, as a stack of several."""
        lacking = self._own(name) - _leaves(made, name).keys() - outcomes_of(self._origin).keys()
        gaps = {
            c: np.full((len(made), *np.shape(self._before[leaf])[1:]), np.nan)
            for leaf in only_observed(self._origin, lacking)
            for c in self._bound[name].columns
            if leaf in _leaves(Table({c: np.zeros(1)}), name)
        }
        return made.with_columns(gaps) if len(made) else made

    def _check_kind(self, name: str, value: Any, made: Any, leaves: Mapping[str, Any], own: set[str]) -> None:
        was, density = self._bound.get(name), self._origin.density
        if isinstance(was, Table) and isinstance(made, Table) and not leaves.keys() & own:
            columns = ", ".join(map(repr, was.columns))
            raise DataError(
                f"the new table has none of the model's columns ({columns}), and says nothing of rows: give "
                "one, of missing values (NaN) if nothing is known"
            )
        if isinstance(made, Table) and not len(made) and not isinstance(value, Table):
            raise DataError(f"the new table {name!r} has no rows" if made.columns else f"{name!r} is empty")
        needed = (own - leaves.keys()) & density.read_names - outcomes_of(self._origin).keys()
        if needed and isinstance(made, Table):
            raise DataError(
                f"the new table lacks {', '.join(sorted(needed))}, which the model reads; it has "
                f"{', '.join(map(repr, made.columns))}"
            ).at(None, "unknown-column")
        if name in own and name not in leaves:  # an array in the model, and no array now
            raise DataError(
                f"{name!r} is an array in the model, and {shown(value)} is none; do={{{name!r}: …}} sets it "
                f"for every row"
            )

    def _read(self, leaf: str, array: Any, known: Known, index: Any, rows: tuple[str, ...] | None) -> Any:
        """One array in the model's own codes and units; `rows` are what it calls its rows, if it does no
        more."""
        if rows is not None:
            self.labels[leaf] = rows
            return np.arange(len(rows), dtype=np.int32)
        groups, every = self._every.get(self._origin.labels.get(leaf, ()), (None, ()))
        if groups is not None:
            self.labels[leaf] = every
        before = self._before[leaf]
        found = _checked(self._origin, leaf, array, before, known, self.labels, self.unknown)
        if groups is not None:
            groups.check_known(leaf, self.labels[leaf][len(every) :])
        check_infinite(leaf, found, before, index)
        return found


def _source(origin: Any, given: Mapping[str, Any], groups: Mapping[str, Groups]) -> Any:
    """The user's own table whose rows have their labels, other than tables of groups if there are any; of the
    kind of the model's own where nothing is given."""
    ordered = [given[n] for n in sorted(given, key=lambda name: name in groups)]
    frames = [v for v in ordered if hasattr(v, "columns") and not isinstance(v, Table)]
    labelled = [v for v in given.values() if getattr(v, "index", None) is not None]
    if frames or labelled:
        return (frames or labelled)[0]
    library = origin.analysis.known.library
    return nw.from_dict({}, backend=library).to_native() if library and not given else None


def _by_name(origin: Any, bound: Mapping[str, Any], table: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """All that is given, by argument."""
    from_table = _by_argument(origin, bound, table)
    for name in from_table.keys() & given.keys():
        raise OptionError(f"{name!r} is given twice: by the table, and by name")
    given = {**from_table, **given}
    parameters = [n for n in parameters_of_function(origin.fn) if n not in bound]
    hidden = set(origin.kwargs) - set(parameters_of_function(origin.fn))
    for name in given:
        if (name not in bound and name not in parameters) or name in hidden:
            known = [n for n in [*bound, *parameters] if n not in hidden]
            raise UnknownNameError("argument", name, known)
    return given


def _plate_of_rows(origin: Any, leaf: str, array: Any, known: Known) -> tuple[str, ...] | None:
    """What a new column calls its rows, where the model makes a plate over it, of its rows, and nothing else
    of it; None for any other column, and where rows are called alike."""
    own, fresh = origin.analysis.known, known.labels.get(leaf)
    if leaf not in own.plates.values() or leaf not in own.naming or leaf in origin.density.read_names:
        return None
    if fresh is None or not np.isfinite(array).all():
        return None
    rows = tuple(printed(fresh[int(c)]) for c in np.asarray(array))
    return rows if len({*rows}) == len(rows) else None


def _by_argument(origin: Any, bound: Mapping[str, Any], table: Any) -> dict[str, Any]:
    """What a table, or a mapping, gives to which arguments."""
    if table is None:
        return {}
    if not bound and not parameters_of_function(origin.fn):
        raise OptionError(f"{origin.name!r} takes no arguments, so that there is no place for a new table")
    if isinstance(table, InOrder):
        names = list(dict.fromkeys([*bound, *parameters_of_function(origin.fn)]))
        if len(table) > len(names):
            takes = f"the model takes {len(names)}: {', '.join(names)}"
            raise OptionError(f"{len(table)} values are given, and {takes}")
        return dict(zip(names, table, strict=False))
    tables = [n for n, v in bound.items() if isinstance(v, Table)]
    tables = tables or [n for n, v in bound.items() if isinstance(v, Mapping)]
    if len(tables) == 1 and not (isinstance(table, Mapping) and set(table) <= set(bound)):
        return {tables[0]: table}
    if isinstance(table, Mapping):
        return dict(table)
    if len(bound) == 1 and not hasattr(table, "columns"):
        return dict.fromkeys(bound, table)
    columns = [c for c in getattr(table, "columns", ()) if c in bound]
    if len(tables) > 1 or not columns:
        those = ", ".join(tables or bound)
        raise OptionError(
            f"the model takes {those}: give the new table by name, as in "
            f"predict({(tables or list(bound))[0]}=…)"
        )
    return {c: table[c] for c in columns}


def _arrays(origin: Any, before: Any, value: Any, name: str, known: Known) -> Any:
    """The value as the model's own of that name was made: a mapping of columns for a table, texts for
    codes."""
    texts = name in origin.labels
    if texts and isinstance(value, str):
        value = [value]
    if texts and isinstance(value, list | tuple) and all(isinstance(v, str) for v in value):
        value = np.asarray(value, dtype=str)
    if isinstance(before, np.ndarray) and isinstance(value, list | tuple):
        value = np.asarray(value) if not texts else value
    if isinstance(before, Table) and isinstance(value, Mapping):
        columns = {
            c: np.asarray(v, dtype=str) if _texts(v) else v if hasattr(v, "dtype") else np.asarray(v)
            for c, v in value.items()
        }
        return Table({c: as_arrays(v, f"{name}[{c!r}]", known) for c, v in columns.items()})
    return as_arrays(value, name, known)


def _texts(value: Any) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(v, str) for v in value)


def _leaves(made: Any, name: str) -> dict[str, Any]:
    found = split_arguments((), {name: made})
    return dict(zip(found.names, found.given, strict=True))


def _with(made: Any, leaves: Mapping[str, Any], name: str) -> Any:
    found = split_arguments((), {name: made})
    return found.rebuild([leaves[n] for n in found.names])[1][name]


def _row_of(label: str) -> str | None:
    """The argument whose rows a set of labels is of."""
    _, found, name = label.rpartition(" of ")
    return argument_of(name) if found else None


def _index(*tables: Any) -> Any:
    """The row labels of the first that has any."""
    found = (getattr(t, "index", None) for t in tables)
    return next((i for i in found if i is not None and not callable(i)), None)


def _checked(
    origin: Any,
    leaf: str,
    array: Any,
    before: Any,
    known: Known,
    labels: Labels,
    unknown: dict[str, tuple[str, ...]],
) -> Any:
    """One array of the new data, in the codes and units of the model's own. Raises `DataError`."""
    old, fresh = origin.labels.get(leaf), known.labels.get(leaf)
    if old is not None and fresh is None and np.asarray(array).dtype.kind in "iu" and of_numbers(old):
        fresh, array = _as_categories(array)  # the model's own were categories that are whole numbers
    if np.asarray(array).dtype.kind == "c":
        raise DataError(f"{leaf!r} holds complex numbers, and models are of real ones")
    if np.ndim(array) != np.ndim(before):
        raise DataError(
            f"{leaf!r} has {np.ndim(before)} axes in the model's own data, and {np.ndim(array)} in the new"
        )
    if (old is None) != (fresh is None):
        bools = np.asarray(before).dtype.kind == "b"
        plain = "times" if leaf in origin.analysis.known.units else "truth values" if bools else "numbers"
        was, now = ("categories", "numbers") if fresh is None else (plain, "texts or categories")
        such = f" such as {', '.join(map(repr, (old or ())[:3]))}" if old else ""
        way = {"times": "; `pd.to_datetime(…)` reads them", "numbers": "; `.astype(float)` reads them"}
        raise DataError(
            f"{leaf!r} holds {was}{such} in the model's own data, and {now} in the new{way.get(was, '')}"
        )
    if old is not None and fresh is not None:
        codes = _coded(leaf, array, old, tuple(map(printed, fresh)), labels, unknown)
        gone = np.argwhere(np.isnan(codes)) if codes.dtype.kind == "f" else np.empty((0, 1), int)
        if len(gone) and np.asarray(before).dtype.kind in "iu" and leaf not in outcomes_of(origin):
            raise DataError(
                f"{leaf!r} has {len(gone)} missing value{'s' * (len(gone) > 1)} in the new data (the first "
                f"in row {int(gone[0][0])}), and categories pick what belongs to them; leave such rows out, "
                f"or give them a category: of one that the data have not, elements are drawn anew"
            )
        return codes
    unit, other = origin.analysis.known.units.get(leaf), known.units.get(leaf)
    if (unit is None) != (other is None):
        was, now = ("times", "plain numbers") if other is None else ("plain numbers", "times")
        raise DataError(f"{leaf!r} holds {was} in the model's own data, and {now} in the new")
    zone, had = leaf in known.zoned, leaf in origin.analysis.known.zoned
    if unit is not None and other is not None and zone != had:
        was, now = ("without", "with") if zone else ("with", "without")
        raise DataError(
            f"{leaf!r} holds times {was} a zone in the model's own data, and {now} one in the new; "
            f"`.dt.tz_localize(…)` gives a zone to times, and `.dt.tz_localize(None)` takes it away"
        )
    if unit is not None and other is not None and unit != other:
        array = np.asarray(array, float) + _first(other, leaf, unit) - _first(unit, leaf, other)
    kind, was = np.asarray(array).dtype.kind, np.asarray(before).dtype.kind
    if was in "iu" and kind == "f" and leaf not in labels:
        array = np.asarray(array)
        there = array[np.isfinite(array)]
        part = there[there != np.round(there)]
        if len(part) and leaf in outcomes_of(origin):
            raise DataError(f"{leaf!r} holds whole numbers in the model's own data, and {part[0]} in the new")
        if len(part):  # between them, as an age of 40.5; what picks elements is refused where it does
            return array
        return array if len(there) < array.size else array.astype(np.asarray(before).dtype)
    if was == "b" and kind != "b":
        if len(rows := np.flatnonzero(~np.isin(array, (0, 1)))):
            value = np.ravel(array)[rows[0]]
            now = "a missing value" if np.isnan(value) else str(value)
            raise DataError(
                f"{leaf!r} holds truth values in the model's own data, and {now} in row {rows[0]} of the new"
            )
        return np.asarray(array).astype(bool)
    if was == "f" and kind in "iub":
        return np.asarray(array).astype(np.asarray(before).dtype)
    return array


def of_numbers(labels: Sequence[str]) -> bool:
    """Whether categories are whole numbers."""
    return all(re.fullmatch(r"-?\d+", t) for t in labels)


def _as_categories(array: Any) -> tuple[tuple[str, ...], np.ndarray]:
    values, codes = np.unique(np.asarray(array), return_inverse=True)
    return tuple(map(str, values.tolist())), codes.reshape(np.shape(array)).astype(np.int32)


def check_infinite(leaf: str, array: Any, before: Any, index: Any = None) -> None:
    """Refuse infinite numbers in new data where the model's `before` has none: of most models every draw of
    such a row is infinite or no number, which moments hide. `index` are the rows' labels. Raises `DataError`.
    """
    array, before = np.asarray(array), np.asarray(before)
    if array.dtype.kind != "f" or (before.dtype.kind == "f" and np.isinf(before).any()):
        return
    found = np.argwhere(np.isinf(array))
    if len(found):
        at = tuple(int(i) for i in found[0])
        if index is not None and at and len(index) == len(array):
            row = shown(index[at[0]])
        else:
            row = ", ".join(map(str, at))
        where = f" in row {row}" if at else ""
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise DataError(
            f"{leaf!r} is {array[at]}{where}{more}, and finite everywhere in the model's own data: leave it "
            "out, or give a finite number"
        )


def _coded(
    leaf: str,
    array: Any,
    old: Sequence[str],
    fresh: Sequence[str],
    labels: Labels,
    unknown: dict[str, tuple[str, ...]],
) -> Any:
    """Codes of the new data's own order of categories in the model's; those it does not have come after."""
    codes = np.asarray(array)
    there = codes[np.isfinite(codes)].astype(int)
    used = [str(fresh[int(i)]) for i in np.unique(there)]
    every = labels.get(leaf, old)  # those of a table of groups among them
    merged = tuple(dict.fromkeys((*every, *used)))
    places = {t: i for i, t in enumerate(merged)}
    table = np.array([places.get(t, -1) for t in fresh], np.int32)
    labels[leaf] = merged
    if more := tuple(t for t in used if places[t] >= len(old)):
        unknown[leaf] = more
    if len(there) < codes.size:
        return np.where(np.isfinite(codes), table[np.nan_to_num(codes).astype(int)], np.nan)
    return table[codes.astype(int)]


def _first(unit: str, leaf: str, other: str) -> float:
    """When the counting of days begins, in days of the calendar."""
    match = _SINCE.fullmatch(unit)
    if match is None:
        raise DataError(f"{leaf!r} holds {other} in the model's own data, and {unit} in the new")
    return float(np.datetime64(match[1]).astype("M8[s]").astype(np.int64)) / 86400.0
