"""Colour the elements of a site so that no term couples two elements of one colour.

Elements of one colour are independent given the rest, so they are updated together.
"""

import itertools
from collections.abc import Iterable, Sequence

import numpy as np

from gibbsite.conditional.reads.term_access import Touch, element_indices
from gibbsite.density import Density
from gibbsite.ground.lazy_import import later
from gibbsite.programs.maps.access import Access, Affine

nx = later("networkx")

Shape = tuple[int, ...]
MAX_COLOURS = 16
_MAX_PAIRS = 2_000_000


def _offset(a: Access, b: Access) -> tuple[int, ...] | None:
    """The constant difference between the elements that two accesses read, if it is constant."""
    out = []
    for x, y in zip(a.index, b.index, strict=True):
        if not isinstance(x, Affine) or not isinstance(y, Affine) or x.coefs != y.coefs:
            return None
        out.append(y.offset - x.offset)
    return tuple(out)


def _overlap(a: Access, b: Access) -> tuple[slice, ...] | None:
    box = [(max(al, bl), min(ah, bh)) for (al, ah), (bl, bh) in zip(a.window, b.window, strict=True)]
    return None if any(low >= high for low, high in box) else tuple(slice(*w) for w in box)


def coupling(
    density: Density, touches: Sequence[Touch], elements: Shape
) -> tuple[set[tuple[int, ...]], list[np.ndarray], bool] | None:
    """What the coupled terms couple: constant offsets, and explicit pairs of flat element numbers.

    Also whether two accesses may read the same element in one place. None where the explicit pairs are too
    many to list.
    """
    offsets: set[tuple[int, ...]] = set()
    pairs: list[np.ndarray] = []
    overlapping = False
    for touch in touches:
        flat: dict[int, np.ndarray] = {}
        for (i, a), (j, b) in itertools.combinations(enumerate(touch.accesses), 2):
            box = _overlap(a, b)
            if box is None:
                continue
            d = _offset(a, b)
            if d is not None:
                if any(d):
                    offsets.add(d)
                else:
                    overlapping = True
                continue
            overlapping = True
            if int(np.prod(touch.term.shape)) > _MAX_PAIRS:
                return None
            for n in (i, j):
                if n not in flat:
                    index = element_indices(density, touch.accesses[n], touch.term.shape)
                    clipped = [np.clip(x, 0, m - 1) for x, m in zip(index, elements, strict=True)]
                    flat[n] = np.ravel_multi_index(clipped, elements)
            pair = np.stack([flat[i][box].ravel(), flat[j][box].ravel()])
            pair = np.unique(np.sort(pair[:, pair[0] != pair[1]], axis=0), axis=1)
            if pair.size:
                pairs.append(pair)
    return offsets, pairs, overlapping


def colour(
    offsets: set[tuple[int, ...]], pairs: Sequence[np.ndarray], elements: Shape
) -> tuple[np.ndarray, int] | None:
    """The colour of every element, and how many there are; None where it takes more than `MAX_COLOURS`."""
    grid = np.indices(elements)
    ds = np.array(sorted(offsets)).reshape(-1, len(elements))
    if not pairs:
        for m in range(2, MAX_COLOURS + 1):
            for w in itertools.product(range(m), repeat=len(elements)):
                if np.all((ds @ np.array(w, int)) % m != 0):
                    colours = np.tensordot(np.array(w, int), grid, axes=1) % m if elements else np.zeros(())
                    return colours.astype(np.int32), m
        return None
    flat, edges = np.arange(np.prod(elements, dtype=int)).reshape(elements), list(pairs)
    for d in offsets:
        here = tuple(slice(max(0, -x), m - max(0, x)) for x, m in zip(d, elements, strict=True))
        there = tuple(slice(max(0, x), m - max(0, -x)) for x, m in zip(d, elements, strict=True))
        edges.append(np.stack([flat[here].ravel(), flat[there].ravel()]))
    found = coloured(flat.size, edges)
    count = int(found.max()) + 1
    return None if count > MAX_COLOURS else (found.reshape(elements), count)


def coloured(count: int, edges: Iterable[np.ndarray]) -> np.ndarray:
    """A colour of each of so many nodes, no two alike along `edges`, arrays `[2, n]` of numbers of nodes."""
    graph = nx.Graph()
    graph.add_nodes_from(range(count))
    for pairs in edges:
        graph.add_edges_from(pairs.T.tolist())
    found = nx.greedy_color(graph, strategy="largest_first")
    return np.array([found[i] for i in range(count)], np.int32)
