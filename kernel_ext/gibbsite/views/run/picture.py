"""A run's dashboard as one SVG picture: what stays in a saved notebook and in an exported page."""

import textwrap
from functools import partial

import numpy as np

from gibbsite.views.ink import svg
from gibbsite.views.ink.colours import ANY_FAINT, ANY_LINE, BAD, BLOCKS, CHAINS, STATUS, WORN
from gibbsite.views.plots.plot import rows_svg
from gibbsite.views.posterior.cards import cards_svg
from gibbsite.views.posterior.gather import Posterior
from gibbsite.views.run import centring, words
from gibbsite.views.run.content import MAX_CHAINS, RHAT_LIMIT, STATUS_WORDS, Content, status_of
from gibbsite.views.run.convergence import rows_of

WIDTH = 900
PAD = 14
TABLE_ROWS = 10


def dashboard_svg(
    content: Content, posterior: Posterior | None = None, *, plots: bool = True, paper: bool = False
) -> str:
    """Header, chains, warnings, the posterior if there is one, plots (of convergence, with `plots`), table
    and blocks, from top to bottom; on `paper`, dark on white, else in inks for every ground."""
    parts: list[str] = []
    y = float(PAD)
    of_posterior = partial(_posterior, posterior)
    sections = (_header, _chains, _warnings, of_posterior, *([_plots] * plots), _table, _blocks)
    for section in sections:
        markup, height = section(content)
        if height:
            parts.append(svg.shifted(PAD, y, markup))
            y += height + 10
    on = {"ground": "#ffffff", "colour": "#2b3036"} if paper else {}
    return svg.document(WIDTH, y + PAD - 10, parts, **on)


def _header(content: Content) -> tuple[str, float]:
    snapshot = content.snapshot
    status, colour_of = status_of(snapshot)
    name_width = 9.6 * len(content.model)
    pill = 7.0 * len(status) + 18
    parts = [
        svg.text(0, 16, content.model, size=16, font_weight="600"),
        svg.rect(name_width + 14, 2, pill, 19, STATUS[colour_of], rx="9.5"),
        svg.text(
            name_width + 14 + pill / 2, 15.5, status, anchor="middle", fill="#ffffff", font_weight="600"
        ),
        svg.text(0, 38, words.progress(snapshot), size=12),
    ]
    height = 42.0
    if snapshot.message:
        colour = {"fill": BAD} if snapshot.status == "failed" else {}
        parts.append(svg.text(0, 56, svg.clipped(snapshot.message, 130), size=12, **colour))
        height += 18
    worth = {} if getattr(snapshot, "verdict", None) else {"fill": WORN, "font_weight": "600"}
    for line in textwrap.wrap(words.verdict(snapshot), 120):
        parts.append(svg.text(0, height + 14, line, size=12, **worth))
        height += 16
    return "".join(parts), height


def _chains(content: Content) -> tuple[str, float]:
    snapshot = content.snapshot
    shares, colour = progress_shares(snapshot), STATUS[status_of(snapshot)[1]]
    parts = []
    shown = min(snapshot.chains, MAX_CHAINS)
    for chain in range(shown):
        y = 15 * chain
        state = chain_words(snapshot, chain)
        parts += [
            svg.rect(0, y + 3, 9, 9, CHAINS[chain], rx="2"),
            svg.text(14, y + 11, f"chain {chain}", size=11),
            svg.rect(66, y + 3, 560, 8, ANY_FAINT, rx="4"),
            svg.rect(66, y + 3, 560 * shares, 8, colour, rx="4"),
            svg.rect(66 + 560 * warmup_share(snapshot) - 0.5, y + 2, 1, 10, svg.INK),
            svg.text(636, y + 11, state, size=11),
        ]
    height = 15 * shown
    if snapshot.chains > shown:
        parts.append(svg.text(56, height + 10, f"… and {snapshot.chains - shown} more chains", size=11))
        height += 15
    return "".join(parts), height


def progress_shares(snapshot: object) -> float:
    """How much of the whole work, warm-up included, is done: 0 to 1."""
    s = snapshot
    total = s.warmup_total + s.draws_total  # type: ignore[attr-defined]
    return (s.warmup_done + s.draws_done) / total if total else 0.0  # type: ignore[attr-defined]


def warmup_share(snapshot: object) -> float:
    """Which part of the whole work warm-up is: 0 to 1."""
    s = snapshot
    total = s.warmup_total + s.draws_total  # type: ignore[attr-defined]
    return s.warmup_total / total if total else 0.0  # type: ignore[attr-defined]


def chain_words(snapshot: object, chain: int) -> str:
    """A chain's state and divergences."""
    state = snapshot.chain_states[chain] if chain < len(snapshot.chain_states) else ""  # type: ignore[attr-defined]
    count = snapshot.divergences[chain] if chain < len(snapshot.divergences) else 0  # type: ignore[attr-defined]
    state = STATUS_WORDS[state] if state in ("compiling", "warmup", "sampling") else state
    return state + (f" · {count} divergence{'s' * (count != 1)}" if count else "")


def _warnings(content: Content) -> tuple[str, float]:
    parts, y = [], 0.0
    for warning in content.snapshot.warnings:
        lines = textwrap.wrap(warning.text, 128)
        hint = textwrap.wrap(warning.hint, 128) if warning.hint else []
        height = 15 * (len(lines) + len(hint)) + 7
        parts.append(svg.rect(0, y, 3, height - 2, WORN))
        for i, line in enumerate(lines + hint):
            fill = {} if i < len(lines) else {"fill_opacity": "0.85"}
            parts.append(svg.text(10, y + 12 + 15 * i, line, size=12, **fill))
        y += height
    return "".join(parts), y


def _posterior(posterior: Posterior | None, content: Content) -> tuple[str, float]:
    return ("", 0.0) if posterior is None else cards_svg(posterior, WIDTH - 2 * PAD)


def _plots(content: Content) -> tuple[str, float]:
    return rows_svg(rows_of(content, len(content.parameters)), WIDTH - 2 * PAD)


_COLUMNS = (250, 330, 410, 500, 600, 700)  # where their numbers end
_LETTERS, _LETTER = 28, 6.6  # of a name that fits before them; how wide one is
_CLOSER = 120  # how far the first goes to the right where names are longer, and the others closer


def _table(content: Content) -> tuple[str, float]:
    table = words.rows(content)
    if not table:
        return "", 0
    longest = max(len(row["shown"]) for row in table[:TABLE_ROWS])
    more = min(max(longest - _LETTERS, 0) * _LETTER, _CLOSER)
    first, last = _COLUMNS[0], _COLUMNS[-1]
    right = [x + more * (last - x) / (last - first) for x in _COLUMNS]
    parts = [
        svg.text(x, 11, head, anchor="end", font_weight="600")
        for x, head in zip(right, words.HEADS[1:], strict=True)
    ]
    parts.append(svg.text(0, 11, "worst first", font_weight="600"))
    y = 17.0
    parts.append(f'<line x1="0" x2="{right[-1]}" y1="{y}" y2="{y}" stroke="{ANY_LINE}"/>')
    for row in table[:TABLE_ROWS]:
        parts.append(svg.text(0, y + 14, svg.elided(row["shown"], _LETTERS + int(more / _LETTER)), size=12))
        for x, name in zip(right, words.CELLS[1:], strict=True):
            style = {"fill": BAD, "font_weight": "600"} if row.get(words.FLAGS.get(name, "")) else {}
            parts.append(svg.text(x, y + 14, row[name], size=12, anchor="end", **style))
        y += 17
    if left := words.others(content.snapshot, min(len(table), TABLE_ROWS)):
        parts.append(svg.text(0, y + 14, left))
        y += 17
    if content.snapshot.partly:
        parts.append(svg.text(0, y + 14, words.partly(content.snapshot)))
        y += 17
    for i, note in enumerate((f"red: R-hat above {RHAT_LIMIT},", f"or ESS below {content.ess_limit}")):
        parts.append(svg.text(right[-1] + 24, 11 + 14 * i, note, size=11))
    return "".join(parts), y + 4


def _blocks(content: Content) -> tuple[str, float]:
    blocks = content.snapshot.blocks
    if not blocks:
        return "", 0
    shares = [block.seconds_share for block in blocks if block.seconds_share is not None]
    timed = len(shares) == len(blocks) and bool(np.isfinite(shares).all())
    parts = [svg.text(0, 11, "time by block" if timed else "blocks", font_weight="600")]
    inner, x, y = WIDTH - 2 * PAD, 0.0, 18.0
    if timed:
        for i, share in enumerate(shares):
            parts.append(svg.rect(x, y, inner * share, 12, BLOCKS[i % len(BLOCKS)]))
            x += inner * share
        y += 18
    for i, block in enumerate(blocks):
        parts.append(svg.rect(0, y + 3, 9, 9, BLOCKS[i % len(BLOCKS)], rx="2"))
        parts.append(svg.text(15, y + 11, svg.clipped(f"{block.label}: {words.block_detail(block)}", 125)))
        y += 16
        for site, degrees in centring.learnt_of(content.snapshot, block.sites):
            parts.append(svg.text(15, y + 11, f"{centring.said(site, degrees)} ({centring.ENDS})"))
            y += 16
            parts.append(svg.shifted(15, y + 1, centring.strip(site, degrees, 300)))
            y += 20
    return "".join(parts), y
