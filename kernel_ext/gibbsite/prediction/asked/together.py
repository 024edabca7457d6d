"""Rows whose parameters hang upon what the other rows hold: refused of a column that is set for all of them,
told of new rows, which stand among others than the model's own.

A column may be counted within the model: its mean taken off, dummies made of its values, the largest of them
compared with. Set for all rows, all of that is another as well, and an effect comes out as none.
"""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from gibbsite.density import Density
from gibbsite.density.build import build_density
from gibbsite.density.current import current
from gibbsite.density.hierarchy.exchangeability import random_state
from gibbsite.density.known_elements import constant_value, known_numbers, sources
from gibbsite.errors import DataError, GibbsiteError
from gibbsite.ground.once import once
from gibbsite.prediction.asked.arguments import bound_arguments, call_of, leaves_of, places_of, with_leaf
from gibbsite.programs.jaxpr.compiling import ByShape

_LEAST, MOST_ROWS = 8, 100_000
_SHARE = 4
"""The share of rows that stand among others: few, so that medians stay, and enough for lags."""
_FAILS = (GibbsiteError, ValueError, TypeError, IndexError, KeyError)
Parameters = dict[tuple[str, str], np.ndarray]


def check_set(origin: Any, columns: Collection[str]) -> None:
    """Refuse columns that are set for all rows where what the model makes of a row that is set hangs upon
    how many others are. Raises `DataError`."""
    for name in columns:
        key = ("set together", name)
        if key not in origin.density.cache:
            origin.density.cache[key] = _hangs(origin, name) and not carried_on(origin, name)
        if origin.density.cache[key]:
            raise DataError(
                f"{name} cannot be set: what the model makes of a row depends on what other rows hold of it "
                "(a mean, a count, dummies, its largest value), which is set with them; compute such numbers "
                "before the model, as columns of their own"
            )


def carried_on(origin: Any, name: str) -> bool:
    """Whether a value of a column enters its own row and later ones alone, as what is left of it there (an
    adstock, a dose that decays): set for all rows, it is another series. What rows are measured by, as the
    first of them or a running mean, is not: of values that are all the same nothing is left."""
    key = ("carried on", name)
    if key not in origin.density.cache:
        origin.density.cache[key] = _carried_on(origin, name)
    return origin.density.cache[key]


def _carried_on(origin: Any, name: str) -> bool:
    column = np.asarray(leaves_of(origin, bound_arguments(origin))[name])
    state = random_state(origin.density) if _is_column(column) else None
    values = column[np.isfinite(column.astype(float))]
    if state is None or not len(values) or values.min() == values.max():
        return False
    row, least, most = len(column) // 2, values.min(), values.max()
    places = (row, least if column[row] == most else most), (slice(None), least), (slice(None), most)
    try:
        one, few, many = (_set_to(origin, name, column, state, rows, to) for rows, to in places)
    except _FAILS:
        return False
    later = left = False
    for key, own in parameters_at(origin.density, _data_of(origin.density), state).items():
        here, low, high = (found.get(key, np.zeros(0)) for found in (one, few, many))
        if not own.shape == here.shape == low.shape == high.shape:
            return False
        moves = np.flatnonzero(~_close(own, here).reshape(len(own), -1).all(axis=1))
        if np.any(moves < (row if len(own) == len(column) else len(own))):
            return False
        if len(own) == len(column):
            later |= bool(np.any(moves > row))
            left |= not _close(low[-1], high[-1]).all()
    return later and left


def counted_by_python(origin: Any, columns: Collection[str]) -> list[str]:
    """Those of the columns whose numbers Python took when the model was traced."""
    leaves = leaves_of(origin, bound_arguments(origin))
    names = origin.density.arguments.names
    return [n for n in columns if n not in names and n in leaves and _is_column(leaves[n])]


def alone_and_among(alone: Density, among: Density, before: int, now: int, data: Collection[str]) -> bool:
    """Whether new rows of `data`, the last `now` after `before`, have other parameters among the model's own
    than by themselves."""
    state = random_state(among)
    if state is None:
        return False
    try:
        sites = [n for n in data if not alone.sites[n].in_scan]
        few = parameters_at(alone, sites, _fitted(alone, state, (now, before + now)))
        all_ = parameters_at(among, sites, state)
    except _FAILS:
        return False
    pairs = [(v, all_[k][-now:]) for k, v in few.items() if k in all_ and len(v) == now]
    return any(a.shape != b.shape or not _close(a, b).all() for a, b in pairs)


def own_rows_move(origin: Density, longer: Density, count: int, data: Collection[str]) -> bool:
    """Whether the `count` rows that a model has of `data` have other parameters where more follow them."""
    state = random_state(longer)
    if state is None:
        return False
    try:
        sites = [n for n in data if not longer.sites[n].in_scan and n in origin.sites]
        many, few = parameters_at(longer, sites, state), parameters_at(origin, sites, _fitted(origin, state))
    except _FAILS:
        return False
    pairs = [(v, many[k][:count]) for k, v in few.items() if k in many and len(v) == count]
    return any(a.shape != b.shape or not _close(a, b).all() for a, b in pairs)


def check_order(density: Density, site: str) -> None:
    """Refuse a column of a table as what rows of `site` go by where these are in another order than the
    table's. Raises `DataError`."""
    if in_another_order(density, site):
        raise DataError(told_order(site))


def told_order(site: str) -> str:
    """That rows of a site are not those of the table, and what to do."""
    return (
        f"by: the model puts the rows of {site!r} into another order than those of the table; give a NumPy "
        "array of values in the order of its rows, or sort the table before the model"
    )


@once
def in_another_order(density: Density, site: str) -> bool:
    """Whether rows of what a site observes are others than those of the arrays that it is made of."""
    atom, shape = density.outputs["observed"].get(site), density.sites[site].shape
    if atom is None or not shape or not 2 < shape[0] <= MOST_ROWS:
        return False
    arrays = dict(zip(density.data_vars, map(np.asarray, density.arguments.arrays), strict=True))
    behind = [v for v in sources(density, [atom]) if v in arrays and arrays[v].shape[:1] == shape[:1]]
    seen = constant_value(density, atom)
    for v in behind:
        for row in (0, shape[0] - 1):
            moved = arrays[v].copy()
            moved[row] = ~moved[row] if moved.dtype == bool else moved[row] + 1
            numbers = known_numbers(density, {}, by_jax=True)
            numbers.give(v, moved)
            now = numbers.value(atom)
            if now is None or now.shape != seen.shape:
                continue
            apart = ~((now == seen) | ((now != now) & (seen != seen)))
            rows = np.flatnonzero(apart.reshape(len(apart), -1).any(axis=1)).tolist()
            if rows and rows != [row]:
                return True
    return False


def _is_column(value: Any) -> bool:
    value = np.asarray(value)
    return value.ndim == 1 and value.dtype.kind in "biuf" and _LEAST <= len(value) <= MOST_ROWS


def _hangs(origin: Any, name: str) -> bool:
    density = origin.density
    column = np.asarray(leaves_of(origin, bound_arguments(origin))[name])
    state = random_state(density) if _is_column(column) else None
    if state is None:
        return False

    def at(rows: Any, to: Any) -> Parameters:
        return _set_to(origin, name, column, state, rows, to)

    before = parameters_at(density, _data_of(density), state)
    middle, half = len(column) // 2, max(1, len(column) // _SHARE // 2)
    wide = max(half, len(column) // _SHARE)
    values = column[np.isfinite(column.astype(float))]
    for to in {values.min(), values.max()} if len(values) else ():
        elsewhere = np.flatnonzero(column != to)
        if not len(elsewhere):
            continue
        row = int(elsewhere[np.argmin(np.abs(elsewhere - middle))])
        try:
            one, whole = at(row, to), at(slice(None), to)
            some, many = (at(slice(max(0, row - k), row + k + 1), to) for k in (half, wide))
            # no lag is of rows that come long after: of a quarter, beyond which quantiles move
            later = at([row, *range(max(row + 1, len(column) - wide), len(column))], to)
        except _FAILS:  # what cannot be had so is refused, or not, where it is asked for
            continue
        for key, own in before.items():
            here, few, more, all_ = (found.get(key, np.zeros(0)) for found in (one, some, many, whole))
            if not own.shape == here.shape == few.shape == more.shape == all_.shape:
                return True
            moves = np.atleast_1d(~_close(own, here).reshape(len(own), -1).all(axis=1))
            if len(own) == len(column):
                moves[row] = True
                beyond = later.get(key, np.zeros(0))
                if beyond.shape != own.shape or not _close(here[row], beyond[row]).all():
                    return True
            if _close(few[moves], all_[moves]).all():
                continue
            # a long lag hangs upon few rows as well, and reaches as far
            far = np.abs(np.arange(len(own)) - row) > half + wide
            if len(own) == len(column) and not _close(own[far], few[far]).all():
                return True
            if not _close(more[moves], all_[moves]).all():
                return True
    return False


def _set_to(origin: Any, name: str, column: np.ndarray, state: Any, rows: Any, to: Any) -> Parameters:
    """The parameters of data with some rows of a column at another value."""
    moved = column.copy()
    moved[rows] = to
    return parameters_with(origin, name, moved, state, _data_of(origin.density))


def parameters_with(
    origin: Any, name: str, column: np.ndarray, state: Mapping[str, Any], sites: Collection[str]
) -> Parameters:
    """The parameters of data where a column holds other values. The model is traced again where Python may
    have taken the numbers of it, or where it has gaps."""
    density = origin.density
    names = density.arguments.names
    if name in names and not np.isnan(column.astype(float)).any():
        arrays, i = list(density.arguments.arrays), names.index(name)
        arrays[i] = column.astype(arrays[i].dtype)
        return parameters_at(density, sites, state, arrays)
    bound = bound_arguments(origin)
    args, kwargs = call_of(origin, with_leaf(bound, places_of(origin, bound), name, column))
    other = build_density(origin.fn, args, kwargs)
    return parameters_at(other, sites, _fitted(other, state))


def _data_of(density: Density) -> list[str]:
    return [n for n in current(density).data if n in density.sites and not density.sites[n].in_scan]


def _fitted(
    density: Density, state: Mapping[str, Any], rows: tuple[int, int] | None = None
) -> dict[str, Any]:
    """Values of another model of the same sites for this one: the first elements, as predictions have them,
    and of a latent with an element for each of the `rows`, here and there, the last. Raises `ValueError`
    where there are not as many."""
    out = {}
    for n in density.latents:
        value, shape = np.asarray(state[n]), density.sites[n].shape
        for axis, size in enumerate(shape):
            last = (size, value.shape[axis]) == rows
            value = np.take(value, range(-size, 0) if last else range(size), axis)
        out[n] = value.reshape(shape)
    return out


def parameters_at(
    density: Density, sites: Collection[str], state: Mapping[str, Any], arrays: Any = None
) -> Parameters:
    """What the parameters of data are for every row, by site and name, at values of latents; `arrays` are
    others than the model's data."""
    found = all_parameters_at(density, sites, state, arrays)
    lengths = {n: density.sites[n].shape[:1] for n in sites}
    return {
        k: v for k, v in found.items() if v.ndim and v.shape[:1] == lengths[k[0]] and v.dtype.kind in "biuf"
    }


def all_parameters_at(
    density: Density, sites: Collection[str], state: Mapping[str, Any], arrays: Any = None
) -> Parameters:
    """As `parameters_at`, with those that have no value for every row."""
    atoms, program = _parameters(density, tuple(sites))
    data = tuple(density.arguments.arrays if arrays is None else arrays)
    values = program({n: state[n] for n in density.latents}, data)
    return dict(zip(atoms, map(np.asarray, values), strict=True))


@once
def _parameters(density: Density, sites: tuple[str, ...]) -> tuple[list[tuple[str, str]], ByShape]:
    atoms = {(n, p): a for n in sites for p, a in density.outputs["parameters"].get(n, {}).items()}

    def values(latents: Any, data: Any) -> list[Any]:
        ev = density.evaluator(latents, data)
        return [ev.full(a) for a in atoms.values()]

    return [*atoms], ByShape(values)


def _close(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.isclose(a.astype(float), b.astype(float), rtol=1e-4, atol=1e-6, equal_nan=True)
