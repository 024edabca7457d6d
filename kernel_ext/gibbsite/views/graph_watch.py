"""The state of a run on the nodes of a graph: converged, not yet, stuck; and a small plot of the draws."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from gibbsite.views.colours import CHAINS
from gibbsite.views.content import ENDED, ESS_PER_CHAIN, RHAT_LIMIT
from gibbsite.views.words import fixed, number, whole

GOOD, WAIT, BAD = "#007a5a", "#8a6d00", "#b3261e"
STUCK_RHAT = 1.1
_WIDTH, _HEIGHT, _POINTS = 300, 54, 150


def worst_by_site(run: Any) -> dict[str, Any]:
    """The worst scalar of each site, as the run measured last."""
    out: dict[str, Any] = {}
    for scalar in run.snapshot(limit=10**9).scalars:  # worst first
        out.setdefault(scalar.site, scalar)
    return out


def state_of(scalar: Any, chains: int, ended: bool) -> tuple[str, str]:
    """Words and colour for a node: `✓`, `… R-hat 1.03`, `! R-hat 1.4`."""
    rhat, ess = scalar.rhat, scalar.ess_bulk
    if not math.isfinite(rhat):
        return "… first draws", WAIT
    if rhat <= RHAT_LIMIT and ess >= ESS_PER_CHAIN * chains:
        return f"✓ ESS {whole(ess)}", GOOD
    bad = rhat > STUCK_RHAT or (ended and rhat > RHAT_LIMIT)
    if bad:
        return f"! R-hat {fixed(rhat)}", BAD
    word = f"R-hat {fixed(rhat)}" if rhat > RHAT_LIMIT else f"ESS {whole(ess)}"
    return f"… {word}", WAIT


def badges(run: Any, names: Mapping[str, Any]) -> dict[str, list[str]]:
    """Columns of the badges on the nodes: name, words and colour."""
    snapshot = run.snapshot(limit=1)
    columns: dict[str, list[str]] = {"name": [], "words": [], "colour": []}
    for site, scalar in worst_by_site(run).items():
        if site in names:
            words, colour = state_of(scalar, snapshot.chains, snapshot.status in ENDED)
            for column, value in zip(columns.values(), (site, words, colour), strict=True):
                column.append(value)
    return columns


def run_entries(run: Any, name: str) -> list[tuple[str, str]]:
    """What a panel tells of a node's draws, as `(term, html)`; empty where there are none."""
    scalar = worst_by_site(run).get(name)
    if scalar is None:
        return []
    values = run.values(scalar.label)
    words = (
        f"R-hat {fixed(scalar.rhat)} · ESS {whole(scalar.ess_bulk)} · mean {number(scalar.mean)} "
        f"± {number(scalar.sd)}"
    )
    out = [(f"draws so far, worst element {scalar.label}", words)]
    for block in run.snapshot(limit=1).blocks:
        if name in block.sites and block.seconds_share is not None and math.isfinite(block.seconds_share):
            out.append(("share of a sweep's time", f"{100 * block.seconds_share:.0f} % in {block.kernel}"))
    divergences = sum(run.snapshot(limit=1).divergences)
    if divergences:
        out.append(("divergences", str(divergences)))
    return [*out, ("", _plot(values))] if values.shape[1] > 1 else out


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
