"""Lifted factors: many factors of one shape, held as one table.

The `rows` of a factor are its instances; read `i` of row `r` is element `index[i][r]` of site `sites[i]`. Its
table has one axis per read, over that site's values, and the rows last (size 1 where all rows agree). What a
lifted factor saves is that its size is the program's and not the data's (de Salvo Braz et al. 2005, "Lifted
first-order probabilistic inference").
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from gibbsite.conditional.factors.sums import sum_by
from gibbsite.conditional.reads.term_access import resolved
from gibbsite.density import Density
from gibbsite.density.terms import Term
from gibbsite.errors import ModelError
from gibbsite.programs.maps.access import Access, Shape, Whole, constant, element_number

Latents = Mapping[str, Any]

MAX_ENTRIES = 2**25
"""Entries of the largest table that an elimination may make."""


class TooLarge(ModelError):
    """An elimination needs a table beyond the limit; the message names the table and what makes it."""


@dataclass(frozen=True, eq=False)
class Factor:
    """`sites` and `index` (element numbers) per read, the number of `rows`, the sizes of the value axes, and
    the `origin`: the site or factor of the model that it came from, for messages."""

    sites: tuple[str, ...]
    index: tuple[np.ndarray, ...]
    rows: int
    sizes: tuple[int, ...]
    origin: str

    @property
    def entries(self) -> float:
        """Entries of the whole table."""
        return float(np.prod(self.sizes, dtype=float)) * self.rows


@dataclass(frozen=True, eq=False)
class Source:
    """Factors with the function that tabulates them: `tables(latents, data)`, one array per factor."""

    factors: tuple[Factor, ...]
    tables: Callable[[Latents, Any], Sequence[Any]]
    evaluations: float
    """Evaluations of the term that one tabulation makes, counted in elements."""


def is_identity(index: np.ndarray, n: int) -> bool:
    """Whether row `i` goes to place `i` of `n`."""
    return len(index) == n and bool(np.array_equal(index, np.arange(n)))


def rows_onto(table: Any, index: np.ndarray, n: int) -> Any:
    """Sum rows onto `n` places, row `i` onto place `index[i]`; without a scatter where they are regular."""
    if is_identity(index, n):
        return table
    lead = table.shape[:-1]
    if table.shape[-1] == 1 and len(index) != 1:
        count = np.bincount(index, minlength=n)
        times = jnp.asarray(count[:1] if np.all(count == count[0]) else count, table.dtype)
        return jnp.where(times == 0, 0, table * times)  # not -inf * 0
    if n == 1:
        return jnp.sum(table, -1, keepdims=True)
    if np.array_equal(index, index[0] + np.arange(len(index))):
        return jnp.pad(table, [(0, 0)] * len(lead) + [(int(index[0]), n - int(index[0]) - len(index))])
    if len(index) % n == 0 and np.array_equal(index, np.repeat(np.arange(n), len(index) // n)):
        return jnp.sum(table.reshape(*lead, n, -1), -1)
    if len(index) % n == 0 and np.array_equal(index, np.tile(np.arange(n), len(index) // n)):
        return jnp.sum(table.reshape(*lead, -1, n), -2)
    flat = sum_by(jnp.asarray(index), jnp.moveaxis(table, -1, 0), n)
    return jnp.moveaxis(flat, 0, -1)


def taken(table: Any, index: np.ndarray, rows: int) -> Any:
    """The rows `index` of a table that stands for `rows`."""
    if table.shape[-1] == 1 or is_identity(index, rows):
        return table
    return jnp.take(table, jnp.asarray(index), axis=-1)


def aligned(table: Any, names: Sequence[Any], order: Sequence[Any]) -> Any:
    """A table whose value axes are called `names` with an axis for each of `order`, of size 1 if new."""
    there = [n for n in order if n in names]
    table = jnp.transpose(table, (*(names.index(n) for n in there), table.ndim - 1))
    sizes = iter(table.shape)
    return table.reshape([next(sizes) if n in names else 1 for n in order] + [table.shape[-1]])


# Terms cut where what they read changes: within a piece, every row has the same list of reads.
#
# For a chain's first step a term reads `z[0]` only, later on `z[t - 1]` and `z[t]`; its accesses' windows
# cut it into boxes, and inside each box the reads are fixed.


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
