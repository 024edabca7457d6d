"""The plots of a run as SVG: one function per plot, each on one `Parameter` or on the run's history."""

from collections.abc import Mapping, Sequence

import numpy as np

from gibbsite.views.ink import svg
from gibbsite.views.ink.colours import BAD, CHAINS, INK, LINE, OTHERS, SLOTS, WORN
from gibbsite.views.run.content import RHAT_LIMIT, Content, Parameter

SOON = "no draws yet"
WARMING = "  (warm-up: not counted)"


def trace(
    parameter: Parameter, divergent: np.ndarray, width: float, height: float, colour: str = INK
) -> svg.Axes:
    """Draws against time, one line per chain; a band where a point stands for several draws.

    The title has `colour`, which stands for the parameter in the plots of running measures.
    """
    draw = parameter.draw
    x = (0.0, float(max(draw[-1] if draw.size else 1, 1)))
    y = svg.span(parameter.low, parameter.high)
    title = parameter.label + (WARMING if parameter.warmup else "")
    axes = svg.Axes(width, height, x, y, title=title, title_colour=colour)
    axes.x_label = "warm-up step" if parameter.warmup else "draw"
    if parameter.warmup:
        ends = np.array(x)
        axes.band(ends, np.full(2, y[0]), np.full(2, y[1]), WORN, opacity=0.1)
    for chain, (values, low, high) in enumerate(
        zip(parameter.values, parameter.low, parameter.high, strict=True)
    ):
        own = CHAINS[chain % len(CHAINS)]
        if parameter.decimated:
            axes.band(draw, low, high, own)
        axes.line(draw, values, own, width=0.8, opacity=0.85)
    axes.rug(divergent, BAD)
    return axes


def ranks(parameter: Parameter, width: float, height: float) -> svg.Axes:
    """How the ranks of each chain's draws spread over all draws: level where chains agree."""
    shares = rank_shares(parameter.ranks)
    top = max(2.0, float(shares.max(initial=0)) * 1.1)
    axes = svg.Axes(width, height, (0.0, 1.0), (0.0, top), title="ranks", x_label="rank of all draws")
    if not shares.size:
        axes.note(SOON)
        return axes
    axes.rule(1.0, LINE)
    edges = np.linspace(0, 1, shares.shape[1] + 1)
    for chain, heights in enumerate(shares):
        axes.steps(edges, heights, CHAINS[chain % len(CHAINS)])
    return axes


def rank_shares(counts: np.ndarray) -> np.ndarray:
    """Counts of ranks `[chain, bin]` in units of what equal chains would have."""
    counts = np.asarray(counts, float)
    total = counts.sum(axis=-1, keepdims=True)
    return counts * counts.shape[-1] / np.where(total > 0, total, 1)


def autocorrelation(parameter: Parameter, width: float, height: float) -> svg.Axes:
    """Correlation of draws with those `lag` steps earlier, one line per chain."""
    values = parameter.autocorrelation
    lags = np.arange(values.shape[-1])
    low = min(-0.2, float(np.nanmin(values)) if np.isfinite(values).any() else 0.0)
    x = (0.0, float(max(lags.size - 1, 1)))
    axes = svg.Axes(width, height, x, (low, 1.05), title="autocorrelation", x_label="lag")
    axes.rule(0.0, LINE)
    for chain, line in enumerate(values):
        axes.line(lags, line, CHAINS[chain % len(CHAINS)], width=1.2)
    return axes


def running(content: Content, kind: str, width: float, height: float) -> svg.Axes:
    """R-hat (`kind="rhat"`) or bulk ESS (`"ess"`) as the run went on, against its threshold."""
    series = content.rhat if kind == "rhat" else content.ess
    chosen = [p.label for p in content.parameters]
    limit = RHAT_LIMIT if kind == "rhat" else float(content.ess_limit)
    last = float(content.marks[-1]) if content.marks.size else 1.0
    axes = svg.Axes(width, height, (0.0, last), running_span(series, kind, limit, chosen), x_label="draw")
    axes.title = "R-hat so far" if kind == "rhat" else "bulk ESS so far"
    if not any(np.isfinite(line).any() for line in series.values()):
        axes.note(SOON)
        return axes
    words = f"{limit:g}"
    axes.rule(limit, BAD, words)
    for label, line in series.items():
        if label not in chosen:
            axes.line(content.marks, line, OTHERS, width=0.7, opacity=0.5)
    for slot, label in enumerate(chosen):
        if label in series:
            axes.line(content.marks, series[label], SLOTS[slot % len(SLOTS)], width=1.6)
    return axes


def running_span(
    series: Mapping[str, np.ndarray], kind: str, limit: float, chosen: Sequence[str]
) -> tuple[float, float]:
    """A range in which the threshold and the newest values can be told apart, whatever the first were. That
    of the ESS fits the `chosen` scalars; far better ones may leave the plot."""
    if kind == "ess":
        shown = [v for n, v in series.items() if n in chosen] or list(series.values())
        return 0.0, 1.15 * max([limit, *(float(np.nanmax(v)) for v in shown if np.isfinite(v).any())])
    late = [line[len(line) // 4 :] for line in series.values()]
    finite = [line[np.isfinite(line)] for line in late]
    top = max([limit + 0.02, *(float(line.max()) for line in finite if line.size)])
    low = min([0.995, *(float(line.min()) for line in finite if line.size)])
    return low, min(top + 0.1 * (top - low), 3.0)
