"""`do=` and `given=`: what is set, as arguments of the model or as values of its sites."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gibbsite.density import Density
from gibbsite.density.build import parameters_of_function
from gibbsite.density.current import current
from gibbsite.density.known_elements import observed_values, sources
from gibbsite.errors import DataError, ModelError, OptionError, UnknownNameError
from gibbsite.ground.arguments import by_name, shown
from gibbsite.inputs.table import Table
from gibbsite.inputs.tables import in_order_of
from gibbsite.prediction.asked.arguments import (
    Asked,
    bound_arguments,
    leaves_of,
    outcomes_of,
    places_of,
    with_leaf,
)
from gibbsite.prediction.asked.new_data import check_infinite, in_days, of_numbers


@dataclass(frozen=True)
class Held:
    """`values` by site; those in `fixed` are set, those in `given` conditioned on. `words` say it."""

    values: dict[str, Any] = field(default_factory=dict)
    fixed: frozenset[str] = frozenset()
    given: frozenset[str] = frozenset()
    words: tuple[str, ...] = ()


def held_of(origin: Any, asked: Asked, do: Any, given: Any) -> tuple[Asked, Held]:
    """The arguments with those that `do` and `given` name set for every row, and the sites that are held.

    Raises `UnknownNameError` for what is neither a site nor an argument or a column, `DataError` for values
    that
    do not fit, `ModelError` for latents whose posterior is another given that value, and for names of two
    things.
    """
    values: dict[str, Any] = {}
    sets: dict[str, set[str]] = {"do": set(), "given": set()}
    words, outcomes = [], outcomes_of(origin)
    for verb, asks in (("do", by_name("do", do)), ("given", by_name("given", given))):
        for name, value in asks.items():
            value = in_order_of(value, asked.labels, asked.source)
            one = value.item() if isinstance(value, np.generic) else value
            told = _counted(value) if np.ndim(value) and np.size(value) > 1 else shown(one)
            sites = origin.density.groups.get(name, (name,) if name in origin.sites else ())
            leaves = _leaves(origin, asked, name)
            told += _meant(asked, leaves, one)
            words.append(f"{name} {'set to' if verb == 'do' else 'given as'} {told}")
            if sites and leaves and not _observes(origin, sites, leaves):
                raise ModelError(
                    f"{verb}: {name!r} is a site and an argument that the site does not observe; give the "
                    f"argument by name, predict({name}=…), or rename one of them"
                )
            _check_as_it_is(origin, verb, name, sites, leaves, outcomes)
            if not sites and not leaves:
                raise UnknownNameError("site, argument or column", name, _known(origin, asked))
            column = leaves[0] if len(leaves) == 1 else None
            if not leaves and len(sites) == 1:
                column = next((leaf for leaf, site in outcomes.items() if site == sites[0]), None)
            if not sites and column not in outcomes:
                asked = _set(origin, asked, leaves, value)
                continue
            if value is None:
                raise OptionError(f"{verb}: {name!r} at which value? For example {verb}={{{name!r}: 0}}")
            sites = sites or (outcomes[str(column)],)  # the column is what that site observes
            if column in outcomes:
                value = _in_own_numbers(origin, asked, column, value)
            for i, member in enumerate(sites):
                values[member] = _value(origin, verb, member, value, i, len(sites))
                sets[verb].add(member)
            if column in outcomes:  # a model may go on with the column, and not with what the site returns
                asked = _set_where_known(origin, asked, column, value)
    for name in sets["given"]:
        if name not in current(origin.density).data:
            raise ModelError(
                f"given: the posterior of everything is another where {name!r} is known, since {name!r} is "
                f"latent: model.condition({name}=…).sample() draws from it; do={{{name!r}: …}} sets it and "
                "leaves the rest"
            )
    return asked, Held(values, frozenset(sets["do"]), frozenset(sets["given"]), tuple(words))


def _counted(values: Any) -> str:
    """How many values there are, and of how many where the others are gaps."""
    flat = list(np.ravel(np.asarray(values, dtype=object)))
    there = sum(not _is_gap(v) for v in flat)
    return f"{len(flat)} values" if there == len(flat) else f"{there} of {len(flat)} values"


def _check_as_it_is(
    origin: Any,
    verb: str,
    name: str,
    sites: Sequence[str],
    leaves: Sequence[str],
    outcomes: Mapping[str, str],
) -> None:
    """Refuse the name of a column of which a site observes a function, as its logarithm or a stack of
    several: values of the one are none of the other."""
    density, own = origin.density, leaves_of(origin, bound_arguments(origin))
    for leaf in leaves:
        for site in current(density).data:
            behind = sources(density, [density.outputs["observed"][site]])
            made = any(density.data_names.get(v) == leaf for v in behind)
            if not made or (outcomes.get(leaf) == site and _observed_as_it_is(density, site, own.get(leaf))):
                continue
            told = f"{verb}: {site!r} observes a function of {leaf!r}, and not its values"
            if site in sites:
                raise ModelError(f"{told}: call one of them otherwise, so that it is clear which is meant")
            shape = density.sites[site].shape
            raise ModelError(f"{told}: give the site's own, {verb}={{{site!r}: …}}, of shape {shape}")


def _observed_as_it_is(density: Density, site: str, column: Any) -> bool:
    column, seen = np.asarray(column), observed_values(density).get(site)
    if column.dtype.kind not in "biuf" or seen is None or np.shape(seen) != column.shape:
        return True
    numbers = column.astype(float)
    there = ~np.isnan(numbers)
    return np.allclose(np.asarray(seen, float)[there], numbers[there], rtol=1e-5, atol=1e-30)


def _leaves(origin: Any, asked: Asked, name: str) -> list[str]:
    """The arrays of an argument, or of all tables' columns, of that name."""
    found = {**leaves_of(origin, asked.values), **outcomes_of(origin)}  # a new table may lack outcomes
    table = isinstance(asked.values.get(name), Table)
    if not table and (name in asked.values or name in parameters_of_function(origin.fn)):
        return [name]  # also an argument that stands at its default
    return [n for n in found if n == name or n.endswith(f"[{name!r}]")]


def _observes(origin: Any, sites: tuple[str, ...], leaves: list[str]) -> bool:
    """Whether the site is what the argument is data of."""
    from_data = set()
    names = origin.density.data_names
    numbers = bound_arguments(origin)
    for site in sites:  # one of Python's is no array
        seen = observed_values(origin.density).get(site)
        known = [v for n in leaves if isinstance(v := numbers.get(n), int | float)]
        if seen is not None and not np.shape(seen) and any(np.isclose(float(seen), v) for v in known):
            return True
    for site in sites:
        atom = origin.density.outputs["observed"].get(site)
        if atom is not None and not isinstance(atom, int | float):
            from_data |= {names[v] for v in sources(origin.density, [atom]) if v in names}
    return bool(from_data & set(leaves))


def _known(origin: Any, asked: Asked) -> list[str]:
    columns = [str(path[-1]) for path in places_of(origin, asked.values).values() if path]
    return list(dict.fromkeys([*origin.sites, *asked.values, *parameters_of_function(origin.fn), *columns]))


def _set(origin: Any, asked: Asked, leaves: list[str], value: Any) -> Asked:
    """An argument, or a column, at one value for every row (or at one of each row's own)."""
    if len(leaves) > 1:
        raise OptionError(
            f"several tables have that column: {', '.join(leaves)}; give a table by name instead"
        )
    return _placed(origin, asked, leaves[0], _in_own_numbers(origin, asked, leaves[0], value), value)


def _in_own_numbers(origin: Any, asked: Asked, leaf: str, value: Any) -> Any:
    """The codes of categories, the days of times. Raises `UnknownNameError` and `DataError`."""
    labels = asked.labels.get(leaf)
    if labels is not None:
        return _codes(f"category of {leaf!r}", value, labels)
    unit = origin.analysis.known.units.get(leaf)
    try:
        return value if unit is None else in_days(unit, value)
    except (ValueError, TypeError) as problem:
        raise DataError(f"{leaf!r} holds times, not {shown(value)}") from problem


def _codes(what: str, value: Any, labels: Sequence[str]) -> Any:
    """Of a text, or of several, among which a gap is no number; codes as they are.

    Raises `UnknownNameError` for no label and no label's number.
    """
    array = np.asarray(value) if not isinstance(value, str) else None
    if array is not None and array.dtype.kind in "iu" and of_numbers(labels):
        value = [str(v) for v in array.tolist()] if array.ndim else str(array.item())
    elif array is not None and array.dtype.kind in "biuf":
        for code in np.unique(array[np.isfinite(array)]):
            if not 0 <= code < len(labels):
                raise UnknownNameError(what, str(code), labels)
        return value
    texts = [value] if isinstance(value, str) else list(np.ravel(np.asarray(value, dtype=object)))
    for text in texts:
        if not _is_gap(text) and text not in labels:
            raise UnknownNameError(what, text, labels)
    codes = np.array([np.nan if _is_gap(t) else labels.index(t) for t in texts])
    codes = codes if np.isnan(codes).any() else codes.astype(np.int32)
    return codes[0] if isinstance(value, str) else codes.reshape(np.shape(value))


def _meant(asked: Asked, leaves: Sequence[str], code: Any) -> str:
    """The label of a category that is set by its number, as a remark."""
    labels = asked.labels.get(leaves[0], ()) if len(leaves) == 1 else ()
    if not labels or isinstance(code, str) or of_numbers(labels) or np.ndim(code):
        return ""
    return f" ({labels[int(code)]!r})" if code in range(len(labels)) else ""


def _is_gap(value: Any) -> bool:
    return value is None or (isinstance(value, float) and np.isnan(value))


def _set_where_known(origin: Any, asked: Asked, leaf: str, value: Any) -> Asked:
    """The column of a site's data at the site's values, where they go together; as it is where they are
    gaps."""
    own = leaves_of(origin, asked.values).get(leaf)
    if own is None:
        return asked
    try:
        known = np.broadcast_to(np.asarray(value), np.shape(own))
    except ValueError:
        return asked
    if known.dtype.kind == "f" and np.isnan(known).any():
        known = np.where(np.isnan(known), own, known)
    return _placed(origin, asked, leaf, known, value)


def _placed(origin: Any, asked: Asked, leaf: str, value: Any, told: Any) -> Asked:
    own = leaves_of(origin, asked.values).get(leaf)
    if own is None:  # a number or another setting of the model's
        return replace(asked, values={**asked.values, leaf.partition("[")[0]: value})
    if np.asarray(value).dtype.kind not in "biuf":
        raise DataError(f"{leaf!r} holds numbers, not {shown(told)}")
    check_infinite(leaf, value, own)
    try:
        array = np.broadcast_to(np.asarray(value), np.shape(own)).astype(
            np.result_type(np.asarray(own).dtype, np.asarray(value).dtype)
            if np.asarray(own).dtype.kind != "f"
            else np.asarray(own).dtype
        )
    except (ValueError, TypeError) as problem:
        raise DataError(f"{leaf!r} has shape {np.shape(own)}; {shown(told)} does not fit it") from problem
    return replace(asked, values=with_leaf(asked.values, places_of(origin, asked.values), leaf, array))


def _value(origin: Any, verb: str, name: str, value: Any, at: int, members: int) -> Any:
    site = origin.sites[name]
    if isinstance(value, str):
        of_it = {t.index(value) for t in origin.labels.values() if value in t}
        if len(of_it) != 1 or not site.discrete:
            raise DataError(f"{verb}: {name!r} takes numbers, not {shown(value)}")
        value = of_it.pop()
    try:
        array = np.asarray(value)
        array = array[at] if members > 1 and array.ndim and len(array) == members else array
        if array.dtype.kind not in "biuf":
            raise ValueError("no numbers")
    except ValueError as problem:
        raise DataError(f"{verb}: {name!r} takes numbers, not {shown(value)}") from problem
    if array.dtype.kind == "f" and np.isinf(array).any():
        raise DataError(f"{verb}: {name!r} takes finite numbers; nan says that an element is not known")
    if verb == "do" and np.isnan(np.asarray(array, float)).any():
        raise DataError(f"do: {name!r} is set to a number everywhere, and nan is none")
    if verb == "do" and site.in_scan and array.ndim:
        raise ModelError(f"do: {name!r} is drawn inside `scan`; it can be set to one number for all steps")
    if site.support is not None:
        there = array[np.isfinite(array)] if array.ndim == 0 or array.dtype.kind == "f" else array
        inside = np.asarray(site.support(np.broadcast_to(there, np.shape(there)))) if np.size(there) else True
        if site.element_rank == len(site.shape) and not np.all(inside):
            raise DataError(f"{verb}: {shown(value)} lies outside the support of {name!r} ({site.fn_name})")
    if array.dtype.kind == "f" and (site.discrete or np.isnan(array).any()):
        return array  # the type of data may be that of whole numbers, which has no gaps
    return array.astype(np.dtype(site.dtype))
