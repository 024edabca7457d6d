"""The runs of a process as a table, in colours that suit light and dark pages."""

from html import escape
from typing import Any

from gibbsite.views.host.names import name_of
from gibbsite.views.ink.colours import BAD, GOOD, WORN

_RULE = "1px solid rgba(127,127,127,.35)"
_CELL = "padding:3px 12px 3px 0;border:none;background:transparent;color:inherit;vertical-align:top"
_COLOURS = {"converged": GOOD, "prior": GOOD, "not yet": WORN, "failed": BAD}
_SIGNS = {"converged": "✓ ", "prior": "✓ ", "not yet": "… ", "failed": "✗ "}
VERDICT = 5  # its column
_NUMBERS = 6  # and what follows are figures


def history_html(runs: Any) -> str:
    """A row for every run: its name in the notebook, model, what changed since the last, and how it did."""
    entries = runs.entries
    if not entries:
        return "<div>no runs yet</div>"
    heads = "".join(_cell("th", h or "run", i, "") for i, h in enumerate(runs.heads))
    rows = []
    for number, entry in enumerate(entries):
        cells = signed_cells(entry, number)
        style = f"color:{_COLOURS[entry.run.verdict.state]};font-weight:600"
        rows.append(
            "<tr>" + "".join(_cell("td", c, i, style * (i == VERDICT)) for i, c in enumerate(cells)) + "</tr>"
        )
    missing = any(entry.elpd is None for entry in entries)
    more = " · gibbsite.runs().with_elpd() fills the last column" if missing else ""
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


def signed_cells(entry: Any, number: int) -> list[str]:
    """A row as words: the run's number with its name in the notebook, the verdict with a sign."""
    cells = list(entry.cells(number))
    cells[0] = f"{number} {name_of(entry.run, '')}".strip()
    cells[VERDICT] = _SIGNS[entry.run.verdict.state] + cells[VERDICT]
    return cells


def _cell(tag: str, value: str, place: int, more: str) -> str:
    align = "right" if place >= _NUMBERS else "left"
    nowrap = "white-space:nowrap;" if place == 0 or place >= _NUMBERS else ""
    rule = nowrap + f"border-bottom:{_RULE};" if tag == "th" else nowrap
    return f'<{tag} style="{_CELL};{rule}text-align:{align};{more}">{escape(value)}</{tag}>'
