"""What the page writes around the plots of a run: plain JSON values."""

import math
import re
from collections.abc import Sequence
from functools import cache
from html import escape
from typing import Any

from gibbsite.diagnostics.verdict.advice import sections
from gibbsite.views.host.bokeh import HEARD_WHILE_BUSY
from gibbsite.views.ink.colours import BLOCKS, CHAINS, STATUS
from gibbsite.views.run import centring, words
from gibbsite.views.run.content import ENDED, MAX_CHAINS, RHAT_LIMIT, Content, gather, status_of
from gibbsite.views.run.convergence import chain_name, stroke
from gibbsite.views.run.picture import chain_words, progress_shares, warmup_share

_CODE = re.compile(r"`([^`]+)`")
_STRESS = re.compile(r"\*([^*]+)\*")


@cache
def advice_html(topic: str) -> str:
    """The section on `topic`: paragraphs and lists, with code and stress; empty for no topic."""
    if topic not in sections():
        return ""
    out = []
    for block in sections()[topic][1].split("\n\n"):
        if block.startswith("- "):
            items = re.split(r"\n- ", block[2:])
            out.append("<ul>" + "".join(f"<li>{_inline(item)}</li>" for item in items) + "</ul>")
        else:
            out.append(f"<p>{_inline(block)}</p>")
    return "".join(out)


def _inline(text: str) -> str:
    pieces = _CODE.split(" ".join(text.split()))
    # Every second piece is code, in which an asterisk is one.
    return "".join(
        f"<code>{escape(piece)}</code>" if i % 2 else _STRESS.sub(r"<em>\1</em>", escape(piece))
        for i, piece in enumerate(pieces)
    )


WARMING_NOTE = (
    "The sampler is adapting. What is plotted is warm-up: these steps are no draws and count nowhere."
)

_UNHEARD = "Stop waits for the cell with this ipykernel: use ■, or %sample --background"


def told(
    content: Content,
    *,
    auto: bool,
    slots: int,
    note: str = "",
    stopping: bool = False,
    measuring: bool = False,
    timing_note: str = "",
) -> dict[str, Any]:
    """The trait `_status` of a dashboard, which `js/dashboard/` reads.

    Args:
        content: the moment that is shown.
        auto: whether the worst parameters are plotted, rather than chosen ones.
        slots: how many parameters are plotted at a time.
        note: what to say of a name that was typed and does not exist.
        stopping: whether Stop was pressed.
        measuring: whether blocks are being timed.
        timing_note: why they could not be.
    """
    snapshot = content.snapshot
    chosen = [p.label for p in content.parameters]
    slot_of = {label: stroke(i) for i, label in enumerate(chosen)}
    shown = min(snapshot.chains, MAX_CHAINS)
    offered = snapshot.status in ENDED and snapshot.draws_done > 0
    offered = offered and any(b.seconds_share is None for b in snapshot.blocks)
    return {
        "model": content.model,
        "status": snapshot.status,
        "words": "stopping after this chunk" if stopping else status_of(snapshot)[0],
        "colour": STATUS[status_of(snapshot)[1]],
        "ended": snapshot.status in ENDED,
        "stopping": stopping,
        "stop_note": "" if HEARD_WHILE_BUSY else _UNHEARD,
        "progress": words.progress(snapshot),
        "message": snapshot.message or "",
        "without_kernel": {
            "words": "kernel ended",
            "colour": STATUS["stopped"],
            "progress": words.done(snapshot),
            "message": words.without_kernel(snapshot),
        },
        "verdict": words.verdict(snapshot),
        "converged": snapshot.status in ENDED and bool(getattr(snapshot, "verdict", None)),
        "share": progress_shares(snapshot),
        "warmup_share": warmup_share(snapshot),
        "stage": WARMING_NOTE if content.warming else "",
        "chains": [
            {"name": chain_name(c), "colour": CHAINS[c], "words": chain_words(snapshot, c)}
            for c in range(shown)
        ],
        "more_chains": snapshot.chains - shown,
        "blocks": _blocks(snapshot),
        "warnings": [
            {"text": w.text, "hint": w.hint or "", "topic": w.topic, "advice": advice_html(w.topic)}
            for w in snapshot.warnings
        ],
        "heads": list(words.HEADS),
        "cells": list(words.CELLS),
        "rows": [row | {"chosen": slot_of.get(row["label"], "")} for row in words.rows(content)],
        "auto": auto,
        "labels": chosen,
        "slots": slots,
        "note": note,
        "ready": bool(content.parameters),
        "timing": "measuring" if measuring else "offered" if offered else "",
        "timing_note": timing_note,
        "limits": f"red: R-hat above {RHAT_LIMIT}, or ESS below {content.ess_limit} (100 per chain)"
        + (f" · {words.partly(snapshot)}" if snapshot.partly else "")
        + (f" · {left}" if (left := words.others(snapshot, len(snapshot.scalars))) else ""),
    }


def _blocks(snapshot: Any) -> list[dict[str, Any]]:
    shares = [b.seconds_share for b in snapshot.blocks]
    return [
        {
            "label": block.label,
            "detail": words.block_detail(block),
            "share": share if share is not None and math.isfinite(share) else None,
            "colour": BLOCKS[i % len(BLOCKS)],
            "strips": [
                {
                    "words": centring.said(*found),
                    "help": centring.help_on(found[0]),
                    "ends": centring.ENDS,
                    "svg": centring.strip_svg(*found),
                }
                for found in centring.learnt_of(snapshot, block.sites)
            ],
        }
        for i, (block, share) in enumerate(zip(snapshot.blocks, shares, strict=True))
    ]


_ROWS = 8
_RULE = "1px solid rgba(127,127,127,.35)"
_CELL = "padding:2px 10px 2px 0;border:none;background:transparent;color:inherit"
_BAD = "color:#d0493e;font-weight:600"


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
        table_html(content),
        '<div style="opacity:.7;font-size:12px">run.dashboard() shows plots · run.report("run.html") writes '
        "them to a file · run.draws holds the numbers</div>",
    ]
    return f'<div class="gibbsite-run" style="font:13px/1.5 system-ui,sans-serif">{"".join(parts)}</div>'


def _trouble(run: Any, snapshot: Any) -> list[str]:
    """The verdict's reasons and the warnings that say something else."""
    verdict = run.verdict
    ended = snapshot.status in ("finished", "stopped", "failed")
    reasons = list(verdict.reasons) if ended and not verdict.ok else []
    told: tuple[str, ...] = ("divergences",) if ended and verdict.ok else ()  # few, which stop nobody
    if reasons:
        told = ("rhat", "stuck", "held", "labels", "orders", "signs", "divergences")
    return list(dict.fromkeys([*reasons, *(w.text for w in snapshot.warnings if w.topic not in told)]))


def table_html(content: Content, labels: Sequence[str] | None = None) -> str:
    """The measures of the worst scalars, or of `labels` in their order with the dashes of their lines, as
    HTML without a style sheet."""
    rows, first = [{**r, "label": r["shown"]} for r in words.rows(content)[:_ROWS]], "worst first"
    if labels is not None:
        of = {row["label"]: row for row in words.rows(content)}
        rows = [{**of[n], "label": f"{stroke(i)} {of[n]['shown']}"} for i, n in enumerate(labels) if n in of]
        first = "by then"
    if not rows:
        return ""
    heads = "".join(_cell("th", h or first, i, "") for i, h in enumerate(words.HEADS))
    lines = []
    for row in rows:
        cells = (
            _cell(
                "td",
                row[name],
                i,
                _BAD if row.get(words.FLAGS.get(name, "")) else "",
            )
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
