"""Small plots as SVG text: axes, lines, bands, bars. For pages without a kernel and without JavaScript."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

import numpy as np
from numpy.typing import ArrayLike

from gibbsite.views.ink.colours import ANY_INK

# Text, axes and grids take the colour of what surrounds them, so that one picture suits every ground.
INK = "currentColor"
_LINE, _FAINT = 'stroke="currentColor" stroke-opacity="0.45"', 'stroke="currentColor" stroke-opacity="0.13"'

FONT = "system-ui, -apple-system, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif"
SIZE = 11
_NAME = 18  # letters of a name at the left
_LETTER = 6.6  # pixels of a letter of a title, on average
# characters that no XML may hold, however they are written: a picture with one of them is not shown at all
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
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


def clipped(words: str, most: int) -> str:
    """Words that are too long without their end."""
    return words if len(words) <= most else words[: most - 1] + "…"


def elided(words: str, most: int = _NAME) -> str:
    """Words that are too long without their middle: names of one kind often differ at the end."""
    if len(words) <= most:
        return words
    end = (most - 1) // 3
    return f"{words[: most - 1 - end]}…{words[-end:]}"


def _shared(names: Sequence[str]) -> int:
    """How many letters all begin with."""
    letters = zip(*names, strict=False)
    return next((i for i, some in enumerate(letters) if len(set(some)) > 1), min(map(len, names)))


def told_apart(names: Sequence[str], most: int = _NAME) -> list[str]:
    """Names that are too long as `elided` has them; those that would be the same so, with what differs."""
    short = [elided(n, most) for n in names]

    def apart(name: str, as_others: str) -> str:
        alike = [n for n, s in zip(names, short, strict=True) if s == as_others]
        if len(set(alike)) == 1:
            return as_others
        begin = _shared(alike)
        end = _shared([n[begin:][::-1] for n in alike])
        own = clipped(name[begin : len(name) - end], most - 2)
        return f"{name[: max(0, most - 2 - len(own))]}…{own}{'…' * bool(end)}"

    return [apart(n, s) for n, s in zip(names, short, strict=True)]


def text(x: float, y: float, words: str, *, size: float = SIZE, anchor: str = "start", **style: str) -> str:
    """A line of text."""
    attributes = {
        "fill": ink(str(style.pop("fill", INK))),
        "font-size": f"{size:g}",
        "text-anchor": anchor,
    } | {name.replace("_", "-"): value for name, value in style.items()}
    joined = " ".join(f'{name}="{value}"' for name, value in attributes.items())
    return f'<text x="{x:.1f}" y="{y:.1f}" {joined}>{escape(words)}</text>'


def rect(x: float, y: float, width: float, height: float, fill: str, **style: str) -> str:
    """A filled rectangle."""
    joined = " ".join(f'{name.replace("_", "-")}="{value}"' for name, value in style.items())
    place = f'x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" height="{height:.1f}"'
    return f'<rect {place} fill="{fill}" {joined}/>'


def document(
    width: float, height: float, parts: list[str], ground: str | None = None, colour: str = ANY_INK
) -> str:
    """A complete SVG document; without a ground of its own its words read on light and on dark pages."""
    back = rect(0, 0, width, height, ground, rx="6") if ground else ""
    inner = _NO_XML.sub("\ufffd", "".join(parts))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'height="{height:g}" font-family="{FONT}" color="{colour}">{back}{inner}</svg>'
    )


def shifted(x: float, y: float, parts: str) -> str:
    """A group moved to a place."""
    return f'<g transform="translate({x:g},{y:g})">{parts}</g>'


def ink(colour: str) -> str:
    """A colour of a plot as SVG says it."""
    return INK if colour == "ink" else colour


@dataclass
class Axes:
    """One plot of `width` × `height` pixels over the ranges `x` and `y`."""

    width: float
    height: float
    x: tuple[float, float]
    y: tuple[float, float]
    title: str = ""
    title_colour: str = "ink"
    x_label: str = ""
    x_ticks: tuple[tuple[float, str], ...] | None = None
    y_ticks: tuple[tuple[float, str], ...] | None = None
    group: str = ""
    parts: list[str] = field(default_factory=list)
    over: list[str] = field(default_factory=list)

    @property
    def left(self) -> float:
        """Space for the numbers, or names, at the left."""
        if self.y_ticks is None:
            return LEFT
        # without names half of the first number below needs its room, too
        return 8 + 6.0 * max((min(len(words), _NAME) for _, words in self.y_ticks), default=2)

    @property
    def bottom(self) -> float:
        """Space for the numbers, and the axis' label."""
        return BOTTOM if self.x_label else BOTTOM - 12

    def _px(self, x: ArrayLike) -> np.ndarray:
        low, high = self.x
        return self.left + (np.asarray(x, float) - low) / (high - low) * (self.width - self.left - RIGHT)

    def _py(self, y: ArrayLike) -> np.ndarray:
        low, high = self.y
        share = (np.asarray(y, float) - low) / (high - low)
        return self.height - self.bottom - share * (self.height - TOP - self.bottom)

    def place(self, y: float) -> float:
        """How many pixels below its top a value stands."""
        return float(self._py(y))

    def _put(self, markup: str) -> None:
        # The page hides the marks of a chain by its group.
        self.parts.append(f'<g data-group="{escape(self.group)}">{markup}</g>' if self.group else markup)

    def line(
        self,
        x: ArrayLike,
        y: ArrayLike,
        colour: str,
        width: float = 1,
        opacity: float = 1,
        dash: tuple[int, ...] = (),
    ) -> None:
        """A line, broken where a value is not finite."""
        path, pen_down = [], False
        for px, py in zip(self._px(x), self._py(y), strict=True):
            if math.isfinite(px) and math.isfinite(py):
                path.append(f"{'L' if pen_down else 'M'}{px:.1f} {py:.1f}")
            pen_down = math.isfinite(px) and math.isfinite(py)
        if path:
            dashed = f' stroke-dasharray="{" ".join(map(str, dash))}"' if dash else ""
            self._put(
                f'<path d="{"".join(path)}" fill="none" stroke="{ink(colour)}" stroke-width="{width:g}" '
                f'stroke-opacity="{opacity:g}" stroke-linejoin="round"{dashed}/>'
            )

    def band(self, x: ArrayLike, low: ArrayLike, high: ArrayLike, colour: str, opacity: float = 0.3) -> None:
        """The area between two lines."""
        px, py_low, py_high = self._px(x), self._py(low), self._py(high)
        good = np.isfinite(px) & np.isfinite(py_low) & np.isfinite(py_high)
        if good.sum() > 1:
            over = [f"{a:.1f} {b:.1f}" for a, b in zip(px[good], py_high[good], strict=True)]
            back = [f"{a:.1f} {b:.1f}" for a, b in zip(px[good][::-1], py_low[good][::-1], strict=True)]
            self._put(
                f'<path d="M{"L".join(over + back)}Z" fill="{ink(colour)}" fill-opacity="{opacity:g}"/>'
            )

    def tint(self, colour: str) -> None:
        """A ground behind the data."""
        wide, high = self.width - self.left - RIGHT, self.height - TOP - self.bottom
        self.parts.append(rect(self.left, TOP, wide, high, colour, fill_opacity="0.1"))

    def bars(self, x: ArrayLike, y: ArrayLike, wide: float, colour: str, opacity: float = 1) -> None:
        """Upright bars from zero."""
        x = np.asarray(x, float)
        left, right, top = self._px(x - wide / 2), self._px(x + wide / 2), self._py(y)
        base = float(self._py(0.0))
        path = "".join(
            f"M{a:.1f} {base:.1f}V{t:.1f}H{b:.1f}V{base:.1f}Z"
            for a, b, t in zip(left, right, top, strict=True)
            if math.isfinite(t)
        )
        self._put(f'<path d="{path}" fill="{ink(colour)}" fill-opacity="{opacity:g}"/>')

    def dots(self, x: ArrayLike, y: ArrayLike, colour: str, size: float, opacity: float = 1) -> None:
        """Round points."""
        spots = "".join(
            f"M{px:.1f} {py:.1f}h0"
            for px, py in zip(self._px(x), self._py(y), strict=True)
            if math.isfinite(px) and math.isfinite(py)
        )
        self._put(
            f'<path d="{spots}" fill="none" stroke="{ink(colour)}" stroke-width="{size:g}" '
            f'stroke-linecap="round" stroke-opacity="{opacity:g}"/>'
        )

    def stretches(
        self, low: ArrayLike, high: ArrayLike, y: ArrayLike, colour: str, width: float, opacity: float = 1
    ) -> None:
        """Level strokes."""
        path = "".join(
            f"M{a:.1f} {py:.1f}H{b:.1f}"
            for a, b, py in zip(self._px(low), self._px(high), self._py(y), strict=True)
            if math.isfinite(a) and math.isfinite(b)
        )
        self._put(
            f'<path d="{path}" fill="none" stroke="{ink(colour)}" stroke-width="{width:g}" '
            f'stroke-opacity="{opacity:g}"/>'
        )

    def cells(self, x: ArrayLike, y: ArrayLike, shade: ArrayLike, colour: str) -> None:
        """Unit squares in twenty shades: one path for each, which keeps pictures of thousands small."""
        x, y = np.asarray(x, float), np.asarray(y, float)
        left, right = self._px(x - 0.5), self._px(x + 0.5)
        top, bottom = self._py(y + 0.46), self._py(y - 0.46)
        levels = np.nan_to_num(np.round(20 * np.asarray(shade, float))).astype(int)
        for level in np.unique(levels[levels > 0]):
            at = np.flatnonzero(levels == level)
            path = "".join(
                f"M{left[i]:.1f} {top[i]:.1f}H{right[i]:.1f}V{bottom[i]:.1f}H{left[i]:.1f}Z" for i in at
            )
            self._put(f'<path d="{path}" fill="{ink(colour)}" fill-opacity="{level / 20:g}"/>')

    def rule(
        self, at: float, colour: str, words: str = "", dash: tuple[int, ...] = (4, 3), of: str = "y"
    ) -> None:
        """A line at a threshold, with its name at the end."""
        low, high = self.y if of == "y" else self.x
        if not low <= at <= high:
            return
        right, base = self.width - RIGHT, self.height - self.bottom
        style = f'stroke="{ink(colour)}" stroke-dasharray="{" ".join(map(str, dash))}"'
        if colour == "ink":
            style += ' stroke-opacity="0.5"'
        if of == "x":
            px = float(self._px(at))
            self.parts.append(f'<line x1="{px:.1f}" x2="{px:.1f}" y1="{TOP}" y2="{base:g}" {style}/>')
            return
        py = float(self._py(at))
        self.parts.append(f'<line x1="{self.left:g}" x2="{right:g}" y1="{py:.1f}" y2="{py:.1f}" {style}/>')
        if words:
            self.parts.append(text(right - 2, py - 3, words, size=10, anchor="end", fill=colour))

    def rug(self, x: ArrayLike, colour: str) -> None:
        """Small marks at the bottom."""
        base = self.height - self.bottom
        for px in self._px(x):
            place = f'x1="{px:.1f}" x2="{px:.1f}" y1="{base:g}" y2="{base - 7:g}"'
            self.parts.append(f'<line {place} stroke="{ink(colour)}" stroke-width="1.2"/>')

    def note(self, words: str) -> None:
        """Words in the middle of an empty plot."""
        x, y = (self.left + self.width - RIGHT) / 2, (TOP + self.height - self.bottom) / 2 + 4
        self.parts.append(text(x, y, words, anchor="middle", opacity="0.6"))

    def placed(self, x: float, y: float) -> str:
        """The plot, moved to a place."""
        return shifted(x, y, self.render())

    def render(self) -> str:
        """The plot as SVG elements, with grid and axes below the data."""
        base, right = self.height - self.bottom, self.width - RIGHT
        # A viewport of its own clips the data; the ids that a clip path needs could clash within a page.
        left, top, wide, high = self.left, TOP - 2, right - self.left, base - TOP + 3
        data = (
            f'<svg x="{left:g}" y="{top}" width="{wide:g}" height="{high:g}" '
            f'viewBox="{left:g} {top} {wide:g} {high:g}" overflow="hidden">{"".join(self.parts)}</svg>'
        )
        back = [f'<line x1="{left:g}" x2="{right:g}" y1="{base:g}" y2="{base:g}" {_LINE}/>']
        ticks = _ticks(self.y, self.y_ticks, max(2, int((base - TOP) / 28)))
        named = told_apart([words for _, words in ticks])
        for (value, _), words in zip(ticks, named, strict=True):
            py = float(self._py(value))
            if self.y_ticks is None:
                back.append(f'<line x1="{left:g}" x2="{right:g}" y1="{py:.1f}" y2="{py:.1f}" {_FAINT}/>')
            back.append(text(left - 5, py + 3.5, words, size=10, anchor="end"))
        for value, words in _ticks(self.x, self.x_ticks, max(2, int((right - left) / 62))):
            back.append(text(float(self._px(value)), base + 13, words, size=10, anchor="middle"))
        if self.x_label:
            back.append(text((left + right) / 2, self.height - 5, self.x_label, size=10, anchor="middle"))
        if self.title:
            start = min(left, LEFT)
            # what goes on beyond the plot would run into the next one's title
            room = max(8, int((self.width - start) / _LETTER))
            title = clipped(self.title, room)
            back.append(text(start, 14, title, size=12, font_weight="600", fill=self.title_colour))
        return "".join([*back, data, *self.over])


def _ticks(
    span: tuple[float, float], named: tuple[tuple[float, str], ...] | None, about: int
) -> list[tuple[float, str]]:
    if named is not None:
        return [(value, words) for value, words in named if span[0] <= value <= span[1]]
    values = ticks(*span, about=about)
    return list(zip(values, tick_text(values), strict=True))
