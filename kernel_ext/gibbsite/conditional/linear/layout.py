"""Where the elements of jointly Gaussian sites stand in the arrow: groups, rest, border.

A site whose elements do not meet along some axes has a copy of itself per index there; sites that every term
reads at the same copy are one group per copy (the intercept and the slope of each rat). The sites with the
most copies become the groups. Of the others, those of few elements are the border, which loses nothing to
rounding; the rest is what remains (the second of two crossed effects).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from gibbsite.conditional.forms.walk import Refused
from gibbsite.conditional.linear.arrow import Vector
from gibbsite.conditional.reads.term_access import batch_axes, index_id
from gibbsite.density import Density
from gibbsite.programs.maps.access import Shape

# entries of the border's slopes along the terms, which are held in memory
_MOST_ROWS = 2**20

# a dense factorisation beyond this is slower than gradients
MAX_COUPLED = 1500

GROUPS, REST, BORDER = "groups", "rest", "border"


@dataclass(frozen=True)
class Part:
    """One site: its axes of copies (`batch`, none in the border), and where its first element stands in
    `role`: of groups the slot, of the others the place."""

    site: str
    shape: Shape
    batch: Shape
    role: str
    start: int

    @property
    def coupled(self) -> Shape:
        """The axes within a copy."""
        return tuple(a for a in range(len(self.shape)) if a not in self.batch)

    @property
    def sizes(self) -> Shape:
        """Copies along the axes of `batch`."""
        return tuple(self.shape[a] for a in self.batch)

    @property
    def copies(self) -> int:
        """How many there are."""
        return int(np.prod(self.sizes, dtype=np.int64))

    @property
    def slots(self) -> int:
        """Elements of one copy."""
        return int(np.prod([self.shape[a] for a in self.coupled], dtype=np.int64))

    def split(self, x: Any) -> Any:
        """A value of the site as `[copies, slots]`."""
        return jnp.transpose(x, (*self.batch, *self.coupled)).reshape(self.copies, self.slots)

    def joined(self, x: Any) -> Any:
        """The site's value of `[copies, slots]`."""
        order = (*self.batch, *self.coupled)
        x = x.reshape(tuple(self.shape[a] for a in order))
        return jnp.transpose(x, tuple(order.index(a) for a in range(len(order)))) if order else x


@dataclass(frozen=True)
class Layout:
    """The parts, and how many groups there are, of how many slots; sizes of the rest and of the border."""

    parts: tuple[Part, ...]
    groups: int
    width: int
    rest: int
    border: int

    def of(self, role: str) -> tuple[Part, ...]:
        """The parts of one role, in order."""
        return tuple(p for p in self.parts if p.role == role)

    def vector(self, values: Mapping[str, Any], dtype: Any) -> Vector:
        """Values by site as one vector."""

        def flat(role: str) -> Any:
            found = [p.split(values[p.site]).reshape(-1) for p in self.of(role)]
            return jnp.concatenate([jnp.zeros((0,), dtype), *found])

        inner = [p.split(values[p.site]) for p in self.of(GROUPS)]
        groups = jnp.concatenate(inner, 1) if inner else jnp.zeros((0, 0), dtype)
        return Vector(groups, flat(REST), flat(BORDER))

    def values(self, x: Vector) -> dict[str, Any]:
        """The values by site that a vector holds."""
        out = {}
        for p in self.parts:
            if p.role == GROUPS:
                out[p.site] = p.joined(x.groups[:, p.start : p.start + p.slots])
            else:
                whole = x.rest if p.role == REST else x.border
                out[p.site] = p.joined(whole[p.start : p.start + p.copies * p.slots])
        return out

    def __str__(self) -> str:
        parts = []
        if self.groups:
            parts.append(f"{self.groups} groups of {self.width}")
        if self.rest + self.border:
            parts.append(f"{self.rest + self.border} together")
        return ", then ".join(parts)


def arranged(density: Density, sites: Sequence[str], whole: frozenset[str], rows: int) -> Layout:
    """The layout of `sites`, whose terms have `rows` elements.

    Those in `whole` must not be split into copies. Raises `Refused` where too many elements are left that
    cannot be eliminated group by group.
    """
    shapes = {s: density.sites[s].shape for s in sites}
    sizes = {s: int(np.prod(shapes[s], dtype=np.int64)) for s in sites}
    batch = {s: () if s in whole else batch_axes(density, s) for s in sites}
    inner = _grouped(density, [s for s in sites if batch[s]], batch)
    if _copies(density, inner, batch) == 1:
        inner = ()
    parts, width = [], 0
    for s in inner:
        parts.append(Part(s, shapes[s], batch[s], GROUPS, width))
        width += parts[-1].slots
    outer = sorted((s for s in sites if s not in inner), key=lambda s: (bool(batch[s]), sizes[s]))
    placed = {REST: 0, BORDER: 0}
    for s in outer:
        fits = not batch[s] or (placed[BORDER] + sizes[s]) * rows <= _MOST_ROWS
        role = BORDER if fits else REST
        parts.append(Part(s, shapes[s], () if fits else batch[s], role, placed[role]))
        placed[role] += sizes[s]
    dense = placed[REST] + placed[BORDER]
    if dense > MAX_COUPLED:
        raise Refused(f"{dense} elements of {' and '.join(outer)} are coupled, more than {MAX_COUPLED}")
    return Layout(tuple(parts), _copies(density, inner, batch), width, placed[REST], placed[BORDER])


def _copies(density: Density, inner: Sequence[str], batch: Mapping[str, Shape]) -> int:
    if not inner:
        return 0
    shape = density.sites[inner[0]].shape
    return int(np.prod([shape[a] for a in batch[inner[0]]], dtype=np.int64))


def _grouped(density: Density, sites: Sequence[str], batch: Mapping[str, Shape]) -> tuple[str, ...]:
    """Of sites with copies, those that are copied together, where that eliminates the most elements."""
    families: list[list[str]] = []
    for s in sites:
        for family in families:
            if all(_together(density, s, t, batch) for t in family):
                family.append(s)
                break
        else:
            families.append([s])

    def elements(family: list[str]) -> int:
        return sum(int(np.prod(density.sites[s].shape, dtype=np.int64)) for s in family)

    return tuple(max(families, key=elements)) if families else ()


def _together(density: Density, one: str, two: str, batch: Mapping[str, Shape]) -> bool:
    """Whether every term that reads both sites reads the same copy of them."""
    sizes = [tuple(density.sites[s].shape[a] for a in batch[s]) for s in (one, two)]
    if sizes[0] != sizes[1]:
        return False
    for term, accesses in density.terms_of(one):
        others = density.maps[term.atom].get(two)
        if others is None:
            continue
        mine, theirs = (
            {tuple(index_id(density, x.index[a]) for a in batch[s]) for x in found}
            for s, found in ((one, accesses), (two, others))
        )
        if mine != theirs or len(mine) > 1:
            return False
    return True
