"""`do=` and `given=`: what is set, as arguments of the model or as values of its sites."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gibbsite.density.build import parameters_of_function
from gibbsite.density.current import current
from gibbsite.density.known_elements import sources
from gibbsite.errors import DataError, ModelError, OptionError, UnknownNameError
from gibbsite.ground.arguments import by_name, shown
from gibbsite.inputs.table import Table
from gibbsite.prediction.asked.arguments import Asked, check_infinite, in_days, leaves_of, placed, places_of


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
    words = []
    for verb, asks in (("do", by_name("do", do)), ("given", by_name("given", given))):
        for name, value in asks.items():
            told = f"{np.size(value)} values" if np.ndim(value) and np.size(value) > 1 else shown(value)
            words.append(f"{name} {'set to' if verb == 'do' else 'given as'} {told}")
            sites = origin.density.groups.get(name, (name,) if name in origin.sites else ())
            leaves = _leaves(origin, asked, name)
            if sites and leaves and not _observes(origin, sites, leaves):
                raise ModelError(
                    f"{verb}: {name!r} is a site and an argument that the site does not observe; give the "
                    f"argument by name, predict({name}=…), or rename one of them"
                )
            if not sites and not leaves:
                raise UnknownNameError("site, argument or column", name, _known(origin, asked))
            if not sites:
                asked = _set(origin, asked, leaves, value)
                continue
            if value is None:
                raise OptionError(f"{verb}: {name!r} at which value? For example {verb}={{{name!r}: 0}}")
            for i, member in enumerate(sites):
                values[member] = _value(origin, verb, member, value, i, len(sites))
                sets[verb].add(member)
    for name in sets["given"]:
        if name not in current(origin.density).data:
            raise ModelError(
                f"given: the posterior of everything is another where {name!r} is known, since {name!r} is "
                f"latent: model.condition({name}=…).sample() draws from it; do={{{name!r}: …}} sets it and "
                "leaves the rest"
            )
    return asked, Held(values, frozenset(sets["do"]), frozenset(sets["given"]), tuple(words))


def _leaves(origin: Any, asked: Asked, name: str) -> list[str]:
    """The arrays of an argument, or of all tables' columns, of that name."""
    found = leaves_of(origin, asked.values)
    table = isinstance(asked.values.get(name), Table)
    if not table and (name in asked.values or name in parameters_of_function(origin.fn)):
        return [name]  # also an argument that stands at its default
    return [n for n in found if n == name or n.endswith(f"[{name!r}]")]


def _observes(origin: Any, sites: tuple[str, ...], leaves: list[str]) -> bool:
    """Whether the site is what the argument is data of."""
    from_data = set()
    names = dict(zip(origin.density.data_vars, origin.density.arguments.names, strict=True))
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
    leaf = leaves[0]
    head = leaf.partition("[")[0]
    own = leaves_of(origin, asked.values).get(leaf)
    if own is None:  # a number or another setting of the model's
        return replace(asked, values={**asked.values, head: value})
    labels = asked.labels.get(leaf)
    if labels is not None:
        texts = [value] if isinstance(value, str) else list(np.ravel(value))
        for text in texts:
            if text not in labels:
                raise UnknownNameError(f"category of {leaf!r}", text, labels)
        codes = np.array([labels.index(t) for t in texts], np.int32)
        value = codes[0] if isinstance(value, str) else codes
    unit = origin.analysis.known.units.get(leaf)
    try:
        told, value = value, value if unit is None else in_days(unit, value)
    except (ValueError, TypeError) as problem:
        raise DataError(f"{leaf!r} holds times, not {shown(value)}") from problem
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
    path = places_of(origin, asked.values)[leaf]
    return replace(asked, values={**asked.values, head: placed(asked.values[head], path, array)})


def _value(origin: Any, verb: str, name: str, value: Any, at: int, members: int) -> Any:
    site = origin.sites[name]
    labels = next((t for n, t in origin.labels.items() if isinstance(value, str) and value in t), None)
    if isinstance(value, str):
        if labels is None or not site.discrete:
            raise DataError(f"{verb}: {name!r} takes numbers, not {shown(value)}")
        value = labels.index(value)
    try:
        array = np.asarray(value)
        array = array[at] if members > 1 and array.ndim and len(array) == members else array
        if array.dtype.kind not in "biuf":
            raise ValueError("no numbers")
    except ValueError as problem:
        raise DataError(f"{verb}: {name!r} takes numbers, not {shown(value)}") from problem
    if verb == "do" and site.in_scan and array.ndim:
        raise ModelError(f"do: {name!r} is drawn inside `scan`; it can be set to one number for all steps")
    if site.support is not None:
        there = array[np.isfinite(array)] if array.ndim == 0 or array.dtype.kind == "f" else array
        inside = np.asarray(site.support(np.broadcast_to(there, np.shape(there)))) if np.size(there) else True
        if site.element_rank == len(site.shape) and not np.all(inside):
            raise DataError(f"{verb}: {shown(value)} lies outside the support of {name!r} ({site.fn_name})")
    return array.astype(np.dtype(site.dtype)) if not (array.dtype.kind == "f" and site.discrete) else array
