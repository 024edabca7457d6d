"""A dependency graph as one static SVG picture."""

from collections import Counter
from html import escape
from typing import Any

import networkx as nx

from gibbsite.graph.drawing.layout import MAX_DRAWN
from gibbsite.graph.drawing.shapes import Drawing, arrow_head, draw
from gibbsite.graph.drawing.style import (
    DASH,
    EDGE,
    FILL,
    INK,
    LINE,
    PLATE,
    READABLE,
    SUMMED,
    TEXT_SIZE,
    TITLE_SIZE,
)
from gibbsite.graph.listing import summary
from gibbsite.views.graph.steps import summed_out
from gibbsite.views.ink.colours import ANY_INK
from gibbsite.views.ink.svg import document, text


def _points(points: Any) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _arrow(points: Any) -> str:
    return (
        f'<polyline points="{_points(points)}" fill="none" stroke="{EDGE}" stroke-width="1.4"/>'
        f'<polygon points="{_points(arrow_head(points))}" fill="{EDGE}"/>'
    )


def shown(graph: Any) -> Any:
    """The graph itself up to 60 nodes, else its overview where that is smaller."""
    if len(graph.nodes) <= READABLE:
        return graph
    whole, _ = graph.overview()
    return whole if len(whole.nodes) < len(graph.nodes) else graph


def graph_svg(graph: Any, use_greek: bool = False, ground: str | None = None) -> str:
    """The graph as an SVG document, folded, or in overview where it is large; beyond that, in words.
    Without a `ground` of its own it reads on white and on dark pages."""
    whole, graph = graph, shown(graph)
    if len(graph.nodes) > MAX_DRAWN:
        return _summary(whole)
    drawing = draw(graph, use_greek)
    parts = [*_plates(drawing), *map(_arrow, drawing.edges.values())]
    inner = {"anchor": "middle", "fill": INK}  # on the node's own light ground
    looks = looks_of(graph, whole.model)
    for name, node in graph.nodes.items():
        shape, kind = drawing.nodes[name], looks[name]
        dash = f' stroke-dasharray="{" ".join(map(str, DASH[kind]))}"' if kind in DASH else ""
        words = f"{name}: {node.kind}{', ' + SUMMED if kind == 'summed' else ''}. {node.distribution}"
        parts.append(
            f"<g><title>{escape(words)}</title>"
            f'<polygon points="{_points(shape.outline)}" fill="{FILL[kind]}" '
            f'stroke="{LINE[kind]}" stroke-width="1.6"{dash}/>'
            + text(shape.x, shape.title_y, shape.title, size=TITLE_SIZE, font_weight="600", **inner)
            + (text(shape.x, shape.text_y, shape.text, size=TEXT_SIZE, **inner) if shape.text else "")
            + "</g>"
        )
    wide, high = round(drawing.width), round(drawing.height)
    if "summed" in looks.values():
        parts.append(_legend(high))
        wide, high = max(wide, 60 + 6 * len(SUMMED)), high + 24
    return document(wide, high, parts, ground)


def looks_of(graph: Any, model: Any) -> dict[str, str]:
    """Per node the kind whose colours it has: its own, or "summed" where the schedule sums it out."""
    gone = summed_out(model)
    inside = {} if not gone else {**graph.groups, **graph.folded()[1], **graph.overview()[1]}
    return {n: "summed" if gone & {n, *inside.get(n, ())} else node.kind for n, node in graph.nodes.items()}


def _legend(top: float) -> str:
    dash = " ".join(map(str, DASH["summed"]))
    return (
        f'<rect x="12" y="{top + 2}" width="26" height="13" fill="{FILL["summed"]}" '
        f'stroke="{LINE["summed"]}" stroke-width="1.6" stroke-dasharray="{dash}"/>'
        + text(46, top + 13, SUMMED, size=11, fill=ANY_INK)
    )


def _plates(drawing: Drawing) -> list[str]:
    parts = []
    for plate in drawing.plates.values():
        box = plate.box
        parts.append(
            f'<rect x="{box.left:.1f}" y="{box.top:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" '
            f'rx="10" fill="#808080" fill-opacity="0.06" stroke="{PLATE}"/>'
            + text(*plate.corner, plate.words, anchor=plate.anchor, size=12, fill=ANY_INK)
        )
    return parts


def summary_lines(graph: Any) -> list[str]:
    """What can be said in words of a graph that is too large to draw."""
    depth = nx.dag_longest_path_length(graph.directed)
    degree = Counter(n for a, b in graph.edges if a != b for n in (a, b))
    plates = sorted(graph.plates.values(), key=lambda p: -p.size)
    lines = [f"{summary(graph)}: too many to draw at once."]
    lines.append(f"The longest path has {depth} edges.")
    if degree:
        busiest = ", ".join(f"{n} ({k})" for n, k in degree.most_common(5))
        lines.append(f"Nodes with the most neighbours: {busiest}.")
    if plates:
        lines.append("Plates: " + ", ".join(f"{p.name} ({p.size})" for p in plates[:8]) + ".")
    lines.append("Alike sites in a plate or an array would be one node. Print the graph to read all of it.")
    return lines


def summary_html(graph: Any) -> str:
    """The same as HTML."""
    if not graph.nodes:
        return "An empty graph."
    return "".join(f"<p>{escape(line)}</p>" for line in summary_lines(graph))


def _summary(graph: Any) -> str:
    lines = summary_lines(graph)
    parts = [text(16, 26 + 20 * i, line, size=13) for i, line in enumerate(lines)]
    return document(max(620, 7 * max(map(len, lines))), 28 + 20 * len(lines), parts)
