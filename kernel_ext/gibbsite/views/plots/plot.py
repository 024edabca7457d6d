"""A plot as data: tables of columns, marks that draw them, and axes. `bokeh` and `picture` render it.

Two plots with the same marks differ in their tables, ranges and words alone: a live figure is made of the
first, and told of the second by `bokeh.columns` and `bokeh.props`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from gibbsite.views.ink.svg import Axes

# The colour of text and lines, which is the page's.
INK = "ink"
# What is told of the point under the pointer: words, and where they are found ("@column", "$name").
Tip = tuple[tuple[str, str], ...]
Table = Mapping[str, ArrayLike]


@dataclass(frozen=True)
class Axis:
    """The range that is shown, and what stands below it.

    `ticks` are places with names, instead of round numbers; an empty tuple draws none. Axes of one `link`
    move together.
    """

    low: float = 0.0
    high: float = 1.0
    label: str = ""
    ticks: tuple[tuple[float, str], ...] | None = None
    link: str = ""


@dataclass(frozen=True)
class Mark:
    """What draws columns of one table. Marks of one `group` ("chain 0") are shown and hidden together."""

    table: str
    colour: str = INK
    alpha: float = 1.0
    group: str = ""
    tip: Tip = ()


@dataclass(frozen=True)
class Line(Mark):
    """A line, broken where a value is not finite; `step` keeps each height until the next."""

    x: str = "x"
    y: str = "y"
    width: float = 1.0
    dash: tuple[int, ...] = ()
    step: bool = False


@dataclass(frozen=True)
class Band(Mark):
    """The area between `low` and `high`."""

    x: str = "x"
    low: str = "low"
    high: str = "high"


@dataclass(frozen=True)
class Bars(Mark):
    """Upright bars from zero to `y`, as wide as `wide` in units of `x`."""

    x: str = "x"
    y: str = "y"
    wide: float = 0.8


@dataclass(frozen=True)
class Dots(Mark):
    """Points of `size` pixels."""

    x: str = "x"
    y: str = "y"
    size: float = 4.0


@dataclass(frozen=True)
class Rug(Mark):
    """Short marks at the bottom; `y` holds where that is."""

    x: str = "x"
    y: str = "y"


@dataclass(frozen=True)
class Stretches(Mark):
    """Level strokes from `low` to `high` at `y`."""

    low: str = "low"
    high: str = "high"
    y: str = "y"
    width: float = 2.0


@dataclass(frozen=True)
class Cells(Mark):
    """A unit square around each (`x`, `y`), as opaque as `shade` says: 0 to 1."""

    x: str = "x"
    y: str = "y"
    shade: str = "shade"


@dataclass(frozen=True)
class Rule:
    """A line across the plot at a value of the axis `of` ("x" or "y"); None draws nothing."""

    at: float | None
    of: str = "y"
    colour: str = INK
    dash: tuple[int, ...] = (4, 3)
    words: str = ""


@dataclass(frozen=True)
class Plot:
    """One plot.

    Args:
        name: names what a live figure is made of; tables have names of their own.
        tables: columns of equal length by table.
        marks: what draws them, the first at the back.
        rules: lines across the plot.
        colour: of the title.
        ground: colour of a tint behind the data.
        note: words in the middle of an empty plot.
        visible: whether it has its place at all.
        height: pixels; its width is its place's.
        share: of the width of its row, in parts.
        least: pixels below which its row wraps.
    """

    name: str
    tables: Mapping[str, Table]
    marks: tuple[Mark, ...]
    x: Axis = Axis()
    y: Axis = Axis()
    rules: tuple[Rule, ...] = ()
    title: str = ""
    colour: str = INK
    ground: str | None = None
    note: str = ""
    visible: bool = True
    height: int = 165
    share: float = 1.0
    least: int = 200


Rows = tuple[tuple[Plot, ...], ...]


@dataclass(frozen=True)
class Stage:
    """Plots as they were at one moment, `title` and HTML that tell of it. The stages of one course have
    plots of the same names and marks."""

    rows: Rows
    title: str
    html: str


def reach(*arrays: ArrayLike, include: tuple[float, ...] = (), margin: float = 0.05) -> tuple[float, float]:
    """The range of all finite values, with a margin; never empty."""
    values = np.concatenate([np.ravel(np.asarray(a, float)) for a in arrays] + [np.asarray(include, float)])
    values = values[np.isfinite(values)]
    if values.size == 0:
        return 0.0, 1.0
    low, high = float(values.min()), float(values.max())
    if low == high:
        pad = abs(low) * 0.05 or 0.5
        return low - pad, high + pad
    pad = margin * (high - low)
    return low - pad, high + pad


def tables_of(rows: Rows) -> dict[str, Table]:
    """All tables of plots, by name; plots may share some."""
    return {name: table for row in rows for plot in row for name, table in plot.tables.items()}


GAP = 4


def axes(plot: Plot, width: float, height: float | None = None) -> Axes:
    """The plot, `width` pixels wide."""
    out = Axes(
        width,
        height or plot.height,
        (plot.x.low, plot.x.high),
        (plot.y.low, plot.y.high),
        title=plot.title,
        title_colour=plot.colour,
        x_label=plot.x.label,
        x_ticks=plot.x.ticks,
        y_ticks=plot.y.ticks,
    )
    if plot.ground:
        out.tint(plot.ground)
    if plot.note:
        out.note(plot.note)
        return out
    for mark in plot.marks:
        _draw(out, mark, plot.tables[mark.table])
    for rule in plot.rules:
        if rule.at is not None:
            out.rule(rule.at, rule.colour, rule.words, rule.dash, of=rule.of)
    return out


def _draw(out: Axes, mark: Mark, table: Table) -> None:
    def column(name: str) -> np.ndarray:
        return np.asarray(table[name], float)

    out.group = mark.group
    match mark:
        case Line():
            x, y = column(mark.x), column(mark.y)
            if mark.step:
                x, y = np.repeat(x, 2)[1:], np.repeat(y, 2)[:-1]
            out.line(x, y, mark.colour, mark.width, mark.alpha, mark.dash)
        case Band():
            out.band(column(mark.x), column(mark.low), column(mark.high), mark.colour, mark.alpha)
        case Bars():
            out.bars(column(mark.x), column(mark.y), mark.wide, mark.colour, mark.alpha)
        case Dots():
            out.dots(column(mark.x), column(mark.y), mark.colour, mark.size, mark.alpha)
        case Rug():
            out.rug(column(mark.x), mark.colour)
        case Stretches():
            out.stretches(
                column(mark.low), column(mark.high), column(mark.y), mark.colour, mark.width, mark.alpha
            )
        case Cells():
            out.cells(column(mark.x), column(mark.y), column(mark.shade), mark.colour)


def rows_svg(rows: Rows, width: float, least: float = 1) -> tuple[str, float]:
    """Rows of plots below each other, and how high they are together. What is not visible takes no place; a
    row of fewer parts than `least` leaves room."""
    parts, y = [], 0.0
    for row in rows:
        shown = [plot for plot in row if plot.visible]
        if not shown:
            continue
        total, x = max(least, sum(plot.share for plot in shown)), 0.0
        for plot in shown:
            wide = width * plot.share / total
            parts.append(axes(plot, wide).placed(x, y))
            x += wide
        y += max(plot.height for plot in shown) + GAP
    return "".join(parts), y
