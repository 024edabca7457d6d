"""Where a chain's factors stop copying the site and start computing with it.

`P[z[:-1], z[1:]]` reads two shifted copies of `z`. Filling the copies, each with one value for all times, and
not `z` itself keeps a table of all pairs of values at the size of `P` where nothing else changes with time.
Whether that is right is read off the index maps of the program cut at the copies.
"""

from dataclasses import dataclass
from typing import Any

from gibbsite.conditional.reads.cut import maps_after
from gibbsite.conditional.reads.touch import Touch, resolved
from gibbsite.density import Density
from gibbsite.density.maps.access import Access, Affine
from gibbsite.trace.jaxpr.compat import Literal

_COPIES = frozenset(
    [
        "slice",
        "squeeze",
        "reshape",
        "broadcast_in_dim",
        "transpose",
        "copy",
        "copy_p",
        "concatenate",
        "gather",
    ]
)


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


def _copies(density: Density, site: str) -> dict[Any, Access]:
    """The variables that copy elements of the site inside the window of their only access."""
    var = density.latent_vars[site]
    raw: dict[Any, Any] = {var: density.maps[var][site]}
    for eqn in density.closed.jaxpr.eqns:
        if eqn.primitive.name not in _COPIES:
            continue
        live = [a for a in eqn.invars if not isinstance(a, Literal) and site in density.maps[a]]
        from_copy = len(live) == 1 and live[0] in raw
        if not from_copy or (eqn.primitive.name == "gather" and live[0] is not eqn.invars[0]):
            continue
        accesses = density.maps[eqn.outvars[0]].get(site, ())
        if len(accesses) == 1:
            raw[eqn.outvars[0]] = accesses
    simple = resolved(density, [(None, accesses) for accesses in raw.values()])
    shape = density.sites[site].shape
    found = {v: accesses[0] for v, accesses in zip(raw, simple, strict=True)}
    return {v: a for v, a in found.items() if _aligned(a) and _in_range(a, shape)}


def _cut(density: Density, site: str, copies: dict[Any, Access], atom: Any) -> list[Any] | None:
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


def frontier(density: Density, site: str, touch: Touch, pair: Access, axis: int) -> Frontier | None:
    """What to fill to tabulate one coupling term over pairs of neighbours; None where that is not certain.

    `pair` is the term's access to the first element of each pair, restricted to the box where it reads both.
    """
    copies = _copies(density, site)
    last = _cut(density, site, copies, touch.term.atom)
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
