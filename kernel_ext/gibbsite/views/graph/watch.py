"""The state of a run on the nodes of a graph: converged, not yet, stuck; and a small plot of the draws."""

import math
from collections.abc import Collection, Mapping
from html import escape
from typing import Any

import numpy as np

from gibbsite.views.ink.colours import CHAINS
from gibbsite.views.run import centring
from gibbsite.views.run.content import ENDED, ESS_PER_CHAIN, RHAT_LIMIT
from gibbsite.views.run.words import beside, fixed, number, whole

GOOD, WAIT, BAD = "#007a5a", "#8a6d00", "#b3261e"
STUCK_RHAT = 1.1
_WIDTH, _HEIGHT, _POINTS = 300, 54, 150


def worst_by_site(snapshot: Any) -> dict[str, Any]:
    """The worst scalar of each site, as the run measured last."""
    out: dict[str, Any] = {}
    for scalar in snapshot.scalars:  # worst first
        out.setdefault(scalar.site, scalar)
    return out


def state_of(scalar: Any, chains: int, ended: bool) -> tuple[str, str]:
    """Words and colour for a node: `✓`, `… R-hat 1.03`, `! R-hat 1.4`."""
    rhat, ess = scalar.rhat, scalar.ess_bulk
    if not math.isfinite(rhat):
        return ("… constant so far" if scalar.sd == 0 else "… first draws"), WAIT
    if rhat <= RHAT_LIMIT and ess >= ESS_PER_CHAIN * chains:
        return f"✓ ESS {whole(ess)}", GOOD
    bad = rhat > STUCK_RHAT or (ended and rhat > RHAT_LIMIT)
    if bad:
        return f"! R-hat {fixed(rhat)}", BAD
    word = f"R-hat {fixed(rhat)}" if rhat > RHAT_LIMIT else f"ESS {whole(ess)}"
    return f"… {word}", WAIT


def badges(
    run: Any, names: Collection[str], members: Mapping[str, Collection[str]] | None = None
) -> dict[str, list[str]]:
    """Columns by node: the badge's words and colour, and the figures behind it as HTML for the panel.

    A node of `members` stands for several: it carries the badge of the worst, and how many are done.
    """
    snapshot = run.snapshot(limit=10**9)
    columns: dict[str, list[str]] = {"name": [], "words": [], "colour": [], "told": []}
    divergences = sum(snapshot.divergences)
    for site, scalar in worst_by_site(snapshot).items():
        if site not in names:
            continue
        words, colour = state_of(scalar, snapshot.chains, snapshot.status in ENDED)
        if divergences and _by_gradient(snapshot, site):
            words, colour = f"{words} · {divergences} div.", BAD
        told = _entries(_figures(snapshot, site, scalar))
        for column, value in zip(columns.values(), (site, words, colour, told), strict=True):
            column.append(value)
    rows = dict(zip(columns["name"], zip(*list(columns.values())[1:], strict=True), strict=True))
    for merged, inside in (members or {}).items():
        known = [rows[n] for n in inside if n in rows]
        if known and merged not in rows:
            words, colour, told = max(known, key=lambda row: (GOOD, WAIT, BAD).index(row[1]))
            done = sum(row[1] == GOOD for row in known)
            words = f"{words} · {done} of {len(known)} ✓" if colour != GOOD else f"✓ all {len(known)}"
            for column, value in zip(columns.values(), (merged, words, colour, told), strict=True):
                column.append(value)
    return columns


def _by_gradient(snapshot: Any, site: str) -> bool:
    """Whether the block that updates a site follows gradients, so that divergences are its own."""
    return any(site in b.sites and b.tree_depth is not None for b in snapshot.blocks)


def _figures(snapshot: Any, site: str, scalar: Any) -> list[tuple[str, str]]:
    words = (
        f"R-hat {fixed(scalar.rhat)} · ESS {whole(scalar.ess_bulk)} · "
        f"mean {beside(scalar.mean, scalar.sd)} ± {number(scalar.sd)}"
    )
    out = [(f"draws so far, worst element {scalar.label}", words)]
    for block in snapshot.blocks:
        if site in block.sites and block.seconds_share is not None and math.isfinite(block.seconds_share):
            out.append(("share of a sweep's time", f"{100 * block.seconds_share:.0f} % in {block.kernel}"))
    if sum(snapshot.divergences) and _by_gradient(snapshot, site):
        out.append(("divergences", f"{sum(snapshot.divergences)} of the block's transitions"))
    return out


def _entries(entries: list[tuple[str, str]]) -> str:
    return "".join(f"<div><dt>{escape(term)}</dt><dd>{escape(words)}</dd></div>" for term, words in entries)


def draws_html(run: Any, site: str) -> str:
    """What a panel tells of a node's draws, with a small trace and histogram; empty where there are none."""
    snapshot = run.snapshot(limit=10**9)
    scalar = worst_by_site(snapshot).get(site)
    if scalar is None:
        return ""
    values = run.values(scalar.label)
    plot = f'<div class="w">{_plot(values)}</div>' if values.shape[1] > 1 else ""
    strips = "".join(_strip(*found) for found in centring.learnt_of(snapshot, (site,)))
    return _entries(_figures(snapshot, site, scalar)) + plot + strips


def _strip(site: str, degrees: np.ndarray) -> str:
    """The degrees of centring that NUTS has learnt for a site."""
    drawn, words = centring.strip_svg(site, degrees, _WIDTH), centring.said(site, degrees)
    return (
        f'<div class="w" title="{escape(centring.help_on(site))}"><dt>{escape(words)}</dt>'
        f'<dd>{drawn}<div class="k">{centring.ENDS}</div></dd></div>'
    )


def _plot(values: np.ndarray) -> str:
    """A trace with a histogram at its side, as inline SVG."""
    low, high = float(np.min(values)), float(np.max(values))
    span = high - low or 1.0
    side, wide = 46, _WIDTH - 52
    lines = []
    at = np.unique(np.linspace(0, values.shape[1] - 1, _POINTS).astype(int))
    for c, row in enumerate(values[: len(CHAINS)]):
        xs = at / max(values.shape[1] - 1, 1) * wide
        ys = 2 + (high - row[at]) / span * (_HEIGHT - 4)
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(xs, ys, strict=True))
        lines.append(f'<polyline points="{points}" fill="none" stroke="{CHAINS[c]}" stroke-width="0.8"/>')
    counts, _ = np.histogram(values, bins=18, range=(low, low + span))
    tall = (_HEIGHT - 4) / 18
    for i, n in enumerate(counts):
        width = side * n / counts.max()
        y = _HEIGHT - 2 - (i + 1) * tall
        lines.append(
            f'<rect x="{wide + 6}" y="{y:.1f}" width="{width:.1f}" height="{tall:.1f}" fill="#7f8c99"/>'
        )
    words = f"trace and histogram, from {number(low)} to {number(high)}"
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}" role="img" '
        f'aria-label="{words}">{"".join(lines)}</svg>'
    )
