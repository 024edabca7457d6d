"""A drawing as the columns that the page receives: places, edges and words."""

from collections.abc import Mapping
from typing import Any

from gibbsite.graph.drawing.shapes import Drawing, draw
from gibbsite.graph.drawing.style import TEXT_SIZE, TITLE_SIZE

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
