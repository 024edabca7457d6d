"""A dependency graph in words: as numbered lines, in the notation of AutoGibbs (Gabler 2020, thesis §4.1), or
as one line."""

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from gibbsite.graph.drawing.layout import GAP_X, GAP_Y, MAX_DRAWN, PLATE_PAD
from gibbsite.graph.drawing.shapes import ARROW, Drawing, PlateShape, draw
from gibbsite.graph.drawing.style import (
    EDGE,
    FILL,
    FONT,
    INK,
    LINE,
    PLATE,
    PLATE_FILL,
    PLATE_TEXT,
    TEXT_SIZE,
    TITLE_SIZE,
    Look,
    look,
)
from gibbsite.ground.lazy_import import later

nx = later("networkx")

_MOST_WORDS = 160
_SIGNS = {"latent": "~", "observed": "⩪", "deterministic": "=", "factor": "=", "data": "="}


def listing(graph: Any) -> str:
    """One line per node in dependency order: `⟨3⟩ = z[n] ~ Categorical(w)   (⟨1⟩)  [plate n: 150]`."""
    place = {n: i for i, n in enumerate(graph.nodes)}
    order = list(nx.lexicographical_topological_sort(graph.directed, key=place.__getitem__))
    number = {n: f"⟨{i}⟩" for i, n in enumerate(order, 1)}
    lines = []
    for name in order:
        node = graph.nodes[name]
        shape = f"[{', '.join(map(str, node.shape))}]" if node.shape else ""
        if node.kind == "data" and not node.distribution:
            text = f"{number[name]} = {name}{shape} (data{f': {node.elements}' if node.elements else ''})"
        else:
            sign = _SIGNS[node.kind]
            text = f"{number[name]} = {name}{shape} {sign} {node.distribution or node.kind}"
        reads = " ".join(number[p] for p in graph.parents(name))
        if reads:
            text += f"   ← {reads}"
        if node.plates:
            text += "   in " + ", ".join(node.plates)
        lines.append(text)
    return "\n".join(lines)


def summary(graph: Any) -> str:
    """How many nodes of which kind there are: `4 nodes (3 latent, 1 observed) and 3 edges`."""
    counts = Counter(node.kind for node in graph.nodes.values())
    kinds = ", ".join(f"{n} {kind}" for kind, n in counts.items())
    return f"{_number(len(graph.nodes), 'node')} ({kinds}) and {_number(len(graph.edges), 'edge')}"


def _number(n: int, word: str) -> str:
    return f"{n} {word}" if n == 1 else f"{n} {word}s"


def brief(graph: Any) -> str:
    """The graph in one line: `Dependency graph: 4 nodes (…) and 3 edges: w → z; mu, z → x`."""
    if not graph.nodes:
        return "Dependency graph without nodes"
    parts = []
    for name in graph.nodes:
        parents = graph.parents(name)
        if parents:
            parts.append(f"{', '.join(parents)} → {name}")
        elif not graph.children(name):
            parts.append(name)
    line = " ".join(f"Dependency graph: {summary(graph)}: {'; '.join(parts)}".split())
    if len(line) <= _MOST_WORDS:
        return line
    return line[: line.rindex(" ", 0, _MOST_WORDS)].rstrip(";,→ ") + " …"


@dataclass(frozen=True)
class Node:
    """A named value or factor.

    `kind` is one of "latent", "observed", "deterministic", "data", "factor" and, where a closed plate holds
    latent and observed members, "plate"; `distribution` the right-hand side of its statement as text, and of
    data the value that a site was set to (`5 (set)`, by `do`);
    `recurrent` says that elements depend on other elements of the same node; `elements` what data or elements
    are called (`AITKIN, ANOKA, … 83 more`), or the unit they are in.
    """

    name: str
    kind: str
    shape: tuple[int, ...] = ()
    dtype: str = ""
    discrete: bool = False
    distribution: str = ""
    plates: tuple[str, ...] = ()
    line: tuple[str, int] | None = None
    recurrent: bool = False
    elements: str = ""

    @property
    def random(self) -> bool:
        """Whether the node is a random variable."""
        return self.kind in ("latent", "observed", "plate")


@dataclass(frozen=True)
class PlateBox:
    """A plate; `parent` is the plate it is drawn inside, where plates are properly nested; `labels` are those
    of its elements, where they have some."""

    name: str
    size: int
    parent: str | None = None
    labels: tuple[str, ...] = ()


_INCH = 72.0  # a pixel of ours is a point of Graphviz's
_BEND = 0.45  # as in `drawing.layout.smooth`
Points = Sequence[tuple[float, float]]


def to_dot(graph: Any, use_greek: bool = False) -> str:
    """`digraph` text with the shapes, colours, words, places and lines of our own drawing.

    `neato -n2 -Tsvg` draws exactly that; `dot` makes a layout of its own from the same text. Clusters are
    plates; a node of two plates that lie across each other is listed in one of them, as Graphviz wants it. A
    graph of more than 300 nodes comes without places.
    """
    drawing = draw(graph, use_greek) if 0 < len(graph.nodes) <= MAX_DRAWN else None
    return "\n".join(_lines(graph, drawing, use_greek))


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _lines(graph: Any, drawing: Drawing | None, use_greek: bool) -> Iterator[str]:
    yield "digraph model {"
    yield f"  graph [rankdir=TB, nodesep={GAP_X / _INCH:.3f}, ranksep={GAP_Y / _INCH:.3f}, fontsize=11, "
    yield f'    fontname="{FONT}", fontcolor="{PLATE_TEXT}", labelloc=b, labeljust=r{_frame(drawing)}];'
    font = f'fontname="{FONT}", fontsize={TITLE_SIZE}, fontcolor="{INK}"'
    yield f"  node [fixedsize=true, penwidth=1.6, {font}];"
    yield f'  edge [color="{EDGE}", penwidth=1.4, arrowsize={ARROW / 10}];'
    inner: dict[str | None, list[str]] = {}
    for node in graph.nodes.values():
        around = [p for p in node.plates if p in graph.plates]
        inner.setdefault(around[-1] if around else None, []).append(_node(node, drawing, use_greek))
    yield from (f"  {text}" for text in inner.get(None, ()))
    for box in graph.plates.values():
        if box.parent is None:
            yield from _plate(graph, box, drawing, inner, "  ")
    loops = [(n, n) for n, node in graph.nodes.items() if node.recurrent]
    for a, b in dict.fromkeys((*graph.edges, *loops)):
        yield f"  {_quoted(a)} -> {_quoted(b)}{_edge(drawing, a, b)};"
    yield "}"


def _frame(drawing: Drawing | None) -> str:
    return f', bb="0,0,{drawing.width:.1f},{drawing.height:.1f}"' if drawing else ""


def _node(node: Any, drawing: Drawing | None, use_greek: bool) -> str:
    words: Look = look(node, use_greek)
    place = ""
    if drawing is not None:
        shape = drawing.nodes[node.name]
        words = Look(shape.title, shape.text, shape.width, shape.height)
        place = f', pos="{shape.x:.1f},{drawing.height - shape.y:.1f}!"'
    label = f"<B>{_html(words.title)}</B>"
    if words.text:
        small = f'<FONT POINT-SIZE="{TEXT_SIZE}">{_html(words.text)}</FONT>'
        label += f'<BR/><FONT POINT-SIZE="4"> <BR/></FONT>{small}'
    random = node.kind in ("latent", "observed")
    style = "filled,rounded" if random and not node.discrete else "filled"
    if node.kind == "deterministic":
        style += ",dashed"
    return (
        f"{_quoted(node.name)} [label=<{label}>, shape={'hexagon' if random and node.discrete else 'box'}, "
        f'style="{style}", fillcolor="{FILL[node.kind]}", color="{LINE[node.kind]}", '
        f"width={words.width / _INCH:.3f}, height={words.height / _INCH:.3f}{place}];"
    )


def _html(text: str) -> str:
    """Text in a label of Graphviz's HTML, where spaces in a row and line ends would be lost."""
    return escape(" ".join(text.split("\n"))).replace("&#x27;", "&#39;") or " "


def _plate(
    graph: Any, box: Any, drawing: Drawing | None, inner: Mapping[Any, Sequence[str]], indent: str
) -> Iterator[str]:
    yield f"{indent}subgraph {_quoted('cluster_' + box.name)} {{"
    place = ""
    if drawing is not None and box.name in drawing.plates:
        place = _corners(drawing.plates[box.name], drawing.height)
    yield (
        f"{indent}  graph [label={_quoted(f'{box.name}: {box.size}')}, margin={PLATE_PAD:g}, "
        f'style="rounded,filled", color="{PLATE}", fillcolor="{PLATE_FILL}"{place}];'
    )
    yield from (f"{indent}  {text}" for text in inner.get(box.name, ()))
    for child in graph.plates.values():
        if child.parent == box.name:
            yield from _plate(graph, child, drawing, inner, indent + "  ")
    yield indent + "}"


def _corners(plate: PlateShape, height: float) -> str:
    """The box, and the middle of its label."""
    box, (x, y) = plate.box, plate.corner
    half = 3.1 * len(plate.words) * (1 if plate.anchor == "start" else -1)
    return (
        f', bb="{box.left:.1f},{height - box.top - box.height:.1f},{box.left + box.width:.1f},'
        f'{height - box.top:.1f}", lp="{x + half:.1f},{height - y + 4:.1f}"'
    )


def _edge(drawing: Drawing | None, a: str, b: str) -> str:
    """The line as cubic Bézier curves that end where the arrow's head begins."""
    if drawing is None or (a, b) not in drawing.edges:
        return ""
    line = drawing.bends[a, b]
    points = list(line) if drawing.curved else _curves(line)
    if a == b:
        points = _straight(drawing.edges[a, b])
    x, y = points[-1]
    while len(points) > 4 and math.dist(points[-4], (x, y)) < ARROW:
        del points[-3:]
    points[-4:] = _before(points[-4:], (x, y))
    curve = " ".join(f"{u:.1f},{drawing.height - v:.1f}" for u, v in points)
    return f' [pos="e,{x:.1f},{drawing.height - y:.1f} {curve}"]'


def _before(control: Points, tip: tuple[float, float]) -> list[tuple[float, float]]:
    """The part of a cubic Bézier curve up to an arrow's head (de Casteljau's division)."""

    def part(share: float) -> list[tuple[float, float]]:
        row, out = list(control), [control[0]]
        while len(row) > 1:
            row = [(a + share * (c - a), b + share * (d - b)) for (a, b), (c, d) in itertools.pairwise(row)]
            out.append(row[0])
        return out

    parts = (part(k / 64) for k in range(63, 0, -1))
    return next((p for p in parts if math.dist(p[-1], tip) >= ARROW), part(1 / 64))


def _curves(line: Points) -> list[tuple[float, float]]:
    """The control points of `drawing.layout.smooth`'s curves."""
    out = list(line[:1])
    for (x0, y0), (x1, y1) in itertools.pairwise(line):
        bend = _BEND * (y1 - y0)
        out += [(x0, y0 + bend), (x1, y1 - bend), (x1, y1)]
    return out


def _straight(line: Points) -> list[tuple[float, float]]:
    """Straight pieces as curves."""
    out = list(line[:1])
    for (x0, y0), (x1, y1) in itertools.pairwise(line):
        dx, dy = (x1 - x0) / 3, (y1 - y0) / 3
        out += [(x0 + dx, y0 + dy), (x1 - dx, y1 - dy), (x1, y1)]
    return out
