"""The arguments of a model and the arrays among them, by name; and those that a prediction is asked of."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gibbsite.density.build import named_arguments, parameters_of_function
from gibbsite.density.current import current
from gibbsite.density.known_elements import observed_values, sources
from gibbsite.density.model.arguments import Arguments, places_within, split_arguments
from gibbsite.inputs.table import Table
from gibbsite.inputs.tables import Labels
from gibbsite.prediction.asked.groups import argument_of


@dataclass(frozen=True)
class Asked:
    """A model's arguments with some of them new.

    `values` by parameter; `labels` of all codes and rows, the model's own first; `new` the leaves that were
    given (`x`, `df['x']`), `absent` those of them that hold nothing: arguments of None, columns that the
    table lacks; `unknown` the categories, by leaf, that the model does not have; `groups` by new tables of
    them the labels that the model has of them, and all that there are; `source` the table of the
    user whose rows have their labels.
    """

    values: Mapping[str, Any]
    labels: Labels
    new: frozenset[str]
    absent: frozenset[str]
    unknown: Mapping[str, tuple[str, ...]]
    groups: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = field(default_factory=dict)
    source: Any = None


def bound_arguments(origin: Any) -> dict[str, Any]:
    """A model's arguments by the names of its function's parameters."""
    return named_arguments(origin.fn, origin.args, origin.kwargs)


def call_of(origin: Any, values: Mapping[str, Any]) -> tuple[tuple, dict[str, Any]]:
    """`values` by parameter as the model's positional and keyword arguments."""
    named = named_arguments(origin.fn, origin.args)
    return tuple(values[n] for n in named), {n: v for n, v in values.items() if n not in named}


def arguments_of(origin: Any, values: Mapping[str, Any]) -> Arguments:
    """`values` by parameter as arguments whose arrays stand apart."""
    return split_arguments(*call_of(origin, values), parameters_of_function(origin.fn))


def leaves_of(origin: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """The arrays among arguments, by name: `x`, `df['x']`."""
    found = arguments_of(origin, values)
    return dict(zip(found.names, found.given, strict=True))


def places_of(origin: Any, values: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    """Where each array is within its argument, by the arrays' names."""
    return places_within(*call_of(origin, values), parameters_of_function(origin.fn))


def placed(value: Any, path: Sequence[Any], array: Any) -> Any:
    """An argument, which may be a table, or dicts and sequences within each other, with `array` in its
    place."""
    if not path:
        return array
    key, *rest = path
    if isinstance(value, list | tuple):
        return type(value)([placed(v, rest, array) if i == key else v for i, v in enumerate(value)])
    if isinstance(value, Table):
        return value | {key: array}
    return {**value, key: placed(value.get(key, {}), rest, array)}


def with_leaf(
    values: Mapping[str, Any], places: Mapping[str, tuple[Any, ...]], leaf: str, array: Any
) -> dict[str, Any]:
    """Arguments with another array for one of their leaves, which stand at `places`."""
    head = argument_of(leaf)
    return {**values, head: placed(values[head], places[leaf], array)}


def outcomes_of(origin: Any) -> dict[str, str]:
    """The leaves that are an observed site's values, with that site."""
    density = origin.density
    names = density.data_names
    found = {}
    for site in current(density).data:
        behind = [v for v in sources(density, [density.outputs["observed"][site]]) if v in names]
        if len(behind) == 1 and tuple(behind[0].aval.shape) == density.sites[site].shape:
            found[names[behind[0]]] = site
    return found


def laid_in(origin: Any) -> dict[str, str]:
    """As `outcomes_of`, with the leaves whose values all stand somewhere among an observed site's: columns
    that are stacked, a transpose."""
    found, leaves = outcomes_of(origin), leaves_of(origin, bound_arguments(origin))
    values = observed_values(origin.density)
    for site, those in observed_of(origin, leaves).items():
        for leaf in those if site in values else ():
            if leaf in found:
                continue
            own = np.asarray(leaves[leaf])
            there = own[own == own].astype(values[site].dtype)
            if there.size > 1 and np.isin(there, values[site]).all():
                found[leaf] = site
    return found


def observed_of(origin: Any, leaves: Collection[str]) -> dict[str, list[str]]:
    """Which of `leaves` the values of observed sites are made of, by site."""
    density = origin.density
    found = {}
    for site in current(density).data:
        behind = sources(density, [density.outputs["observed"][site]])
        found[site] = [n for v, n in density.data_names.items() if v in behind and n in leaves]
    return {site: those for site, those in found.items() if those}


def only_observed(origin: Any, leaves: Collection[str]) -> set[str]:
    """Those of `leaves` that values of observed sites are made of, and no distribution's parameter, and no
    deterministic."""
    density = origin.density
    atoms = [a for site in density.outputs["parameters"].values() for a in site.values()]
    behind = sources(density, [*atoms, *density.outputs["deterministic"].values()])
    read = {n for v, n in density.data_names.items() if v in behind}
    return {leaf for those in observed_of(origin, leaves).values() for leaf in those} - read
