"""A laid-out graph as shapes: outlines, lines and words at their places, for any way of drawing."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gibbsite.graph.drawing.engine import mirrored, place, turned
from gibbsite.graph.drawing.layout import LETTER, Box, bezier, smooth
from gibbsite.graph.drawing.style import READABLE, look, outline

Points = Sequence[tuple[float, float]]
ARROW = 7.0  # the length of a head


@dataclass(frozen=True)
class NodeShape:
    """A node's outline and its two lines of text; `text` may be empty."""

    x: float
    y: float
    width: float
    height: float
    outline: Points
    title: str
    text: str

    @property
    def title_y(self) -> float:
        """Base line of the title."""
        return self.y - 5 if self.text else self.y + 5

    @property
    def text_y(self) -> float:
        """Base line of the second line."""
        return self.y + 14


@dataclass(frozen=True)
class PlateShape:
    """A plate's box, and its label with the point and side it is anchored at."""

    box: Box
    words: str
    corner: tuple[float, float]
    anchor: str


@dataclass(frozen=True)
class Drawing:
    """Everything to be drawn, in pixels, y downwards. Loops stand among the edges as `(name, name)`.

    `edges` holds smooth lines, `bends` the few points that they run through, or their control points where
    they are `curved`.
    """

    width: float
    height: float
    nodes: Mapping[str, NodeShape]
    plates: Mapping[str, PlateShape]
    edges: Mapping[tuple[str, str], Points]
    bends: Mapping[tuple[str, str], Points]
    curved: bool = False


def draw(graph: Any, use_greek: bool = False, like: Mapping[str, float] | None = None) -> Drawing:
    """Lay out `graph` and give every part its shape.

    `like` gives horizontal places of nodes in another drawing: what was at the left there is so here, by most
    of its pairs.
    """
    brief = len(graph.nodes) > READABLE
    looks = {name: look(node, use_greek, brief) for name, node in graph.nodes.items()}
    at = place(graph, {n: (v.width + 2 * v.beside, v.height) for n, v in looks.items()})
    at = mirrored(at) if like and turned(at, like) else at
    curve = bezier if at.curved else smooth
    nodes, edges = {}, {e: curve(line) for e, line in at.edges.items()}
    for name, node in graph.nodes.items():
        box, words = at.nodes[name], looks[name]
        shape = outline(node.kind, node.discrete, box.x, box.y, words.width, words.height)
        nodes[name] = NodeShape(box.x, box.y, words.width, words.height, shape, words.title, words.text)
        if node.recurrent:
            edges[name, name] = loop(box.x, box.y, words.width)
    bends = {e: at.edges.get(e, ()) for e in edges}
    fine = [curve(line, 24) for line in at.edges.values()] if at.plates else []
    plates = {
        n: _plate(box, f"{n}: {graph.plates[n].size}", fine, [b for m, b in at.plates.items() if m != n])
        for n, box in at.plates.items()
    }
    return Drawing(at.width, at.height, nodes, plates, edges, bends, at.curved)


def loop(x: float, y: float, width: float) -> list[tuple[float, float]]:
    """The loop at the right of a node whose elements depend on one another."""
    r = 10.0
    centre = x + width / 2 + r - 4
    angles = [math.radians(a) for a in range(-125, 126, 10)]
    return [(centre + r * math.cos(a), y + r * math.sin(a)) for a in angles]


def arrow_head(points: Points) -> list[tuple[float, float]]:
    """A triangle at the end of a line."""
    (x0, y0), (x1, y1) = points[-2], points[-1]
    length = math.hypot(x1 - x0, y1 - y0) or 1.0
    ux, uy = (x1 - x0) / length, (y1 - y0) / length
    bx, by, half = x1 - ux * ARROW, y1 - uy * ARROW, ARROW * 0.45
    return [(x1, y1), (bx - uy * half, by + ux * half), (bx + uy * half, by - ux * half)]


def _plate(box: Box, words: str, lines: Sequence[Points], others: Sequence[Box]) -> PlateShape:
    """The label stands in the lower right corner, or in the left one if something lies across the right."""
    width, y = LETTER * len(words), box.top + box.height - 8
    left, right = box.left + 10, box.left + box.width - 10

    def crossed(low: float, high: float) -> bool:
        cut = any(low < b.left + b.width and b.left < high and _cuts(b, box) for b in others)
        return cut or any(
            low - 6 < px < high + 6 and y - 16 < py < y + 6 for line in lines for px, py in line
        )

    if crossed(right - width, right) and not crossed(left, left + width):
        return PlateShape(box, words, (left, y), "start")
    return PlateShape(box, words, (right, y), "end")


def _cuts(a: Box, b: Box) -> bool:
    """Whether two boxes overlap though neither is inside the other."""
    apart = abs(a.x - b.x) >= (a.width + b.width) / 2 or abs(a.y - b.y) >= (a.height + b.height) / 2
    return not apart and not _inside(a, b) and not _inside(b, a)


def _inside(a: Box, b: Box) -> bool:
    return (
        b.left <= a.left
        and b.top <= a.top
        and a.left + a.width <= b.left + b.width
        and (a.top + a.height <= b.top + b.height)
    )
