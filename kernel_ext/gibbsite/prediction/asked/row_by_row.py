"""Whether each row of new data stands for itself: what a model makes of it may depend on the others.

A column may enter through numbers of all rows, as a mean that is subtracted within the model: of new rows it
is the new table's, and what was standardised by one mean is by another. Or Python numbers the values of a
column of texts (`np.unique`, `pd.factorize`, dummies), and those of another table anew. Nothing in the draws
tells.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from gibbsite.density import Density
from gibbsite.density.build import build_density
from gibbsite.density.current import current
from gibbsite.density.hierarchy.exchangeability import random_state
from gibbsite.density.known_elements import sources
from gibbsite.errors import DataError, GibbsiteError
from gibbsite.prediction.asked.arguments import (
    Asked,
    bound_arguments,
    call_of,
    leaves_of,
    places_of,
    with_leaf,
)
from gibbsite.prediction.asked.places import unchanged
from gibbsite.prediction.asked.together import (
    MOST_ROWS,
    carried_on,
    check_set,
    parameters_at,
    parameters_with,
)

_MOST = 12
"""Columns that are looked at, each by one evaluation of the parameters of data."""
_FAR = 1000.0
"""Standard deviations that a value is moved by: a mean of many follows, and what was above it is below."""
_STATES, _SPREAD = 3, 32
_SOME, _FEW = 0.25, 4
"""Which share of the other rows changes with a number of all of them; fewer rows may be neighbours."""
_INSTEAD = "standardise before the model and not within, by hand or by `model.centred`"


def company(
    origin: Any,
    asked: Asked,
    outcomes: Mapping[str, str],
    moved: bool = True,
    draws: Mapping[str, np.ndarray] | None = None,
) -> tuple[str, ...]:
    """What to know of new data whose rows do not stand for themselves, a sentence each; `moved` says that the
    model's own rows are not the first of them, in their order. Raises `DataError` where a column is set for
    all rows of the model's own data that others hang upon."""
    before, now = leaves_of(origin, bound_arguments(origin)), leaves_of(origin, asked.values)
    other = {n for n, v in now.items() if n in before and not unchanged(before[n], v)}
    if not other:
        return ()
    whole = pooled_columns(origin.density, outcomes) | _pooled_by_python(origin, outcomes)
    pooled = sorted(n for n in whole.keys() & other if whole[n] or not unchanged(before[n][:1], now[n][:1]))
    if fixed := [n for n in pooled if n not in asked.new and not (not whole[n] and carried_on(origin, n))]:
        raise _not_set(origin.density, fixed, outcomes)
    check_set(origin, sorted(other - asked.new))
    found = []
    pairs = in_pairs(origin.density, pooled)
    if pairs:
        found.append(
            f"the model reads each row's {', '.join(pairs)} with every other row's (differences of all "
            "pairs), and those are the new table's here"
        )
    if by_all := [n for n in pooled if whole[n] and n not in pairs]:
        found.append(
            f"{', '.join(by_all)} enter{'s' * (len(by_all) == 1)} each row through numbers of all rows "
            "(a mean, a standard deviation), which are those of the new table here: to have those of the "
            f"run's data, {_INSTEAD}"
        )
    if by_first := [n for n in pooled if not whole[n] and n in asked.new]:
        found.append(
            f"{', '.join(by_first)} enter{'s' * (len(by_first) == 1)} each row by how it follows the first, "
            "which is the new table's here, and another than the run's: begin with that one to go on from "
            "where the run did"
        )
    if numbered := [n for n in numbered_by_python(origin) if n in other]:
        found.append(_numbered(numbered))
    if not found and moved and depends_on_others(origin, draws):
        found.append(
            "what the model makes of a row depends on its place or on the rows beside it (jnp.arange, a lag, "
            "a mean, codes that it numbers itself), and those are others in the new table: have such numbers "
            "as columns, computed before the model"
        )
    return tuple(found)


def _not_set(density: Density, columns: Sequence[str], outcomes: Mapping[str, str]) -> DataError:
    """The error of columns that would be set for all rows, and that others hang upon."""
    pairs = in_pairs(density, columns)
    if not pairs:
        return DataError(
            f"{', '.join(columns)} cannot be set: the model subtracts or divides by a number of all rows (a "
            f"mean, a standard deviation, the first one), which is set with them; {_INSTEAD}"
        )
    several = [*(f"{n}=…" for n in pairs), *(f"{n}=None" for n in outcomes)]
    own = f"run.predict({', '.join(several)})" if not any("[" in n for n in several) else "run.predict(table)"
    return DataError(
        f"{', '.join(pairs)} cannot be set: the model reads each row of it with every other one (differences "
        f"of all pairs, as a Gaussian process does), and all of them would hold one value. Predict at rows "
        f"of your own, as a grid: `{own}`"
    )


def in_pairs(density: Density, columns: Collection[str]) -> list[str]:
    """Those of `columns` of which what data are drawn from has a number for each pair of rows."""
    atoms = [a for site in density.outputs["parameters"].values() for a in site.values()]
    names = {v: n for v, n in density.data_names.items() if n in columns}
    rows = {v.aval.shape[0] for v in names if v.aval.shape}
    square = [v for v in density.behind(*atoms) if any(v.aval.shape.count(n) > 1 for n in rows)]
    found = {names[v] for v in sources(density, square) if v in names}
    return [n for n in columns if n in found]


def check_numbered(origin: Any, density: Density, of_rows: Collection[int]) -> None:
    """Refuse data of which a model makes fewer elements than it had by numbering a column of texts itself:
    the first value that is there would have the first one's. Axes as long as the model's own rows, `of_rows`,
    may be shorter. Raises `DataError`."""
    numbered = numbered_by_python(origin)
    told = fewer_elements(origin, density, of_rows) if numbered else ""
    if told:
        raise DataError(f"{told}: {_numbered(numbered)}")


def fewer_elements(origin: Any, density: Density, of_rows: Collection[int]) -> str:
    """What is said of the first latent that has fewer elements with other data than with the model's own,
    along an axis that is none of its rows, `of_rows`; "" where there is none."""
    for name in origin.density.latents:
        before, now = (d.sites[name].shape if name in d.sites else () for d in (origin.density, density))
        axes = zip(before, now, strict=True) if len(before) == len(now) else ()
        for b, n in axes:
            if n < b and b not in of_rows:
                return f"{name!r} has {n} elements with these data and had {b}"
    return ""


def numbered_by_python(origin: Any) -> tuple[str, ...]:
    """The arguments and columns of texts whose values Python took when the model was traced."""
    known = set(origin.density.arguments.names)
    return tuple(n for n in origin.labels if " of " not in n and n not in known)  # those are rows' labels


def _numbered(columns: Collection[str]) -> str:
    return (
        f"Python reads {', '.join(columns)} within the model (np.unique, pd.factorize, dummies), and numbers "
        "the values of other data anew. Index by the column itself, as `u[t['g']]`: it holds codes that stay"
    )


def pooled_columns(density: Density, outcomes: Any) -> dict[str, bool]:
    """The arrays among the model's data by name, but for `outcomes`, of which one value moves the parameters
    of a good part of all other rows of some observed site, and whether any does; or the first alone, from
    which others are counted. Steps of a loop and values that are drawn as a whole are no rows."""
    if "pooled columns" not in density.cache:
        density.cache["pooled columns"] = _pooled(density, frozenset(outcomes))
    return density.cache["pooled columns"]


def _pooled(density: Density, outcomes: frozenset[str]) -> dict[str, bool]:
    sites = _by_rows(density)
    arrays = list(density.arguments.arrays)
    columns = [
        (i, name)
        for i, (name, a) in enumerate(zip(density.arguments.names, arrays, strict=True))
        if name not in outcomes and np.asarray(a).dtype.kind == "f" and np.ndim(a) == 1
        and any(np.shape(a) == density.sites[n].shape for n in sites)
    ][:_MOST]  # fmt: skip
    state = random_state(density) if columns else None
    if state is None:
        return {}
    before = _parameters(density, sites, state, arrays)

    def at(i: int, column: np.ndarray) -> list[np.ndarray]:
        moved = column.astype(arrays[i].dtype)
        return _parameters(density, sites, state, [*arrays[:i], moved, *arrays[i + 1 :]])

    rows = {n: _movers(arrays[i], before, lambda c, i=i: at(i, c)) for i, n in columns}
    return {n: len(found) > 1 for n, found in rows.items() if found}


def _movers(column: Any, before: list[np.ndarray], at: Callable[[np.ndarray], list[np.ndarray]]) -> list[int]:
    """Which of the first and the last value of a column moves what `before` has of a good part of the other
    rows: each to where it is the largest by far, and the smallest of its sign, since those may be what
    others are measured by."""
    own, found = np.asarray(column, float), []
    sd, least = np.nanstd(own) or 1.0, np.nanmin(own)
    for row in (0, len(own) - 1):  # the first of a lag or a difference moves one other row
        for to in (own[row] + _FAR * sd, least / 2 if least > 0 else least - sd):
            moved = own.copy()
            moved[row] = to
            pairs = zip(before, at(moved), strict=True)
            pairs = [(b, n) for b, n in pairs if b.shape == n.shape and len(b) == len(own)]
            share = max((_changed(b, n, row) for b, n in pairs), default=0.0)
            if share > (_SOME if share * (len(own) - 1) >= _FEW else 0.5):
                found.append(row)
                break
    return found


def _pooled_by_python(origin: Any, outcomes: Mapping[str, str]) -> dict[str, bool]:
    """The same of columns whose values Python took when the model was traced, as by `np.asarray(x).mean()`:
    the model is traced again with one value moved."""
    density = origin.density
    if "pooled by python" in density.cache:
        return density.cache["pooled by python"]
    leaves = leaves_of(origin, bound_arguments(origin))
    sites = _by_rows(density)
    lengths = {density.sites[n].shape[0] for n in sites}
    taken = [
        n for n, v in leaves.items()
        if n not in density.arguments.names and n not in outcomes and np.ndim(v) == 1
        and np.asarray(v).dtype.kind == "f" and len(v) in lengths
    ][:_MOST]  # fmt: skip
    state = random_state(density) if taken else None

    def at(name: str, column: np.ndarray) -> list[np.ndarray]:
        assert state is not None
        moved = column.astype(np.asarray(leaves[name]).dtype)
        return list(parameters_with(origin, name, moved, state, sites).values())

    found = {}
    for name in taken if state is not None else ():
        try:
            before = _parameters(density, sites, state, list(density.arguments.arrays))
            if rows := _movers(leaves[name], before, lambda c, name=name: at(name, c)):
                found[name] = len(rows) > 1
        except (GibbsiteError, ValueError, TypeError, IndexError):
            continue  # a value so far off has no place in it
    density.cache["pooled by python"] = found
    return density.cache["pooled by python"]


def depends_on_others(origin: Any, draws: Mapping[str, np.ndarray] | None = None) -> bool:
    """Whether some of the model's own rows, in a table of themselves, have other parameters of data than
    among all, at some `draws` of a run, `[chain, draw, *shape]`; False also where the model cannot run with
    so few."""
    density = origin.density
    if "rows of their own" not in density.cache:
        density.cache["rows of their own"] = _alone(origin, _states(density, draws or {}))
    return density.cache["rows of their own"]


def _states(density: Density, draws: Mapping[str, np.ndarray]) -> list[Any]:
    if all(n in draws for n in density.latents):
        count = min(draws[n].shape[1] for n in density.latents) if density.latents else 1
        at = np.unique(np.linspace(0, count - 1, _STATES).astype(int))
        return [{n: np.asarray(draws[n])[0, i] for n in density.latents} for i in at]
    states = [random_state(density, seed) for seed in range(_STATES)]
    return [s for s in states if s is not None]


def _alone(origin: Any, states: Sequence[Any]) -> bool:
    density, bound = origin.density, bound_arguments(origin)
    data = [density.sites[n] for n in current(density).data if n in density.sites]
    sites = {s.name: s.shape[0] for s in data if s.element_rank and not s.in_scan}
    return any(
        _rows_differ(origin, bound, [n for n, k in sites.items() if k == size], size, states)
        for size in {*sites.values()}
        if 2 < size <= MOST_ROWS
    )


def _rows_differ(origin: Any, bound: Any, sites: list[str], size: int, states: Sequence[Any]) -> bool:
    density, places = origin.density, places_of(origin, bound)
    columns = {n: np.asarray(v) for n, v in leaves_of(origin, bound).items() if np.shape(v)[:1] == (size,)}
    for rows in _few_rows(columns.values(), size) if columns else ():
        values = dict(bound)
        for name, column in columns.items():
            values = with_leaf(values, places, name, column[rows])
        args, kwargs = call_of(origin, values)
        try:
            few = build_density(origin.fn, args, kwargs)
            for state in states:
                own = {n: np.asarray(v) for n, v in state.items()}
                part = {
                    n: own[n] if own[n].shape == few.sites[n].shape else own[n][rows] for n in few.latents
                }
                if any(v.shape != few.sites[n].shape for n, v in part.items()):
                    break
                among = parameters_at(density, sites, state, list(density.arguments.arrays))
                alone = parameters_at(few, sites, part, list(few.arguments.arrays))
                pairs = [(v[rows], alone.get(n)) for n, v in among.items()]
                pairs = [(a, b) for a, b in pairs if b is not None and a.shape == b.shape]
                if not all(np.allclose(a, b, rtol=1e-4, atol=1e-6, equal_nan=True) for a, b in pairs):
                    return True
        except (GibbsiteError, ValueError, TypeError, IndexError, KeyError):
            continue
    return False


def _few_rows(columns: Iterable[np.ndarray], size: int) -> Iterator[list[int]]:
    """Every other row or fewer, from the last to the first, and of columns of whole numbers those of the
    largest."""
    yield [*range(size - 1, -1, -max(2, size // _SPREAD))]
    for codes in [c for c in columns if c.ndim == 1 and c.dtype.kind in "iu"][:_FEW]:
        yield np.flatnonzero(codes == codes.max())[::-1][:2].tolist()


def _by_rows(density: Density) -> list[str]:
    """The sites of data with a row for each of a vector of values."""
    sites = [n for n in current(density).data if n in density.sites]
    sites = [n for n in sites if not density.sites[n].in_scan and len(density.sites[n].shape) == 1]
    return [n for n in sites if 2 < density.sites[n].shape[0] <= MOST_ROWS]


def _parameters(density: Density, sites: Any, state: Any, arrays: Any) -> list[np.ndarray]:
    """Of each parameter of the sites that has a value for every row, these."""
    return list(parameters_at(density, sites, state, arrays).values())


def _changed(before: np.ndarray, now: np.ndarray, row: int) -> float:
    """The share of all other rows that changed."""
    a, b = (np.delete(np.asarray(v, float), row, axis=0) for v in (before, now))
    apart = ~np.isclose(a, b, rtol=1e-5, atol=1e-7, equal_nan=True)
    return float(apart.reshape(len(a), -1).any(axis=1).mean())
