"""The plots of a run as one Bokeh layout with named sources, and the columns that fill them."""

# Bokeh's properties take more than their declared types; pyright cannot know.
# pyright: reportAttributeAccessIssue=false, reportOptionalMemberAccess=false, reportArgumentType=false

from typing import Any

import numpy as np
from bokeh.layouts import column, row
from bokeh.models import ColumnDataSource, DataRange1d, LayoutDOM, Range1d, Span
from bokeh.plotting import figure
from numpy.typing import ArrayLike

from gibbsite.views.ink.colours import BAD, CHAINS, LINE, OTHERS, SLOTS, WORN
from gibbsite.views.ink.svg import FONT
from gibbsite.views.run.content import MAX_CHAINS, RHAT_LIMIT, Content, Parameter
from gibbsite.views.run.plots import WARMING, rank_shares, running_span

TRACE_WIDTH, SIDE_WIDTH, HEIGHT = 460, 210, 165
RUN_HEIGHT = 180
Columns = dict[str, dict[str, ArrayLike]]
Props = dict[str, dict[str, Any]]


def layout(chains: int, slots: int) -> LayoutDOM:
    """A row of trace, ranks and autocorrelation per slot, then running R-hat and ESS; all empty.

    Sources: ``trace{i}``, ``marks{i}``, ``ranks{i}``, ``acf{i}``, ``run{i}`` per slot, and ``others``. Rows
    are named ``row{i}``, trace figures ``plot{i}``, their titles ``title{i}`` and axes ``axis{i}``, the
    figures beside them ``side{i}ranks`` and ``side{i}acf``, the row of running measures ``running``.
    """
    shown = min(chains, MAX_CHAINS)
    rows = [_slot(i, shown) for i in range(slots)]
    sources = [ColumnDataSource({"draw": [], "rhat": [], "ess": []}, name=f"run{i}") for i in range(slots)]
    others = ColumnDataSource({"draw": [], "rhat": [], "ess": []}, name="others")
    plots = [_running(kind, sources, others) for kind in ("rhat", "ess")]
    running = row(*plots, sizing_mode="stretch_width", name="running")
    return column(*rows, running, sizing_mode="stretch_width", name="panels")


def _figure(**options: Any) -> figure:
    plot = figure(
        toolbar_location=None,
        tools="",
        background_fill_color=WORN,  # seen in warm-up only
        background_fill_alpha=0,
        border_fill_alpha=0,
        outline_line_color=None,
        **options,
    )
    plot.title.text_font_size = "12.5px"
    plot.title.text_font = FONT
    plot.axis.axis_label_text_font = plot.axis.major_label_text_font = FONT
    plot.axis.axis_label_text_font_size = plot.axis.major_label_text_font_size = "11px"
    plot.xaxis.axis_label_text_font_style = "normal"
    plot.axis.axis_line_color = LINE
    plot.axis.minor_tick_line_color = None
    plot.axis.major_tick_line_color = None
    plot.xgrid.grid_line_color = None
    plot.xaxis.axis_label_standoff = 2
    plot.min_border_left = 38  # so that plots above each other line up
    plot.yaxis.ticker.desired_num_ticks = 4
    plot.xaxis.ticker.desired_num_ticks = 5
    # Bokeh's default writes 1000 and more in scientific notation on narrow axes.
    plot.axis.formatter.use_scientific = False
    return plot


def _slot(i: int, chains: int) -> LayoutDOM:
    trace = _figure(
        height=HEIGHT,
        min_width=TRACE_WIDTH,
        sizing_mode="stretch_width",
        title="",
        x_axis_label="draw",
        x_range=DataRange1d(range_padding=0),
    )
    trace.name, trace.xaxis.name = f"plot{i}", f"axis{i}"
    trace.title.name = f"title{i}"
    trace.title.tags = ["keep"]
    names = [f"{kind}{c}" for c in range(chains) for kind in ("value", "low", "high")]
    source = ColumnDataSource({"draw": [], **{name: [] for name in names}}, name=f"trace{i}")
    for c in range(chains):
        band: dict[str, Any] = {"fill_color": CHAINS[c], "fill_alpha": 0.25}
        trace.varea("draw", f"low{c}", f"high{c}", source=source, **band)
    for c in range(chains):
        trace.line("draw", f"value{c}", source=source, line_color=CHAINS[c], line_width=0.9, line_alpha=0.9)
    marks = ColumnDataSource({"draw": [], "y": []}, name=f"marks{i}")
    style: dict[str, Any] = {"marker": "dash", "angle": np.pi / 2, "size": 9, "color": BAD, "line_width": 1.5}
    trace.scatter("draw", "y", source=marks, **style)

    side: dict[str, Any] = {"height": HEIGHT, "width": SIDE_WIDTH}
    side["name"] = f"side{i}ranks"
    ranks = _figure(title="ranks", x_axis_label="rank of all draws", x_range=Range1d(start=0, end=1), **side)
    ranks.y_range.start = 0
    ranks.xaxis.ticker.desired_num_ticks = 3
    source = ColumnDataSource({"rank": [], **{f"share{c}": [] for c in range(chains)}}, name=f"ranks{i}")
    ranks.add_layout(Span(location=1, dimension="width", line_color=LINE, line_dash="dashed"))
    side["name"] = f"side{i}acf"
    acf = _figure(title="autocorrelation", x_axis_label="lag", x_range=DataRange1d(range_padding=0), **side)
    acf.y_range = Range1d(start=-0.3, end=1.05)
    correlations = ColumnDataSource({"lag": [], **{f"acf{c}": [] for c in range(chains)}}, name=f"acf{i}")
    acf.add_layout(Span(location=0, dimension="width", line_color=LINE, line_dash="dashed"))
    for c in range(chains):
        ranks.step("rank", f"share{c}", source=source, mode="after", line_color=CHAINS[c], line_width=1.3)
        acf.line("lag", f"acf{c}", source=correlations, line_color=CHAINS[c], line_width=1.3)
    return row(trace, ranks, acf, sizing_mode="stretch_width", name=f"row{i}")


def _running(kind: str, sources: list[ColumnDataSource], others: ColumnDataSource) -> figure:
    about = f"dashed: {RHAT_LIMIT}" if kind == "rhat" else "dashed: 100 per chain"
    plot = _figure(
        height=RUN_HEIGHT,
        min_width=380,
        sizing_mode="stretch_width",
        title=f"{'R-hat' if kind == 'rhat' else 'bulk ESS'} so far ({about})",
        x_axis_label="draw",
        x_range=DataRange1d(range_padding=0, start=0),
        y_range=Range1d(start=0.99, end=1.1, name=f"{kind}_range"),
    )
    limit = Span(location=RHAT_LIMIT, dimension="width", line_color=BAD, line_dash="dashed")
    limit.name = f"{kind}_limit"
    plot.add_layout(limit)
    plot.line("draw", kind, source=others, line_color=OTHERS, line_alpha=0.5, line_width=0.8)
    for slot, source in enumerate(sources):
        plot.line("draw", kind, source=source, line_color=SLOTS[slot % len(SLOTS)], line_width=2)
    return plot


def columns(content: Content, slots: int) -> Columns:
    """The columns of every source of `layout` for one moment of a run."""
    out: Columns = {}
    chains = min(content.snapshot.chains, MAX_CHAINS)
    for i in range(slots):
        if i < len(content.parameters):
            out |= _slot_columns(i, content.parameters[i], content.divergent)
            label = content.parameters[i].label
            nothing = np.full(content.marks.size, np.nan)
            series = {"rhat": content.rhat.get(label, nothing), "ess": content.ess.get(label, nothing)}
            out[f"run{i}"] = {"draw": content.marks, **series}
        else:
            empty = np.zeros(0)
            out[f"trace{i}"] = {
                "draw": empty,
                **{f"{kind}{c}": empty for c in range(chains) for kind in ("value", "low", "high")},
            }
            out[f"marks{i}"] = {"draw": empty, "y": empty}
            out[f"ranks{i}"] = {"rank": empty, **{f"share{c}": empty for c in range(chains)}}
            out[f"acf{i}"] = {"lag": empty, **{f"acf{c}": empty for c in range(chains)}}
            out[f"run{i}"] = {"draw": empty, "rhat": empty, "ess": empty}
    out["others"] = _other_columns(content)
    return out


def _slot_columns(i: int, parameter: Parameter, divergent: np.ndarray) -> Columns:
    trace: dict[str, ArrayLike] = {"draw": parameter.draw}
    for c in range(len(parameter.values)):
        trace |= {
            f"value{c}": parameter.values[c],
            f"low{c}": parameter.low[c],
            f"high{c}": parameter.high[c],
        }
    shares = rank_shares(parameter.ranks)
    # A step plot needs the last height twice, at both ends of the last bin.
    heights = np.concatenate([shares, shares[:, -1:]], axis=1)
    lags = np.arange(parameter.autocorrelation.shape[1])
    bottom = float(np.nanmin(parameter.low)) if np.isfinite(parameter.low).any() else 0.0
    return {
        f"trace{i}": trace,
        f"marks{i}": {"draw": divergent, "y": np.full(divergent.size, bottom)},
        f"ranks{i}": {
            "rank": np.linspace(0, 1, heights.shape[1]),
            **{f"share{c}": line for c, line in enumerate(heights)},
        },
        f"acf{i}": {"lag": lags, **{f"acf{c}": line for c, line in enumerate(parameter.autocorrelation)}},
    }


def _other_columns(content: Content) -> dict[str, ArrayLike]:
    """All series that are not chosen, as one line each, with a gap between them."""
    chosen = {p.label for p in content.parameters}
    names = [label for label in content.rhat if label not in chosen][:20]
    gap = np.array([np.nan])
    pieces = {"draw": [], "rhat": [], "ess": []}
    for name in names:
        pieces["draw"] += [content.marks.astype(float), gap]
        pieces["rhat"] += [content.rhat[name], gap]
        pieces["ess"] += [content.ess.get(name, np.full(content.marks.size, np.nan)), gap]
    return {key: np.concatenate(value) if value else np.zeros(0) for key, value in pieces.items()}


def props(content: Content, slots: int) -> Props:
    """Titles, visible rows and ranges for one moment of a run."""
    out: Props = {}
    for i in range(slots):
        there = i < len(content.parameters)
        warming = content.warming
        title = content.parameters[i].label if there else ""
        out[f"title{i}"] = {"text": title + (WARMING if there and warming else "")}
        out[f"title{i}"] |= {"text_color": SLOTS[i % len(SLOTS)]} if there else {}
        out[f"plot{i}"] = {"background_fill_alpha": 0.1 if warming else 0}
        out[f"axis{i}"] = {"axis_label": "warm-up step" if warming else "draw"}
        out[f"row{i}"] = {"visible": there}
        for kind in ("ranks", "acf"):
            out[f"side{i}{kind}"] = {"visible": not warming}
    out["running"] = {"visible": bool(content.parameters) and not content.warming}
    for kind, series, limit in (
        ("rhat", content.rhat, RHAT_LIMIT),
        ("ess", content.ess, float(content.ess_limit)),
    ):
        low, high = running_span(series, kind, limit, [p.label for p in content.parameters])
        out[f"{kind}_range"] = {"start": low, "end": high}
        out[f"{kind}_limit"] = {"location": limit}
    return out
