"""Places by Graphviz's `dot` where it is installed and crosses fewer edges than our own layout.

Up to a dozen nodes the two hardly differ. On random graphs of 60 to 300 nodes with more edges than a tree's,
`dot` crosses a third to a half as many edges, while on trees ours is the narrower one. So our own layout,
which needs nothing, is measured first, and `dot` is asked only where that crosses edges.
"""

import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from gibbsite.graph.drawing.layout import (
    FULL,
    GAP_X,
    GAP_Y,
    MARGIN,
    PLATE_PAD,
    Box,
    Layout,
    bezier,
    crossing,
    layout,
    smooth,
)

_INCH = 72.0
_PATIENCE = 5.0  # seconds


def place(graph: Any, sizes: Mapping[str, tuple[float, float]]) -> Layout:
    """Our layout, or that of `dot` where it crosses fewer edges and is not much wider."""
    ours = layout(graph, sizes)
    crossed = crossings(ours)
    if not crossed:
        return ours
    other = dot_layout(graph, sizes)
    better = other is not None and crossings(other) < crossed and other.width <= max(FULL, 1.25 * ours.width)
    return other if other is not None and better else ours


def turned(drawn: Layout, like: Mapping[str, float]) -> bool:
    """Whether most pairs of nodes stand the other way round than in a drawing with these places."""
    names = [n for n in drawn.nodes if n in like]
    here = np.asarray([drawn.nodes[n].x for n in names])
    there = np.asarray([like[n] for n in names])
    return bool(np.sum(np.sign(here[:, None] - here) * np.sign(there[:, None] - there)) < 0)


def mirrored(drawn: Layout) -> Layout:
    """The layout with left and right exchanged."""

    def box(b: Box) -> Box:
        return replace(b, x=drawn.width - b.x)

    return replace(
        drawn,
        nodes={n: box(b) for n, b in drawn.nodes.items()},
        plates={n: box(b) for n, b in drawn.plates.items()},
        edges={e: tuple((drawn.width - x, y) for x, y in line) for e, line in drawn.edges.items()},
    )


def crossings(drawn: Layout) -> int:
    """How many pairs of edges cross, their curves taken as a few straight pieces."""
    starts, ends, owner = [], [], []
    for i, points in enumerate(drawn.edges.values()):
        line = bezier(points, 5) if drawn.curved else smooth(points, 5)
        starts += line[:-1]
        ends += line[1:]
        owner += [i] * (len(line) - 1)
    if not owner:
        return 0
    a, b, own = np.asarray(starts), np.asarray(ends), np.asarray(owner)
    low, high = np.minimum(a, b), np.maximum(a, b)
    near = own[:, None] < own[None, :]  # pieces of two edges whose boxes overlap
    for axis in (0, 1):
        near &= low[:, None, axis] <= high[None, :, axis]
        near &= low[None, :, axis] <= high[:, None, axis]
    i, j = np.nonzero(near)

    def apart(p: np.ndarray, q: np.ndarray) -> np.ndarray:
        """Whether the ends of the pieces `q` lie on both sides of the pieces `p`."""
        x, y = (b[p] - a[p]).T
        start, end = (x * (r[:, 1] - a[p, 1]) - y * (r[:, 0] - a[p, 0]) for r in (a[q], b[q]))
        return start * end < 0

    crossed = apart(i, j) & apart(j, i)
    return len(set(zip(own[i[crossed]].tolist(), own[j[crossed]].tolist(), strict=True)))


def dot_layout(graph: Any, sizes: Mapping[str, tuple[float, float]]) -> Layout | None:
    """Places by `dot`; None where it is not installed, fails, takes too long, or plates are not nested."""
    program = shutil.which("dot")
    if program is None or any(len(others) > 1 for others in crossing(graph).values()):
        return None
    names = {name: f"n{i}" for i, name in enumerate(graph.nodes)}
    plates = {name: f"cluster{i}" for i, name in enumerate(graph.plates)}
    text = "\n".join(_source(graph, sizes, names, plates))
    try:
        done = subprocess.run(
            [program, "-Tjson"], input=text, capture_output=True, text=True, timeout=_PATIENCE, check=True
        )
        return _read(graph, json.loads(done.stdout), sizes, names, plates)
    except (OSError, subprocess.SubprocessError, ValueError, KeyError):
        return None  # an old or broken Graphviz: our own layout needs nothing


def _source(graph: Any, sizes: Any, names: Mapping[str, str], plates: Mapping[str, str]) -> Iterator[str]:
    inner: dict[str | None, list[str]] = {}
    for name, node in graph.nodes.items():
        width, height = (v / _INCH for v in sizes[name])
        around = [p for p in node.plates if p in graph.plates]
        text = f"{names[name]} [width={width:.3f}, height={height:.3f}];"
        inner.setdefault(around[-1] if around else None, []).append(text)

    def plate(name: str) -> Iterator[str]:
        label = json.dumps("0" * len(f"{name}: {graph.plates[name].size}"))  # only its width counts
        yield f"subgraph {plates[name]} {{ margin={PLATE_PAD}; label={label}; labelloc=b; labeljust=r;"
        yield from inner.get(name, [])
        for child in graph.plates.values():
            if child.parent == name:
                yield from plate(child.name)
        yield "}"

    yield f"digraph {{ graph [nodesep={GAP_X / _INCH:.3f}, ranksep={GAP_Y / _INCH:.3f}, fontsize=11];"
    yield 'node [shape=box, fixedsize=true, label=""]; edge [arrowhead=none];'
    yield from inner.get(None, [])
    for box in graph.plates.values():
        if box.parent is None:
            yield from plate(box.name)
    yield from (f"{names[a]} -> {names[b]};" for a, b in graph.edges if a != b)
    yield "}"


def _read(graph: Any, found: Mapping[str, Any], sizes: Any, names: Any, plates: Any) -> Layout:
    width, height = (float(v) for v in found["bb"].split(",")[2:])
    objects = {o["name"]: o for o in found["objects"]}
    by_id = {o["_gvid"]: o["name"] for o in found["objects"]}

    def at(text: str) -> tuple[float, float]:
        x, y = text.split(",")
        return MARGIN + float(x), MARGIN + height - float(y)

    nodes = {name: Box(*at(objects[key]["pos"]), *sizes[name]) for name, key in names.items()}
    boxes = {}
    for name, key in plates.items():
        left, low, right, high = (float(v) for v in objects[key]["bb"].split(","))
        x, y = at(f"{(left + right) / 2},{(low + high) / 2}")
        boxes[name] = Box(x, y, right - left, high - low)
    own = {key: name for name, key in names.items()}
    edges = {
        (own[by_id[e["tail"]]], own[by_id[e["head"]]]): tuple(map(at, e["pos"].split()))
        for e in found.get("edges", ())
    }
    ordered = {(a, b): edges[a, b] for a, b in graph.edges if a != b}
    return Layout(width + 2 * MARGIN, height + 2 * MARGIN, nodes, boxes, ordered, curved=True)
