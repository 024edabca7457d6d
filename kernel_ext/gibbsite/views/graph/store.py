"""A graph as the page receives it: places, edges and what there is to tell, as small as it goes.

Outlines, curves, neighbours, Markov blankets, levels and panels are made by the page (`js/graph/`) from
these columns, so that exported pages answer without a kernel and saved notebooks stay small.
"""

import base64
import json
import zlib
from collections.abc import Mapping
from typing import Any

from gibbsite.graph.drawing.layout import MAX_DRAWN
from gibbsite.graph.drawing.shapes import Drawing, draw
from gibbsite.graph.drawing.style import (
    DARK,
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
from gibbsite.views.graph.told import told

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


def view_of(graph: Any, use_greek: bool = False) -> dict[str, Any]:
    """One way of showing a graph: its columns and sizes."""
    drawing = draw(graph, use_greek)
    return {
        "nodes": _nodes(graph, drawing),
        "edges": _edges(graph, drawing),
        "plates": _plates(graph, drawing),
        "size": _size(drawing),
    }


def store_of(graph: Any, model: Any = None, use_greek: bool = False) -> dict[str, Any]:
    """All views that are not too large to draw: "overview", "folded" and "open", where they differ. The page
    itself closes plates.

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
    return {
        "views": {name: view_of(seen, use_greek) for name, (seen, _) in shown.items()},
        "start": "overview" if large else "folded",
        "told": entries,
        "colours": {
            "fill": FILL,
            "line": LINE,
            "level": LEVEL_FILL,
            "edge": EDGE,
            "ink": INK,
            "paper": "#ffffff",
            "plate": PLATE_TEXT,
            "dark": DARK,
        },
    }


def packed(store: Mapping[str, Any]) -> str:
    """A store as text: JSON, compressed, in base64."""
    return base64.b64encode(zlib.compress(json.dumps(store, separators=(",", ":")).encode(), 9)).decode()


def unpacked(text: str) -> dict[str, Any]:
    """The inverse of `packed`."""
    return json.loads(zlib.decompress(base64.b64decode(text)))
