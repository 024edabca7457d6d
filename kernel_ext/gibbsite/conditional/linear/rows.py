"""The precision of jointly Gaussian sites, summed over the terms that they stand in as over rows of data.

Every term that is a product of two affine functions has the curvature `w (a' b'^T + b' a'^T)`. A slope along
a site with copies is one array for all of them, with the number of the copy that each element reads; so a
block of the precision is one product of slopes, summed by those numbers, however many groups there are.

The border's part of the precision given nothing of the others is summed over *residuals*: each row's slope
along the border, less what the others, moving along as they would, take of it. It is the same matrix as the
Schur complement, which in single precision loses a mean's precision in that of its many effects (a sum of
squares of small numbers in place of a difference of large ones).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gibbsite.conditional.factors.root import empty, rooted
from gibbsite.conditional.factors.sums import exact_product
from gibbsite.conditional.gaussian.curvature import slopes_along, total
from gibbsite.conditional.linear.arrow import Bordered, Vector, arrow
from gibbsite.conditional.linear.layout import BORDER, GROUPS, REST, Layout, Part
from gibbsite.conditional.reads.reduce import reduce_onto, sum_axes
from gibbsite.density import Density
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


def _products(weight: Any, onto: Callable[[Any], Any], a: Any, b: Any, c: Any, d: Any) -> Any:
    """What a row adds to the precision, summed `onto` copies, for each of its slopes `a`, `b` along one part
    and each of those along another, `c`, `d`."""

    def entry(a: Any, b: Any, c: Any, d: Any) -> Any:
        return -onto(jnp.where(weight == 0, 0, weight * (a * d + b * c)))

    inner = jax.vmap(entry, (None, None, 0, 0))
    return jax.vmap(inner, (0, 0, None, None))(a, b, c, d)


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
            slopes = r.left[p.site], r.right[p.site], r.left[q.site], r.right[q.site]
            found = _products(r.weight, onto, *slopes)
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
            out = out + jnp.moveaxis(_products(r.weight, onto, a, b, a, b), 2, 0)
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


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of some sites; `degrees` as certified for all of them together."""

    density: Density
    degrees: Mapping[Any, int]
    layout: Layout
    rows: tuple[Row, ...]

    def slopes(self, ev: Evaluator, auxiliary: Mapping[str, Any]) -> list[Slopes]:
        """Weights and slopes of every row; raises `NotPlain` where an operation has no slope."""
        return [self._of_row(row, ev, auxiliary) for row in self.rows]

    def _of_row(self, row: Row, ev: Evaluator, auxiliary: Mapping[str, Any]) -> Slopes:
        left, right, access = {}, {}, {}
        rank = len(row.shape)
        weight = row.weight(ev, auxiliary)
        linear = None if row.linear is None else row.linear(ev, auxiliary)
        used = weight if linear is None else jnp.where(linear == 0, weight, 1.0)
        for part in self.layout.parts:
            maps = [self.density.maps[a].get(part.site, ()) for a in (row.left, row.right)]
            if not any(maps):
                continue
            access[part.site] = _access(part, [a for m in maps for a in m])

            def along(atom: Any, part: Part = part) -> Any:
                if part.site not in self.density.maps.latents(atom):
                    return jnp.zeros((part.slots, *(1,) * rank))
                # what is masked out may hold anything
                return jnp.where(used == 0, 0, slopes_along(self.density, self.degrees, part, atom, ev))

            left[part.site] = along(row.left)
            right[part.site] = left[part.site] if row.right is row.left else along(row.right)
        return Slopes(row, weight, linear, left, right, access)

    def gradient(self, rows: Sequence[Slopes], at: Evaluator, ev: Evaluator) -> Vector:
        """The gradient of the rows' sum at the values of `at`."""
        layout = self.layout
        dtype = jnp.result_type(*(self.density.sites[p.site].dtype for p in layout.parts))
        out = {p.site: jnp.zeros((p.copies, p.slots), dtype) for p in layout.parts}
        for r in rows:
            a = jnp.where(r.weight == 0, 0, r.weight * at.lazy(r.row.left))
            b = a
            if r.row.right is not r.row.left:
                b = jnp.where(r.weight == 0, 0, r.weight * at.lazy(r.row.right))
            forward = b if r.linear is None else b + r.linear
            for part in layout.parts:
                if part.site not in r.left:
                    continue
                x, y = r.left[part.site], r.right[part.site]
                if not part.batch:
                    out[part.site] += (total(forward, x, r.row.shape) + total(a, y, r.row.shape))[None]
                    continue
                onto = sum_onto_copies(r, ev, part)
                found = jax.vmap(lambda x, y: onto(forward * x + a * y))(x, y)  # noqa: B023
                out[part.site] += found.T
        return layout.vector({p.site: p.joined(out[p.site]) for p in layout.parts}, dtype)

    def factored(
        self, rows: Sequence[Slopes], ev: Evaluator, odd: Any, alike: bool, differentiable: bool = False
    ) -> Bordered:
        """The precision, factorised; `odd` `[p, p]` is what other terms add to the border's (or None).

        Columns that are `alike` are factorised so that they keep their digits. Derivatives of that exist only
        where it is asked to be `differentiable`."""
        layout = self.layout
        blocks = Blocks(layout, rows, ev)
        inner = arrow(
            blocks.groups(), blocks.link(), blocks.rest(), blocks.groups_in if alike else None, differentiable
        )
        m, p = layout.rest, layout.border
        if not p:
            nothing = jnp.zeros((layout.groups, layout.width, 0)), jnp.zeros((m, 0))
            return Bordered(inner, *nothing, empty())
        groups, rest = inner.solve(blocks.to_border(GROUPS), blocks.to_border(REST))
        residuals = [self._residuals(r, ev, groups, rest) for r in rows]

        def again(basis: Any) -> Any:
            border = 0.0 if odd is None else exact_product(basis.T, exact_product(odd, basis))
            return sum(
                (_squared(r, x, basis) for r, x in zip(rows, residuals, strict=True) if x), start=border
            )

        border = jnp.zeros((p, p)) if odd is None else odd
        border = sum((_squared(r, x) for r, x in zip(rows, residuals, strict=True) if x), start=border)
        return Bordered(inner, groups, rest, rooted(border, again if alike else None, differentiable))

    def _residuals(self, r: Slopes, ev: Evaluator, groups: Any, rest: Any) -> tuple[Any, Any] | None:
        """The slopes of both functions of a row along the border, less what the others take of them:
        `[border, *shape]`; None where it reads none of them."""
        layout, shape = self.layout, r.row.shape
        own = [p for p in layout.of(BORDER) if p.site in r.left]
        others = [p for p in (*layout.of(GROUPS), *layout.of(REST)) if p.site in r.left]
        if not own and not others:
            return None

        def residual(slopes: Mapping[str, Any]) -> Any:
            rank = len(shape)
            pieces, done = [], 0
            for p in own:
                pieces += [jnp.zeros((p.start - done, *(1,) * rank)), slopes[p.site]]
                done = p.start + p.slots
            pieces.append(jnp.zeros((layout.border - done, *(1,) * rank)))
            common = np.broadcast_shapes(*(x.shape[1:] for x in pieces))
            out = jnp.concatenate([jnp.broadcast_to(x, (len(x), *common)) for x in pieces])
            for p in others:
                taken = groups[:, p.start : p.start + p.slots]
                if p.role == REST:
                    taken = rest[p.start : p.start + p.copies * p.slots].reshape(p.copies, p.slots, -1)
                at = jnp.moveaxis(taken[copy_read(r, ev, p)], (-1, -2), (0, 1))  # [border, slots, *shape]
                out = out - jnp.sum(at * slopes[p.site][None], axis=1)
            return out

        a = residual(r.left)
        b = a if r.row.right is r.row.left else residual(r.right)
        return a, b


def _squared(r: Slopes, residuals: tuple[Any, Any], basis: Any = None) -> Any:
    """What one row adds to the precision of the border given nothing of the others, in a basis."""
    shape = r.row.shape
    a, b = residuals
    if basis is not None:
        same = a is b
        a = jnp.tensordot(basis.T, a, 1, precision=jax.lax.Precision.HIGHEST)
        b = a if same else jnp.tensordot(basis.T, b, 1, precision=jax.lax.Precision.HIGHEST)
    flat = tuple(x for x in range(len(shape)) if a.shape[1 + x] == b.shape[1 + x] == 1)
    kept = tuple(1 if x in flat else n for x, n in enumerate(shape))
    half = total(a * sum_axes(r.weight, shape, flat), b, kept)
    return -(half + half.T)


def _access(part: Part, accesses: Sequence[Access]) -> Access:
    """The copy that each element reads, in the box outside which none is read."""
    windows = zip(*(a.window for a in accesses), strict=True)
    box = tuple((min(low for low, _ in w), max(high for _, high in w)) for w in windows)
    return Access(tuple(accesses[0].index[a] for a in part.batch), box)
