"""Predictive checks as plots, each described once: for a picture, a report, and the cards of a dashboard."""

from dataclasses import replace
from typing import Any

import numpy as np

from gibbsite.errors import UnknownNameError
from gibbsite.prediction.uses.checking import BINARY, CATEGORIES, CENSORED, COUNTS, Checks, Curve, Statistic
from gibbsite.sampling.derived.interval import chosen
from gibbsite.views.ink import svg
from gibbsite.views.ink.colours import BAD, CHAINS, OTHERS
from gibbsite.views.ink.svg import told_apart
from gibbsite.views.plots.plot import (
    INK,
    Axis,
    Band,
    Bars,
    Dots,
    Line,
    Plot,
    Rows,
    Rule,
    axes,
    reach,
)
from gibbsite.views.plotted import Picture, picture_of
from gibbsite.views.predictions.plots import MOST_DOTS, counts, draws_bars, pareto, shares, strokes

CARD = 150
_MOST_GROUPS = 30
_MOST_THRESHOLDS = 5
_BINS = 30  # along a column
_LEAST_MEAN = 10  # data of a share that is plotted
_DRAWN, _PRIOR = CHAINS[0], OTHERS
_NAME, _NAMED = 10, 8  # letters of a category below bars, and how many of these have room
_LETTERS = 46  # that have room above a plot in two columns


def plots_of_checks(checks: Checks, height: int = 230, like: Checks | None = None) -> list[Plot]:
    """All plots that fit: the outcome's own, LOO-PIT, along a column, statistics, Pareto k, by group; of a
    part of the data those that fit all of them, `like`."""
    out = [_outcome(checks, _few(like or checks))]
    if checks.kind in (BINARY, CATEGORIES):
        out += _calibrated(checks)
    if checks.kind == COUNTS:
        out.append(_rootogram(checks, like or checks))
    if checks.kind != CENSORED:
        out.append(_uniform(checks))
    ordered = checks.kind != CENSORED and not checks.nominal  # of others, no value is above another
    if checks.over is not None and ordered:
        out.append(_along(checks))
    out += [_statistic(s) for s in checks.statistics]
    if checks.pareto_k:
        out.append(pareto(checks.pareto_k, checks.good_k, "check pareto"))
    if checks.groups and ordered:  # as high as groups are many
        out.append(_grouped(checks))
    return [_at(plot, height) for plot in out]


def each_group(checks: Checks, name: str) -> list[Plot]:
    """One of the plots for every group, over the same axes; those whose statistics are farthest off where
    they are many. Raises `UnknownNameError` for what is not plotted."""
    known = {_called(p): p.name for p in plots_of_checks(checks) if p.name != "check by"}
    if not checks.groups or name not in known:
        raise UnknownNameError("plot by group", name, known if checks.groups else [])
    size = {g: int(at.sum()) for g, at in checks.groups.items()}
    groups = sorted((g for g in size if size[g] > 1), key=lambda g: -_off(checks, checks.groups[g]))
    groups = [g for g in checks.groups if g in groups[:_MOST_GROUPS]]
    found = []
    for group in groups:
        here = {p.name: p for p in plots_of_checks(checks.of(group), CARD, checks)}
        if known[name] in here:  # of ordered outcomes a group may lack the highest
            plot = here[known[name]]
            told = plot.title.split(": ", 1)[-1] if name in [s.text for s in checks.statistics] else ""
            title = f"{group}, {size[group]} data" + (f": {told}" if told else "")
            plot = replace(plot, x=replace(plot.x, label=plot.x.label.partition(";")[0]))  # there is no room
            own = {f"{group}: {n}": t for n, t in plot.tables.items()}  # tables of one page go by their names
            marks = tuple(replace(m, table=f"{group}: {m.table}") for m in plot.marks)
            found.append(replace(plot, name=f"{plot.name} {group}", title=title, tables=own, marks=marks))
    return [replace(p, x=_common([q.x for q in found]), y=_common([q.y for q in found])) for p in found]


def _common(axes: list[Axis]) -> Axis:
    widest = max(axes, key=lambda a: a.high - a.low)
    return replace(widest, low=min(a.low for a in axes), high=max(a.high for a in axes))


def _off(checks: Checks, at: np.ndarray) -> float:
    """How many standard deviations of replicates' means a group's mean is off."""
    means = checks.replicates[:, at].mean(axis=1)
    return abs(float(checks.data[at].mean() - means.mean())) / (float(means.std()) or 1.0)


def _called(plot: Plot) -> str:
    """What people call a plot."""
    name = plot.name.removeprefix("check ")
    return {"root": "rootogram"}.get(name, name)


def names_of_checks(checks: Checks) -> tuple[str, ...]:
    """What people call the plots."""
    return tuple(_called(p) for p in plots_of_checks(checks))


def _at(plot: Plot, height: int) -> Plot:
    return replace(plot, height=max(height, plot.height) if plot.name == "check by" else height)


def checks_rows(checks: Checks) -> Rows:
    """The same in two columns."""
    return _rows(plots_of_checks(checks), 2)


def _rows(plots: list[Plot], columns: int) -> Rows:
    return tuple(tuple(plots[i : i + columns]) for i in range(0, len(plots), columns))


def legend_of(checks: Checks) -> str:
    """What is drawn how, and what it rests on."""
    plain = checks.kind in (BINARY, CATEGORIES, CENSORED) or (checks.kind == COUNTS and _few(checks))
    prior = "" if checks.before is None or plain else ", the prior's in grey"
    return f"{checks.site}: data in ink, replicates' {chosen()} in blue{prior} · {checks.note}"


def large_rows(checks: Checks, plot: str, height: int) -> Rows:
    """A plot as large as can be, by its own name, and below it the same of every group; nothing where it is
    not among them."""
    found = next((p for p in plots_of_checks(checks, height) if p.name == plot), None)
    if found is None:
        return ()
    grouped = bool(checks.groups) and plot != "check by"
    return ((found,), *_rows(each_group(checks, _called(found)) if grouped else [], 3))


def check_card(plot: Plot, written: str = "") -> dict[str, Any]:
    """A plot as a card of the page; `written` is the statistic that somebody wrote, and may forget."""
    width = 290
    drawn = axes(plot, width).render()
    markup = f'<svg viewBox="0 0 {width} {plot.height}" font-family="{svg.FONT}">{drawn}</svg>'
    told = {"label": plot.name, "words": plot.title, "wide": False, "derived": written, "rows": []}
    return told | {"svg": markup}


def plot_checks(checks: Checks, each: str | None = None) -> Picture:
    """The picture of checks, or of one plot for `each` group."""
    rows = checks_rows(checks) if each is None else _rows(each_group(checks, each), 3)
    least = 1 if each is None else len(rows[0])
    legend = legend_of(checks)
    return picture_of(rows, f"{legend}\n{checks!r}", "Check", legend, least)


def checks_html(checks: Checks) -> str:
    """The same for a page."""
    return f'<div class="gibbsite-checks">{plot_checks(checks).html}</div>'


def _outcome(checks: Checks, few: bool) -> Plot:
    if checks.kind == CENSORED:
        found = checks.survival()
        return _curve(found, "outcome", f"{checks.site}: share that lives on", "time", step=True)
    whole = checks.kind in (BINARY, CATEGORIES) or (checks.kind == COUNTS and few)
    name = checks.site
    plot = (counts if whole else shares)(name, checks.replicates, checks.data)
    title = "how often each value" if whole else "share of values below"
    plot = replace(plot, name="check outcome", title=f"{name}: {title}")
    if whole and checks.called:
        named = tuple((float(i), t) for i, t in enumerate(told_apart(checks.called, _NAME)))
        plot = replace(plot, x=replace(plot.x, ticks=named[:: -(-len(named) // _NAMED)]))
    if checks.before is None or whole:
        return plot
    x = np.asarray(plot.tables["replicates"]["x"])
    below = np.stack([np.searchsorted(np.sort(v), x, side="right") / len(v) for v in checks.before])
    low, high = chosen().of(below.T)
    tables = {**plot.tables, "prior": {"x": x, "low": low, "high": high}}
    marks = (Band("prior", colour=_PRIOR, alpha=0.3), *plot.marks)
    return replace(plot, tables=tables, marks=marks)


def _few(checks: Checks) -> bool:
    return np.ptp(np.concatenate([checks.data, checks.replicates.ravel()])) < 40


def _curve(found: Curve, name: str, title: str, label: str, step: bool = False) -> Plot:
    """A line over the band where it should lie."""
    tables = {"curve": {"x": found.x, "y": found.y, "low": found.low, "high": found.high}}
    marks = (
        Band("curve", colour=_DRAWN, alpha=0.25),
        Line("curve", colour=INK, width=1.8, step=step),
    )
    y = reach(found.y, found.low, found.high)
    return Plot(
        f"check {name}", tables, marks, Axis(*reach(found.x, margin=0.02), label), Axis(*y), title=title
    )


def _uniform(checks: Checks) -> Plot:
    what = "LOO-PIT" if checks.weights is not None else "PIT"
    plot = _curve(checks.uniform, "pit", f"{what} less uniform", what, step=True)
    return replace(plot, x=Axis(0, 1, f"{what}; 95 % of fits stay in the band"), rules=(Rule(0.0),))


def _calibrated(checks: Checks) -> list[Plot]:
    top = int(max(checks.data.max(initial=0), checks.replicates.max(initial=0)))
    out = []
    for least in range(0 if checks.nominal else 1, min(top, _MOST_THRESHOLDS) + 1):
        value = checks.called[least] if least < len(checks.called) else least
        alone = checks.nominal or checks.kind == BINARY
        event = f"{checks.site} {'=' if alone else '≥'} {value}"
        found = checks.calibration(least)
        plot = _curve(found, f"calibration {least}", f"{event}: share by its chance", "chance")
        tables = {**plot.tables, "even": {"x": [0.0, 1.0], "y": [0.0, 1.0]}}
        marks = (*plot.marks, Line("even", colour=INK, alpha=0.5, dash=(4, 3)))
        out.append(
            replace(plot, tables=tables, marks=marks, x=Axis(0, 1, "chance (95 % band)"), y=Axis(0, 1))
        )
    return out


def _rootogram(checks: Checks, like: Checks) -> Plot:
    """Frequencies on the scale of their square roots, where all of them scatter alike (Tukey 1977), of the
    same values as of `like`."""
    low, high = np.percentile(like.replicates, [0.5, 99.5])
    least, most = int(min(low, like.data.min())), int(max(high, like.data.max()))
    wide = max(1, -(-(most - least + 1) // 40))
    edges = np.arange(least, most + wide + 1, wide)
    middle = edges[:-1] + (wide - 1) / 2
    of_data = np.histogram(checks.data, edges)[0]
    each = np.stack([np.histogram(v, edges)[0] for v in checks.replicates])
    below, above = chosen().of(each.T.astype(float))
    tables = {
        "data": {"x": middle, "y": np.sqrt(of_data)},
        "replicates": {
            "x": middle, "low": np.sqrt(below), "high": np.sqrt(above), "mean": np.sqrt(each.mean(axis=0))
        },
    }  # fmt: skip
    marks = (
        Band("replicates", colour=_DRAWN, alpha=0.25),
        Line("replicates", colour=_DRAWN, y="mean"),
        Bars("data", colour=INK, alpha=0.35, wide=0.8 * wide),
    )
    top = float(np.sqrt(max(above.max(), of_data.max())))
    ticks = tuple((float(np.sqrt(v)), f"{v:g}") for v in _round(top**2))
    title = f"{checks.site}: rootogram"
    each_value = tuple((float(v), f"{v:g}") for v in middle[:: -(-len(middle) // 8)])
    places = each_value if wide == 1 else None
    x = Axis(least - 0.6 * wide, most + 0.6 * wide, checks.site, places)
    return Plot("check root", tables, marks, x, Axis(0, 1.08 * top, ticks=ticks), title=title)


def _round(top: float) -> list[float]:
    step = 10 ** np.floor(np.log10(max(top, 1.0)))
    return [0.0, *(v for v in (step / 2, step, 2 * step, 5 * step) if 1 <= v <= top)]


def _along(checks: Checks) -> Plot:
    """Replicates as ribbons over a column, data as dots; those of equal place together, of few values by
    their mean: a share, or a mean category."""
    assert checks.over is not None
    name, x = checks.over
    means = checks.kind in (BINARY, CATEGORIES)
    # quantiles of a few whole numbers jump from place to place: those of a window do less
    wide = means or (checks.kind == COUNTS and _few(checks))
    most = min(_BINS, max(2, len(x) // _LEAST_MEAN)) if wide else 8 * _BINS
    places, where = np.unique(x, return_inverse=True)
    if len(places) > most:  # windows of equal length
        edges = np.quantile(x, np.linspace(0, 1, most + 1))
        where = np.clip(np.searchsorted(edges, x, side="right") - 1, 0, most - 1)
        used, where = np.unique(where, return_inverse=True)
        places = np.array([x[where == i].mean() for i in range(len(used))])
    outer, inner = np.empty((2, len(places))), np.empty((2, len(places)))
    middle, seen = np.empty((2, len(places)))
    order = np.argsort(where, kind="stable")
    ends = np.searchsorted(where[order], np.arange(len(places) + 1))
    for i in range(len(places)):
        here = order[ends[i] : ends[i + 1]]
        values = checks.replicates[:, here]
        values = values.mean(axis=1) if means else values.ravel()
        outer[:, i], inner[:, i] = np.percentile(values, [5.5, 94.5]), np.percentile(values, [25, 75])
        middle[i], seen[i] = np.median(values), checks.data[here].mean()
    some = np.linspace(0, len(x) - 1, min(len(x), MOST_DOTS)).round().astype(int)
    dots = {"x": places, "y": seen} if means else {"x": x[some], "y": checks.data[some]}
    tables = {
        "ribbons": {
            "x": places,
            "low": outer[0],
            "high": outer[1],
            "in": inner[0],
            "out": inner[1],
            "y": middle,
        },
        "data": dots,
    }
    marks = (
        Band("ribbons", colour=_DRAWN, alpha=0.18),
        Band("ribbons", colour=_DRAWN, alpha=0.28, low="in", high="out"),
        Line("ribbons", colour=_DRAWN),
        Dots("data", colour=INK, alpha=0.7, size=4, tip=((name, "@x"), (checks.site, "@y"))),
    )
    y = Axis(*reach(outer, dots["y"]))
    title = f"{'mean of ' * means}{checks.site} over {name}"
    return Plot(
        "check along",
        tables,
        marks,
        Axis(*reach(x, margin=0.02), f"{name} (bands: 50 % and 89 %)"),
        y,
        title=title,
    )


def _grouped(checks: Checks) -> Plot:
    """The mean of every group: of data as a dot, of replicates as a stroke; those farthest off where they are
    many."""
    rows = []
    for group, at in checks.groups.items():
        if at.any():
            seen, means = float(checks.data[at].mean()), checks.replicates[:, at].mean(axis=1)
            rows.append((str(group), seen, means, _off(checks, at)))
    left = len(rows) - _MOST_GROUPS
    if left > 0:
        worst = sorted(range(len(rows)), key=lambda i: -rows[i][3])[:_MOST_GROUPS]
        rows = [rows[i] for i in sorted(worst)]
    low, high = chosen().of(np.stack([r[2] for r in rows]))
    more = f" ({_MOST_GROUPS} farthest off)" if left > 0 else ""
    title = f"mean of {checks.site} by {checks.by}{more}"
    plot = strokes("groups", [r[0] for r in rows], [r[1] for r in rows], low, high, title)
    return replace(plot, name="check by", x=replace(plot.x, label=checks.site), height=70 + 17 * len(rows))


def _statistic(found: Statistic) -> Plot:
    values = found.draws[np.isfinite(found.draws)]
    plot = draws_bars(f"check {found.text}", values, "", include=(found.seen,))
    tables = {**plot.tables, "data": {"x": [found.seen] * 2, "y": [0.0, plot.y.high]}}
    text = found.text if len(found.text) < _LETTERS else f"{found.text[: _LETTERS - 1]}…"
    odd = min(found.p, 1 - found.p) < 0.01
    least = 1 / len(found.draws)  # fewer than all replicates tell of no smaller one
    told = f"p {found.p:.{3 if odd else 2}f}" if least <= found.p <= 1 - least else (
        f"p < {least:.2g}" if found.p < 0.5 else f"p > {1 - least:.3g}"
    )  # fmt: skip
    title = f"{text}: data {found.seen:.4g}, {told}"
    marks = (*plot.marks, Line("data", colour=INK, width=2.2))
    return replace(plot, tables=tables, marks=marks, title=title, ground=BAD if odd else None)
