"""A run as a card: what a cell shows whose last value is a run, in colours that suit light and dark pages."""

from html import escape
from typing import Any

from gibbsite.views.ink.colours import STATUS
from gibbsite.views.run import words
from gibbsite.views.run.content import RHAT_LIMIT, Content, gather, status_of

_ROWS = 8
_RULE = "1px solid rgba(127,127,127,.35)"
_CELL = "padding:2px 10px 2px 0;border:none;background:transparent;color:inherit"
_BAD = "color:#d0493e;font-weight:600"
_FLAGS = {"rhat": "rhat_bad", "ess_bulk": "bulk_bad", "ess_tail": "tail_bad"}


def card_html(run: Any) -> str:
    """The run's state, verdict, warnings and worst parameters as HTML without scripts or style sheets."""
    content = gather(run, labels=(), limit=_ROWS)
    snapshot = content.snapshot
    word, colour = status_of(snapshot)
    pill = (
        f'<span style="background:{STATUS[colour]};color:#fff;border-radius:10px;padding:1px 10px;'
        f'font-weight:600;font-size:12px">{escape(word)}</span>'
    )
    parts = [
        f"<div><b>{escape(content.model)}</b> {pill} {escape(words.progress(snapshot))}</div>",
        *(f'<div style="{_BAD}">{escape(line)}</div>' for line in _trouble(run, snapshot)),
        _table(content),
        '<div style="opacity:.7;font-size:12px">run.dashboard() shows plots · run.report("run.html") writes '
        "them to a file · run.draws holds the numbers</div>",
    ]
    return f'<div class="gibbsite-run" style="font:13px/1.5 system-ui,sans-serif">{"".join(parts)}</div>'


def _trouble(run: Any, snapshot: Any) -> list[str]:
    """The verdict's reasons and the warnings that say something else."""
    verdict = run.verdict
    ended = snapshot.status in ("finished", "stopped", "failed")
    reasons = list(verdict.reasons) if ended and not verdict.ok else []
    told = ("rhat", "stuck", "labels", "signs", "divergences") if reasons else ()
    return list(dict.fromkeys([*reasons, *(w.text for w in snapshot.warnings if w.topic not in told)]))


def _table(content: Content) -> str:
    rows = words.rows(content)[:_ROWS]
    if not rows:
        return ""
    heads = "".join(_cell("th", h or "worst first", i, "") for i, h in enumerate(words.HEADS))
    lines = []
    for row in rows:
        cells = (
            _cell("td", row[name], i, _BAD if row.get(_FLAGS.get(name, "")) else "")
            for i, name in enumerate(words.CELLS)
        )
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return (
        '<table style="border-collapse:collapse;font-size:12px;margin:4px 0;'
        f'font-variant-numeric:tabular-nums" title="red: R-hat above {RHAT_LIMIT}, or ESS below '
        f'{content.ess_limit}">'
        f"<thead><tr>{heads}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
    )


def _cell(tag: str, value: str, place: int, more: str) -> str:
    align = "left" if place == 0 else "right"
    rule = f"border-bottom:{_RULE};" if tag == "th" else ""
    return f'<{tag} style="{_CELL};{rule}text-align:{align};{more}">{escape(value)}</{tag}>'
