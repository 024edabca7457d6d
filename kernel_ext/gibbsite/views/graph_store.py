"""A graph as plain columns and facts: what the page needs to draw it, light it up and answer questions."""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from gibbsite.views.graph_geometry import Drawing, arrow_head, draw
from gibbsite.views.graph_picture import EDGE
from gibbsite.views.graph_style import FILL, LEVEL_FILL, LINE, TEXT_SIZE, TITLE_SIZE

MAX_WIDTH = 980
_SMALLEST_SCALE = 0.82  # below, words are too small to read: the page scrolls and zooms instead
Columns = dict[str, list]


def _round(points: Any, sign: int = 1) -> list[float]:
    return [round(sign * float(v), 1) for v in points]


def node_columns(graph: Any, drawing: Drawing) -> Columns:
    """One row per node: outline, words, colours; `alpha`, `width`, `lit`, … change while one looks."""
    shapes = [drawing.nodes[n] for n in graph.nodes]
    kinds = [node.kind for node in graph.nodes.values()]
    n = len(shapes)
    return {
        "name": list(graph.nodes),
        "xs": [_round(x for x, _ in s.outline) for s in shapes],
        "ys": [_round((y for _, y in s.outline), -1) for s in shapes],
        "x": _round(s.x for s in shapes),
        "title": [s.title for s in shapes],
        "title_y": _round((s.title_y for s in shapes), -1),
        "words": [s.text for s in shapes],
        "text_y": _round((s.text_y for s in shapes), -1),
        "badge_x": _round(s.x + s.width / 2 - 4 for s in shapes),
        "badge_y": _round((s.y - s.height / 2 - 3 for s in shapes), -1),
        "fill": [FILL[k] for k in kinds],
        "line": [LINE[k] for k in kinds],
        "dash": [[5, 3] if k == "deterministic" else [] for k in kinds],
        "width": [1.6] * n,
        "alpha": [1.0] * n,
        "lit": [0] * n,
        "role": [""] * n,
        "badge": [""] * n,
        "tint": [EDGE] * n,
    }


def edge_columns(drawing: Drawing) -> Columns:
    """One row per edge."""
    lines, n = drawing.edges.values(), len(drawing.edges)
    return {
        "start": [a for a, _ in drawing.edges],
        "end": [b for _, b in drawing.edges],
        "xs": [_round(x for x, _ in line) for line in lines],
        "ys": [_round((y for _, y in line), -1) for line in lines],
        "width": [1.4] * n,
        "alpha": [1.0] * n,
        "colour": [EDGE] * n,
    }


def head_columns(drawing: Drawing) -> Columns:
    """The arrow heads, in the order of the edges."""
    heads = [arrow_head(line) for line in drawing.edges.values()]
    return {
        "xs": [_round(x for x, _ in h) for h in heads],
        "ys": [_round((y for _, y in h), -1) for h in heads],
        "alpha": [1.0] * len(heads),
        "colour": [EDGE] * len(heads),
    }


def plate_columns(drawing: Drawing) -> Columns:
    """The boxes of plates with their labels."""
    plates = list(drawing.plates.values())
    return {
        "x": _round(p.box.left for p in plates),
        "y": _round((p.box.top + p.box.height for p in plates), -1),
        "width": _round(p.box.width for p in plates),
        "height": _round(p.box.height for p in plates),
        "label_x": _round(p.corner[0] for p in plates),
        "label_y": _round((p.corner[1] for p in plates), -1),
        "label": [p.words for p in plates],
        "align": ["left" if p.anchor == "start" else "right" for p in plates],
    }


def size_of(drawing: Drawing) -> list[float]:
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


def facts_of(
    graph: Any,
    drawing: Drawing,
    told: Mapping[str, str],
    kernels: Mapping[str, Sequence[Any]],
    folded: Collection[str],
) -> dict[str, dict[str, Any]]:
    """What the page knows of each node: place, neighbours, blanket, level, panel, kernels to choose from."""
    levels = graph.levels()
    out = {}
    for name, s in drawing.nodes.items():
        fitting, chosen = kernels.get(name, ((), ""))
        box = (s.x - s.width / 2, -s.y - s.height / 2, s.x + s.width / 2, -s.y + s.height / 2)
        out[name] = {
            "kind": graph.nodes[name].kind,
            "level": levels[name],
            "parents": [n for n in graph.parents(name) if n != name],
            "children": [n for n in graph.children(name) if n != name],
            "blanket": list(graph.markov_blanket(name)),
            "box": _round(box),
            "panel": told.get(name, ""),
            "kernels": list(fitting),
            "kernel": chosen,
            "folded": name in folded,
        }
    return out


def view_of(
    graph: Any, told: Mapping[str, str], kernels: Mapping[str, Any], use_greek: bool, folded: Collection[str]
) -> dict:
    """One way of showing a graph: every column, and the facts. `folded` names nodes to open."""
    drawing = draw(graph, use_greek)
    return {
        "nodes": node_columns(graph, drawing),
        "edges": edge_columns(drawing),
        "heads": head_columns(drawing),
        "plates": plate_columns(drawing),
        "size": size_of(drawing),
        "facts": facts_of(graph, drawing, told, kernels, folded),
    }


def store_text(views: Mapping[str, Any]) -> str:
    """The views as the JSON text that the page reads."""
    return json.dumps({"views": views, "colours": {"level": LEVEL_FILL}}, separators=(",", ":"))
