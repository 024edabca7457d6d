"""Texts of neighbouring elements → one text in a letter, where they say the same of every element."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from gibbsite.printing.elements.indices import Sym, moved, written

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
