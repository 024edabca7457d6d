"""Indices of an element while its expression is written: known places, letters, and whole axes."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Sym:
    """The index `sum(coef * text) + offset`; `tags` are the free axes that the texts themselves have."""

    parts: tuple[tuple[str, int], ...]
    offset: int = 0
    tags: tuple[int, ...] = ()


@dataclass(frozen=True)
class Span:
    """A free axis: the places `start + step * k` for `k < size`, called `tag`."""

    tag: int
    start: int
    size: int
    step: int = 1


Index = int | Sym | Span
Ranges = Mapping[str, tuple[int, int]]


def letter(text: str, offset: int = 0) -> Sym:
    """The index that one letter (or one expression) is."""
    return Sym(((text, 1),), offset)


def moved(index: Index, by: int, times: int = 1) -> Index:
    """`times * index + by`."""
    if isinstance(index, int):
        return times * index + by
    if isinstance(index, Span):
        return replace(index, start=times * index.start + by, step=times * index.step)
    parts = tuple((text, times * coef) for text, coef in index.parts)
    return Sym(parts, times * index.offset + by, index.tags)


def added(a: Index, b: Index) -> Index | None:
    """`a + b` where that is an index again."""
    if isinstance(a, int):
        return moved(b, a)
    if isinstance(b, int):
        return moved(a, b)
    if isinstance(a, Span) or isinstance(b, Span) or (a.tags and b.tags):
        return None
    return Sym((*a.parts, *b.parts), a.offset + b.offset, a.tags or b.tags)


def bounds(index: Index, ranges: Ranges) -> tuple[int, int] | None:
    """The least and the greatest place that the index can name, where they are known."""
    if isinstance(index, int):
        return index, index
    if isinstance(index, Span):
        ends = (index.start, index.start + index.step * max(index.size - 1, 0))
        return min(ends), max(ends)
    low = high = index.offset
    for text, coef in index.parts:
        if text not in ranges:
            return None
        first, stop = ranges[text]
        ends = (coef * first, coef * (stop - 1))
        low, high = low + min(ends), high + max(ends)
    return low, high


def written(index: int | Sym, tight: bool = True) -> str:
    """The index as text: `t-1`; with spaces around its signs where it is a number rather than a place."""
    if isinstance(index, int):
        return str(index)
    space = "" if tight else " "
    out = ""
    for text, coef in index.parts:
        size = abs(coef)
        part = text if size == 1 else f"{size}{space}*{space}{_factor(text)}"
        sign = "-" if coef < 0 else "+"
        out += (f"{space}{sign}{space}" if out else "-" * (coef < 0)) + part
    if index.offset:
        out += f"{space}{'-' if index.offset < 0 else '+'}{space}{abs(index.offset)}"
    return out


def _factor(text: str) -> str:
    return text if re.fullmatch(r"[\w.]+(\[[^\[\]]*\])*", text) else f"({text})"


def spelled(span: Span, length: int) -> str:
    """A free axis of an array of `length` as a slice: `:`, `1:`, `:-1`, `::2`."""
    if span.size == 0:
        return "0:0"
    first, last = span.start, span.start + span.step * (span.size - 1)
    if span.step > 0:
        head = str(first) if first else ""
        tail = "" if last + span.step >= length else str(last + 1 - length if last + 1 < length else "")
        return f"{head}:{tail}" + (f":{span.step}" if span.step != 1 else "")
    head = "" if first == length - 1 else str(first)
    tail = str(last - 1) if last > 0 else ""
    return f"{head}:{tail}:{span.step}"


def tags_of(comps: Sequence[Index]) -> tuple[int, ...] | None:
    """The free axes of an array read at `comps`, in NumPy's order; None where arrays of indices disagree."""
    arrays = {c.tags for c in comps if isinstance(c, Sym) and c.tags}
    if len(arrays) > 1:
        return None
    if not arrays:
        return tuple(c.tag for c in comps if isinstance(c, Span))
    (shared,) = arrays
    places = [k for k, c in enumerate(comps) if not isinstance(c, Span)]
    before = [c.tag for c in comps[: places[0]] if isinstance(c, Span)]
    spans = [c.tag for c in comps if isinstance(c, Span)]
    if places != list(range(places[0], places[-1] + 1)):
        return (*shared, *spans)
    return (*before, *shared, *spans[len(before) :])
