"""Draws of predictions → a table of means, spreads and intervals, row by row as the user's own table."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from gibbsite.ground.lazy_import import later
from gibbsite.sampling.derived.interval import Interval

nw, pd = later("narwhals.stable.v1"), later("pandas")

_AT_ONCE = 2**24  # numbers

Labels = Sequence[Sequence[str] | None]


def columns_of(values: np.ndarray, interval: Interval) -> dict[str, np.ndarray]:
    """Over chains and draws of `[chain, draw, *shape]`: mean, standard deviation and interval of every
    element, in the order of `shape`; called as ArviZ calls them (`eti89_lb`)."""
    flat = values.reshape(-1, int(np.prod(values.shape[2:], dtype=int)))
    count, size = flat.shape
    mean, sd, low, high = np.full((4, size), np.nan)
    step = max(1, _AT_ONCE // max(count, 1))  # in double precision, sorted: not all of many at a time
    for start in range(0, size, step):
        some = slice(start, start + step)
        part = flat[:, some].astype(float)
        mean[some] = part.mean(axis=0)
        sd[some] = part.std(axis=0, ddof=1) if count > 1 else np.nan
        low[some], high[some] = interval.of(part.T)
    share = f"{interval.kind}{round(100 * interval.prob)}"
    return {"mean": mean, "sd": sd, f"{share}_lb": low, f"{share}_ub": high}


def frame_of(
    parts: Mapping[str, Mapping[str, np.ndarray]],
    dims: Mapping[str, Sequence[str]],
    labels: Mapping[str, Labels],
    shapes: Mapping[str, tuple[int, ...]],
    source: Any = None,
) -> Any:
    """One table of the columns in `parts` by site; with several sites, `site` names each row's.

    `source` is the table that the rows are of: its index is theirs (pandas), and its kind the result's
    (polars).
    """
    table: dict[str, list[Any]] = {}
    several = len(parts) > 1
    one = next(iter(parts), None)
    plain = not several and one is not None and len(shapes[one]) <= 1
    axes = [] if plain else list(dict.fromkeys(d for site in parts for d in dims[site]))
    for name in (*(["site"] if several else []), *axes, *(n for columns in parts.values() for n in columns)):
        table[name] = []
    for site, columns in parts.items():
        count = len(next(iter(columns.values())))
        own: dict[str, list[Any]] = {n: np.asarray(column).tolist() for n, column in columns.items()}
        own |= {"site": [site] * count} if several else {}
        for axis, dim in enumerate(dims[site]) if not plain else ():
            told = labels[site][axis]
            at = np.unravel_index(np.arange(count), shapes[site])[axis]
            own[dim] = [int(i) if told is None else told[i] for i in at]
        for name, cells in table.items():  # an axis of another site's has nothing in these rows
            cells.extend(own.get(name, [None] * count))
    return _made(table, source, plain, one, dims, labels, shapes)


def _made(
    table: dict[str, list[Any]],
    source: Any,
    plain: bool,
    one: str | None,
    dims: Mapping[str, Sequence[str]],
    labels: Mapping[str, Labels],
    shapes: Mapping[str, tuple[int, ...]],
) -> Any:
    native = nw.from_native(source, pass_through=True, allow_series=True)
    told = labels[one][0] if plain and one is not None and shapes[one] else None
    rows = shapes[one][0] if plain and one is not None and shapes[one] else None
    if isinstance(native, nw.DataFrame | nw.Series | nw.LazyFrame) and not _is_pandas(source):
        if told is not None and one is not None:
            table = {dims[one][0]: list(told), **table}
        return nw.from_dict(table, backend=native.implementation).to_native()
    frame = pd.DataFrame({n: _counted(cells) for n, cells in table.items()})
    index = getattr(source, "index", None)
    if rows is not None and index is not None and not callable(index) and len(index) == rows:
        frame.index = index
    elif told is not None and one is not None:
        frame.index = pd.Index(told, name=dims[one][0])
    return frame


def _counted(cells: list[Any]) -> Any:
    """Whole numbers of which some are missing stay whole numbers."""
    some = [c for c in cells if c is not None]
    if len(some) < len(cells) and some and all(isinstance(c, int) for c in some):
        return pd.array(cells, dtype="Int64")
    return cells


def like(source: Any) -> Any:
    """What tells `frame_of` of which kind a table is to be whose rows are others than those of `source`."""
    return None if source is None or _is_pandas(source) else source


def _is_pandas(source: Any) -> bool:
    return type(source).__module__.partition(".")[0] == "pandas"


def columns_beside(
    source: Any, known: Collection[str]
) -> dict[str, tuple[np.ndarray, tuple[str, ...] | None]]:
    """The columns of numbers and texts of a table beside those that are known, texts as codes and what these
    mean."""
    frame = nw.from_native(source, pass_through=True, allow_series=False)
    if not isinstance(frame, nw.DataFrame):
        return {}
    found: dict[str, tuple[np.ndarray, tuple[str, ...] | None]] = {}
    for name in frame.columns:
        if not isinstance(name, str) or name in known:
            continue
        values = frame[name].to_numpy()
        if values.dtype.kind in "biuf":
            found[name] = values, None
        elif values.ndim == 1 and pd.api.types.infer_dtype(values, skipna=False) in ("string", "categorical"):
            codes, texts = pd.factorize(np.asarray(values, object), sort=True)
            found[name] = codes, tuple(map(str, texts))
    return found
