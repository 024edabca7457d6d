"""What the page writes around the plots of a run: plain JSON values."""

import math
from typing import Any

from gibbsite.views.host.control import HEARD_WHILE_BUSY
from gibbsite.views.ink.colours import BLOCKS, CHAINS, STATUS
from gibbsite.views.run import centring, words
from gibbsite.views.run.advice import advice_html
from gibbsite.views.run.content import ENDED, MAX_CHAINS, RHAT_LIMIT, Content, status_of
from gibbsite.views.run.convergence import chain_name, stroke
from gibbsite.views.run.picture import chain_words, progress_shares, warmup_share

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
        + (f" · {words.partly(snapshot)}" if snapshot.partly else ""),
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
