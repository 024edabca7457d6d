"""Whether columns of data nearly make up for each other, so that a factor of their squares keeps few digits.

It is asked once, of the data that a model is analysed with, in double precision: programs in which precisions
are formed again (see `root`) take longer to compile, and run a little longer.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from numpyro.distributions.constraints import positive

from gibbsite.conditional.linear.layout import BORDER, GROUPS, Layout
from gibbsite.conditional.linear.rows import Slopes, copy_read
from gibbsite.density import Density
from gibbsite.density.model.bounds import base_constraint
from gibbsite.programs.evaluation.evaluate import Evaluator
from gibbsite.programs.jaxpr.compiling import once

# the least part of a column's square that others may leave in the data: fifty times what a factor needs (see
# `root`), because weights change in a run
LEAST_LEFT = 0.05
# numbers of the slopes that are looked at; of more, every n-th row
_MOST = 2**22


def alike(density: Density, layout: Layout, rows: Sequence[Any], slopes: Any, given: bool) -> bool | None:
    """Whether the columns of a layout's groups or border are (nearly) linear combinations of each other;
    `slopes` gives the `Slopes` of `rows` from an evaluator. None where it is not known: where other latents
    than scales, or auxiliary values (`given`), decide over slopes or weights."""
    if max(layout.width, layout.border) < 2:
        return False
    names = {p.site for p in layout.parts}
    read = set().union(*(density.maps.latents(a) for r in rows for a in (r.left, r.right))) - names
    if given or not all(_is_scale(density, n) for n in read):
        return None

    def found(*data: Any) -> list[tuple[Any, ...]]:
        ev = density.evaluator({n: density.sites[n].plain() for n in density.latents}, data)
        return [(r.weight, r.left, r.right, _copies(r, ev, layout)) for r in slopes(ev)]

    got = jax.tree.map(np.asarray, once(found, *density.arguments.arrays))
    shapes = [r.shape for r in rows]
    return _groups(layout, shapes, got) < LEAST_LEFT or _border(layout, shapes, got) < LEAST_LEFT


def _is_scale(density: Density, name: str) -> bool:
    """Whether a latent is above 0 all over: what it multiplies keeps its direction."""
    site = density.sites[name]
    return not site.discrete and base_constraint(site.support) is positive


def _copies(r: Slopes, ev: Evaluator, layout: Layout) -> Any:
    parts = [p for p in layout.of(GROUPS) if p.site in r.left]
    return copy_read(r, ev, parts[0]) if parts else None


def _columns(found: Mapping[str, Any], parts: Any, size: int, shape: Any, every: int = 1) -> np.ndarray:
    """The slopes along some parts as `[size, rows]`."""
    count = len(range(0, int(np.prod(shape, dtype=np.int64)), every))
    out = np.zeros((size, count))
    for p in parts:
        if p.site in found:
            x = found[p.site]
            whole = np.broadcast_to(x, (len(x), *shape)).reshape(len(x), -1)
            out[p.start : p.start + len(x)] = whole[:, ::every]
    return out


def _spread(weight: Any, shape: Any, every: int = 1) -> np.ndarray:
    found = np.abs(np.broadcast_to(weight, shape).reshape(-1)[::every].astype(np.float64))
    return np.where(np.isfinite(found), found, 1.0)


def _groups(layout: Layout, shapes: Sequence[Any], found: Sequence[Any]) -> float:
    w = layout.width
    if w < 2:
        return 1.0
    square = np.zeros((layout.groups, w, w))
    parts = layout.of(GROUPS)
    for shape, (weight, left, right, copies) in zip(shapes, found, strict=True):
        if copies is None:
            continue
        a, b = _columns(left, parts, w, shape), _columns(right, parts, w, shape)
        at, by = np.broadcast_to(copies, shape).reshape(-1), _spread(weight, shape)
        for i in range(w):
            for j in range(w):
                both = by * (a[i] * b[j] + a[j] * b[i])
                square[:, i, j] += np.bincount(at, both, layout.groups)
    return min(_least_left(x) for x in square)


def _border(layout: Layout, shapes: Sequence[Any], found: Sequence[Any]) -> float:
    p = layout.border
    if p < 2:
        return 1.0
    square = np.zeros((p, p))
    for shape, (weight, left, right, _) in zip(shapes, found, strict=True):
        every = max(1, p * int(np.prod(shape, dtype=np.int64)) // _MOST)
        a, b = (_columns(x, layout.of(BORDER), p, shape, every) for x in (left, right))
        half = (a * _spread(weight, shape, every)) @ b.T
        square += every * (half + half.T)
    return _least_left(square)


def _least_left(square: np.ndarray) -> float:
    """Of columns whose sums of squares these are, the least part that the ones before leave of one."""
    whole = np.diagonal(square)
    if not np.isfinite(square).all() or not (whole > 0).all():
        return 0.0
    scale = whole**-0.5
    try:
        factor = np.linalg.cholesky(square * scale[:, None] * scale)
    except np.linalg.LinAlgError:
        return 0.0
    return float((np.diagonal(factor) ** 2).min())
