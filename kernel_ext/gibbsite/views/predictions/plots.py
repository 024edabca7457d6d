"""A prediction as plots: what the outcome can be says which one fits (Säilynoja, Johnson, Martin and Vehtari
2025).

Numbers over a range: the share of values below each, of the data and of replicates. Counts, categories and
yes or no: how often each value. Rows without data of their own: every row's mean and interval.
"""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gibbsite.prediction.prediction import Prediction
from gibbsite.sampling.derived.interval import chosen
from gibbsite.views.ink.colours import BAD, CHAINS
from gibbsite.views.plots.plot import (
    INK,
    Axis,
    Band,
    Bars,
    Dots,
    Line,
    Mark,
    Plot,
    Rows,
    Rule,
    Stretches,
    reach,
)
from gibbsite.views.plotted import Picture, picture_of, wrapped_html

REPLICATES = 400  # their pointwise intervals have a Monte Carlo error below a twentieth of their width
_GRID = 160
_LISTED = 40  # rows that have names beside them
_VALUES = 40  # different whole numbers that stand side by side
_BINS = 30  # of draws of one number
MOST_DOTS = 2000
_DRAWN = CHAINS[0]


def plots_of(prediction: Prediction, name: str) -> Rows:
    """What is plotted of one site."""
    draws = {**prediction.draws, **prediction.derived_values()}[name]
    flat = draws.reshape(draws.shape[0] * draws.shape[1], *draws.shape[2:])
    at = np.linspace(0, len(flat) - 1, min(len(flat), REPLICATES)).round().astype(int)
    data = prediction.facts.observed.get(name)
    if prediction.facts.group != "predictions" and (data is not None or flat[0].size > 1):
        values = flat[at].reshape(len(at), -1)
        seen = None if data is None else np.asarray(data, float).ravel()
        seen = None if seen is None else seen[np.isfinite(seen)]
        whole = draws.dtype.kind in "iub" and np.ptp(values) < _VALUES
        return ((counts(name, values, seen) if whole else shares(name, values, seen),),)
    return ((rows(prediction, name, flat),),)


def shares(name: str, values: np.ndarray, data: np.ndarray | None) -> Plot:
    """Empirical distribution functions: the interval that replicates `[replicate, element]` keep to at every
    value, and that of the data."""
    finite = values[np.isfinite(values).all(axis=1)]
    inside = np.percentile(finite, [0.5, 99.5]) if finite.size else np.array([0.0, 1.0])
    low, high = reach(inside, *([] if data is None else [data]), margin=0.02)
    x = np.linspace(low, high, _GRID)
    each = np.stack([np.searchsorted(np.sort(v), x, side="right") / len(v) for v in finite])
    below, above = chosen().of(each.T)
    tables = {"replicates": {"x": x, "low": below, "high": above, "mean": each.mean(axis=0)}}
    marks: list = [
        Band("replicates", colour=_DRAWN, alpha=0.25),
        Line("replicates", colour=_DRAWN, y="mean"),
    ]
    if data is not None and data.size:
        ordered = np.sort(data)
        tables["data"] = {"x": x, "y": np.searchsorted(ordered, x, side="right") / len(ordered)}
        marks.append(Line("data", colour=INK, width=1.8))
    title = f"{name}: share of values below"
    return Plot(
        f"check {name}", tables, tuple(marks), Axis(low, high, name), Axis(0, 1), title=title, height=260
    )


def counts(name: str, values: np.ndarray, data: np.ndarray | None) -> Plot:
    """How often each whole number comes: bars of the data, and the interval of replicates."""
    some = [values.min(), values.max()] if data is None or not data.size else [
        min(values.min(), data.min()), max(values.max(), data.max())]  # fmt: skip
    x = np.arange(int(some[0]), int(some[1]) + 1)
    each = (values[:, :, None] == x).mean(axis=1)
    low, high = chosen().of(each.T)
    tables = {"replicates": {"x": x, "low": low, "high": high, "mean": each.mean(axis=0)}}
    marks: list = []
    if data is not None and data.size:
        tables["data"] = {"x": x, "y": (data[:, None] == x).mean(axis=0)}
        marks.append(Bars("data", colour=INK, alpha=0.35))
    for end in ("low", "high"):
        marks.append(Line("replicates", colour=_DRAWN, y=end, dash=(4, 3)))
    marks.append(Dots("replicates", colour=_DRAWN, y="mean", size=6))
    top = float(max(high.max(), 0.0 if "data" not in tables else np.max(tables["data"]["y"])))
    title = f"{name}: how often each value"
    every = -(-len(x) // 10)
    ticks = tuple((float(v), str(v)) for v in x[::every])
    x_axis = Axis(float(x[0]) - 0.6, float(x[-1]) + 0.6, name, ticks)
    return Plot(f"check {name}", tables, tuple(marks), x_axis, Axis(0, 1.08 * top), title=title, height=260)


def rows(prediction: Prediction, name: str, flat: np.ndarray) -> Plot:
    """Every element's mean and interval: below each other with their names, or as a band where they are
    many."""
    values = flat.reshape(len(flat), -1).astype(float)
    low, high = chosen().of(values.T)
    mean, count = values.mean(axis=0), values.shape[1]
    title = f"{name}: mean and {chosen()}"
    if count > _LISTED:
        tables = {"rows": {"x": np.arange(count), "low": low, "high": high, "mean": mean}}
        marks = (Band("rows", colour=_DRAWN, alpha=0.25), Line("rows", colour=_DRAWN, y="mean"))
        span = reach(low, high)
        return Plot(
            f"rows {name}", tables, marks, Axis(0, count - 1, "row"), Axis(*span), title=title, height=260
        )
    y = np.arange(count, 0, -1, dtype=float)
    names = _names(prediction, name, flat.shape[1:])
    tables = {"rows": {"x": mean, "y": y, "low": low, "high": high}}
    tip = (("", "@x"),)
    marks = (Stretches("rows", colour=_DRAWN, tip=tip), Dots("rows", colour=_DRAWN, size=6, tip=tip))
    ticks = tuple(zip(y.tolist(), names, strict=True))
    ends = reach(low, high)
    x_axis, y_axis = Axis(*ends, name), Axis(0.4, count + 0.6, ticks=ticks)
    ground = None if np.isfinite(values).all() else BAD
    return Plot(
        f"rows {name}", tables, marks, x_axis, y_axis, title=title, ground=ground, height=70 + 17 * count
    )


def draws_bars(name: str, values: np.ndarray, title: str, include: tuple[float, ...] = ()) -> Plot:
    """How often each value comes among draws of one number; the range has what is to be included in it."""
    low, high = reach(values, include=include)
    places = np.unique(values)
    if 1 <= len(places) <= _BINS:  # a bar for each value
        middle = places
        wide = float(np.diff(places).min()) if len(places) > 1 else (high - low) / 10
        count = (values[:, None] == places).sum(axis=0)
    else:
        edges = np.linspace(low, high, _BINS + 1)
        middle, wide = (edges[:-1] + edges[1:]) / 2, float(edges[1] - edges[0])
        count = np.histogram(values, edges)[0]
    top = 1.08 * float(max(count.max(initial=1), 1))
    marks = (Bars("draws", colour=_DRAWN, alpha=0.45, wide=0.94 * wide),)
    tables = {"draws": {"x": middle, "y": count}}
    return Plot(name, tables, marks, Axis(low, high), Axis(0, top, ticks=()), title=title)


def pareto(by_datum: Mapping[str, float], good: float, name: str) -> Plot:
    """Every datum's Pareto k, by name under the pointer; beyond the line it is not to be relied on."""
    names, k = list(by_datum), np.array(list(by_datum.values()))
    at = np.arange(len(k))
    shown = np.argsort(-np.nan_to_num(k, nan=np.inf))[:MOST_DOTS]
    bad = ~(k[shown] <= good)
    finite = np.clip(np.nan_to_num(k, nan=2.0, posinf=2.0), -0.5, 2.0)
    tables = {
        f"{name} {n}": {"x": at[shown][w], "y": finite[shown][w], "name": [names[i] for i in shown[w]]}
        for n, w in (("good", ~bad), ("bad", bad))
    }
    tip = (("", "@name"), ("Pareto k", "@y"))
    marks = (
        Dots(f"{name} good", colour=_DRAWN, alpha=0.7, tip=tip),
        Dots(f"{name} bad", colour=BAD, size=7, tip=tip),
    )
    y = Axis(*reach(finite, include=(0.0, good)))
    title = f"Pareto k: {int((~(k <= good)).sum())} of {len(k)} above {good:.2f}"
    return Plot(name, tables, marks, Axis(-1, len(k), "datum"), y, (Rule(good),), title=title)


def strokes(
    name: str, names: Sequence[str], mean: ArrayLike, low: np.ndarray, high: np.ndarray, title: str
) -> Plot:
    """Below each other by their names: means as dots, intervals as strokes."""
    y = np.arange(len(names), 0, -1, dtype=float)
    tables = {name: {"x": mean, "y": y, "low": low, "high": high}}
    marks: tuple[Mark, ...] = (
        Stretches(name, colour=_DRAWN, width=4, alpha=0.5),
        Dots(name, colour=INK, size=6, tip=(("", "@x"),)),
    )
    ticks = tuple(zip(y.tolist(), names, strict=True))
    return Plot(
        name, tables, marks, Axis(*reach(low, high, mean)), Axis(0.4, len(names) + 0.6, ticks=ticks),
        title=title, height=70 + 20 * len(names),
    )  # fmt: skip


def _names(prediction: Prediction, name: str, shape: tuple[int, ...]) -> list[str]:
    labels = prediction.facts.labels.get(name, (None,) * len(shape))
    index = getattr(prediction.facts.source, "index", None)
    if len(shape) == 1 and index is not None and not callable(index) and len(index) == shape[0]:
        return [str(t) for t in index]
    told = [[str(t) for t in (range(n) if ts is None else ts)] for n, ts in zip(shape, labels, strict=True)]
    return [", ".join(told[a][i] for a, i in enumerate(at)) for at in np.ndindex(shape)]


_LINES = 10  # of the table below a picture


def plot_prediction(prediction: Prediction, name: str) -> Picture:
    """The picture of one site of a prediction."""
    rows = plots_of(prediction, name)
    legend = _legend(rows)
    found = picture_of(rows, f"{name}: {prediction.note}", name, legend)
    return found if legend else Picture(found.svg, found.text, found.views)  # which a page shows whole


def _legend(rows: Rows) -> str:
    """What is drawn how, where data or replicates are."""
    tables = rows[0][0].tables
    if "replicates" not in tables:
        return ""
    return f"{'data in ink, ' if 'data' in tables else ''}replicates' {chosen()} in blue"


def prediction_html(prediction: Prediction) -> str:
    """The note, the first outcome's picture, and the head of the table."""
    parts = [f"<p>{escape(prediction.model_name)}: {escape(prediction.note)}</p>"]
    if prediction.draws:
        name = next(iter(prediction.outcomes or prediction.draws))
        rows = plots_of(prediction, name)
        parts.append(wrapped_html(rows, f"{name}: {prediction.note}"))
        parts += [f"<p>{escape(legend)}</p>"] if (legend := _legend(rows)) else []
    parts.append(columns_html(table_text(prediction)))
    return f'<div class="gibbsite-prediction">{"".join(parts)}</div>'


def columns_html(table: str) -> str:
    """A table of letters: its columns stay below each other, and scroll where the page is narrow."""
    return f'<pre style="white-space:pre;overflow-x:auto">{escape(table)}</pre>'


def prediction_text(prediction: Prediction) -> str:
    """The same for terminals, without the picture."""
    return f"{prediction!r}\n{table_text(prediction)}"


def table_text(prediction: Prediction) -> str:
    """The first rows of the table."""
    return head_of(prediction.to_frame()) if prediction.outcomes else ""


def head_of(frame: Any) -> str:
    """The first rows of a pandas or polars table, and how many more there are."""
    head = frame.head(_LINES)
    text = head.to_string() if hasattr(head, "to_string") else str(head)
    return text + (f"\n… and {len(frame) - _LINES} more rows" if len(frame) > _LINES else "")
