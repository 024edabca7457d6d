"""How the terms of the log density touch the elements of one site."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from gibbsite.density import Density
from gibbsite.density.terms import Term
from gibbsite.programs.maps.access import (
    Access,
    Affine,
    Component,
    Table,
    Window,
    affine_of,
    component_array,
    disjoint,
)

Shape = tuple[int, ...]

SINGLE, COUPLED, DENSE = "single", "coupled", "dense"


@dataclass(frozen=True)
class Touch:
    """One term with its accesses to a site, restricted to the site's element axes.

    `kind` is SINGLE where every element of the term reads at most one element of the site, COUPLED where it
    reads several, each known, and DENSE where it may read any number.
    """

    term: Term
    accesses: tuple[Access, ...]
    kind: str


def resolved(density: Density, touching: Sequence[tuple[Any, Sequence[Access]]]) -> list[tuple[Access, ...]]:
    """The accesses with tables that turn out to be affine functions written as such.

    All tables that need no latent are computed in one compiled call on the bound data.
    """
    tables = {
        c: None
        for _, accesses in touching
        for a in accesses
        for c in a.index
        if isinstance(c, Table) and not c.latents
    }
    arrays: dict[Table, np.ndarray] = {}
    if tables:
        order = list(tables)

        def all_tables(data: Any) -> list[Any]:
            read = density.evaluator({}, data).full
            return [t.value(read) for t in order]

        values = jax.jit(all_tables)(density.arguments.arrays)
        arrays = {t: np.asarray(v).reshape(t.shape) for t, v in zip(order, values, strict=True)}

    def simple(c: Component, window: Window) -> Component:
        if not isinstance(c, Table) or c not in arrays:
            return c
        # outside its window an access says nothing, so only the inside has to be affine
        cut = tuple(slice(*w) if n != 1 else slice(None) for w, n in zip(window, c.shape, strict=True))
        inside = affine_of(arrays[c][cut])
        if inside is None:
            return c
        shift = sum(k * window[a][0] for a, k in enumerate(inside.coefs))
        return Affine(inside.coefs, inside.offset - shift)

    return [
        tuple(Access(tuple(simple(c, a.window) for c in a.index), a.window) for a in accesses)
        for _, accesses in touching
    ]


def touches(density: Density, name: str, element_rank: int) -> list[Touch]:
    """How each term touches the latent site `name`, whose elements have `element_rank` axes."""
    touching = density.terms_of(name) + density.bounds_of(name)
    out = []
    for (term, _), accesses in zip(touching, resolved(density, touching), strict=True):
        cut = tuple(dict.fromkeys(Access(a.index[:element_rank], a.window) for a in accesses))
        if any(not a.single or name in a.latents() for a in cut):
            kind = DENSE
        elif disjoint(cut):
            kind = SINGLE
        elif any(a.latents() for a in cut):
            kind = DENSE  # which elements meet changes from draw to draw
        else:
            kind = COUPLED
        out.append(Touch(term, cut, kind))
    return out


def element_indices(density: Density, access: Access, shape: Shape) -> list[np.ndarray]:
    """Per site axis, the index that each element of the term reads; only for latent-free accesses."""
    read = density.evaluator({}).full
    return [
        np.broadcast_to(np.asarray(component_array(c, shape, read)), shape)  # type: ignore[arg-type]
        for c in access.index
    ]
