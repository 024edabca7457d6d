"""What the values of discrete sites are called: `penny` rather than 2."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from gibbsite.conditional.reads.support import finite_support
from gibbsite.density import Density
from gibbsite.errors import ModelError
from gibbsite.programs.maps.access import Table


def value_labels(
    density: Density, plates: Mapping[str, Sequence[str]], columns: Mapping[str, Sequence[str]]
) -> dict[str, tuple[str, ...]]:
    """Labels of the values 0, 1, … of discrete latent sites, by site.

    They are known in two ways, since a wrong label is worse than a number: the site's values are used as
    places in a plate whose elements have labels (`mu[z]`), `plates` by name; or the site is called as one of
    the `columns` of categories (`species`, `df['species']`).
    """
    out: dict[str, tuple[str, ...]] = {}
    for name in density.latents:
        values = _values(density, name)
        if not len(values):
            continue
        own = [known for column, known in columns.items() if _last_name(column) == name]
        found = {
            tuple(known) for known in (*own, *_places(density, name, plates)) if len(known) == len(values)
        }
        if len(found) == 1:
            out[name] = found.pop()
    for group, members in density.groups.items():
        known = {out[m] for m in members if m in out}
        if len(known) == 1 and all(m in out for m in members):
            out[group] = known.pop()
    return out


def _values(density: Density, name: str) -> np.ndarray:
    """The values 0, 1, … of a site; none where they are others, or move."""
    try:
        support = finite_support(density, name)
    except ModelError:
        return np.zeros(0, int)
    fits = support is not None and np.array_equal(support.values, np.arange(support.size))
    return support.values if support is not None and fits else np.zeros(0, int)


def _last_name(column: str) -> str:
    """`df['species']` → `species`."""
    return column.removesuffix("']").rpartition("['")[2] if column.endswith("']") else column


def _places(density: Density, name: str, plates: Mapping[str, Sequence[str]]) -> Iterator[Sequence[str]]:
    """The labels of every axis that is read at the values of the site `name`."""
    labelled = {
        (site.name, axis): plates[plate]
        for site in density.sites.values()
        for axis, plate in zip(site.plate_axes, site.plates, strict=True)
        if plate in plates
    }
    if not labelled:
        return
    for term in density.terms:
        for site, accesses in density.maps[term.atom].items():
            for access in accesses:
                yield from (
                    labelled[site, axis]
                    for axis, index in enumerate(access.index)
                    if (site, axis) in labelled and _is_value(density, name, index)
                )


def _is_value(density: Density, name: str, index: Any) -> bool:
    """Whether an index is the value of the site `name` itself, tried at every value that it can have."""
    if not isinstance(index, Table) or index.latents != {name}:
        return False
    site = density.sites[name]
    for value in _values(density, name):
        state = {name: jnp.full(site.shape, value, site.dtype)}
        found = np.asarray(index.value(density.evaluator(state).full))
        if not (found == value).all():
            return False
    return True
