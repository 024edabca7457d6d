"""Terms cut where what they read changes: within a piece, every row has the same list of reads.

For a chain's first step a term reads `z[0]` only, later on `z[t - 1]` and `z[t]`; its accesses' windows cut
it into boxes, and inside each box the reads are fixed.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gibbsite.conditional.reads.term_access import resolved
from gibbsite.conditional.tables.factor import MAX_ENTRIES, TooLarge
from gibbsite.density import Density
from gibbsite.density.terms import Term
from gibbsite.programs.maps.access import Access, Shape, Whole, constant, element_number

Box = tuple[tuple[int, int], ...]


@dataclass(frozen=True, eq=False)
class Piece:
    """The box `cell` of a term. Read `i` is of site `sites[i]`, at element numbers `reads[i]`, an array of
    the term's rank with size 1 where they are constant and the box's size elsewhere. No reads: a constant
    part."""

    term: Term
    cell: Box
    sites: tuple[str, ...]
    reads: tuple[np.ndarray, ...]

    @property
    def size(self) -> Shape:
        """The shape of the box."""
        return tuple(high - low for low, high in self.cell)


def inside(flat: np.ndarray, cell: Box) -> np.ndarray:
    """The part of an index array that lies in a box."""
    return flat[tuple(slice(None) if n == 1 else slice(*w) for n, w in zip(flat.shape, cell, strict=True))]


def term_accesses(
    density: Density, term: Term, elements: Mapping[str, Shape]
) -> dict[str, tuple[Access, ...]]:
    """How a term reads the sites in `elements`, which gives the shapes of their elements."""
    maps = density.maps[term.atom]
    mine = [s for s in elements if s in maps]
    found = resolved(density, [(term, maps[s]) for s in mine])
    return {
        s: tuple(dict.fromkeys(Access(a.index[: len(elements[s])], a.window) for a in accesses))
        for s, accesses in zip(mine, found, strict=True)
    }


def pieces_of(
    density: Density,
    term: Term,
    accesses: Mapping[str, Sequence[Access]],
    elements: Mapping[str, Shape],
    sizes: Mapping[str, int],
) -> Iterator[Piece]:
    """The pieces of a term. Raises `TooLarge` where it reads too many elements at once."""
    flat = [(s, a) for s, several in accesses.items() for a in several]
    reads = [(s, b) for s, a in flat for b in _element_by_element(term, s, a, elements[s], sizes[s])]
    rank = len(term.shape)
    cuts = [sorted({0, term.shape[d]} | {x for _, a in reads for x in a.window[d]}) for d in range(rank)]
    read = density.evaluator({}).full
    arrays = [np.asarray(element_number(a.index, term.shape, elements[s], read)) for s, a in reads]
    for cell in itertools.product(*[list(itertools.pairwise(c)) for c in cuts]):
        found: list[tuple[str, np.ndarray]] = []
        for (s, a), array in zip(reads, arrays, strict=True):
            if any(low < w[0] or high > w[1] for (low, high), w in zip(cell, a.window, strict=True)):
                continue
            here = inside(array, cell)
            if not any(s == t and here.shape == b.shape and np.array_equal(here, b) for t, b in found):
                found.append((s, here))
        yield Piece(term, cell, tuple(s for s, _ in found), tuple(f for _, f in found))


def _element_by_element(
    term: Term, site: str, access: Access, elements: Shape, size: int
) -> Iterator[Access]:
    """An access that may read any element along some axes, as one access per element along them."""
    rank = len(term.shape)
    open_ended = [isinstance(c, Whole) or bool(getattr(c, "latents", ())) for c in access.index]
    many = int(np.prod([n for n, w in zip(elements, open_ended, strict=True) if w], dtype=np.int64))
    if any(open_ended) and float(size) ** min(many, 1000) > MAX_ENTRIES:
        raise TooLarge(
            f"{term.origin!r} reads all {many:,} elements of {site!r} at once: its table would have "
            f"{size}^{many} entries (the limit is {MAX_ENTRIES:,}); Gibbs {site} still works"
        )
    options = [range(n) if w else [c] for c, n, w in zip(access.index, elements, open_ended, strict=True)]
    for combination in itertools.product(*options):
        index = tuple(constant(rank, c) if isinstance(c, int) else c for c in combination)
        assert not any(isinstance(c, Whole) for c in index)
        yield Access(index, access.window)
