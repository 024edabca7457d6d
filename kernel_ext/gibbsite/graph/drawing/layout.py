"""A layered drawing of a dependency graph: reads top to bottom, plates are boxes, edges miss the labels.

Layers by longest path, order within layers by barycentres with the members of a plate kept together, places
by a linear program that shortens edges under minimal distances (after Gansner, Koutsofios, North and Vo 1993,
"A technique for drawing directed graphs", §2–4). Pixels; y grows downwards.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gibbsite.ground.lazy_import import later

nx, optimize, sparse = later("networkx"), later("scipy.optimize"), later("scipy.sparse")

GAP_X, GAP_Y, PLATE_PAD, _PLATE_LABEL, MARGIN = 26.0, 44.0, 14.0, 16.0, 14.0
MAX_DRAWN = 300  # nodes
_SWEEPS = 12
_LEFT, _RIGHT = "\x01", "\x02"  # before a plate's name: variables for its edges
FULL = 1200.0  # a row wider than this passes nodes on to the next; more in large graphs, to keep them compact
_GAP_LINE = 8.0  # beside an edge that passes through a row
LETTER, _CLEAR = 7.0, 17.0  # of a plate's label: the width of a letter, and the room beside it


@dataclass(frozen=True)
class Box:
    """A rectangle by its centre."""

    x: float
    y: float
    width: float
    height: float

    @property
    def left(self) -> float:
        """Left edge."""
        return self.x - self.width / 2

    @property
    def top(self) -> float:
        """Upper edge."""
        return self.y - self.height / 2


@dataclass(frozen=True)
class Layout:
    """Places of nodes and plates, and the points that each edge runs through; where the layout is `curved`,
    the control points of its Bézier curves."""

    width: float
    height: float
    nodes: Mapping[str, Box]
    plates: Mapping[str, Box]
    edges: Mapping[tuple[str, str], tuple[tuple[float, float], ...]]
    curved: bool = False


def layout(graph: Any, sizes: Mapping[str, tuple[float, float]]) -> Layout:
    """Place the nodes of `graph`, whose boxes have the given `(width, height)`."""
    if not graph.nodes:
        return Layout(0, 0, {}, {}, {})
    layer = _layers(graph, sizes)
    chains = _with_dummies(graph, layer)
    sizes = {**dict.fromkeys((d for c in chains.values() for d in c), (4.0, 0.0)), **sizes}
    paths = _plate_paths(graph)
    rows = _ordered_rows(graph, layer, chains, paths)
    x, bounds = _across(graph, rows, chains, sizes, paths)
    y = _down(graph, rows, sizes, paths)
    place = {n: (x[n], y[i]) for i, row in enumerate(rows) for n in row}
    half = {i: max(sizes[n][1] for n in row) / 2 for i, row in enumerate(rows)}
    through = {  # an edge crosses a row upright, so that it cannot cut the corners of its neighbours
        n: ((x[n], y[i] - half[i]), (x[n], y[i] + half[i])) for i, row in enumerate(rows) for n in row
    }
    nodes = {n: Box(*place[n], *sizes[n]) for n in graph.nodes}
    plates = _plate_boxes(graph, nodes, bounds)
    edges = {
        (a, b): tuple(_edge(nodes[a], nodes[b], [p for d in chains[a, b] for p in through[d]]))
        for a, b in graph.edges
        if a != b
    }
    return _moved_to_origin(Layout(0, 0, nodes, plates, edges))


def _layers(graph: Any, sizes: Mapping[str, tuple[float, float]]) -> dict[str, int]:
    """Layers by longest path; full ones pass nodes on to the next, so that the drawing stays readable."""
    full = _full(sizes[n] for n in graph.nodes)
    layer: dict[str, int] = {}
    room: dict[int, float] = {}
    for n in nx.topological_sort(graph.directed):
        k = max((layer[p] + 1 for p in graph.directed.predecessors(n)), default=0)
        width = sizes[n][0] + GAP_X
        while room.get(k, 0.0) and room[k] + width > full:
            k += 1
        layer[n] = k
        room[k] = room.get(k, 0.0) + width
    for n in graph.nodes:  # roots stand right above what reads them
        below = [layer[c] for c in graph.directed.successors(n)]
        if below and not list(graph.directed.predecessors(n)):
            width, k = sizes[n][0] + GAP_X, min(below) - 1
            if k != layer[n] and room.get(k, 0.0) + width <= full:
                room[layer[n]] -= width
                room[k] = room.get(k, 0.0) + width
                layer[n] = k
    used = {k: i for i, k in enumerate(sorted(set(layer.values())))}
    return {n: used[k] for n, k in layer.items()}


def _full(sizes: Iterable[tuple[float, float]]) -> float:
    """How wide a row may be: a large graph is to be about as wide as high."""
    return max(FULL, 1.25 * sum((w + GAP_X) * (h + GAP_Y) for w, h in sizes) ** 0.5)


def _with_dummies(graph: Any, layer: Mapping[str, int]) -> dict[tuple[str, str], tuple[str, ...]]:
    """Per edge, the names of the place holders in the layers that it crosses."""
    return {
        (a, b): tuple(f"{a}→{b}@{k}" for k in range(layer[a] + 1, layer[b])) for a, b in graph.edges if a != b
    }


def _plate_paths(graph: Any) -> dict[str, tuple[str, ...]]:
    """The drawn plates around each node, outermost first; several of one depth lie across each other."""
    depth = _depths(graph)

    def path(plate: str | None) -> tuple[str, ...]:
        return () if plate is None else (*path(graph.plates[plate].parent), plate)

    out = {}
    for name, node in graph.nodes.items():
        around = dict.fromkeys(q for p in node.plates if p in graph.plates for q in path(p))
        out[name] = tuple(sorted(around, key=depth.__getitem__))
    return out


def _depths(graph: Any) -> dict[str, int]:
    def depth(plate: str) -> int:
        parent = graph.plates[plate].parent
        return 0 if parent is None else 1 + depth(parent)

    return {p: depth(p) for p in graph.plates}


def crossing(graph: Any) -> dict[str, frozenset[str]]:
    """Per plate those that share a node with it though neither is inside the other, and itself."""
    depth, paths = _depths(graph), _plate_paths(graph)
    out = {p: {p} for p in graph.plates}
    for path in paths.values():
        for p, q in itertools.combinations(path, 2):
            if depth[p] == depth[q]:
                out[p].add(q)
                out[q].add(p)
    return {p: frozenset(qs) for p, qs in out.items()}


def _clusters(crossing: Mapping[str, frozenset[str]]) -> dict[str, str]:
    """Plates that hang together by crossing, by the name of one of them."""
    graph = nx.Graph([(p, q) for p, qs in crossing.items() for q in qs])
    return {p: min(group) for group in nx.connected_components(graph) for p in group}


def _ordered_rows(
    graph: Any,
    layer: Mapping[str, int],
    chains: Mapping[tuple[str, str], tuple[str, ...]],
    paths: Mapping[str, tuple[str, ...]],
) -> list[list[str]]:
    rows: list[list[str]] = [[] for _ in range(max(layer.values()) + 1)]
    for n in graph.nodes:
        rows[layer[n]].append(n)
    near: dict[str, list[str]] = {n: [] for n in graph.nodes}
    for (a, b), chain in chains.items():
        for k, d in enumerate(chain):
            rows[layer[a] + 1 + k].append(d)
            near[d] = []
        for u, v in zip((a, *chain), (*chain, b), strict=True):
            near[u].append(v)
            near[v].append(u)
    rank = {n: i - (len(row) - 1) / 2 for row in rows for i, n in enumerate(row)}
    depth, cluster = _depths(graph), _clusters(crossing(graph))
    level = {n: k for k, row in enumerate(rows) for n in row}
    best, fewest = [list(r) for r in rows], float("inf")
    for sweep in range(_SWEEPS):
        plates: dict[str, float] = {}
        for p in graph.plates:  # one place per plate, the same in every layer
            members = [rank[n] for n, path in paths.items() if p in path]
            plates[p] = float(np.mean(members)) if members else 0.0
        together = {
            c: float(np.mean([plates[p] for p in graph.plates if cluster[p] == c])) for c in cluster.values()
        }
        side = -1 if sweep % 2 == 0 else 1  # look at the row above going down, at the row below going up
        for k, row in enumerate(rows) if side < 0 else reversed(list(enumerate(rows))):
            wish = {}
            for n in row:
                there = [rank[m] for m in near[n] if level[m] == k + side]
                wish[n] = float(np.mean(there)) if there else rank[n]

            def key(
                n: str, wish: Any = wish, plates: Any = plates, together: Any = together
            ) -> tuple[Any, ...]:
                out: list[tuple] = []
                for _, level in itertools.groupby(paths.get(n, ()), key=depth.__getitem__):
                    around = sorted(level)  # what lies in two crossing plates stands between them
                    middle = sum(plates[p] for p in around) / len(around)
                    out += [(together[cluster[around[0]]], cluster[around[0]]), (middle, " ".join(around))]
                return (*out, (wish[n], n))

            row.sort(key=key)  # by plate first, so that the members of a plate stay together
            for i, n in enumerate(row):
                rank[n] = i - (len(row) - 1) / 2
        crossings = _crossings(rows, near)
        if crossings < fewest:
            best, fewest = [list(r) for r in rows], crossings
    return best


def _crossings(rows: Sequence[Sequence[str]], near: Mapping[str, Sequence[str]]) -> float:
    total = 0
    for upper, lower in itertools.pairwise(rows):
        place = {n: i for i, n in enumerate(lower)}
        ends = [
            place[m] for n in upper for m in sorted((m for m in near[n] if m in place), key=place.__getitem__)
        ]
        total += sum(1 for i, a in enumerate(ends) for b in ends[:i] if b > a)
    return total


def _across(
    graph: Any,
    rows: Sequence[Sequence[str]],
    chains: Mapping[tuple[str, str], tuple[str, ...]],
    sizes: Mapping[str, tuple[float, float]],
    paths: Mapping[str, tuple[str, ...]],
) -> tuple[dict[str, float], dict[str, tuple[float, float]]]:
    """Horizontal places of nodes, and left and right edges of plates, by a linear program."""
    names = [n for row in rows for n in row]
    left = {p: _LEFT + p for p in graph.plates}
    right = {p: _RIGHT + p for p in graph.plates}
    variables = {v: i for i, v in enumerate([*names, *left.values(), *right.values()])}
    apart: list[tuple[str, str, float]] = []  # (a, b, d): b - a >= d
    for n in graph.nodes:
        for depth, p in enumerate(reversed(paths[n])):
            pad = sizes[n][0] / 2 + PLATE_PAD * (depth + 1)
            apart += [(left[p], n, pad), (n, right[p], pad)]
    labels = {p: LETTER * len(f"{p}: {box.size}") for p, box in graph.plates.items()}
    for p, label in labels.items():
        apart.append((left[p], right[p], label + 2 * PLATE_PAD))
    for a, b in graph.edges:  # the label stands clear of what leaves the plate through its lower edge
        apart += [(a, right[p], labels[p] + _CLEAR) for p in paths[a] if p not in paths[b]]
    for row in rows:
        for a, b in itertools.pairwise(row):
            gap = (_GAP_LINE, 1.5 * _GAP_LINE, GAP_X)[(a in graph.nodes) + (b in graph.nodes)]
            apart.append((a, b, (sizes[a][0] + sizes[b][0]) / 2 + gap))
    beside, outside = [], []
    across = crossing(graph)
    for row in rows:
        for i, a in enumerate(row):
            for b in row[i + 1 :]:
                beside += _plate_gaps(a, b, sizes, paths, left, right, across)
    spans = _plate_rows(graph, rows, paths)
    rank = {n: i - (len(row) - 1) / 2 for row in rows for i, n in enumerate(row)}
    for p, (first, last) in spans.items():
        middle = float(np.mean([rank[n] for n, path in paths.items() if p in path]))
        for row in rows[first : last + 1]:
            _keep_out(p, row, outside, sizes, paths, left, right, rank, middle)
    # plates that lie across each other cannot all be kept clear of strangers: give up the least first
    widest = max(
        sum(sizes[n][0] + (GAP_X if n in graph.nodes else 1.5 * _GAP_LINE) for n in row) for row in rows
    )
    tight = 1.15 * widest if widest > FULL else None
    tries = [
        ([*beside, *outside], tight),
        ([*beside, *outside], None),
        (beside, tight),
        ([], tight),
        ([], None),
    ]
    for wishes, width in tries[0 if tight else 1 :]:
        solved = _solve(variables, [*apart, *wishes], chains, width)
        if solved is not None:
            break
    assert solved is not None  # order within rows and plates around their members never contradict
    bounds = {p: (solved[left[p]], solved[right[p]]) for p in graph.plates}
    return {n: solved[n] for n in names}, bounds


def _plate_gaps(
    a: str, b: str, sizes: Any, paths: Any, left: Any, right: Any, crossing: Any
) -> list[tuple[str, str, float]]:
    """Distances between a node and the plates of its neighbour, where `a` stands left of `b`."""
    out = []
    mine, theirs = paths.get(a, ()), paths.get(b, ())
    for p in theirs:
        if p not in mine:
            out.append((a, left[p], sizes[a][0] / 2 + GAP_X / 2))
    for p in mine:
        if p not in theirs:
            out.append((right[p], b, sizes[b][0] / 2 + GAP_X / 2))
    for p in mine:
        for q in theirs:
            if p not in theirs and q not in mine and q not in crossing[p]:
                out.append((right[p], left[q], GAP_X / 2))
    return out


def _plate_rows(graph: Any, rows: Any, paths: Any) -> dict[str, tuple[int, int]]:
    out = {}
    for p in graph.plates:
        at = [i for i, row in enumerate(rows) for n in row if p in paths.get(n, ())]
        if at:
            out[p] = (min(at), max(at))
    return out


def _keep_out(
    p: str, row: Any, apart: Any, sizes: Any, paths: Any, left: Any, right: Any, rank: Any, middle: float
) -> None:
    """Nodes that are not in a plate stay beside it in the rows that it spans but has no member in."""
    if any(p in paths.get(n, ()) for n in row):
        return
    for n in row:
        if rank[n] < middle:
            apart.append((n, left[p], sizes[n][0] / 2 + GAP_X / 2))
        else:
            apart.append((right[p], n, sizes[n][0] / 2 + GAP_X / 2))


def _solve(
    variables: Mapping[str, int], apart: Any, chains: Any, width: float | None
) -> dict[str, float] | None:
    """Places within `width` that minimise the summed horizontal length of edges, where bent ones cost more.

    None if there are none.
    """
    pairs: list[tuple[str, str, float]] = []
    for (a, b), chain in chains.items():
        weight = 4.0 if chain else 1.0
        for u, v in zip((a, *chain), (*chain, b), strict=True):
            pairs.append((u, v, weight))
    n, m = len(variables), len(pairs)
    rows, cols, values, bound = [], [], [], []
    k = 0
    for a, b, d in apart:
        rows += [k, k]
        cols += [variables[a], variables[b]]
        values += [1.0, -1.0]
        bound.append(-d)
        k += 1
    for i, (u, v, _) in enumerate(pairs):
        for sign in (1.0, -1.0):
            rows += [k, k, k]
            cols += [variables[u], variables[v], n + i]
            values += [sign, -sign, -1.0]
            bound.append(0.0)
            k += 1
    cost = np.concatenate([np.zeros(n), [w for *_, w in pairs]])
    for name, i in variables.items():  # plates close tightly around their members
        cost[i] += {_LEFT: -0.05, _RIGHT: 0.05}.get(name[:1], 0.0)
    matrix = sparse.coo_matrix((values, (rows, cols)), shape=(k, n + m))
    limits = [(0, width)] * n + [(0, None)] * m
    answer = optimize.linprog(cost, A_ub=matrix, b_ub=bound, bounds=limits, method="highs")
    if answer.x is None:
        return None
    return _centred(variables, apart, pairs, answer.x[:n])


def _centred(variables: Any, apart: Any, pairs: Any, x: np.ndarray) -> dict[str, float]:
    """Use the slack that the linear program leaves to put nodes at the mean of their neighbours."""
    place = x.tolist()
    near: dict[int, list[tuple[int, float]]] = {}
    for u, v, w in pairs:
        near.setdefault(variables[u], []).append((variables[v], w))
        near.setdefault(variables[v], []).append((variables[u], w))
    low: dict[int, list[tuple[int, float]]] = {}
    high: dict[int, list[tuple[int, float]]] = {}
    for a, b, d in apart:
        low.setdefault(variables[b], []).append((variables[a], d))
        high.setdefault(variables[a], []).append((variables[b], d))
    for _ in range(30):
        for i, others in near.items():
            wish = sum(w * place[j] for j, w in others) / sum(w for _, w in others)
            at_least = max((place[j] + d for j, d in low.get(i, ())), default=-np.inf)
            at_most = min((place[j] - d for j, d in high.get(i, ())), default=np.inf)
            place[i] = min(max(wish, at_least), at_most) if at_least <= at_most else place[i]
    for name, i in variables.items():
        if name[:1] == _LEFT:
            place[i] = min(
                (place[j] - d for j, d in high.get(i, ()) if j != variables[_RIGHT + name[1:]]),
                default=place[i],
            )
    for name, i in variables.items():
        if name[:1] == _RIGHT:
            place[i] = max((place[j] + d for j, d in low.get(i, ())), default=place[i])
    return {name: float(place[i]) for name, i in variables.items()}


def _down(graph: Any, rows: Any, sizes: Any, paths: Any) -> list[float]:
    """Vertical place of every row; plates that begin or end between rows get room."""
    spans = _plate_rows(graph, rows, paths)
    y, at = [], 0.0
    for i, row in enumerate(rows):
        height = max(sizes[n][1] for n in row)
        starts = sum(1 for first, _ in spans.values() if first == i)
        ends = sum(1 for _, last in spans.values() if last == i - 1)
        at += (GAP_Y if i else 0.0) + PLATE_PAD * starts + (PLATE_PAD + _PLATE_LABEL) * ends * 0.6
        y.append(at + height / 2)
        at += height
    return y


def _plate_boxes(graph: Any, nodes: Mapping[str, Box], bounds: Any) -> dict[str, Box]:
    out: dict[str, Box] = {}
    clusters = _clusters(crossing(graph))
    place = {p: sorted(q for q in clusters if clusters[q] == clusters[p]).index(p) for p in clusters}

    def box(name: str) -> Box | None:
        if name in out:
            return out[name]
        inner = [nodes[n] for n, node in graph.nodes.items() if name in node.plates]
        inner += [b for c in graph.plates.values() if c.parent == name and (b := box(c.name)) is not None]
        if not inner:
            return None
        more = 9.0 * (place[name] % 3)  # borders of plates that cross do not fall on each other
        low = min(b.top for b in inner) - PLATE_PAD - more
        high = max(b.top + b.height for b in inner) + PLATE_PAD + _PLATE_LABEL + more
        left, right = bounds[name]
        out[name] = Box((left + right) / 2, (low + high) / 2, right - left, high - low)
        return out[name]

    for name in graph.plates:
        box(name)
    return out


def _edge(a: Box, b: Box, between: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """From the lower edge of `a` to the upper edge of `b`, leaning towards where it goes."""
    first = between[0] if between else (b.x, b.top)
    last = between[-1] if between else (a.x, a.top + a.height)
    start = a.x + float(np.clip((first[0] - a.x) * 0.25, -a.width * 0.3, a.width * 0.3))
    end = b.x + float(np.clip((last[0] - b.x) * 0.25, -b.width * 0.3, b.width * 0.3))
    return [(start, a.top + a.height), *between, (end, b.top)]


def _moved_to_origin(raw: Layout) -> Layout:
    boxes = [*raw.nodes.values(), *raw.plates.values()]
    dx = MARGIN - min(b.left for b in boxes)
    dy = MARGIN - min(b.top for b in boxes)

    def moved(b: Box) -> Box:
        return Box(b.x + dx, b.y + dy, b.width, b.height)

    return Layout(
        max(b.left + b.width for b in boxes) + dx + MARGIN,
        max(b.top + b.height for b in boxes) + dy + MARGIN,
        {n: moved(b) for n, b in raw.nodes.items()},
        {n: moved(b) for n, b in raw.plates.items()},
        {e: tuple((x + dx, y + dy) for x, y in points) for e, points in raw.edges.items()},
    )


def smooth(points: Sequence[tuple[float, float]], steps: int = 16) -> list[tuple[float, float]]:
    """A smooth line through the points that leaves and arrives vertically."""
    if len(points) < 2:
        return list(points)
    t = np.linspace(0, 1, steps + 1)[1:]
    near = (1 - t) ** 3 + 3 * (1 - t) ** 2 * t
    bend = 0.45 * 3 * ((1 - t) ** 2 * t - (1 - t) * t**2)
    x, y = np.asarray(points, float).T
    xs = np.outer(x[:-1], near) + np.outer(x[1:], 1 - near)
    ys = np.outer(y[:-1], near) + np.outer(y[1:], 1 - near) + np.outer(np.diff(y), bend)
    return [points[0], *zip(xs.ravel().tolist(), ys.ravel().tolist(), strict=True)]


def bezier(points: Sequence[tuple[float, float]], steps: int = 12) -> list[tuple[float, float]]:
    """Points of the cubic Bézier curves with these control points, the last of one the first of the next."""
    t = np.linspace(0, 1, steps + 1)[1:, None]
    weights = np.hstack([(1 - t) ** 3, 3 * (1 - t) ** 2 * t, 3 * (1 - t) * t**2, t**3])
    p = np.asarray(points, float)
    curves = [weights @ p[i : i + 4] for i in range(0, len(p) - 3, 3)]
    return [points[0], *(tuple(row) for curve in curves for row in curve.tolist())]
