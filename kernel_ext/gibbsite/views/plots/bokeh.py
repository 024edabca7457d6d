"""Plots as data → a Bokeh layout with named sources, and what it is told when the plots change.

Models are named after what they draw: tables by their own names, figures `plot NAME`, their titles
`title NAME`, x-axes `axis NAME`, rules `rule NAME I`, ranges `x NAME` and `y NAME` (or `LINK` where axes are
linked), rows `row I`.
"""

# Bokeh's properties take more than their declared types; pyright cannot know.
# pyright: reportAttributeAccessIssue=false, reportOptionalMemberAccess=false, reportArgumentType=false
# pyright: reportCallIssue=false

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from bokeh.document import Document
from bokeh.embed import file_html
from bokeh.events import DocumentReady
from bokeh.layouts import column, row
from bokeh.models import (
    BoxZoomTool,
    ColumnDataSource,
    CustomJS,
    HoverTool,
    LayoutDOM,
    PanTool,
    Range1d,
    ResetTool,
    SaveTool,
    Span,
    TabPanel,
    Tabs,
    WheelZoomTool,
)
from bokeh.plotting import figure
from bokeh.resources import INLINE
from bokeh.themes import Theme
from numpy.typing import ArrayLike

from gibbsite.views.host.assets import joined
from gibbsite.views.host.wire import listed, packed
from gibbsite.views.ink.colours import ANY_FAINT, ANY_INK, LINE, THEMED
from gibbsite.views.ink.svg import FONT
from gibbsite.views.plots.plot import (
    INK,
    Axis,
    Band,
    Bars,
    Cells,
    Dots,
    Line,
    Mark,
    Plot,
    Rows,
    Rug,
    Stage,
    Stretches,
    tables_of,
)

Columns = dict[str, dict[str, ArrayLike]]
Props = dict[str, dict[str, Any]]
# Left of the data, so that plots above each other line up.
NO_TITLE = "\u00a0"
"""What stands in for a title: BokehJS 3.9 never draws one that began without text."""
_LEFT = 38
# On a page whose ground is not known.
_INKED = {"axis_label_text_color": ANY_INK, "major_label_text_color": ANY_INK}
_ANYWHERE = Theme(
    json={"attrs": {"Axis": _INKED, "Title": {"text_color": ANY_INK}, "Grid": {"grid_line_color": ANY_FAINT}}}
)
# A page of its own has the reader's ground.
_TEMPLATE = "{% block postamble %}<style>:root { color-scheme: light dark; }</style>{% endblock %}"
_TABS = f".bk-tab, .bk-tab.bk-active {{ color: {ANY_INK}; background: transparent; }}"


def layout(rows: Rows, *, filled: bool = False) -> LayoutDOM:
    """Plots in rows that wrap on narrow pages; empty ones, or `filled` with what is drawn now."""
    sources = {
        name: ColumnDataSource({n: v if filled else [] for n, v in table.items()}, name=name)
        for name, table in tables_of(rows).items()
    }
    ranges: dict[str, Range1d] = {}
    lines = []
    for i, plots in enumerate(rows):
        first, *rest = [_figure(plot, sources, ranges) for plot in plots]
        if len(rest) > 1 and plots[0].share > 1:  # what stands beside the widest plot wraps as one
            share, least = sum(p.share for p in plots[1:]), sum(p.least for p in plots[1:])
            rest = [_wrapping(rest, styles={"flex": f"{share:g} 1 {least}px"})]
        lines.append(_wrapping([first, *rest], name=f"row {i}"))
    return column(*lines, sizing_mode="stretch_width")


def _wrapping(parts: list[LayoutDOM], **more: Any) -> LayoutDOM:
    return row(*parts, sizing_mode="stretch_width", stylesheets=[":host { flex-wrap: wrap; }"], **more)


def page(
    views: Mapping[str, Rows], title: str, courses: Mapping[str, Sequence[Stage]] = MappingProxyType({})
) -> str:
    """An HTML page with a tab for each of `views`, which needs neither a kernel nor the net. Of a view with
    a course it shows the last stage, and a slider goes through all of them."""
    tabs, played = [], {}
    for name, rows in views.items():
        if name in courses:
            played[len(tabs)] = _course(courses[name])
            child = _as_told(courses[name][-1].rows)
        else:
            shown = tuple(tuple(plot for plot in plots if plot.visible) for plots in rows)
            child = layout(tuple(filter(None, shown)), filled=True)
        tabs.append(TabPanel(title=name, child=child))
    root = Tabs(tabs=tabs, sizing_mode="stretch_width", stylesheets=[_TABS])
    if played:
        store = ColumnDataSource({"text": [packed(played)]})
        script = CustomJS(args={"tabs": root, "store": store}, code=joined("host/replay.mjs"), module=True)
        root.js_on_change("active", script)
        document = Document()
        document.add_root(root)
        document.js_on_event(DocumentReady, script)
    return file_html(root, INLINE, title, template=_TEMPLATE, theme=_ANYWHERE)


def _as_told(rows: Rows) -> LayoutDOM:
    """A layout of all plots, of which those are visible that are so now."""
    plots = layout(rows, filled=True)
    named = {model.name: model for model in plots.references()}
    for name, values in props(rows).items():
        named[name].update(**values)
    return plots


def _course(stages: Sequence[Stage]) -> dict[str, Any]:
    """What `js/host/replay.mjs` reads: for each stage its title, HTML and properties; and by source and
    column the values at each stage, since what is alike and near compresses."""
    tables: dict[str, dict[str, list[Any]]] = {}
    for stage in stages:
        for name, table in columns(stage.rows).items():
            for key, values in table.items():
                tables.setdefault(name, {}).setdefault(key, []).append(listed(values))
    stage_of = [{"title": s.title, "html": s.html, "props": props(s.rows)} for s in stages]
    return {"tables": tables, "stages": stage_of}


def columns(rows: Rows) -> Columns:
    """The columns of every source of `layout`."""
    return {name: dict(table) for name, table in tables_of(rows).items()}


def props(rows: Rows) -> Props:
    """Titles, ranges, ticks, rules, and what is visible."""
    out: Props = {}
    for i, plots in enumerate(rows):
        out[f"row {i}"] = {"visible": any(plot.visible for plot in plots)}
        for plot in plots:
            own = _props(plot)
            if not plot.visible:  # an axis that plots share is that of those which are seen
                own = {name: v for name, v in own.items() if name not in _linked(plot) or name not in out}
            out |= own
    return out


def _linked(plot: Plot) -> set[str]:
    """The names of the ranges that a plot shares with others."""
    return {axis.link for axis in (plot.x, plot.y) if axis.link}


def _props(plot: Plot) -> Props:
    out: Props = {
        f"plot {plot.name}": {
            "visible": plot.visible,
            "background_fill_alpha": 0.1 if plot.ground else 0.0,
        },
        f"title {plot.name}": {"text": plot.title or NO_TITLE},
        f"axis {plot.name}": {"axis_label": plot.x.label},
    }
    if plot.ground:
        out[f"plot {plot.name}"]["background_fill_color"] = plot.ground
    if plot.colour != INK:
        out[f"title {plot.name}"]["text_color"] = plot.colour
    for of, axis in (("x", plot.x), ("y", plot.y)):
        low, high = axis.low, axis.high
        out[_range_name(plot, of, axis)] = {"start": low, "end": high, "reset_start": low, "reset_end": high}
        if axis.ticks is not None:
            places, names = [v for v, _ in axis.ticks], {_key(v): words for v, words in axis.ticks}
            out[f"{of}ticks {plot.name}"] = {"ticks": places}
            axis_name = f"axis {plot.name}" if of == "x" else f"yaxis {plot.name}"
            out[axis_name] = {**out.get(axis_name, {}), "major_label_overrides": names}
    for k, rule in enumerate(plot.rules):
        out[f"rule {plot.name} {k}"] = {"location": rule.at, "visible": rule.at is not None}
    return out


def _key(value: float) -> float | int:
    return int(value) if float(value).is_integer() else float(value)


def _range_name(plot: Plot, of: str, axis: Axis) -> str:
    return axis.link or f"{of} {plot.name}"


def _figure(plot: Plot, sources: dict[str, ColumnDataSource], ranges: dict[str, Range1d]) -> figure:
    made = {}
    for of, axis in (("x", plot.x), ("y", plot.y)):
        name = _range_name(plot, of, axis)
        made[of] = ranges.setdefault(name, Range1d(start=axis.low, end=axis.high, name=name))
    fig = figure(
        name=f"plot {plot.name}",
        title=plot.title or NO_TITLE,
        height=plot.height,
        min_width=plot.least,
        sizing_mode="stretch_width",
        x_range=made["x"],
        y_range=made["y"],
        x_axis_label=plot.x.label,
        tools=[PanTool(), BoxZoomTool(), WheelZoomTool(), ResetTool(), SaveTool(filename=plot.name)],
        toolbar_location="above",  # where all five have room, however low the plot
        active_drag=None,
        active_scroll=None,
        background_fill_color=plot.ground or LINE,
        background_fill_alpha=0,
        border_fill_alpha=0,
        outline_line_color=None,
        styles={"flex": f"{plot.share:g} 1 {plot.least}px"},
    )
    fig.toolbar.logo, fig.toolbar.autohide = None, True
    _style(fig, plot)
    tips: dict[Any, list[Any]] = {}
    for mark in plot.marks:
        drawn = _draw(fig, mark, sources[mark.table])
        drawn.tags = [mark.group] * bool(mark.group) + ["ink", "gb"] * (mark.colour == INK)
        if mark.tip:
            tips.setdefault(mark.tip, []).append(drawn)
    for tip, drawn in tips.items():
        fig.add_tools(HoverTool(renderers=drawn, tooltips=list(tip), visible=False))
    for k, rule in enumerate(plot.rules):
        colour = LINE if rule.colour == INK else rule.colour
        dimension = "width" if rule.of == "y" else "height"
        span = Span(location=rule.at, dimension=dimension, line_color=colour, line_dash=list(rule.dash))
        span.name, span.visible = f"rule {plot.name} {k}", rule.at is not None
        fig.add_layout(span)
    return fig


def _style(fig: figure, plot: Plot) -> None:
    fig.title.name = f"title {plot.name}"
    fig.title.text_font_size, fig.title.text_font = "12.5px", FONT
    if plot.colour != INK:
        fig.title.tags, fig.title.text_color = ["keep"], plot.colour
    fig.axis.axis_label_text_font = fig.axis.major_label_text_font = FONT
    fig.axis.axis_label_text_font_size = fig.axis.major_label_text_font_size = "11px"
    fig.xaxis.axis_label_text_font_style = "normal"
    fig.axis.axis_line_color = LINE
    fig.axis.minor_tick_line_color = fig.axis.major_tick_line_color = None
    fig.xgrid.grid_line_color = None
    fig.xaxis.axis_label_standoff = 2
    fig.min_border_left = _LEFT
    fig.yaxis.ticker.desired_num_ticks, fig.xaxis.ticker.desired_num_ticks = 4, 5
    # Bokeh's default writes 1000 and more in scientific notation on narrow axes.
    fig.axis.formatter.use_scientific = False
    fig.xaxis.name = f"axis {plot.name}"
    for of, axis, drawn, grid in (
        ("x", plot.x, fig.xaxis[0], fig.xgrid[0]),
        ("y", plot.y, fig.yaxis[0], fig.ygrid[0]),
    ):
        if axis.ticks is not None:
            drawn.ticker = [v for v, _ in axis.ticks]
            drawn.ticker.name = f"{of}ticks {plot.name}"
            drawn.major_label_overrides = {_key(v): words for v, words in axis.ticks}
            grid.grid_line_color = None
            if of == "y":
                drawn.name = f"yaxis {plot.name}"


def _draw(fig: figure, mark: Mark, source: ColumnDataSource) -> Any:
    colour = THEMED if mark.colour == INK else mark.colour
    line = {"line_color": colour, "line_alpha": mark.alpha, "source": source}
    fill = {"fill_color": colour, "fill_alpha": mark.alpha, "source": source}
    match mark:
        case Line(step=True):
            return fig.step(mark.x, mark.y, mode="after", line_width=mark.width, name=mark.y, **line)
        case Line():
            dash = list(mark.dash)
            return fig.line(mark.x, mark.y, line_width=mark.width, line_dash=dash, name=mark.y, **line)
        case Band():
            return fig.varea(mark.x, mark.low, mark.high, **fill)
        case Bars():
            return fig.vbar(mark.x, mark.wide, mark.y, line_color=None, name=mark.y, **fill)
        case Dots():
            return fig.scatter(mark.x, mark.y, size=mark.size, line_color=None, **fill)
        case Rug():
            dash: Any = {"marker": "dash", "angle": np.pi / 2, "size": 9, "line_width": 1.5}
            return fig.scatter(mark.x, mark.y, **dash, **line)
        case Stretches():
            return fig.segment(mark.low, mark.y, mark.high, mark.y, line_width=mark.width, **line)
        case Cells():
            shade = {"fill_color": colour, "fill_alpha": mark.shade, "source": source}
            return fig.rect(mark.x, mark.y, 1, 0.92, line_color=None, **shade)
    raise TypeError(f"there is no drawing of {type(mark).__name__}")
