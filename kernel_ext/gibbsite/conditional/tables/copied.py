"""Which copies of a site to fill for each of its reads by a piece of a term.

Whether that is right is read off the index maps of the program cut at the copies.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from gibbsite.conditional.reads.copies import copies_of, last_copies
from gibbsite.conditional.reads.subprogram import maps_after
from gibbsite.conditional.tables.pieces import Piece, inside
from gibbsite.density import Density
from gibbsite.programs.maps.access import Shape, element_number, through


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
