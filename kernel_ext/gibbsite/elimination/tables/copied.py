"""Where a term stops copying a site and starts computing with it.

`P[z[:-1], z[1:]]` reads two shifted copies of `z`. Filling the copies, each with one value everywhere, and
not `z` itself keeps a table of all pairs of values at the size of `P` where nothing else changes from row to
row. Whether that is right is read off the index maps of the program cut at the copies.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from gibbsite.conditional.reads.cut import maps_after
from gibbsite.conditional.reads.touch import resolved
from gibbsite.density import Density
from gibbsite.density.maps.access import Access, Shape, through
from gibbsite.elimination.tables.pieces import Piece, flat_index, inside
from gibbsite.trace.jaxpr.compat import Literal

_COPIES = frozenset(
    "slice squeeze reshape broadcast_in_dim transpose copy copy_p concatenate gather rev expand_dims".split()
)


def _copies(density: Density, site: str) -> dict[Any, Access]:
    """The variables that copy elements of the site, inside the window of their only access."""
    if ("copies", site) not in density.cache:
        var = density.latent_vars[site]
        raw: dict[Any, Any] = {var: density.maps[var][site]}
        for eqn in density.closed.jaxpr.eqns:
            if eqn.primitive.name not in _COPIES:
                continue
            live = [a for a in eqn.invars if not isinstance(a, Literal) and site in density.maps[a]]
            if len(live) != 1 or live[0] not in raw:
                continue
            if eqn.primitive.name == "gather" and live[0] is not eqn.invars[0]:
                continue
            accesses = density.maps[eqn.outvars[0]].get(site, ())
            if len(accesses) == 1 and accesses[0].single and not accesses[0].latents():
                raw[eqn.outvars[0]] = accesses
        simple = resolved(density, [(None, a) for a in raw.values()])
        density.cache["copies", site] = {v: a[0] for v, a in zip(raw, simple, strict=True)}
    return density.cache["copies", site]


def _last(density: Density, site: str, copies: dict[Any, Access], atom: Any) -> list[Any]:
    """The copies that are the last ones before computation, on the ways from the site to `atom`."""
    found: dict[Any, None] = {}
    seen: set[Any] = set()
    stack = [atom]
    while stack:
        at = stack.pop()
        if isinstance(at, Literal) or at in seen or site not in density.maps[at]:
            continue
        seen.add(at)
        if at in copies:
            found[at] = None
        else:
            stack += density.producer[at].invars
    return list(found)


def copies_to_fill(
    density: Density, piece: Piece, site: str, reads: Sequence[np.ndarray], elements: Shape
) -> list[list[Any]] | None:
    """The variables to fill for each read of the site in a piece; None where that is not certain."""
    copies = _copies(density, site)
    last = _last(density, site, copies, piece.term.atom)
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
            index = Access(composed[0].index[: len(elements)], composed[0].window)
            here = inside(flat_index(index, shape, elements, read), piece.cell)
            hit = [i for i, r in enumerate(reads) if _agree(here, r)]
            if len(hit) != 1 or any(v in several for i, several in enumerate(out) if i != hit[0]):
                return None
            if v not in out[hit[0]]:
                out[hit[0]].append(v)
    return out if all(out) else None


def _agree(a: np.ndarray, b: np.ndarray) -> bool:
    shape = np.broadcast_shapes(a.shape, b.shape)
    return np.array_equal(np.broadcast_to(a, shape), np.broadcast_to(b, shape))
