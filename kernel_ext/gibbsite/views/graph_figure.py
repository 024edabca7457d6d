"""The graph's Bokeh layout: the figure, the tools above it, the panel beside it."""

from typing import Any

from bokeh.core.properties import value
from bokeh.layouts import column, row
from bokeh.models import (
    Button,
    ColumnDataSource,
    CustomJS,
    Div,
    InlineStyleSheet,
    RadioButtonGroup,
    Range1d,
    Select,
    TextInput,
    Toggle,
)  # fmt: skip
from bokeh.plotting import figure

from gibbsite.views.assets import source
from gibbsite.views.graph_panel import STYLE, hint_html, kernel_choices, panels
from gibbsite.views.graph_picture import EDGE, MAX_DRAWN, PLATE, PLATE_TEXT, summary_text
from gibbsite.views.graph_store import store_text, view_of

_INK = "#2b3036"
_PANEL_WIDTH = 330
_BESIDE = 620  # wider drawings have their panel below
_FONT = value("system-ui, sans-serif")


def views_of(graph: Any, model: Any = None, use_greek: bool = False, run: Any = None) -> dict[str, Any]:
    """The folded view and, where it differs and is not too large, the open one."""
    small, members = graph.folded()
    views = {}
    if len(small.nodes) <= MAX_DRAWN:
        told = panels(small, model, members, run)
        views["folded"] = view_of(small, told, kernel_choices(small, model), use_greek, members)
    if members and len(graph.nodes) <= MAX_DRAWN:
        told = panels(graph, model, {}, run)
        views["open"] = view_of(graph, told, kernel_choices(graph, model), use_greek, ())
    return views


def graph_root(graph: Any, model: Any = None, use_greek: bool = False) -> Any:
    """The whole display; beyond 300 nodes (after folding), a summary in words."""
    views = views_of(graph, model, use_greek)
    if not graph.nodes or "folded" not in views:
        words = f"{summary_text(graph)}: too many to draw at once." if graph.nodes else "An empty graph."
        return Div(text=words, name="graph-panel")
    view = views["folded"]
    plot, args = _figure(view, summary_text(graph))
    panel = Div(text=STYLE + hint_html(), width=_PANEL_WIDTH, name="graph-panel", styles={"color": "inherit"})
    wide = view["size"][2] > _BESIDE
    if wide:
        panel.width = min(int(view["size"][2]), 980)
    change = _change_tools(int(panel.width or _PANEL_WIDTH))
    drawn = {k: v for k, v in view.items() if k in ("size", "facts")}  # the columns are in the figure already
    store = ColumnDataSource({"json": [store_text({**views, "folded": drawn})]}, name="graph-store")
    run = ColumnDataSource({"name": [], "words": [], "colour": []}, name="graph-run")
    args |= {"plot": plot, "panel": panel, "store": store, "run": run, "hint": hint_html(), "style": STYLE}
    args |= {"change": change["row"], "kernel": change["kernel"], "changeable": model is not None}
    script = CustomJS(args=args, code=source("graph.mjs"), module=True)
    for event in ("mousemove", "mouseleave", "tap", "doubletap"):
        plot.js_on_event(event, script)
    tools, script.args["fold"] = _look_tools(script, "open" in views)
    store.js_on_change("data", script)
    run.js_on_change("data", script)
    if model is None:
        below = [panel]
    else:
        message = Div(text="", name="graph-message", width=panel.width, styles={"color": "inherit"})
        below = [panel, change["row"], message]
    scroll = _scrolled(plot) if view["size"][2] > 980 else plot
    side = column(*below)
    return column(tools, column(scroll, side) if wide else row(scroll, side))


def _scrolled(plot: Any) -> Any:
    css = ":host { overflow: auto; max-width: 100%; max-height: 900px; }"
    return column(plot, width=980, stylesheets=[InlineStyleSheet(css=css)])


def _look_tools(script: CustomJS, can_open: bool) -> tuple[Any, Any]:
    look = TextInput(name="graph-search", placeholder="find a node", width=150)
    look.js_on_change("value_input", script)
    look.js_on_change("value", script)
    colour = RadioButtonGroup(name="graph-colour", labels=["kind", "level"], active=0, width=110)
    colour.js_on_change("active", script)
    fold = Toggle(name="graph-fold", label="unfold", active=False, width=80, visible=can_open)
    fold.js_on_change("active", script)
    return row(look, colour, fold), fold


def _change_tools(width: int) -> dict[str, Any]:
    """What one can do to the chosen node; each sends what is asked to Python."""
    text = TextInput(name="graph-value", placeholder="value or [index]", width=130)
    kernel = Select(name="graph-kernel", options=[], width=150)

    def button(label: str, action: str) -> Button:
        made = Button(label=label, name=f"graph-{action}", width=74)
        code = "text.document.gibbsite?.('change', {action, value: text.value_input ?? text.value})"
        made.js_on_event("button_click", CustomJS(args={"text": text, "action": action}, code=code))
        return made

    code = "kernel.document.gibbsite?.('change', {action: 'kernel', value: kernel.value})"
    use = Button(label="use kernel", name="graph-use-kernel", width=90)
    use.js_on_event("button_click", CustomJS(args={"kernel": kernel}, code=code))
    first = row(text, button("element", "element"), button("condition", "condition"))
    second = row(button("do", "do"), button("undo", "undo"))
    tools = column(first, second, row(kernel, use), visible=False, name="graph-change", width=width)
    if width > _PANEL_WIDTH:
        tools = row(*first.children, *second.children, kernel, use, visible=False, name="graph-change")
    return {"row": tools, "kernel": kernel}


def _figure(view: dict, words: str) -> tuple[Any, dict[str, Any]]:
    width, height, across, down, title_size, text_size = view["size"]
    plot = figure(
        name="graph",
        width=across,
        height=down,
        x_range=Range1d(start=0, end=width),
        y_range=Range1d(start=-height, end=0),
        toolbar_location=None,
        tools="",
        sizing_mode="fixed",
        min_border=0,
        outline_line_color=None,
        background_fill_color=None,
        border_fill_color=None,
        html_attributes={"role": "img", "aria-label": f"Dependency graph: {words}"},
        stylesheets=[InlineStyleSheet(css=":host(:focus), .bk-events:focus { outline: none; }")],
    )
    plot.axis.visible = False
    plot.grid.visible = False
    sources = {k: ColumnDataSource(dict(view[k]), name=f"graph-{k}") for k in ("nodes", "edges", "heads")}
    plates = ColumnDataSource(dict(view["plates"]), name="graph-plates")
    _draw_plates(plot, plates, text_size)
    plot.multi_line(
        "xs", "ys", source=sources["edges"], line_color="colour", line_width="width", line_alpha="alpha"
    )
    plot.patches("xs", "ys", source=sources["heads"], color="colour", fill_alpha="alpha", line_alpha="alpha")
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
    common: dict[str, Any] = {
        "source": sources["nodes"],
        "text_align": "center",
        "text_alpha": "alpha",
        "text_font": _FONT,
    }
    badge: dict[str, Any] = {**common, "text_align": "right"}
    title = plot.text("x", "title_y", text="title", text_font_size=f"{title_size}px", text_color=_INK,
                      text_font_style="bold", **common)  # fmt: skip
    inner = plot.text("x", "text_y", text="words", text_font_size=f"{text_size}px", text_color=_INK, **common)
    plot.text("badge_x", "badge_y", text="badge", text_color="tint", text_font_size="11px",
              text_font_style="bold", **badge)  # fmt: skip
    return plot, {**sources, "plates": plates, "title": title, "words": inner}


def _draw_plates(plot: Any, plates: ColumnDataSource, size: float) -> None:
    plot.block(
        "x",
        "y",
        "width",
        "height",
        source=plates,
        border_radius=10,
        fill_color="#808080",
        fill_alpha=0.07,
        line_color=PLATE,
    )
    plot.text("label_x", "label_y", text="label", text_align="align", source=plates, text_font=_FONT,
              text_font_size=f"{max(size, 11)}px", text_color=PLATE_TEXT)  # fmt: skip


__all__ = ["EDGE", "graph_root", "views_of"]
