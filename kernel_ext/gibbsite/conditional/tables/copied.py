"""Which copies of a site to fill for each of its reads by a piece of a term.

Whether that is right is read off the index maps of the program cut at the copies.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gibbsite.conditional.reads.term_access import maps_after, resolved
from gibbsite.conditional.tables.factor import Piece, inside
from gibbsite.density import Density
from gibbsite.ground.once import once
from gibbsite.programs.jaxpr.compat import Literal
from gibbsite.programs.jaxpr.primitives import GATHERS, JOINS, PLACES, of_kind
from gibbsite.programs.maps.access import Access, Shape, element_number, through

# Where the program of a term stops copying a site and starts computing with it.
#
# `P[z[:-1], z[1:]]` reads two shifted copies of `z`. Filling the copies, each with one value everywhere, and
# not `z` itself keeps a table of all pairs of values at the size of `P` where nothing else changes from row
# to row.


@once
def copies_of(density: Density, site: str) -> Mapping[Any, Access]:
    """The variables that copy elements of the site, inside the window of their only access."""
    var = density.latent_vars[site]
    raw: dict[Any, Any] = {var: density.maps[var][site]}
    for eqn in density.closed.jaxpr.eqns:
        if not of_kind(eqn, PLACES, JOINS):
            continue
        live = [a for a in eqn.invars if not isinstance(a, Literal) and site in density.maps[a]]
        if len(live) != 1 or live[0] not in raw:
            continue
        if of_kind(eqn, GATHERS) and live[0] is not eqn.invars[0]:
            continue
        accesses = density.maps[eqn.outvars[0]].get(site, ())
        if len(accesses) == 1 and accesses[0].single and not accesses[0].latents():
            raw[eqn.outvars[0]] = accesses
    simple = resolved(density, [(None, a) for a in raw.values()])
    return {v: a[0] for v, a in zip(raw, simple, strict=True)}


def last_copies(density: Density, site: str, copies: Mapping[Any, Access], atom: Any) -> list[Any]:
    """The copies that are the last ones before computation, on the ways from the site to `atom`."""
    ways = density.behind(atom, ends=lambda a: a in copies or site not in density.maps[a])
    return [a for a in ways if a in copies]


def copies_to_fill(
    density: Density, piece: Piece, site: str, reads: Sequence[np.ndarray], elements: Shape
) -> list[list[Any]] | None:
    """The variables to fill for each read of the site in a piece; None where that is not certain."""
    copies = copies_of(density, site)
    last = last_copies(density, site, copies, piece.term.atom)
    if not last or density.latent_vars[site] in last:
        return None
    names = {v: f"copy {i}" for i, v in enumerate(last)}
    maps = maps_after(density, piece.term.atom, names)
    read, shape = density.evaluator({}).full, piece.term.shape
    out: list[list[Any]] = [[] for _ in reads]
    for v, name in names.items():
        for access in maps.get(name, ()):
            meets = zip(access.window, piece.cell, strict=True)
            if any(max(a, c) >= min(b, d) for (a, b), (c, d) in meets):
                continue
            if not access.single or access.latents():
                return None
            composed = through((copies[v],), access.index, shape, access.window)
            if len(composed) != 1 or composed[0].latents():
                return None
            box = zip(composed[0].window, piece.cell, strict=True)
            if any(low > a or high < b for (low, high), (a, b) in box):
                return None
            number = element_number(composed[0].index[: len(elements)], shape, elements, read)
            here = inside(np.asarray(number), piece.cell)
            hit = [i for i, r in enumerate(reads) if _agree(here, r)]
            if len(hit) != 1 or any(v in several for i, several in enumerate(out) if i != hit[0]):
                return None
            if v not in out[hit[0]]:
                out[hit[0]].append(v)
    return out if all(out) else None


def _agree(a: np.ndarray, b: np.ndarray) -> bool:
    shape = np.broadcast_shapes(a.shape, b.shape)
    return np.array_equal(np.broadcast_to(a, shape), np.broadcast_to(b, shape))
