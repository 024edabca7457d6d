"""The Markov blanket of one element of a site: `z[17]` has `x[17]`, `w` and all of `mu`.

Read off the index maps of the density's terms (the same that the Gibbs kernels are derived from): the term
elements that may touch the element, and what else those touch. It over-approximates, never the reverse.
"""

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gibbsite.density import Density
from gibbsite.errors import DataError
from gibbsite.ground.lazy_import import later
from gibbsite.programs.maps.access import Access, Whole, component_array, inside

nx = later("networkx")

MOST_ELEMENTS = 4_000_000
Indices = tuple[tuple[int, ...], ...]


def element_blanket(density: Density, site: str, index: int | Sequence[int]) -> dict[str, Indices | None]:
    """Which elements of which sites share a term with one element of the latent `site`.

    Per site the indices, or None for "any of them" (where an index is itself random, as in `mu[z]`, or the
    program uses the whole array). The site itself is listed where its elements are coupled. Raises
    `UnknownNameError` for a name and `DataError` for an index that do not exist, or a site too large to list.
    """
    shape = density.site(site).shape
    at = (index,) if isinstance(index, int) else tuple(int(i) for i in index)
    if len(at) != len(shape) or any(not 0 <= i < n for i, n in zip(at, shape, strict=True)):
        raise DataError(f"{site}{list(at)} does not exist: {site!r} has shape {shape}")
    read = density.evaluator({}).full
    found: dict[str, set[tuple[int, ...]] | None] = {}
    for term, accesses in density.terms_of(site):
        if int(np.prod(term.shape, dtype=np.int64)) > MOST_ELEMENTS:
            raise DataError(f"the terms of {site!r} have too many elements to list them: {term.shape}")
        touched = np.zeros(term.shape, bool)
        for access in accesses:
            touched |= _reads(access, at, term.shape, read)
        if not touched.any():
            continue
        where = np.nonzero(touched) if touched.ndim else ()
        for other, theirs in density.maps[term.atom].items():
            if other == site and len(theirs) == 1 and theirs[0].single:
                continue  # each element of the term reads one element of the site: they never meet in it
            for access in theirs:
                _add(found, other, _read_by(access, where, term.shape, read))
        origin = density.sites.get(term.origin)
        if origin is not None and origin.role == "observed":
            same = term.shape == origin.shape[: len(term.shape)] and len(term.shape) <= len(origin.shape)
            elements = set(zip(*(w.tolist() for w in where), strict=True)) if touched.ndim else {()}
            _add(found, term.origin, elements if same else None)
    mine = found.get(site)
    if mine is not None:
        mine.discard(at)
        if not mine:
            del found[site]
    order = [n for n in density.sites if n in found]
    return {n: None if (got := found[n]) is None else tuple(sorted(got)) for n in order}


def _add(found: dict[str, Any], name: str, new: set[tuple[int, ...]] | None) -> None:
    if new is None or found.get(name, ()) is None:
        found[name] = None
    else:
        found.setdefault(name, set()).update(new)


def _reads(access: Access, at: tuple[int, ...], shape: tuple[int, ...], read: Any) -> np.ndarray:
    """Which elements of an array of `shape` may read the element `at` through this access."""
    hit = np.array(np.broadcast_to(inside(access.window, shape), shape))
    for component, i in zip(access.index, at, strict=True):
        if isinstance(component, Whole) or getattr(component, "latents", None):
            continue
        hit &= np.broadcast_to(np.asarray(component_array(component, shape, read)) == i, shape)
    return hit


def _read_by(access: Access, where: Any, shape: tuple[int, ...], read: Any) -> set[tuple[int, ...]] | None:
    """The elements that the array's elements `where` read through this access; None where any may be."""
    if any(isinstance(c, Whole) or getattr(c, "latents", None) for c in access.index):
        return None
    if not shape:
        return {tuple(int(component_array(c, shape, read)) for c in access.index)}  # type: ignore[arg-type]
    read_there = np.broadcast_to(inside(access.window, shape), shape)[where]
    columns = [
        np.broadcast_to(np.asarray(component_array(c, shape, read)), shape)[where][read_there].tolist()  # type: ignore[arg-type]
        for c in access.index
    ]
    if not columns:
        return {()} if read_there.any() else set()
    return set(zip(*columns, strict=True))


def plain_name(site: str, index: Sequence[int | str]) -> str:
    """`z[17]`; a scalar's name alone."""
    return f"{site}[{', '.join(map(str, index))}]" if index else site


def element_text(
    site: str,
    index: Sequence[int],
    blanket: dict[str, Indices | None],
    most: int = 12,
    name: Callable[[str, Sequence[int]], str] = plain_name,
) -> str:
    """In one line: `z[17]: x[17], w, mu[any]`; `name` gives the name of an element."""
    parts = []
    for n, indices in blanket.items():
        if indices is None:
            parts.append(f"{n}[any]")
        else:
            parts += [name(n, i) for i in indices[:most]]
            if len(indices) > most:
                parts.append(f"… {len(indices) - most} more of {n}")
    return f"{name(site, list(index))}: {', '.join(parts) or 'nothing'}"


@dataclass(frozen=True)
class Independence:
    """The answer to "is `a` independent of `b` given `given`?"; true or false as a bool.

    `path` is a trail along which they depend on each other, empty where they are independent. `values` are
    those of the given nodes where the question was asked in their context.
    """

    a: str
    b: str
    given: tuple[str, ...]
    path: tuple[str, ...]
    values: Mapping[str, Any] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return not self.path

    def __str__(self) -> str:
        told = [f"{n} = {self.values[n]}" if n in self.values else n for n in self.given]
        given = f" given {', '.join(told)}" if told else ""
        if not self.path:
            return f"{self.a} and {self.b} are independent{given}"
        return f"{self.a} and {self.b} depend on each other{given}, through {' – '.join(self.path)}"


def active_trail(
    graph: Any, a: str, b: str, given: Collection[str], partly: Collection[str] = ()
) -> tuple[str, ...]:
    """A trail from `a` to `b` that `given` leaves open, or `()` if they are d-separated.

    Nodes of which a part is given, `partly`, open trails but close none.

    Breadth-first over (node, direction of arrival): from below a node passes on to parents and children
    unless it is given; from above it passes to children unless given, and to parents if it or a descendant
    is given.
    """
    if a == b:
        return (a,)
    given = set(given)
    told = given | set(partly)
    opened = told | {p for g in told if g in graph for p in nx.ancestors(graph, g)}
    start = (a, "up")
    before: dict[tuple[str, str], tuple[str, str] | None] = {start: None}
    queue = deque([start])
    while queue:
        state = queue.popleft()
        node, direction = state
        if node == b:
            trail: list[str] = []
            at: tuple[str, str] | None = state
            while at is not None:
                trail.append(at[0])
                at = before[at]
            return tuple(reversed(trail))
        steps = []
        if direction == "up" and node not in given:
            steps += [(p, "up") for p in graph.predecessors(node)]
            steps += [(c, "down") for c in graph.successors(node)]
        elif direction == "down":
            if node not in given:
                steps += [(c, "down") for c in graph.successors(node)]
            if node in opened:
                steps += [(p, "up") for p in graph.predecessors(node)]
        for step in steps:
            if step not in before:
                before[step] = state
                queue.append(step)
    return ()
