"""A plot as data → SVG elements."""

import numpy as np

from gibbsite.views.ink.svg import Axes
from gibbsite.views.plots.plot import Band, Bars, Cells, Dots, Line, Mark, Plot, Rows, Rug, Stretches, Table

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
