"""Which copies of a chain's site to fill with the first and which with the second value of a pair.

Whether that is right is read off the index maps of the program cut at the copies.
"""

from dataclasses import dataclass
from typing import Any

from gibbsite.conditional.reads.copies import copies_of, last_copies
from gibbsite.conditional.reads.subprogram import maps_after
from gibbsite.conditional.reads.term_access import Touch
from gibbsite.density import Density
from gibbsite.programs.maps.access import Access, Affine


@dataclass(frozen=True)
class Frontier:
    """The variables to fill with a pair's first value and those to fill with its second."""

    early: tuple[Any, ...]
    late: tuple[Any, ...]


def _aligned(access: Access) -> bool:
    """Whether each index is constant or runs along one axis of its own with step 1."""
    if not all(isinstance(c, Affine) and len(c.axes) <= 1 for c in access.index):
        return False
    moving = [c for c in access.index if isinstance(c, Affine) and c.axes]
    axes = [c.axes[0] for c in moving]
    return all(c.coefs[c.axes[0]] == 1 for c in moving) and len(set(axes)) == len(axes)


def _in_range(access: Access, shape: tuple[int, ...]) -> bool:
    """Whether the access reads elements of the site all over its window (a gather may clip or fill)."""
    for c, n in zip(access.index, shape, strict=True):
        assert isinstance(c, Affine)
        low, high = access.window[c.axes[0]] if c.axes else (0, 1)
        if low + c.offset < 0 or high + c.offset > n:
            return False
    return True


def frontier(density: Density, site: str, touch: Touch, pair: Access, axis: int) -> Frontier | None:
    """What to fill to tabulate one coupling term over pairs of neighbours; None where that is not certain.

    `pair` is the term's access to the first element of each pair, restricted to the box where it reads both.
    """
    shape = density.sites[site].shape
    copies = {v: a for v, a in copies_of(density, site).items() if _aligned(a) and _in_range(a, shape)}
    last = last_copies(density, site, copies, touch.term.atom)
    if not last:
        return None
    names = {v: f"copy {i}" for i, v in enumerate(last)}
    maps = maps_after(density, touch.term.atom, names)
    first = pair.index[axis]
    assert isinstance(first, Affine)
    early, late = [], []
    for var, name in names.items():
        shifts = set()
        for access in maps.get(name, ()):
            if not _aligned(access) or not _inside(access, pair, copies[var]):
                return None
            through = copies[var].index[axis]
            assert isinstance(through, Affine)
            if not through.axes:
                return None
            way = access.index[through.axes[0]]
            if way.coefs != first.coefs:  # type: ignore[union-attr]
                return None
            shifts.add(way.offset + through.offset - first.offset)  # type: ignore[union-attr]
        if shifts == {0}:
            early.append(var)
        elif shifts == {1}:
            late.append(var)
        elif shifts:
            return None
    return Frontier(tuple(early), tuple(late)) if early and late else None


def _inside(access: Access, pair: Access, copy: Access) -> bool:
    """Whether all that the pairs' box reads of a copy lies where it is a copy."""
    for c, (low, high) in zip(access.index, copy.window, strict=True):
        assert isinstance(c, Affine)
        box = pair.window[c.axes[0]] if c.axes else (0, 1)
        if box[0] + c.offset < low or box[1] + c.offset > high:
            return False
    return True
