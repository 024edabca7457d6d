"""Degrees of centring that NUTS has learnt, as heat strips: a cell for each element of a site."""

from collections.abc import Collection
from html import escape
from typing import Any

import numpy as np

from gibbsite.storage.draws import label_of
from gibbsite.views.ink import svg

HEIGHT = 14
_MOST = 60
_FAINTEST = 0.06
ENDS = "empty: 0, non-centred; full: 1, as written"


def learnt_of(snapshot: Any, sites: Collection[str]) -> list[tuple[str, np.ndarray]]:
    """Those of `sites` whose centring is learnt, with the degree of every element."""
    return [(n, np.asarray(d, float)) for n, d in snapshot.centring.items() if n in sites and np.size(d)]


def said(site: str, degrees: np.ndarray) -> str:
    """`centring of theta: 0.12 to 0.97`."""
    low, high = f"{degrees.min():.2f}", f"{degrees.max():.2f}"
    return f"centring of {site}: {low if low == high else f'{low} to {high}'}"


def help_on(site: str) -> str:
    """What it means, in a sentence."""
    return (
        f"How NUTS draws each element of {site}: at 1 as the model writes it, at 0 as a standard normal that "
        f"is scaled and shifted, between them by a share of both. Learnt in warm-up; the posterior stays."
    )


def strip(site: str, degrees: np.ndarray, width: float) -> str:
    """The strip as SVG elements; where there are many elements, cells are means of neighbours."""
    parts = np.array_split(np.arange(degrees.size), min(_MOST, degrees.size))
    flat, wide, cells = degrees.ravel(), width / len(parts), []
    for i, part in enumerate(parts):
        value = float(flat[part].mean())
        place = f'x="{i * wide:.2f}" y="0" width="{wide:.2f}" height="{HEIGHT}"'
        shade = f'fill="{svg.INK}" fill-opacity="{_FAINTEST + (1 - _FAINTEST) * np.clip(value, 0, 1):.2f}"'
        cells.append(f"<rect {place} {shade}><title>{escape(_cell(site, degrees, part))}</title></rect>")
    frame = f'<rect x="0.5" y="0.5" width="{width - 1:g}" height="{HEIGHT - 1}" fill="none"'
    return f'{"".join(cells)}{frame} stroke="{svg.INK}" stroke-opacity="0.6"/>'


def strip_svg(site: str, degrees: np.ndarray, width: float = 240) -> str:
    """The strip as a picture for a page, in its colour of text."""
    return (
        f'<svg viewBox="0 0 {width:g} {HEIGHT}" width="{width:g}" height="{HEIGHT}" role="img" '
        f'style="max-width:100%" aria-label="{escape(said(site, degrees))}; {ENDS}">'
        f"{strip(site, degrees, width)}</svg>"
    )


def _cell(site: str, degrees: np.ndarray, part: np.ndarray) -> str:
    names = [label_of(site, _index(degrees, k)) for k in dict.fromkeys((part[0], part[-1]))]
    values = degrees.ravel()[part]
    if len(names) == 1:
        return f"{names[0]}: {values[0]:.2f}"
    return f"{names[0]} … {names[1]}: {values.min():.2f} to {values.max():.2f}"


def _index(degrees: np.ndarray, k: Any) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(int(k), degrees.shape))
