"""A check of a model as a page and as a display: verdicts, what each cannot see, ranks with their bands."""

from html import escape
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from gibbsite.checking.finding import LEVEL, Finding, Ranks
from gibbsite.checking.uniform import bands
from gibbsite.views.ink import svg
from gibbsite.views.report import STYLE

_COLOURS = {"right": "#2e7d4f", "wrong": "#c8372d", "doubtful": "#b67700", "open": "#6a737d"}
_LEVEL = 0.95
_WIDTH, _HEIGHT, _ACROSS, _SHOWN = 300, 150, 3, 12


def check_html(check: Any) -> str:
    """What a notebook shows of it."""
    rows = "".join(_row(f) for f in check.findings)
    head = f"<p><b>check of {escape(check.model.name)}</b>: {escape(check.verdict)}</p>"
    table = f'<table class="words" style="min-width:0"><tbody>{rows}</tbody></table>' if rows else ""
    pictures = "".join(ranks_svg(f.ranks) for f in check.findings if f.ranks is not None)
    return f'<div class="gibbsite-check">{head}{table}{pictures}</div>'


def _row(finding: Finding) -> str:
    colour = _COLOURS[finding.state]
    left = 'style="text-align:left;vertical-align:top"'
    state = f'<td {left}><b style="color:{colour}">{finding.state}</b></td>'
    blind = f"<br><small>cannot see: {escape(finding.blind)}</small>" if finding.blind else ""
    spent = f"<td {left}>{finding.seconds:.0f}&nbsp;s</td>"
    test = f"<td {left}>{escape(finding.test)}</td>"
    return f"<tr>{state}{test}<td {left}>{escape(finding.text)}{blind}</td>{spent}</tr>"


def ranks_svg(ranks: Ranks) -> str:
    """The empirical distribution function of ranks, less the uniform one, with simultaneous bands: of the
    quantities that are least uniform."""
    names = sorted(ranks.p, key=lambda n: ranks.p[n])[:_SHOWN]
    count = len(next(iter(ranks.by_quantity.values())))
    places, low, high = bands(count, ranks.most, _LEVEL)
    reach = 1.3 * float(max(np.abs(low - places).max(), np.abs(high - places).max()))
    parts = []
    for i, name in enumerate(names):
        below = np.array([(ranks.by_quantity[name] < k).mean() for k in range(1, ranks.most + 1)])
        far = max(reach, 1.1 * float(np.abs(below - places).max()))
        plot = svg.Axes(_WIDTH, _HEIGHT, (0.0, 1.0), (-far, far), title=f"{name}   p = {ranks.p[name]:.2g}")
        plot.band(places, low - places, high - places, "#2f6fb0", 0.2)
        plot.line(places, below - places, "#2f6fb0")
        parts.append(plot.placed((i % _ACROSS) * _WIDTH, (i // _ACROSS) * _HEIGHT))
    high_as = _HEIGHT * -(-len(names) // _ACROSS)
    told = (
        f"Ranks of what made the data, {count} data sets: their distribution function less the uniform one, "
        f"of the {len(names)} quantities that are least uniform; {_LEVEL:.0%} simultaneous bands."
    )
    return f"<p>{escape(told)}</p>{svg.document(_WIDTH * _ACROSS, high_as, parts)}"


def write_check(check: Any, path: str | PathLike[str]) -> Path:
    """Write a check's page; returns its path. Raises `OSError` where it cannot be written."""
    target = Path(path)
    title = f"{check.model.name}: a check by Gibbsite"
    schedule = escape(check.model.schedule().text)
    rate = (
        f"Each statistical test calls what is right wrong in one case of {1 / LEVEL:.0f} at most, with all "
        f"that it compares counted. “open” is what could not be tested."
    )
    body = (
        f"<header><h1>{escape(check.model.name)}</h1></header><section>{check_html(check)}"
        f'<p class="muted">{rate}</p></section>'
        f"<section><h2>Schedule</h2><pre>{schedule}</pre></section>"
        f"<section><h2>Model</h2><pre>{escape(str(check.model.source).rstrip())}</pre></section>"
    )
    target.write_text(
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{STYLE}</style></head>\n<body><main>{body}</main></body></html>\n",
        encoding="utf-8",
    )
    return target
