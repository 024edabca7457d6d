"""The runs of a process in a notebook cell: gone on with, opened, compared and overlaid by buttons."""

import difflib
import time
from functools import cache, partial
from html import escape
from pathlib import Path
from typing import Any

import traitlets
from bokeh.models import Spacer

from gibbsite.density.model.names import printed
from gibbsite.errors import GibbsiteError
from gibbsite.views.host.assets import joined
from gibbsite.views.host.bokeh import BokehWidget, serialised
from gibbsite.views.host.display import name_of
from gibbsite.views.ink.colours import BAD, GOOD, WORN
from gibbsite.views.plotted import plot_run
from gibbsite.views.run.clinic import MORE, trial_rows
from gibbsite.views.run.content import ENDED

WHITE = "\n\t"
_RULE = "1px solid rgba(127,127,127,.35)"
_TABLE_CELL = "padding:3px 12px 3px 0;border:none;background:transparent;color:inherit;vertical-align:top"
_COLOURS = {"converged": GOOD, "prior": GOOD, "not yet": WORN, "failed": BAD}
_SIGNS = {"converged": "✓ ", "prior": "✓ ", "not yet": "… ", "failed": "✗ "}
VERDICT = 5  # its column
_NUMBERS = 6  # and what follows are figures
_WORDS = (2, 3)  # columns of long words
_FILL = "gibbsite.runs().with_elpd() finds the elpd of all"


def history_html(runs: Any) -> str:
    """A row for every run: its name in the notebook, model, what changed since that model's last, and how it
    did."""
    entries = runs.entries
    if not entries:
        return "<div>no runs yet</div>"
    count = _columns(runs, entries)
    heads = "".join(_cell("th", h or "run", i, "") for i, h in enumerate(runs.heads[:count]))
    rows = []
    for number, entry in enumerate(entries):
        cells = signed_cells(entry, number)[:count]
        style = f"color:{_COLOURS[entry.run.verdict.state]};font-weight:600"
        rows.append(
            "<tr>" + "".join(_cell("td", c, i, style * (i == VERDICT)) for i, c in enumerate(cells)) + "</tr>"
        )
    missing = any(entry.elpd is None for entry in entries)
    more = f" · {_FILL}" if missing else ""
    note = (
        "gibbsite.runs()[0] is a run · gibbsite.runs().compare(0, 1) sets two side by side · "
        f"gibbsite.runs().plot(0, 1) draws both into the same plots{more}"
    )
    return (
        '<div class="gibbsite-runs" style="font:13px/1.5 system-ui,sans-serif;overflow-x:auto">'
        '<table style="border-collapse:collapse;font-size:12px;margin:4px 0;'
        'font-variant-numeric:tabular-nums">'
        f"<thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
        f'<div style="opacity:.7;font-size:12px">{note}</div></div>'
    )


_PAGE = """
body{font:14px/1.5 system-ui,sans-serif;margin:24px;color-scheme:light dark;background:Canvas;
color:CanvasText}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}h1{font-size:20px}
th,td{text-align:left;padding:4px 14px 4px 0;vertical-align:top;
border-bottom:1px solid rgba(127,127,127,.35)}
td.n,th.n{text-align:right;white-space:nowrap}.tag{border:1px solid;border-radius:9px;padding:0 7px;
margin-right:4px;font-size:12px;white-space:nowrap}
code,pre{font:12px/1.4 ui-monospace,Menlo,monospace}pre{overflow-x:auto;margin:4px 0}
.add{color:#2a8a4a}.gone{color:#c0392b}summary{cursor:pointer;opacity:.75}.scroll{overflow-x:auto}
"""


_SPACE = "\u202f"  # between thousands: no sign that hides anything


def write_runs(runs: Any, path: Path) -> Path:
    """Write the page of `Runs.page`, which needs nothing else, and return its path."""
    heads = ("run", *runs.heads[1:3], "data", *runs.heads[3:], "tags", "note")
    entries, rows = runs.entries, []
    for number, entry in enumerate(entries):
        cells = signed_cells(entry, number)
        cells.insert(3, entry.data[:8])
        tags = "".join(f'<span class="tag">{escape(t)}</span>' for t in entry.tags)
        colour = _COLOURS[entry.run.verdict.state]
        shown = [
            f"<td{' class=n' * (7 <= i <= 9)}{f' style=color:{colour}' * (i == 6)}>"
            f"{escape(printed(c, _SPACE))}</td>"
            for i, c in enumerate(cells)
        ]
        rows.append(f"<tr>{''.join(shown)}<td>{tags}</td><td>{escape(printed(entry.note))}</td></tr>")
        source = _source_html(entry.run.source, "" if entry.before is None else entry.before.source)
        if source:
            rows.append(f'<tr><td></td><td colspan="{len(heads) - 1}">{source}</td></tr>')
    head = "".join(f"<th{' class=n' * (7 <= i <= 9)}>{h}</th>" for i, h in enumerate(heads))
    path.write_text(
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>runs</title>'
        f"<style>{_PAGE}</style></head><body><h1>{len(entries)} runs</h1><div class=scroll><table><thead>"
        f"<tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div></body></html>\n",
        encoding="utf-8",
    )
    return path


def _source_html(source: str, before: str) -> str:
    """The model, and how it differs from what it was before, to be unfolded."""
    if not source:
        return ""
    lines = []
    for line in difflib.unified_diff(before.splitlines(), source.splitlines(), lineterm="", n=2):
        if not line.startswith(("---", "+++", "@@")):
            kind = {"+": "add", "-": "gone"}.get(line[:1], "")
            lines.append(f'<span class="{kind}">{escape(printed(line))}</span>')
    change = f"<details open><summary>difference</summary><pre>{'<br>'.join(lines)}</pre></details>"
    whole = f"<details><summary>source</summary><pre>{escape(printed(source, WHITE))}</pre></details>"
    return (change if before and lines else "") + whole


def signed_cells(entry: Any, number: int) -> list[str]:
    """A row as words: the run's number with its name in the notebook, the verdict with a sign."""
    cells = list(entry.cells(number))
    cells[0] = f"{number} {name_of(entry.run, '')}".strip()
    cells[VERDICT] = _SIGNS[entry.run.verdict.state] + cells[VERDICT]
    return cells


def _columns(runs: Any, entries: Any) -> int:
    """How many columns there are to show: that of the elpd, the last, only where one is known."""
    return len(runs.heads) - all(entry.elpd is None for entry in entries)


def _cell(tag: str, value: str, place: int, more: str) -> str:
    align = "right" if place >= _NUMBERS else "left"
    nowrap = "white-space:nowrap;" if tag == "td" and (place == 0 or place >= _NUMBERS) else ""
    nowrap += "min-width:130px;overflow-wrap:anywhere;" if place in _WORDS else ""
    rule = nowrap + f"border-bottom:{_RULE};" if tag == "th" else nowrap
    return f'<{tag} style="{_TABLE_CELL};{rule}text-align:{align};{more}">{escape(value)}</{tag}>'


_EVERY = 1.0  # seconds between two looks at runs that go on
_CELL = 'style="padding:1px 14px 1px 0;text-align:right"'


@cache
def _blank() -> str:
    return serialised(Spacer(height=0))


class RunsWidget(BokehWidget):
    """A table of runs: `ask(what, chosen)` does what its buttons do to the runs of these numbers."""

    _esm = joined("runs/runs.mjs")
    _runs = traitlets.Dict().tag(sync=True)
    _below = traitlets.Dict().tag(sync=True)

    def __init__(self, runs: Any):
        self.of, self._looked = runs, 0.0
        super().__init__(
            _blank(),
            static_html=partial(history_html, runs),
            text=lambda: repr(runs),
            _runs=told_runs(runs),
        )
        self.on("runs", lambda detail: self.ask(str(detail.get("what")), detail.get("chosen")))
        for run in runs:
            run.subscribe(self._heard)

    def _heard(self, run: Any) -> None:
        if run.status in ENDED or time.monotonic() - self._looked > _EVERY:
            self._looked = time.monotonic()
            self._runs = told_runs(self.of)

    def ask(self, what: str, chosen: Any) -> None:
        """ "open" or go on ("resume", "more") with one run, "compare" or "overlay" two."""
        places = chosen if isinstance(chosen, list) else []
        runs = [self.of[i] for i in places if isinstance(i, int) and 0 <= i < len(self.of)]
        try:
            if what in ("resume", "more") and len(runs) == 1:
                runs[0].continue_(None if what == "resume" else MORE)
            elif what == "open" and len(runs) == 1:
                self._show(plot_run(runs[0]).svg)
            elif what == "compare" and len(runs) == 2:
                self._show(comparison_html(*runs))
            elif what == "overlay" and len(runs) == 2:
                self._show(plot_run(runs[0], beside=runs[1]).svg)
        except GibbsiteError as problem:
            self._show(f"<div>{escape(str(problem))}</div>")

    def _show(self, html: str) -> None:
        self._below = {"html": html}


def told_runs(runs: Any) -> dict[str, Any]:
    """The trait `_runs`, which `js/runs/runs.mjs` reads."""
    entries, rows = runs.entries, []
    count = _columns(runs, entries)
    for number, entry in enumerate(entries):
        run, cells = entry.run, signed_cells(entry, number)[:count]
        ended, known = run.status in ENDED, run.model is not None
        rows.append(
            {
                "name": cells[0],
                "cells": cells,
                "state": run.verdict.state if ended else "going",
                "resume": ended and known and run.status != "finished",
                "more": MORE if known and run.status == "finished" else 0,
            }
        )
    missing = any(entry.elpd is None for entry in entries)
    note = "choose one to open, two to compare or overlay"
    return {
        "heads": list(runs.heads[:count]),
        "rows": rows,
        "verdict": VERDICT,
        "note": note + (f" · {_FILL}" if missing else ""),
    }


def comparison_html(first: Any, second: Any) -> str:
    """Two runs side by side: measures, and whether they say the same."""
    found = first.compare(second)
    heads = ("", name_of(first, "the first"), name_of(second, "the second"))
    lines = "".join(
        f"<tr><td>{escape(name)}</td><td {_CELL}>{one}</td><td {_CELL}>{two}{' ✓' * (better > 0)}</td></tr>"
        for name, one, two, better in trial_rows(found)
    )
    head = "".join(f"<th>{escape(h)}</th>" for h in heads)
    return (
        f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table><div>{escape(str(found))}</div>"
    )
