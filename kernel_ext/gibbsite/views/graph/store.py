"""A graph as the page receives it: places, edges and what there is to tell, as small as it goes.

Outlines, curves, neighbours, Markov blankets, levels and panels are made by the page (`js/graph/`) from
these columns, so that exported pages answer without a kernel and saved notebooks stay small.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, combinations
from typing import Any

from gibbsite.graph.drawing.layout import MAX_DRAWN
from gibbsite.graph.drawing.shapes import Drawing, draw
from gibbsite.graph.drawing.style import (
    DARK,
    DASH,
    EDGE,
    FILL,
    INK,
    LEVEL_FILL,
    LINE,
    PLATE_TEXT,
    READABLE,
    TEXT_SIZE,
    TITLE_SIZE,
)
from gibbsite.graph.plates import Closed, closed
from gibbsite.views.graph.steps import MOST_STANDS, stands, steps_of, told

MAX_WIDTH = 980
_SMALLEST_SCALE = 0.82  # below, words are too small to read: the page scrolls instead


def _round(numbers: Any) -> list[float]:
    return [round(float(v), 1) for v in numbers]


def _nodes(graph: Any, drawing: Drawing) -> dict[str, list]:
    shapes = [drawing.nodes[n] for n in graph.nodes]
    nodes = graph.nodes.values()
    return {
        "name": list(graph.nodes),
        "kind": [n.kind for n in nodes],
        "discrete": [int(n.discrete) for n in nodes],
        "x": _round(s.x for s in shapes),
        "y": _round(s.y for s in shapes),
        "w": _round(s.width for s in shapes),
        "h": _round(s.height for s in shapes),
        "title": [s.title for s in shapes],
        "text": [s.text for s in shapes],
    }


def _edges(graph: Any, drawing: Drawing) -> dict[str, Any]:
    """Ends by place among the nodes, and the points between which the page draws smooth lines."""
    at = {n: i for i, n in enumerate(graph.nodes)}
    return {
        "curved": drawing.curved,
        "start": [at[a] for a, _ in drawing.edges],
        "end": [at[b] for _, b in drawing.edges],
        "points": [
            [] if a == b else _round(v for p in line for v in p) for (a, b), line in drawing.bends.items()
        ],
    }


def _plates(graph: Any, drawing: Drawing) -> dict[str, list]:
    plates = list(drawing.plates.values())
    return {
        "name": list(drawing.plates),
        "x": _round(p.box.left for p in plates),
        "y": _round(-p.box.top - p.box.height for p in plates),
        "width": _round(p.box.width for p in plates),
        "height": _round(p.box.height for p in plates),
        "label_x": _round(p.corner[0] for p in plates),
        "label_y": _round(-p.corner[1] for p in plates),
        "label": [p.words for p in plates],
        "align": ["left" if p.anchor == "start" else "right" for p in plates],
        "plate_size": [graph.plates[n].size for n in drawing.plates],
        "parent": [graph.plates[n].parent or "" for n in drawing.plates],
    }


def _size(drawing: Drawing) -> list[float]:
    """Width and height of the drawing, of the figure, and the sizes of titles and texts, in pixels."""
    scale = max(min(1.0, MAX_WIDTH / drawing.width), _SMALLEST_SCALE)
    return [
        round(drawing.width, 1),
        round(drawing.height, 1),
        round(drawing.width * scale),
        round(drawing.height * scale),
        round(TITLE_SIZE * scale, 1),
        round(TEXT_SIZE * scale, 1),
    ]


def view_of(graph: Any, use_greek: bool = False, like: Mapping[str, float] | None = None) -> dict[str, Any]:
    """One way of showing a graph: its columns and sizes. `like`: see `draw`."""
    drawing = draw(graph, use_greek, like)
    return {
        "nodes": _nodes(graph, drawing),
        "edges": _edges(graph, drawing),
        "plates": _plates(graph, drawing),
        "size": _size(drawing),
    }


# A view of the graph with plates closed, drawn in advance for the sets of plates that a person will try.
#
# The page shows what was sent: of a few plates every set, of more each alone and all together. The kernel is
# asked for others.


# of more plates than this, or in a graph of more than `READABLE` nodes, not every set is drawn in advance
EVERY_SET = 3
_SEPARATOR = "\n"


def forms_of(
    graph: Any,
    inside: Mapping[str, Sequence[str]],
    entries: Mapping[str, Mapping[str, Any]],
    use_greek: bool = False,
    asked: Sequence[str] = (),
    like: Mapping[str, float] | None = None,
) -> dict[str, Any]:
    """The plates that can be closed, the `forms` of the graph with some closed, and which form shows which
    plates closed: `sets`, by the plates' names in alphabetical order, a line each.

    `inside` and `entries` tell of the nodes of `graph` what they stand for and what else there is to tell,
    `like` where they stand from left to right: what stays keeps its side.
    """
    free = closed(graph, ()).closable
    forms: list[dict[str, Any]] = []
    sets: dict[str, int] = {}
    drawn: dict[frozenset, int] = {}
    wanted = chain(_prepared(free, len(graph.nodes)), [tuple(p for p in free if p in asked)])
    for plates in filter(None, wanted):
        found = closed(graph, plates)
        same = frozenset(found.shut.items())  # a plate inside a closed one makes no difference but to `shut`
        if same not in drawn:
            drawn[same] = len(forms)
            forms.append(_form(found, inside, entries, use_greek, like or {}))
        sets[_SEPARATOR.join(sorted(plates))] = drawn[same]
    return {"closable": list(free), "sets": sets, "forms": forms}


def _prepared(plates: Sequence[str], nodes: int) -> Iterator[tuple[str, ...]]:
    few = len(plates) <= EVERY_SET and nodes <= READABLE
    for size in range(1, len(plates) + 1):
        if few or size in (1, len(plates)):
            yield from combinations(plates, size)


def _form(
    found: Closed,
    inside: Mapping[str, Any],
    entries: Mapping[str, Any],
    use_greek: bool,
    like: Mapping[str, float],
) -> dict[str, Any]:
    around = {n: [like[m] for m in found.members.get(n, (n,)) if m in like] for n in found.graph.nodes}
    sides = {n: sum(xs) / len(xs) for n, xs in around.items() if xs}
    return view_of(found.graph, use_greek, sides) | {
        "closable": list(found.closable),
        "merged": {n: {"shut": found.shut[n], "members": found.members[n]} for n in found.members},
        "told": {n: _told(found, n, inside, entries) for n in found.members},
    }


def _told(found: Closed, name: str, inside: Mapping[str, Any], entries: Mapping[str, Any]) -> dict[str, Any]:
    """What there is to tell of a closed plate."""
    node, members = found.graph.nodes[name], found.members[name]
    updates = [f"{m} by {kernel}" for m in members if (kernel := entries.get(m, {}).get("kernel"))]
    return {
        "discrete": node.discrete,
        "shape": list(node.shape),
        "plates": list(node.plates),
        "plate": True,
        "stands": stands([s for m in members for s in inside.get(m, (m,))]),
        "updates": ", ".join(updates[:MOST_STANDS]) + (", …" if len(updates) > MOST_STANDS else ""),
    }


def store_of(
    graph: Any, model: Any = None, use_greek: bool = False, asked: Mapping[str, Sequence[str]] | None = None
) -> dict[str, Any]:
    """All views that are not too large to draw: "overview", "folded" and "open", where they differ, each with
    its plates closed in the ways that `forms_of` prepares and, by view, that was `asked` for.

    `start` names the one to begin with; `views` is empty where even the overview is too large.
    """
    shown: dict[str, tuple[Any, Mapping[str, Any]]] = {}
    small, members = graph.folded()
    whole, groups = graph.overview()
    if groups and len(whole.nodes) <= MAX_DRAWN and len(whole.nodes) < len(small.nodes):
        shown["overview"] = (whole, groups)
    if len(small.nodes) <= MAX_DRAWN:
        shown["folded"] = (small, members)
    if members and len(graph.nodes) <= MAX_DRAWN:
        shown["open"] = (graph, {})
    entries: dict[str, dict] = {}
    for seen, inside in shown.values():
        entries |= told(seen, model, inside, entries)
    large = "overview" in shown and len(small.nodes) > READABLE
    views = {}
    for name, (seen, inside) in shown.items():
        more = (asked or {}).get(name, ())
        view = view_of(seen, use_greek)
        like = dict(zip(view["nodes"]["name"], view["nodes"]["x"], strict=True))
        views[name] = view | forms_of(seen, inside, entries, use_greek, more, like)
    return {
        "views": views,
        "start": "overview" if large else "folded",
        "told": entries,
        "steps": [step["text"] for step in steps_of(model)],
        "colours": {
            "fill": FILL,
            "line": LINE,
            "level": LEVEL_FILL,
            "dash": DASH,
            "edge": EDGE,
            "ink": INK,
            "paper": "#ffffff",
            "plate": PLATE_TEXT,
            "dark": DARK,
        },
    }
