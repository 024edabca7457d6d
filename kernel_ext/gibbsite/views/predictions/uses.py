"""What is made of predictions, as pictures: contrasts, effects, decisions and comparisons of models."""

from dataclasses import replace
from functools import singledispatch
from html import escape
from typing import Any

import numpy as np

from gibbsite.prediction.averaging import average_over_rows, component_names
from gibbsite.prediction.uses.comparing import BAD_K, Compared
from gibbsite.prediction.uses.contrasting import Contrast
from gibbsite.prediction.uses.deciding import Decision
from gibbsite.prediction.uses.effects import Effects
from gibbsite.sampling.derived.interval import chosen
from gibbsite.views.ink.colours import CHAINS
from gibbsite.views.plots.plot import (
    Axis,
    Band,
    Dots,
    Line,
    Plot,
    Rows,
    Rule,
    Stretches,
    reach,
)
from gibbsite.views.plotted import Picture, picture_of
from gibbsite.views.predictions.plots import columns_html, draws_bars, head_of, pareto, rows, strokes

_DRAWN = CHAINS[0]
_HEIGHT = 230
_FEW = 4  # components of vectors that have plots of their own


@singledispatch
def use_rows(found: Any) -> Rows:
    """The plots of a contrast, of effects, of a decision or of a comparison."""
    raise TypeError(f"nothing is plotted of {type(found).__name__}")


@use_rows.register
def _(found: Contrast) -> Rows:
    x, apart = found.difference, found.components
    names = component_names(found.a.facts, found.site, x.shape[2:]) or [found.a.facts.called(found.site)]
    averages = average_over_rows(x, apart).reshape(-1, len(names))
    wholes = [_average(i, name, averages[:, i]) for i, name in enumerate(names[:_FEW])]
    # rows of several components, which may have units of their own, are no one line
    if x.ndim == 2 or x[0, 0].size == 1 or len(names) > 1:
        return (tuple(wholes),)
    each = rows(found.a, found.site, x.reshape(-1, *x.shape[2:]))
    listed = each.y.ticks is not None
    each = replace(
        each,
        name="contrast rows",
        title=f"{found.site}: difference of each row, mean and {chosen()}",
        rules=(Rule(0.0, of="x" if listed else "y"),),
        height=max(_HEIGHT, each.height),
    )
    if found.of_a_total:
        return ((each,),)
    return ((*wholes, each),)


def _average(i: int, name: str, x: np.ndarray) -> Plot:
    share = 100 * float(np.mean(x > 0))
    title = f"{name}: average difference, {share:.3g} % above 0"
    called = f"contrast average {i}" if i else "contrast average"
    whole = draws_bars(called, x, title, include=(0.0,))
    return replace(whole, rules=(Rule(0.0, of="x"),), height=_HEIGHT)


@use_rows.register
def _(found: Effects) -> Rows:
    x = found.draws
    first = found.values[0]
    told = first if isinstance(first, str) else f"{first:.4g}"
    names = found.component_names or [found.predictions[0].facts.called(found.site)]
    every, out = x.reshape(*x.shape[:3], -1), []
    for i, site in enumerate(names[:_FEW]):
        one, number = every[..., i], f" {i}" * bool(i)
        both = (
            (f"effects{number}", f"{site} on average, by {found.name}", one),
            (f"effects more{number}", f"difference from {found.name} {told}", one - one[..., :1]),
        )
        out.append(tuple(_by_value(name, found, title, v) for name, title, v in both))
    return tuple(out)


def _by_value(name: str, found: Effects, title: str, draws: np.ndarray) -> Plot:
    flat = draws.reshape(-1, draws.shape[-1])
    low, high = chosen().of(flat.T)
    mean = flat.mean(axis=0)
    if any(isinstance(v, str) for v in found.values):
        return strokes(name, list(map(str, found.values)), mean, low, high, title)
    x = np.asarray(found.values, float)
    tables = {name: {"x": x, "y": mean, "low": low, "high": high}}
    tip = ((found.name, "@x"), (found.site, "@y"))
    marks = (
        Band(name, colour=_DRAWN, alpha=0.25),
        Line(name, colour=_DRAWN, width=1.8),
        Dots(name, colour=_DRAWN, size=6, tip=tip),
    )
    axes = Axis(*reach(x), found.name), Axis(*reach(low, high))
    return Plot(name, tables, marks, *axes, title=f"{title}; {chosen()}", height=_HEIGHT)


@use_rows.register
def _(found: Decision) -> Rows:
    values = np.stack([v.ravel() for v in found.draws.values()])
    low, high = chosen().of(values)
    names, chance = list(found.draws), np.array(list(found.best_probability.values()))
    expected = strokes(
        "decision", names, values.mean(axis=1), low, high, f"{found.text}: mean and {chosen()}"
    )
    y = np.asarray(expected.tables["decision"]["y"])
    best = replace(
        expected,
        name="decision best",
        title="probability of being best",
        tables={"best": {"x": chance, "y": y, "low": np.zeros(len(y)), "high": chance}},
        marks=(Stretches("best", colour=_DRAWN, width=10, alpha=0.55, tip=(("", "@x"),)),),
        x=Axis(0, 1.02),
    )
    return ((expected, best),)


@use_rows.register
def _(found: Compared) -> Rows:
    names = [e.name for e in found.entries]
    apart, error = (np.array([getattr(e, n) for e in found.entries]) for n in ("difference", "dse"))
    title = "elpd less the best's, ± one standard error"
    first = strokes("compared", names, apart, apart - error, apart + error, title)
    first = replace(first, rules=(Rule(0.0, of="x"),))
    each = [
        replace(pareto(e.pareto_k, BAD_K, f"pareto {i}"), title=f"{e.name}: Pareto k, {e.bad} above {BAD_K}")
        for i, e in enumerate(found.entries)
        if e.pareto_k
    ]
    each = [replace(p, height=_HEIGHT - 40) for p in each]
    return ((first,), *(tuple(each[i : i + 2]) for i in range(0, len(each), 2)))


def plot_use(found: Any) -> Picture:
    """The picture."""
    return picture_of(use_rows(found), repr(found), type(found).__name__)


def use_html(found: Any) -> str:
    """Its picture, its words, and the head of its table."""
    if isinstance(found, Compared):
        lines = repr(found).splitlines()
        table, words = "\n".join(lines[: len(found.entries) + 1]), "\n".join(lines[len(found.entries) + 1 :])
    else:
        words, table = repr(found), head_of(found.to_frame())
    told = f'<div style="white-space:pre-wrap">{escape(words)}</div>'
    return f'<div class="gibbsite-use">{plot_use(found).html}{told}{columns_html(table)}</div>'
