"""Small plots as SVG text: axes, lines, bands, bars. For pages without a kernel and without JavaScript."""

import math
from dataclasses import dataclass, field
from html import escape

import numpy as np
from numpy.typing import ArrayLike

from gibbsite.views.ink.colours import FAINT, INK, LINE

FONT = "system-ui, -apple-system, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif"
SIZE = 11
# Space around the plotting area: left for numbers, bottom for numbers and the axis' label.
LEFT, RIGHT, TOP, BOTTOM = 46, 14, 22, 32


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers within `[low, high]`, `about` so many."""
    if not (math.isfinite(low) and math.isfinite(high)) or high <= low:
        return []
    power = 10.0 ** math.floor(math.log10((high - low) / max(about, 1)))
    steps = [m * power for m in (1, 2, 2.5, 5, 10)]
    step = min(steps, key=lambda s: abs(math.floor(high / s + 1e-9) - math.ceil(low / s - 1e-9) + 1 - about))
    first = math.ceil(low / step - 1e-9)
    return [round(k * step, 12) for k in range(first, math.floor(high / step + 1e-9) + 1)]


def tick_text(values: list[float]) -> list[str]:
    """Tick labels with as many decimals as their distance asks for."""
    step = abs(values[1] - values[0]) if len(values) > 1 else abs(values[0]) if values and values[0] else 1
    decimals = next((d for d in range(7) if abs(round(step, d) - step) < 1e-6 * step), 6)
    if values and max(map(abs, values)) >= 10**6:
        return [f"{v:.3g}" for v in values]
    return [f"{v:.{min(decimals, 6)}f}".replace("-", "−") for v in values]


def text(x: float, y: float, words: str, *, size: float = SIZE, anchor: str = "start", **style: str) -> str:
    """A line of text."""
    attributes = {"fill": INK, "font-size": f"{size:g}", "text-anchor": anchor} | {
        name.replace("_", "-"): value for name, value in style.items()
    }
    joined = " ".join(f'{name}="{value}"' for name, value in attributes.items())
    return f'<text x="{x:.1f}" y="{y:.1f}" {joined}>{escape(words)}</text>'


def rect(x: float, y: float, width: float, height: float, fill: str, **style: str) -> str:
    """A filled rectangle."""
    joined = " ".join(f'{name.replace("_", "-")}="{value}"' for name, value in style.items())
    place = f'x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" height="{height:.1f}"'
    return f'<rect {place} fill="{fill}" {joined}/>'


def document(width: float, height: float, parts: list[str], ground: str | None = "#ffffff") -> str:
    """A complete SVG document, on its own ground so that it reads on dark pages too."""
    back = rect(0, 0, width, height, ground, rx="6") if ground else ""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'height="{height:g}" font-family="{FONT}">{back}{"".join(parts)}</svg>'
    )


def shifted(x: float, y: float, parts: str) -> str:
    """A group moved to a place."""
    return f'<g transform="translate({x:g},{y:g})">{parts}</g>'


def span(*arrays: ArrayLike, include: tuple[float, ...] = (), margin: float = 0.05) -> tuple[float, float]:
    """The range of all finite values, with a margin; never empty."""
    values = np.concatenate([np.ravel(np.asarray(a, float)) for a in arrays] + [np.asarray(include, float)])
    values = values[np.isfinite(values)]
    if values.size == 0:
        return 0.0, 1.0
    low, high = float(values.min()), float(values.max())
    if low == high:
        pad = abs(low) * 0.05 or 0.5
        return low - pad, high + pad
    pad = margin * (high - low)
    return low - pad, high + pad


@dataclass
class Axes:
    """One plot of `width` × `height` pixels over the ranges `x` and `y`."""

    width: float
    height: float
    x: tuple[float, float]
    y: tuple[float, float]
    title: str = ""
    title_colour: str = INK
    x_label: str = ""
    y_ticks: bool = True
    parts: list[str] = field(default_factory=list)
    over: list[str] = field(default_factory=list)

    def _px(self, x: ArrayLike) -> np.ndarray:
        low, high = self.x
        return LEFT + (np.asarray(x, float) - low) / (high - low) * (self.width - LEFT - RIGHT)

    def _py(self, y: ArrayLike) -> np.ndarray:
        low, high = self.y
        share = (np.asarray(y, float) - low) / (high - low)
        return self.height - BOTTOM - share * (self.height - TOP - BOTTOM)

    def line(self, x: ArrayLike, y: ArrayLike, colour: str, width: float = 1, opacity: float = 1) -> None:
        """A line, broken where a value is not finite."""
        path, pen_down = [], False
        for px, py in zip(self._px(x), self._py(y), strict=True):
            if math.isfinite(px) and math.isfinite(py):
                path.append(f"{'L' if pen_down else 'M'}{px:.1f} {py:.1f}")
            pen_down = math.isfinite(px) and math.isfinite(py)
        if path:
            self.parts.append(
                f'<path d="{"".join(path)}" fill="none" stroke="{colour}" stroke-width="{width:g}" '
                f'stroke-opacity="{opacity:g}" stroke-linejoin="round"/>'
            )

    def steps(self, edges: ArrayLike, heights: ArrayLike, colour: str, width: float = 1.2) -> None:
        """A histogram's outline: `len(edges) == len(heights) + 1`."""
        x = np.repeat(np.asarray(edges, float), 2)[1:-1]
        self.line(x, np.repeat(np.asarray(heights, float), 2), colour, width)

    def band(self, x: ArrayLike, low: ArrayLike, high: ArrayLike, colour: str, opacity: float = 0.3) -> None:
        """The area between two lines."""
        px, py_low, py_high = self._px(x), self._py(low), self._py(high)
        good = np.isfinite(px) & np.isfinite(py_low) & np.isfinite(py_high)
        if good.sum() > 1:
            over = [f"{a:.1f} {b:.1f}" for a, b in zip(px[good], py_high[good], strict=True)]
            back = [f"{a:.1f} {b:.1f}" for a, b in zip(px[good][::-1], py_low[good][::-1], strict=True)]
            self.parts.append(
                f'<path d="M{"L".join(over + back)}Z" fill="{colour}" fill-opacity="{opacity:g}"/>'
            )

    def rule(self, y: float, colour: str = INK, words: str = "", dash: str = "4 3") -> None:
        """A dashed horizontal line at a threshold, with its name at the right."""
        if self.y[0] <= y <= self.y[1]:
            py = float(self._py(y))
            right = self.width - RIGHT
            self.parts.append(
                f'<line x1="{LEFT}" x2="{right:g}" y1="{py:.1f}" y2="{py:.1f}" stroke="{colour}" '
                f'stroke-dasharray="{dash}"/>'
            )
            if words:
                self.parts.append(text(right - 2, py - 3, words, size=10, anchor="end", fill=colour))

    def rug(self, x: ArrayLike, colour: str) -> None:
        """Small marks at the bottom."""
        base = self.height - BOTTOM
        for px in self._px(x):
            place = f'x1="{px:.1f}" x2="{px:.1f}" y1="{base:g}" y2="{base - 7:g}"'
            self.parts.append(f'<line {place} stroke="{colour}" stroke-width="1.2"/>')

    def note(self, words: str) -> None:
        """Words in the middle of an empty plot."""
        x, y = (LEFT + self.width - RIGHT) / 2, (TOP + self.height - BOTTOM) / 2 + 4
        self.parts.append(text(x, y, words, anchor="middle", fill=LINE))

    def render(self) -> str:
        """The plot as SVG elements, with grid and axes below the data."""
        base, right = self.height - BOTTOM, self.width - RIGHT
        # A viewport of its own clips the data; the ids that a clip path needs could clash within a page.
        left, top, wide, high = LEFT, TOP - 2, right - LEFT, base - TOP + 3
        data = (
            f'<svg x="{left}" y="{top}" width="{wide:g}" height="{high:g}" '
            f'viewBox="{left} {top} {wide:g} {high:g}" overflow="hidden">{"".join(self.parts)}</svg>'
        )
        back = [f'<line x1="{LEFT}" x2="{right:g}" y1="{base:g}" y2="{base:g}" stroke="{LINE}"/>']
        if self.y_ticks:
            values = ticks(*self.y, about=max(2, int((base - TOP) / 28)))
            for value, words in zip(values, tick_text(values), strict=True):
                py = float(self._py(value))
                back.append(
                    f'<line x1="{LEFT}" x2="{right:g}" y1="{py:.1f}" y2="{py:.1f}" stroke="{FAINT}"/>'
                    + text(LEFT - 5, py + 3.5, words, size=10, anchor="end")
                )
        values = ticks(*self.x, about=max(2, int((right - LEFT) / 62)))
        for value, words in zip(values, tick_text(values), strict=True):
            back.append(text(float(self._px(value)), base + 13, words, size=10, anchor="middle"))
        if self.x_label:
            back.append(text((LEFT + right) / 2, self.height - 5, self.x_label, size=10, anchor="middle"))
        if self.title:
            back.append(text(LEFT, 14, self.title, size=12, font_weight="600", fill=self.title_colour))
        return "".join([*back, data, *self.over])
