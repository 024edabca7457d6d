"""The dependency graph as an interactive figure: hover lights a node's Markov blanket, a click explains it.

Hovering and clicking run in the page alone (a `CustomJS` and facts that are sent along), so they also work in
an exported page without a kernel; Python only hears of clicks.
"""

from typing import Any

from bokeh.core.properties import value
from bokeh.layouts import column, row
from bokeh.models import ColumnDataSource, CustomJS, Div, InlineStyleSheet, Range1d
from bokeh.plotting import figure

from gibbsite.views.assets import source
from gibbsite.views.bokeh_host import BokehWidget
from gibbsite.views.graph_geometry import Drawing, arrow_head, draw
from gibbsite.views.graph_panel import hint_html, panels
from gibbsite.views.graph_style import FILL, LINE, TEXT_SIZE, TITLE_SIZE
from gibbsite.views.graph_svg import EDGE, MAX_DRAWN, PLATE, PLATE_TEXT, graph_svg, summary_text
from gibbsite.views.static import svg_html

_INK = "#2b3036"
_PANEL_WIDTH = 330
_BESIDE = 600  # wider drawings have their panel below
_MAX_WIDTH = 980


class GraphWidget(BokehWidget):
    """A dependency graph in a notebook cell. `graph` is what it shows; `selected` the node last clicked."""

    def __init__(self, graph: Any, model: Any = None, use_greek: bool = False):
        self.graph = graph
        self.selected: str | None = None
        super().__init__(
            graph_root(graph, model, use_greek),
            static_html=lambda: graph_html(graph, use_greek),
            text=lambda: str(graph),
        )
        self.on("select", self._on_select)

    def _on_select(self, detail: dict) -> None:
        name = detail.get("node")
        self.selected = name if name in self.graph.nodes else None


def graph_html(graph: Any, use_greek: bool = False) -> str:
    """The graph as a static picture for pages without a kernel."""
    alt = f"Dependency graph: {summary_text(graph)}"
    return svg_html(graph_svg(graph, use_greek), alt)


def show_graph(model: Any, use_greek: bool = False) -> GraphWidget:
    """The interactive graph of a `Model`, or of a bare `DependencyGraph`."""
    graph = getattr(model, "graph", None)
    return GraphWidget(model, None, use_greek) if graph is None else GraphWidget(graph, model, use_greek)


def graph_root(graph: Any, model: Any = None, use_greek: bool = False) -> Any:
    """The Bokeh layout of figure and panel; beyond 300 nodes, a summary in words."""
    if len(graph.nodes) > MAX_DRAWN:
        return Div(text=f"{summary_text(graph)}: too many to draw at once.", name="graph-panel")
    drawing = draw(graph, use_greek)
    plot, sources = _figure(graph, drawing)
    panel = Div(text=hint_html(), width=_PANEL_WIDTH, name="graph-panel", styles={"color": "inherit"})
    _react(plot, sources, panel, graph, drawing, panels(graph, model))
    if drawing.width <= _BESIDE:
        return row(plot, panel)
    panel.width = min(int(drawing.width), _MAX_WIDTH)
    return column(plot, panel)


def _figure(graph: Any, drawing: Drawing) -> tuple[Any, dict[str, ColumnDataSource]]:
    scale = min(1.0, _MAX_WIDTH / drawing.width)
    plot = figure(
        name="graph",
        width=round(drawing.width * scale),
        height=round(drawing.height * scale),
        x_range=Range1d(0, drawing.width),
        y_range=Range1d(-drawing.height, 0),
        toolbar_location=None,
        tools="",
        min_border=0,
        outline_line_color=None,
        background_fill_color=None,
        border_fill_color=None,
        stylesheets=[InlineStyleSheet(css=":host(:focus), .bk-events:focus { outline: none; }")],
    )
    plot.axis.visible = False
    plot.grid.visible = False
    sources = {
        "nodes": _nodes(graph, drawing),
        "edges": _edges(drawing),
        "heads": _heads(drawing),
    }
    _draw_plates(plot, drawing, scale)
    plot.multi_line(
        "xs", "ys", source=sources["edges"], line_color=EDGE, line_width="width", line_alpha="alpha"
    )
    plot.patches("xs", "ys", source=sources["heads"], color=EDGE, fill_alpha="alpha", line_alpha="alpha")
    plot.patches(
        "xs",
        "ys",
        source=sources["nodes"],
        fill_color="fill",
        line_color="line",
        line_width="width",
        line_dash="dash",
        fill_alpha="alpha",
        line_alpha="alpha",
    )
    common = {"source": sources["nodes"], "text_align": "center", "text_alpha": "alpha", "text_color": _INK}
    font = value("system-ui, sans-serif")
    plot.text("x", "title_y", text="title", text_font_size=f"{TITLE_SIZE * scale:.1f}px",
              text_font_style="bold", text_font=font, **common)  # fmt: skip
    plot.text("x", "text_y", text="words", text_font_size=f"{max(TEXT_SIZE * scale, 9):.1f}px",
              text_font=font, **common)  # fmt: skip
    return plot, sources


def _nodes(graph: Any, drawing: Drawing) -> ColumnDataSource:
    shapes = [drawing.nodes[n] for n in graph.nodes]
    kinds = [node.kind for node in graph.nodes.values()]
    return ColumnDataSource(
        {
            "name": list(graph.nodes),
            "xs": [[x for x, _ in s.outline] for s in shapes],
            "ys": [[-y for _, y in s.outline] for s in shapes],
            "x": [s.x for s in shapes],
            "title": [s.title for s in shapes],
            "title_y": [-s.title_y for s in shapes],
            "words": [s.text for s in shapes],
            "text_y": [-s.text_y for s in shapes],
            "fill": [FILL[k] for k in kinds],
            "line": [LINE[k] for k in kinds],
            "dash": [[5, 3] if k == "deterministic" else [] for k in kinds],
            "width": [1.6] * len(shapes),
            "alpha": [1.0] * len(shapes),
            "lit": [0] * len(shapes),
        },
        name="graph-nodes",
    )


def _edges(drawing: Drawing) -> ColumnDataSource:
    return ColumnDataSource(
        {
            "start": [a for a, _ in drawing.edges],
            "end": [b for _, b in drawing.edges],
            "xs": [[x for x, _ in line] for line in drawing.edges.values()],
            "ys": [[-y for _, y in line] for line in drawing.edges.values()],
            "width": [1.4] * len(drawing.edges),
            "alpha": [1.0] * len(drawing.edges),
        },
        name="graph-edges",
    )


def _heads(drawing: Drawing) -> ColumnDataSource:
    heads = [arrow_head(line) for line in drawing.edges.values()]
    return ColumnDataSource(
        {
            "xs": [[x for x, _ in h] for h in heads],
            "ys": [[-y for _, y in h] for h in heads],
            "alpha": [1.0] * len(heads),
        },
        name="graph-heads",
    )


def _draw_plates(plot: Any, drawing: Drawing, scale: float) -> None:
    plates = list(drawing.plates.values())
    plot.block(
        x=[p.box.left for p in plates],
        y=[-(p.box.top + p.box.height) for p in plates],
        width=[p.box.width for p in plates],
        height=[p.box.height for p in plates],
        border_radius=10,
        fill_color="#808080",
        fill_alpha=0.07,
        line_color=PLATE,
    )
    for anchor, align in (("start", "left"), ("end", "right")):
        own = [p for p in plates if p.anchor == anchor]
        plot.text(
            x=[p.corner[0] for p in own],
            y=[-p.corner[1] for p in own],
            text=[p.words for p in own],
            text_align=align,
            text_font=value("system-ui, sans-serif"),
            text_font_size=f"{max(12 * scale, 9):.1f}px",
            text_color=PLATE_TEXT,
        )


def _react(plot: Any, sources: Any, panel: Any, graph: Any, drawing: Drawing, told: dict[str, str]) -> None:
    facts = {
        name: {
            "box": [s.x - s.width / 2, -s.y - s.height / 2, s.x + s.width / 2, -s.y + s.height / 2],
            "blanket": list(graph.markov_blanket(name)),
            "near": [n for n in (*graph.parents(name), *graph.children(name)) if n != name],
            "panel": told[name],
        }
        for name, s in drawing.nodes.items()
    }
    args = {"plot": plot, "panel": panel, "facts": facts, **sources}
    script = CustomJS(args=args, code=source("graph.mjs"), module=True)
    for event in ("mousemove", "mouseleave", "tap"):
        plot.js_on_event(event, script)
