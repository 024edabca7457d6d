"""The runs of a process in a notebook cell: gone on with, opened, compared and overlaid by buttons."""

import time
from functools import cache, partial
from html import escape
from typing import Any

import traitlets
from bokeh.models import Spacer

from gibbsite.errors import GibbsiteError
from gibbsite.views.host.assets import joined
from gibbsite.views.host.bokeh import BokehWidget, serialised
from gibbsite.views.host.display import name_of
from gibbsite.views.posterior.cards import plot_run
from gibbsite.views.run.clinic import MORE, trial_rows
from gibbsite.views.run.content import ENDED
from gibbsite.views.run.history import VERDICT, history_html, signed_cells

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
    rows = []
    for number, entry in enumerate(runs.entries):
        run, cells = entry.run, signed_cells(entry, number)
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
    missing = any(entry.elpd is None for entry in runs.entries)
    note = "choose one to open, two to compare or overlay"
    return {
        "heads": list(runs.heads),
        "rows": rows,
        "verdict": VERDICT,
        "note": note + (" · gibbsite.runs().with_elpd() fills the last column" if missing else ""),
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
