"""A dependency graph → a file: SVG, PNG, an interactive page, Graphviz's language."""

from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any

from bokeh.embed import file_html
from bokeh.resources import INLINE

from gibbsite.errors import OptionError, nearest
from gibbsite.graph.drawing.layout import MAX_DRAWN
from gibbsite.graph.drawing.shapes import arrow_head, draw
from gibbsite.graph.drawing.style import EDGE, FILL, INK, LINE, PLATE, PLATE_TEXT, TEXT_SIZE, TITLE_SIZE
from gibbsite.views.graph.figure import graph_root
from gibbsite.views.graph.picture import graph_svg, looks_of, shown

KINDS = (".svg", ".png", ".html", ".dot")
_PIXELS = 2  # of a picture in points, for each that the drawing asks for
_INCH = 72  # points


def save_graph(graph: Any, path: str | PathLike[str]) -> Path:
    """Write the graph to `path`, of which the ending tells the kind, and return it.

    Raises `OptionError` for an ending that is none of `KINDS`, `ImportError` for a PNG without matplotlib,
    `OSError` where the file cannot be written.
    """
    target = Path(path).expanduser()
    kind = target.suffix.lower()
    if kind not in KINDS:
        raise OptionError(
            f"a graph is saved as {', '.join(KINDS)}; {target.name!r} ends in {kind or 'none of them'}"
            f"{nearest(kind, KINDS) if kind else ''}"
        )
    if kind == ".png":
        _write_png(graph, target)
    else:
        target.write_text(_text(graph, kind), encoding="utf-8")
    return target


def _text(graph: Any, kind: str) -> str:
    if kind == ".svg":
        return graph_svg(graph, ground="#ffffff")
    if kind == ".dot":
        return graph.to_dot()
    model = graph.model
    title = f"{model.name}: dependency graph" if model is not None else "dependency graph"
    return file_html(graph_root(graph, model), INLINE, title)


def _write_png(graph: Any, target: Path) -> None:
    """The same drawing by matplotlib, in two pixels for each of the SVG's."""
    try:
        figures = import_module("matplotlib.figure")
        patches = import_module("matplotlib.patches")
    except ImportError as missing:
        raise ImportError(
            f"a PNG is drawn by matplotlib, which is not installed: pip install matplotlib, or save "
            f"{target.with_suffix('.svg').name!r}"
        ) from missing
    seen = shown(graph)
    if len(seen.nodes) > MAX_DRAWN:
        raise OptionError(f"a graph of {len(seen.nodes)} nodes is too large for a picture; save it as .html")
    drawing = draw(seen)
    figure = figures.Figure((drawing.width / _INCH, drawing.height / _INCH), dpi=_PIXELS * _INCH)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, drawing.width)
    axes.set_ylim(drawing.height, 0)
    axes.axis("off")
    for plate in drawing.plates.values():
        box = plate.box
        style = "round,pad=0,rounding_size=10"
        axes.add_patch(
            patches.FancyBboxPatch(
                (box.left, box.top), box.width, box.height, style, fc="#00000006", ec=PLATE
            )
        )
        side = "left" if plate.anchor == "start" else "right"
        axes.text(*plate.corner, plate.words, ha=side, va="baseline", size=10, color=PLATE_TEXT)
    for line in drawing.edges.values():
        axes.plot(*zip(*line, strict=True), color=EDGE, lw=1.4)
        axes.add_patch(patches.Polygon(arrow_head(line), fc=EDGE, ec="none"))
    for name, kind in looks_of(seen, graph.model).items():
        shape = drawing.nodes[name]
        dash = {"deterministic": "--", "summed": "-."}.get(kind, "-")
        look = {"fc": FILL[kind], "ec": LINE[kind], "ls": dash}
        axes.add_patch(patches.Polygon(shape.outline, lw=1.6, zorder=3, **look))
        words: dict[str, Any] = {"ha": "center", "va": "baseline", "color": INK, "zorder": 4}
        axes.text(shape.x, shape.title_y, _plain(shape.title), size=TITLE_SIZE - 2, weight="bold", **words)
        axes.text(shape.x, shape.text_y, _plain(shape.text), size=TEXT_SIZE - 2, **words)
    figure.savefig(target, format="png", facecolor="white")


def _plain(words: str) -> str:
    """Words in which matplotlib must see no formula."""
    return words.replace("$", r"\$")
