"""What a row of data is, and the blocks of a precision that rows sum up to."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gibbsite.conditional.linear.layout import BORDER, GROUPS, REST, Layout, Part
from gibbsite.conditional.reads.reduce import reduce_onto
from gibbsite.programs.evaluation.evaluate import Evaluator
from gibbsite.programs.maps.access import Access, Shape, component_array

Coefficient = Callable[[Evaluator, Mapping[str, Any]], Any]
"""Computes an array free of the sites, constant axes at size 1, from an evaluator and auxiliary values."""


@dataclass(frozen=True, eq=False)
class Row:
    """`weight * left * right + linear * left`, summed over `shape`: a part of the log density."""

    shape: Shape
    left: Any
    right: Any
    weight: Coefficient
    linear: Coefficient | None = None


class Slopes(NamedTuple):
    """A row at work: its weight, and along each part the slopes `[slots, *shape]` of both functions, constant
    axes at size 1, with the copy that each element reads."""

    row: Row
    weight: Any
    linear: Any
    left: dict[str, Any]
    right: dict[str, Any]
    access: dict[str, Access]


def sum_onto_copies(r: Slopes, ev: Evaluator, *parts: Part) -> Callable[[Any], Any]:
    """Sums an array of a row's shape onto the copies of a part, or onto those of two parts: `[n1, n2]`."""
    windows = zip(*(r.access[p.site].window for p in parts), strict=True)
    box = tuple((max(low for low, _ in w), min(high for _, high in w)) for w in windows)
    access = Access(tuple(c for p in parts for c in r.access[p.site].index), box)
    sizes = tuple(n for p in parts for n in p.sizes)

    def sum_up(x: Any) -> Any:
        if any(low >= high for low, high in box):
            return jnp.zeros(tuple(p.copies for p in parts), x.dtype)
        found = reduce_onto(x, r.row.shape, access, sizes, ev.full)
        return jnp.broadcast_to(found, sizes).reshape(tuple(p.copies for p in parts))

    return sum_up


def copy_read(r: Slopes, ev: Evaluator, part: Part) -> Any:
    """The number of the copy of a part that each element of a row reads, constant axes at size 1."""
    flat: Any = jnp.zeros((1,) * len(r.row.shape), jnp.int32)
    for c, n in zip(r.access[part.site].index, part.sizes, strict=True):
        index = component_array(c, r.row.shape, ev.full)  # type: ignore[arg-type]
        flat = flat * n + jnp.clip(index, 0, n - 1)
    return flat


@dataclass(frozen=True, eq=False)
class Blocks:
    """The blocks of the precision outside the border, and those that link them with it."""

    layout: Layout
    rows: Sequence[Slopes]
    ev: Evaluator

    def _sum(self, p: Part, q: Part) -> Any:
        """The block of two parts: `[copies, slots, slots]` where one copy meets one, else `[copies, slots,
        copies, slots]`; None where they do not meet."""
        out: Any = None
        paired = p.role == q.role == GROUPS or p is q or not (p.batch and q.batch)
        for r in self.rows:
            if p.site not in r.left or q.site not in r.left:
                continue
            onto = sum_onto_copies(r, self.ev, *((p,) if paired else (p, q)))
            w = r.weight

            def entry(a: Any, b: Any, c: Any, d: Any, onto: Any = onto, w: Any = w) -> Any:
                return -onto(jnp.where(w == 0, 0, w * (a * d + b * c)))

            inner = jax.vmap(entry, (None, None, 0, 0))
            found = jax.vmap(inner, (0, 0, None, None))(
                r.left[p.site], r.right[p.site], r.left[q.site], r.right[q.site]
            )
            out = found if out is None else out + found
        if out is None:
            return None
        return jnp.moveaxis(out, 2, 0) if paired else jnp.transpose(out, (2, 0, 3, 1))

    def groups(self) -> Any:
        """`[n, w, w]`."""
        n = self.layout.groups
        parts = self.layout.of(GROUPS)
        if not parts:
            return jnp.zeros((0, 0, 0))
        lines = []
        for i, p in enumerate(parts):
            line = []
            for j, q in enumerate(parts):
                found = self._sum(p, q) if i <= j else jnp.swapaxes(lines[j][i], 1, 2)
                line.append(jnp.zeros((n, p.slots, q.slots)) if found is None else found)
            lines.append(line)
        return jnp.concatenate([jnp.concatenate(line, 2) for line in lines], 1)

    def groups_in(self, basis: Any) -> Any:
        """`groups`, from slopes along the columns of `basis` `[n, w, w]`."""
        n, width = self.layout.groups, self.layout.width
        out = jnp.zeros((n, width, width))
        for r in self.rows:
            parts = [p for p in self.layout.of(GROUPS) if p.site in r.left]
            if not parts:
                continue
            # parts of a group are read at the same copy, some in a smaller box: outside it their slopes are 0
            windows = zip(*(r.access[p.site].window for p in parts), strict=True)
            box = tuple((min(low for low, _ in w), max(high for _, high in w)) for w in windows)
            site = parts[0].site
            whole = r._replace(access={site: Access(r.access[site].index, box)})
            at = jnp.moveaxis(basis[copy_read(whole, self.ev, parts[0])], (-2, -1), (0, 1))

            def turned(slopes: Mapping[str, Any], parts: Any = parts, at: Any = at) -> Any:
                return sum(
                    jnp.sum(at[p.start : p.start + p.slots] * slopes[p.site][:, None], axis=0) for p in parts
                )

            a = turned(r.left)
            b = a if r.row.right is r.row.left else turned(r.right)
            onto = sum_onto_copies(whole, self.ev, parts[0])
            w = r.weight

            def entry(a: Any, b: Any, c: Any, d: Any, onto: Any = onto, w: Any = w) -> Any:
                return -onto(jnp.where(w == 0, 0, w * (a * d + b * c)))

            inner = jax.vmap(entry, (None, None, 0, 0))
            out = out + jnp.moveaxis(jax.vmap(inner, (0, 0, None, None))(a, b, a, b), 2, 0)
        return out

    def link(self) -> Any:
        """`[n, w, m]`, of the groups with the rest."""
        n, m = self.layout.groups, self.layout.rest
        lines = []
        for p in self.layout.of(GROUPS):
            line = [jnp.zeros((n, p.slots, 0))]
            for q in self.layout.of(REST):
                size = q.copies * q.slots
                found = self._sum(p, q)
                found = jnp.zeros((n, p.slots, size)) if found is None else found
                line.append(found.reshape(n, p.slots, size))
            lines.append(jnp.concatenate(line, 2))
        return jnp.concatenate(lines, 1) if lines else jnp.zeros((0, 0, m))

    def rest(self) -> Any:
        """`[m, m]`."""
        parts = self.layout.of(REST)
        if not parts:
            return jnp.zeros((0, 0))
        lines = []
        for i, p in enumerate(parts):
            line = []
            for j, q in enumerate(parts):
                shape = p.copies * p.slots, q.copies * q.slots
                found = self._sum(p, q) if i <= j else lines[j][i].T
                if found is None:
                    found = jnp.zeros(shape)
                elif i == j:
                    eye = jnp.eye(p.copies, dtype=found.dtype)
                    found = found[:, :, None, :] * eye[:, None, :, None]
                line.append(found.reshape(shape))
            lines.append(line)
        return jnp.concatenate([jnp.concatenate(line, 1) for line in lines], 0)

    def to_border(self, role: str) -> Any:
        """`[n, w, p]` of the groups, `[m, p]` of the rest."""
        lines = []
        for p in self.layout.of(role):
            line = []
            for q in self.layout.of(BORDER):
                found = self._sum(p, q)
                line.append(jnp.zeros((p.copies, p.slots, q.slots)) if found is None else found)
            block = jnp.concatenate(line, 2)
            lines.append(block if role == GROUPS else block.reshape(-1, block.shape[2]))
        if role == GROUPS:
            return jnp.concatenate(lines, 1) if lines else jnp.zeros((0, 0, self.layout.border))
        return jnp.concatenate([jnp.zeros((0, self.layout.border)), *lines])
