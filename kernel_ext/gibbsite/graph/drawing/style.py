"""How nodes look: shape tells kind and discreteness, colour supports it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

TITLE_SIZE, TEXT_SIZE = 14, 11
_TITLE_CHAR, _TEXT_CHAR = 8.2, 6.1
_MAX_TEXT = 40
READABLE = 60  # a graph of more nodes is shown in its overview first, and with names alone on its nodes
LEVEL_FILL = {"data": "#eceff1", "model": "#f0d9e6", "generated": "#cfe8dc"}
# Okabe and Ito's colours, softened: told apart by colour-blind readers, on light and dark grounds
FILL = {
    "latent": "#dcebf7",
    "summed": "#f7f9fb",
    "observed": "#f6dfb8",
    "deterministic": "#e8e3f4",
    "data": "#eceff1",
    "factor": "#f3d9d4",
    "plate": "#e6ecdc",
}
LINE = {
    "latent": "#2f7fc1",
    "summed": "#c2185b",
    "observed": "#b97700",
    "deterministic": "#7a62b8",
    "data": "#78838d",
    "factor": "#b8473a",
    "plate": "#6d7f45",
}
INK, EDGE, PLATE, PLATE_TEXT, PLATE_FILL = "#2b3036", "#6b7680", "#8a949e", "#5b656e", "#8080800f"
FONT = "Helvetica,Arial,sans-serif"
# The same on a dark ground; `tint` tells what becomes of a badge's colours, from good to bad.
DARK = {
    "fill": {
        "latent": "#1f3a55",
        "summed": "#16191d",
        "observed": "#51401a",
        "deterministic": "#3b3358",
        "data": "#343b43",
        "factor": "#57302a",
        "plate": "#36402a",
    },
    "level": {"data": "#343b43", "model": "#4f2b44", "generated": "#1f4a3c"},
    "edge": "#97a2ad",
    "ink": "#e3e7ec",
    "paper": "#16191d",
    "plate": "#9aa5b0",
    "tint": {"#007a5a": "#45c49c", "#8a6d00": "#e0b83f", "#b3261e": "#ff8a80"},
}
DASH: dict[str, tuple[int, ...]] = {"deterministic": (5, 3), "summed": (9, 3, 2, 3)}
"""Outlines, in pixels on and off, of what is not drawn on its own."""
SUMMED = "summed out of the target, and drawn again after each step"
GREEK: dict[str, str] = dict(
    zip(
        (
            "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau "
            "upsilon phi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi Omega"
        ).split(),
        "αβγδεζηθικλμνξπρστυφχψωΓΔΘΛΞΠΣΦΨΩ",
        strict=True,
    )
)


@dataclass(frozen=True)
class Look:
    """A node's two lines of text and the size of its shape; `beside` is the room for a loop at its side."""

    title: str
    text: str
    width: float
    height: float
    beside: float = 0.0


def greek(name: str) -> str:
    """`mu_0` as `μ_0`."""
    head, *rest = name.split("_", 1)
    return "_".join([GREEK.get(head, head), *rest])


def look(node: Any, use_greek: bool = False, brief: bool = False) -> Look:
    """The words on a node and the room they need, in pixels; `brief` leaves out its distribution."""
    title = greek(node.name) if use_greek else node.name
    inner = [str(n) for n in node.shape]
    shape = f"[{' × '.join(inner)}]" if inner else ""
    text = node.distribution if node.kind != "factor" else ""
    text = "" if brief else text or (node.elements if node.kind == "data" else "")
    if len(text) > _MAX_TEXT:
        text = text[: _MAX_TEXT - 1] + "…"
    title = f"{title} {shape}".strip()
    width = max(_TITLE_CHAR * len(title), _TEXT_CHAR * len(text), 34.0) + (20 if brief else 34)
    return Look(title, text, width, 50.0 if text else 34.0, 26.0 if node.recurrent else 0.0)


def outline(
    kind: str, discrete: bool, x: float, y: float, width: float, height: float
) -> list[tuple[float, float]]:
    """The outline of a node: a pill if continuous, a hexagon if discrete, a rectangle if not random."""
    w, h = width / 2, height / 2
    if kind in ("latent", "observed"):
        if discrete:
            cut = min(14.0, h)
            return [(x - w, y), (x - w + cut, y - h), (x + w - cut, y - h), (x + w, y), (x + w - cut, y + h),
                    (x - w + cut, y + h)]  # fmt: skip
        return _rounded(x, y, w, h, min(h, 24.0))
    if kind == "deterministic":
        return _rounded(x, y, w, h, 6.0)
    return [(x - w, y - h), (x + w, y - h), (x + w, y + h), (x - w, y + h)]


def _rounded(x: float, y: float, w: float, h: float, r: float) -> list[tuple[float, float]]:
    corners: Sequence[tuple[float, float, float]] = (
        (x + w - r, y - h + r, -90), (x + w - r, y + h - r, 0), (x - w + r, y + h - r, 90),
        (x - w + r, y - h + r, 180))  # fmt: skip
    out = []
    for cx, cy, start in corners:
        for step in range(9):
            angle = math.radians(start + step * 90 / 8)
            out.append((round(cx + r * math.cos(angle), 1), round(cy + r * math.sin(angle), 1)))
    return out
