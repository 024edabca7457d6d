"""Put texts together: signs, calls, parts of arrays, and arrays made of pieces."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gibbsite.printing.elements.indices import (
    Index,
    Span,
    Sym,
    bounds,
    letter,
    moved,
    spelled,
    tags_of,
    written,
)
from gibbsite.printing.elements.text import (
    ATOM,
    BITS,
    CHOICE,
    COMPARE,
    INFIX,
    POWER,
    PRODUCT,
    SUM,
    Opaque,
    Text,
    call,
    infix,
    longest,
    subscript,
)

_TOKEN = re.compile(r"\d+\.\d+(?:e[+-]?\d+)?|\d+|[^\W\d]\w*|\s+|.")
PLACES = [chr(0xE000 + k) for k in range(64)]
"""Stand-ins for the index of an element, one per depth of nesting."""


@dataclass(frozen=True)
class Piece:
    """The elements from `start` on, `size` of them, all with one text in the stand-in letter."""

    start: int
    size: int
    text: str
    level: int
    tags: tuple[int, ...] = ()


def filled(text: str, place: str, index: int | Sym) -> str:
    """`text` with the stand-in replaced by `index`."""
    if place not in text:
        return text

    def put(match: re.Match[str]) -> str:
        minus, coef, sign, offset = match["minus"], match["coef"], match["sign"], match["offset"]
        by = int(offset) * (-1 if sign == "-" else 1) if offset else 0
        new = moved(index, by, (int(coef) if coef else 1) * (-1 if minus else 1))
        assert isinstance(new, int | Sym)
        before, after = text[: match.start()], text[match.end() :]
        plain = (isinstance(new, int) and new >= 0) or (isinstance(new, Sym) and _simple(new))
        out = written(new, tight=before.endswith("[") or after.startswith("]"))
        return out if plain or _apart(before, after) else f"({out})"

    sum_ = r"(?: ?(?P<sign>[+-]) ?(?P<offset>\d+)(?![\w.]))?"
    return re.sub(rf"(?P<minus>(?<=[\[(])-)?(?:(?P<coef>\d+) ?\* ?)?{place}{sum_}", put, text)


def _apart(before: str, after: str) -> bool:
    """Whether a sum between these texts needs no parentheses."""
    left, right = before.rstrip(), after.lstrip()
    return (not left or left[-1] in "[,({<>=") and (not right or right[0] in "],)}<>=!")


def _simple(index: Sym) -> bool:
    return len(index.parts) == 1 and index.parts[0][1] == 1 and not index.offset


def joined(pieces: Sequence[Piece], place: str) -> list[Piece]:
    """Neighbours that one text describes, put together."""
    out: list[Piece] = []
    for piece in pieces:
        if out and (one := _one(out[-1], piece, place)) is not None:
            out[-1] = one
        else:
            out.append(piece)
    return out


def _one(a: Piece, b: Piece, place: str) -> Piece | None:
    if a.tags != b.tags:
        return None
    size = a.size + b.size
    if a.text == b.text and (place not in a.text or a.size > 1):
        return Piece(a.start, size, a.text, max(a.level, b.level), a.tags)
    if b.size == 1 and place in a.text and filled(a.text, place, b.start) == b.text:
        return Piece(a.start, size, a.text, a.level, a.tags)
    if a.size == 1 and place in b.text and filled(b.text, place, a.start) == a.text:
        return Piece(a.start, size, b.text, b.level, b.tags)
    if a.size == b.size == 1:
        text = _between(a.text, b.text, a.start, place)
        return None if text is None else Piece(a.start, 2, text, min(a.level, b.level), a.tags)
    return None


def _between(a: str, b: str, start: int, place: str) -> str | None:
    """The text that is `a` at `start` and `b` at the next place, differing in whole numbers alone."""
    one, two = _TOKEN.findall(a), _TOKEN.findall(b)
    if len(one) != len(two) or place in a or place in b:
        return None
    out = []
    for k, (x, y) in enumerate(zip(one, two, strict=True)):
        if x == y:
            out.append(x)
        elif x.isdigit() and y.isdigit() and _free(one, k):
            step = int(y) - int(x)
            alone = _apart("".join(one[:k]), "".join(one[k + 1 :]))
            index = moved(Sym(((place, 1),)), int(x) - step * start, step)
            assert isinstance(index, Sym)
            text = written(index, tight=k > 0 and one[k - 1] == "[")
            out.append(text if alone or (step == 1 and int(x) == start) else f"({text})")
        else:
            return None
    return "".join(out)


def _free(tokens: Sequence[str], k: int) -> bool:
    """Whether a number stands by itself, and is no end of a slice and no power."""
    near = [*tokens[max(0, k - 2) : k], *tokens[k + 1 : k + 3]]
    return not any(t in (":", "^") for t in near)


class Writer:
    """Composes texts.

    `ranges` tells which places a letter may name (`{"n": (0, 6)}`). `reads` collects, per named array, the
    indices at which it was printed (None: somehow).
    """

    def __init__(self, ranges: dict[str, tuple[int, int]] | None = None, long: int = 100):
        self.ranges = dict(ranges or {})
        self.reads: dict[str, set[Any]] = {}
        self.long = long
        self._tags = 0
        self._nested = 0

    def span(self, size: int) -> Span:
        """A new free axis."""
        self._tags += 1
        return Span(self._tags, 0, size)

    def part(self, base: str, shape: Sequence[int], index: tuple[Index, ...], first: int = 0) -> Text:
        """`base[index]`; `first` is the number that its first element goes by."""
        tags = tags_of(index)
        if tags is None:
            raise Opaque
        shown = list(zip(index, shape, strict=True))
        whole = [isinstance(i, Span) and (i.start, i.size, i.step) == (0, n, 1) for i, n in shown]
        while shown and whole[-1]:
            shown.pop()
            whole.pop()
        texts = []
        for k, (i, n) in enumerate(shown):
            shift = first if k == 0 else 0
            if isinstance(i, Span):
                texts.append(":" if whole[k] else spelled(i, n))
            elif isinstance(i, int):
                texts.append(str(i + shift))
            else:
                texts.append(written(Sym(i.parts, i.offset + shift, i.tags)))
        return Text(subscript(base, texts), ATOM, tags)

    def infix(self, name: str, a: Text, b: Text) -> Text:
        """Two operands and a sign, without what changes nothing."""
        op, level = INFIX[name]
        if (name, a.text) in (("mul", "1"), ("add", "0")) and _covers(b, a):
            return b
        if (name, b.text) in (("mul", "1"), ("div", "1"), ("add", "0"), ("sub", "0")) and _covers(a, b):
            return a
        if name == "sub" and a.text == "0":
            return self.minus(b)
        a, b = self.aligned([a, b])
        alone = level in (COMPARE, BITS)
        left = self.inside(a, level + alone)
        right = self.inside(b, level + (name in ("sub", "div", "floor_div") or alone))
        if name == "add" and b.text.startswith("-") and b.level >= SUM:
            return Text(infix(left, "-", right[1:]), level, longest([a, b]))
        return Text(infix(left, op, right), level, longest([a, b]))

    def minus(self, a: Text) -> Text:
        """`-a`."""
        return Text("-" + self.inside(a, PRODUCT), SUM, a.tags)

    def inside(self, text: Text, level: int) -> str:
        """The text, in parentheses where it binds less than `level`."""
        alone = text.level >= level and not (level >= PRODUCT and text.text.startswith("-"))
        return text.text if alone else f"({text.text})"

    def call(self, name: str, texts: Sequence[Text], also: str = "") -> Text:
        """A function of elements."""
        texts = self.aligned(texts)
        args = ", ".join([*(t.text for t in texts), *([also] if also else [])])
        return Text(call(name, args), ATOM, longest(texts))

    def power(self, base: Text, exponent: Text) -> Text:
        """`base**exponent`."""
        base, exponent = self.aligned([base, exponent])
        text = f"{self.inside(base, POWER + 1)}**{self.inside(exponent, POWER + 1)}"
        return Text(text, POWER, longest([base, exponent]))

    def product(self, a: Text, b: Text, tag: int) -> Text:
        """`a @ b`, the last axis of `a` summed with the first of `b`."""
        left = self.inside(a, PRODUCT)
        right = self.inside(b, PRODUCT + 1)
        return Text(infix(left, "@", right), PRODUCT, tuple(t for t in (*a.tags, *b.tags) if t != tag))

    def choice(self, condition: Text, then: Text, otherwise: Text) -> Text:
        """`where(condition, then, otherwise)`."""
        return self.call("where", [condition, then, otherwise])

    def aligned(self, texts: Sequence[Text]) -> list[Text]:
        """The texts with axes added or swapped so that NumPy's broadcasting puts equal tags together."""
        wanted = tuple(sorted({t for x in texts for t in x.tags}, key=lambda t: self._order(texts, t)))
        out = []
        for x in texts:
            if x.tags and x.tags != wanted[len(wanted) - len(x.tags) :]:
                if len(x.tags) == 2 and x.tags[::-1] == wanted[-2:]:
                    x = Text(self.inside(x, ATOM) + ".T", ATOM, x.tags[::-1])
                elif [t for t in wanted if t in x.tags] == list(x.tags):
                    kept = wanted[wanted.index(x.tags[0]) :]
                    axes = ", ".join(":" if t in x.tags else "None" for t in kept)
                    x = Text(f"{self.inside(x, ATOM)}[{axes}]", ATOM, kept)
                else:
                    raise Opaque
            out.append(x)
        return out

    @staticmethod
    def _order(texts: Sequence[Text], tag: int) -> tuple[int, int]:
        longest = max(texts, key=lambda t: len(t.tags)).tags
        return (1, longest.index(tag)) if tag in longest else (0, tag)

    def pieces(self, parts: Sequence[tuple[int, Callable[[Index], Text]]], at: Index, axis: int = 0) -> Text:
        """An array put together along an axis: `parts` are sizes, and what is printed at a place inside.

        `at` is the place along the axis. Neighbours of which one text is true are told as one; else the
        text says where which of them holds.
        """
        starts = np.concatenate([[0], np.cumsum([n for n, _ in parts])]).astype(int)
        ends = bounds(at, self.ranges)
        if ends is not None:
            for start, (n, write) in zip(starts, parts, strict=False):
                if start <= ends[0] and ends[1] < start + n:
                    return write(moved(at, -int(start)))
        if self._nested >= len(PLACES) or len(parts) > 100:
            raise Opaque
        mark = PLACES[self._nested]
        self._nested += 1
        try:
            found: list[Piece] = []
            waiting = [(int(a), n, int(a), w) for a, (n, w) in zip(starts, parts, strict=False)][::-1]
            while waiting:
                start, n, origin, write = waiting.pop()
                if n == 0 or (ends is not None and (ends[1] < start or start + n <= ends[0])):
                    continue
                self.ranges[mark] = (start, start + n)
                one = write(start - origin) if n == 1 else write(letter(mark, -origin))
                if one.level == CHOICE and n > 1 and len(found) + len(waiting) < 8:
                    # a piece that is itself made of pieces is told by its first element, and the others
                    waiting += [(start + 1, n - 1, origin, write), (start, 1, origin, write)]
                    continue
                found.append(Piece(start, n, one.text, one.level, one.tags))
        finally:
            self._nested -= 1
            self.ranges.pop(mark, None)
        return self._told(joined(found, mark), mark, at, axis)

    def _told(self, found: list[Piece], mark: str, at: Index, axis: int) -> Text:
        if not found:
            raise Opaque
        if isinstance(at, Span):
            return self._listed(found, mark, at, axis)
        assert not isinstance(at, int)
        if len(found) == 1:
            text = filled(found[0].text, mark, at)
            return Text(text, min(found[0].level, _level(text, found[0])), _tags(found[0], at))
        if len(found) > 3:
            singles = all(p.size == 1 and not p.tags for p in found)
            text = "[" + ", ".join(p.text for p in found) + "]"
            if not singles or len(text) > self.long or found[0].start:
                raise Opaque
            return Text(f"{text}[{written(at)}]", ATOM, at.tags)
        tags = max((p.tags for p in found), key=len)
        if at.tags or any(p.tags not in ((), tags) for p in found):
            raise Opaque
        texts = [filled(p.text, mark, at) for p in found]
        if len(found) == 2:
            first, second = found
            if second.size == 1 and first.size > 1:
                return self._if(_beyond(at, "<", second.start), texts[0], texts[1], tags)
            if first.size == 1 and first.start == 0:
                return self._if(_beyond(at, ">", 0), texts[1], texts[0], tags)
            return self._if(_beyond(at, ">=", second.start), texts[1], texts[0], tags)
        last = self._if(_beyond(at, "<", found[2].start), texts[1], texts[2], tags).text
        return self._if(_beyond(at, "<", found[1].start), texts[0], last, tags)

    def _if(self, condition: str, then: str, otherwise: str, tags: tuple[int, ...]) -> Text:
        return Text(f"{then} if {condition} else {otherwise}", CHOICE, tags)

    def concatenated(self, parts: Sequence[tuple[int, Callable[[Index], Text]]], at: Span) -> Text:
        """A whole axis, from the arrays that were put one after another along it."""
        texts = []
        for n, write in parts:
            piece = Span(at.tag, 0, n)
            text = write(piece)
            if not text.tags:
                out = f"[{text.text}]" if n == 1 else call("full", f"{n}, {text.text}")
            elif text.tags == (at.tag,):
                out = text.text
            else:
                raise Opaque
            texts.append(out)
        return Text(call("concatenate", "[" + ", ".join(texts) + "]"), ATOM, (at.tag,))

    def _listed(self, found: list[Piece], mark: str, at: Span, axis: int) -> Text:
        """A slice of an array that the elements are, or the elements themselves."""
        pattern = rf"(.*)\[{mark}(?:([+-]\d+))?\]"
        one = re.fullmatch(pattern, found[0].text) if len(found) == 1 and not found[0].tags else None
        if one is not None and at.step == 1 and mark not in one.group(1):
            start = at.start + int(one.group(2) or 0)
            length = self.length(one.group(1))
            whole = (start, start + at.size) == (0, length)
            text = one.group(1) if whole else f"{one.group(1)}[{start}:{start + at.size}]"
            return Text(text, ATOM, (at.tag,))
        if at.step != 1 or at.size > 16 or len({p.tags for p in found}) > 1:
            raise Opaque
        texts = []
        for k in range(at.start, at.start + at.size):
            (piece,) = [p for p in found if p.start <= k < p.start + p.size]
            texts.append(filled(piece.text, mark, k))
        text = "[" + ", ".join(texts) + "]"
        if len(text) > self.long:
            raise Opaque
        return Text(text, ATOM, (at.tag, *found[0].tags))

    def length(self, name: str) -> int | None:
        """How many elements an array of that name has along its first axis."""
        return None


def _beyond(at: Sym, sign: str, place: int) -> str:
    """A comparison with the letters of the index on one side, and its number on the other."""
    return f"{written(Sym(at.parts, 0, at.tags), tight=False)} {sign} {place - at.offset}"


def _covers(a: Text, b: Text) -> bool:
    return set(b.tags) <= set(a.tags)


def _tags(piece: Piece, at: Sym) -> tuple[int, ...]:
    if piece.tags and at.tags:
        raise Opaque
    return piece.tags or at.tags


def _level(text: str, piece: Piece) -> int:
    """A lone number that became a sum binds as one."""
    return SUM if piece.level == ATOM and (" + " in text or " - " in text) and "[" not in text else ATOM
