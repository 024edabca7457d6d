"""The graph's Bokeh layout: the figure, the tools above it, the panel beside it."""

from typing import Any

from bokeh.core.properties import value
from bokeh.document import Document
from bokeh.events import DocumentReady
from bokeh.layouts import column, row
from bokeh.models import (
    BoxAnnotation,
    Button,
    ColumnDataSource,
    CustomJS,
    Div,
    InlineStyleSheet,
    Node,
    RadioButtonGroup,
    Range1d,
    Select,
    TextInput,
    Toggle,
)  # fmt: skip
from bokeh.plotting import figure

from gibbsite.graph.drawing.style import INK, PLATE, PLATE_TEXT, TEXT_SIZE, TITLE_SIZE
from gibbsite.graph.listing import summary
from gibbsite.views.graph.picture import summary_html
from gibbsite.views.graph.store import MAX_WIDTH, store_of
from gibbsite.views.host.assets import joined
from gibbsite.views.host.wire import packed

_PANEL_WIDTH = 330
SEEN = "#c2185b"  # the part of a large graph that one sees
_FONT = value("system-ui, sans-serif")
# Bokeh's controls in the colours of the page; the host sets the variables in dark ones.
_CONTROL = (
    f".bk-input, .bk-btn {{ color: var(--gb-ink, {INK}); background-color: var(--gb-control, #fff); "
    "border-color: var(--gb-rule, #c9cfd6); }"
    ".bk-btn.bk-active { background-color: var(--gb-active, #e2e6ea); }"
    # Bokeh's own arrow is black on any ground
    "select.bk-input:not([multiple]) { background-image: "
    "linear-gradient(45deg, transparent 50%, currentColor 50%), "
    "linear-gradient(135deg, currentColor 50%, transparent 50%); background-size: 5px 5px; "
    "background-position: right 13px center, right 8px center; background-repeat: no-repeat; }"
)
# What the glyphs read; js/graph/shapes.mjs fills it.
_COLUMNS = {
    "nodes": "name xs ys x title title_y words text_y badge_x badge_y badge_align fill line dash width alpha "
    "lit role badge tint".split(),
    "edges": "start end xs ys width alpha colour".split(),
    "heads": "xs ys alpha colour".split(),
    "plates": "name x y width height label_x label_y label align plate_size parent".split(),
}


def graph_root(graph: Any, model: Any = None, use_greek: bool = False) -> Any:
    """The whole display, the root of a Bokeh document of its own; for a graph that is too large to draw even
    in overview, a summary in words."""
    store = store_of(graph, model, use_greek)
    if not graph.nodes or not store["views"]:
        return Div(text=summary_html(graph), name="graph-panel")
    plot, args = _figure(summary(graph))
    panel = Div(
        name="graph-panel",
        width=_PANEL_WIDTH,
        styles={"color": "inherit", "max-width": "100%"},
        html_attributes={"role": "region", "aria-label": "About the chosen node", "aria-live": "polite"},
    )
    change = _change_tools()
    sources = {
        "store": ColumnDataSource({"text": [packed(store)]}, name="graph-store"),
        "run": ColumnDataSource({"name": [], "words": [], "colour": [], "told": []}, name="graph-run"),
        "draws": ColumnDataSource({"name": [], "html": []}, name="graph-draws"),
    }
    args |= {"plot": plot, "panel": panel, "changeable": model is not None, **sources}
    args |= {"change": change["row"]} | {k: v for k, v in change.items() if k != "row"}
    script = CustomJS(args=args, code=joined("graph/graph.mjs"), module=True)
    for event in ("mousemove", "mouseleave", "tap", "doubletap"):
        plot.js_on_event(event, script)
    for changed in sources.values():
        changed.js_on_change("data", script)
    tools, more = _look_tools(script)
    small, box = _map(args)
    small.js_on_event("tap", script)
    for side in ("left", "top"):
        box.js_on_change(side, script)
    scroll = _scrolled(plot)
    script.args |= {**more, "map": small, "box": box, "scroll": scroll}  # type: ignore[operator]
    below = [panel]
    if model is not None:
        message = Div(
            text="",
            name="graph-message",
            styles={"color": "inherit"},
            html_attributes={"aria-live": "polite"},
        )
        below += [change["row"], message, _keep_tools()]
    # Beside the drawing where that is narrow, else below it.
    side = column(
        *below,
        stylesheets=[
            InlineStyleSheet(css=":host { max-width: 100%; } :host(.gp-below) { flex-basis: 100%; }")
        ],
    )
    script.args |= {"side": side}  # type: ignore[operator]
    root = column(_wrapped(tools, small), _wrapped(scroll, side), styles={"max-width": "100%"})
    document = Document()
    document.add_root(root)
    document.js_on_event(DocumentReady, script)
    return root


def _wrapped(*children: Any) -> Any:
    """Side by side where there is room, else one below the other."""
    css = ":host { flex-wrap: wrap; max-width: 100%; }"
    return row(*children, stylesheets=[InlineStyleSheet(css=css)])


def _scrolled(plot: Any) -> Any:
    css = (
        f":host {{ overflow: auto; max-width: min(100%, {MAX_WIDTH}px); max-height: 900px; }}"
        # bars that are seen also where the system hides them until one scrolls
        ":host::-webkit-scrollbar { width: 10px; height: 10px; }"
        f":host::-webkit-scrollbar-thumb {{ background: {PLATE}; border-radius: 5px; }}"
    )
    return column(plot, name="graph-scroll", stylesheets=[InlineStyleSheet(css=css)])


def _look_tools(script: CustomJS) -> tuple[Any, dict[str, Any]]:
    look = TextInput(name="graph-search", placeholder="find a node", width=150, stylesheets=[_CONTROL])
    look.js_on_change("value_input", script)
    look.js_on_change("value", script)
    colour = RadioButtonGroup(name="graph-colour", labels=["kind", "level"], active=0, stylesheets=[_CONTROL])
    colour.js_on_change("active", script)
    detail = RadioButtonGroup(
        name="graph-detail", labels=[], active=None, visible=False, stylesheets=[_CONTROL]
    )
    detail.js_on_change("active", script)
    steps = RadioButtonGroup(
        name="graph-steps",
        labels=[],
        active=None,
        visible=False,
        stylesheets=[_CONTROL],
        html_attributes={"aria-label": "Steps by which sites are summed out"},
    )
    steps.js_on_change("active", script)
    fit = Toggle(name="graph-fit", label="fit", active=False, width=60, visible=False, stylesheets=[_CONTROL])
    fit.js_on_change("active", script)
    return _wrapped(look, colour, detail, fit, steps), {"detail": detail, "fit": fit, "steps": steps}


def _keep_tools() -> Any:
    """What one can do with a changed model: have the notebook use it, write the line, take that back."""

    def button(name: str, code: str, title: str) -> Button:
        made = Button(label=name, name=f"graph-{name}", visible=False, tags=[""], stylesheets=[_CONTROL],
                      html_attributes={"title": title})  # fmt: skip
        made.js_on_event("button_click", CustomJS(args={"made": made}, code=code))
        return made

    ask = "made.document.gibbsite?.('change', {{action: {0}, value: ''}})"
    write = "made.document.gibbsiteWrite?.(made.tags[0]).then((words) => { made.label = words })"
    return _wrapped(
        button("use", ask.format("made.tags[0]"), "bind the notebook's name to the changed model"),
        button("write", write, "the line of code, into a new cell below or to the clipboard"),
        button("back", ask.format("'take back'"), "bind the notebook's name to what it was before"),
    )


_TITLES = {
    "element": "which elements share a term with the one at [index]",
    "condition": "observe the node at this value",
    "do": "replace the statement by this value: its parents learn nothing from it",
    "undo": "go back one change",
    "use-kernel": "update the node by the kernel that is chosen",
    "reparam": "draw the node in other coordinates",
    "merge": "update both nodes in one block",
}


def _change_tools() -> dict[str, Any]:
    """What one can do to the chosen node; each sends what is asked to Python."""
    text = TextInput(name="graph-value", placeholder="value or [index]", width=130, stylesheets=[_CONTROL])
    kernel = Select(name="graph-kernel", options=[], width=150, stylesheets=[_CONTROL])

    def button(label: str, action: str) -> Button:
        made = Button(label=label, name=f"graph-{action}", width=80, stylesheets=[_CONTROL],
                      html_attributes={"title": _TITLES[action]})  # fmt: skip
        code = "text.document.gibbsite?.('change', {action, value: text.value_input ?? text.value})"
        made.js_on_event("button_click", CustomJS(args={"text": text, "action": action}, code=code))
        return made

    def chosen(action: str) -> Button:
        """A button whose value, its tag, and whose label follow the chosen node."""
        made = Button(label=action, name=f"graph-{action}", visible=False, tags=[""], stylesheets=[_CONTROL],
                      html_attributes={"title": _TITLES[action]})  # fmt: skip
        code = "made.document.gibbsite?.('change', {action, value: made.tags[0]})"
        made.js_on_event("button_click", CustomJS(args={"made": made, "action": action}, code=code))
        return made

    code = "kernel.document.gibbsite?.('change', {action: 'kernel', value: kernel.value})"
    use = Button(label="use kernel", name="graph-use-kernel", width=90, stylesheets=[_CONTROL],
                 html_attributes={"title": _TITLES["use-kernel"]})  # fmt: skip
    use.js_on_event("button_click", CustomJS(args={"kernel": kernel}, code=code))
    reparam, merge = chosen("reparam"), chosen("merge")
    buttons = [button(a, a) for a in ("element", "condition", "do", "undo")]
    tools = _wrapped(text, *buttons, kernel, use, reparam, merge)
    tools.update(visible=False, name="graph-change", width=_PANEL_WIDTH)
    return {"row": tools, "kernel": kernel, "use": use, "reparam": reparam, "merge": merge}


def _bare(**more: Any) -> Any:
    """A figure of nothing but its contents, in a range that the page sets."""
    plot = figure(
        x_range=Range1d(start=0, end=300),
        y_range=Range1d(start=-100, end=0),
        toolbar_location=None,
        tools="",
        min_border=0,
        outline_line_color=None,  # a frame of Bokeh's own leaves lines where the map's box was
        background_fill_color=None,
        border_fill_color=None,
        **more,
    )
    plot.axis.visible = False
    plot.grid.visible = False
    return plot


def _figure(words: str) -> tuple[Any, dict[str, Any]]:
    """The figure, still empty: the page fills it from the store."""
    plot = _bare(
        name="graph",
        width=300,
        height=100,
        sizing_mode="fixed",
        html_attributes={"role": "group", "aria-label": f"Dependency graph: {words}"},
        stylesheets=[InlineStyleSheet(css=":host(:focus), .bk-events:focus { outline: none; }")],
    )
    sources = {k: ColumnDataSource({c: [] for c in v}, name=f"graph-{k}") for k, v in _COLUMNS.items()}
    plate = _draw_plates(plot, sources["plates"])
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
        "text_baseline": "middle",
        "text_font": _FONT,
    }
    paper = {"background_fill_color": "#ffffff", "background_fill_alpha": 0.85}
    badge: dict[str, Any] = {**common, **paper, "text_align": "badge_align"}
    title = plot.text("x", "title_y", text="title", text_font_size=f"{TITLE_SIZE}px", text_color=INK,
                      text_font_style="bold", **common)  # fmt: skip
    inner = plot.text("x", "text_y", text="words", text_font_size=f"{TEXT_SIZE}px", text_color=INK, **common)
    state = plot.text("badge_x", "badge_y", text="badge", text_color="tint", text_font_size="11px",
              text_font_style="bold", **badge)  # fmt: skip
    return plot, {**sources, "title": title, "words": inner, "badges": state, "plate_words": plate}


def _map(sources: dict[str, Any]) -> tuple[Any, BoxAnnotation]:
    """A small picture of all of a large graph, hidden until the page needs it, with a box to drag."""
    small = _bare(
        name="graph-map",
        width=100,
        height=50,
        visible=False,
        margin=(4, 8, 4, 8),
        stylesheets=[
            InlineStyleSheet(
                css=f":host {{ outline: 1px solid {PLATE}; }} .bk-events:focus {{ outline: none; }}"
            )
        ],
    )
    small.multi_line(
        "xs", "ys", source=sources["edges"], line_color="colour", line_width=0.5, line_alpha="alpha"
    )
    small.patches("xs", "ys", source=sources["nodes"], fill_color="fill", line_color="line", line_width=0.6,
                  fill_alpha="alpha", line_alpha="alpha")  # fmt: skip
    frame = Node.frame
    box = BoxAnnotation(
        name="graph-box",
        left=0,
        right=1,
        top=0,
        bottom=-1,
        editable=True,
        resizable="none",
        left_limit=frame.left,
        right_limit=frame.right,
        top_limit=frame.top,
        bottom_limit=frame.bottom,
        fill_color=SEEN,
        fill_alpha=0.12,
        line_color=SEEN,
        line_alpha=1,
        line_width=1.5,
    )
    small.add_layout(box)
    return small, box


def _draw_plates(plot: Any, plates: ColumnDataSource) -> Any:
    """Draws boxes and labels; returns the labels."""
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
    return plot.text("label_x", "label_y", text="label", text_align="align", source=plates, text_font=_FONT,
              text_font_size="11px", text_color=PLATE_TEXT)  # fmt: skip
