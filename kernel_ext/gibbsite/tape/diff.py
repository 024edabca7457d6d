"""Two runs side by side: where they took different paths, and where only values differ."""

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from gibbsite.tape.recording.record import Record
from gibbsite.tape.show import summary

if TYPE_CHECKING:
    from gibbsite.tape.tape import Tape


@dataclass(frozen=True)
class Difference:
    """`sign` is "-" (left run only), "+" (right run only) or "≠" (same step, other value)."""

    sign: str
    left: Record | None
    right: Record | None

    def __str__(self) -> str:
        shown = self.left or self.right
        assert shown is not None
        text = f"{self.sign} {shown.ref} {shown.name or shown.op}"
        if self.left is not None and self.right is not None:
            text += f": {summary(self.left.value)} ≠ {summary(self.right.value)}"
        return text


@dataclass(frozen=True)
class TapeDiff:
    """What differs between two runs; `same_structure` says whether they took the same path."""

    differences: tuple[Difference, ...]

    @property
    def same_structure(self) -> bool:
        """Whether both runs did the same steps, whatever their values."""
        return all(d.sign == "≠" for d in self.differences)

    def __bool__(self) -> bool:
        return bool(self.differences)

    def __str__(self) -> str:
        if not self.differences:
            return "the runs are the same"
        head = (
            "same structure, other values" if self.same_structure else "the structure changes from run to run"
        )
        lines = [str(d) for d in self.differences[:40]]
        more = len(self.differences) - len(lines)
        return "\n".join([head, *lines, *([f"… and {more} more"] if more > 0 else [])])


def compare(left: "Tape", right: "Tape") -> TapeDiff:
    """Align two tapes level by level."""
    return TapeDiff(tuple(_level(left.records, right.records)))


def _level(left: tuple[Record, ...], right: tuple[Record, ...]) -> list[Difference]:
    start, keys = 0, ([_key(r) for r in left], [_key(r) for r in right])
    shortest = min(len(left), len(right))
    while start < shortest and keys[0][start] == keys[1][start]:
        start += 1
    end = 0
    while end < shortest - start and keys[0][-1 - end] == keys[1][-1 - end]:
        end += 1
    found = [d for a, b in zip(left[:start], right[:start], strict=True) for d in _pair(a, b)]
    middle = slice(start, len(left) - end), slice(start, len(right) - end)
    found += _middle(left[middle[0]], right[middle[1]], keys[0][middle[0]], keys[1][middle[1]])
    tails = left[len(left) - end :], right[len(right) - end :]
    return found + [d for a, b in zip(*tails, strict=True) for d in _pair(a, b)]


def _middle(left: Any, right: Any, left_keys: Any, right_keys: Any) -> list[Difference]:
    if len(left) * len(right) > 4_000_000:  # aligning would take quadratic time
        return [Difference("-", r, None) for r in left] + [Difference("+", None, r) for r in right]
    found: list[Difference] = []
    matcher = difflib.SequenceMatcher(None, left_keys, right_keys, autojunk=False)
    for tag, a, b, c, d in matcher.get_opcodes():
        if tag == "equal":
            found += [x for p, q in zip(left[a:b], right[c:d], strict=True) for x in _pair(p, q)]
        else:
            found += [Difference("-", r, None) for r in left[a:b]]
            found += [Difference("+", None, r) for r in right[c:d]]
    return found


def _key(record: Record) -> Any:
    return record.kind, record.op, record.name, record.shapes


def _pair(left: Record, right: Record) -> list[Difference]:
    if left.children or right.children:
        inner = _level(left.children, right.children)
        if left.kind == "branch" and left.taken != right.taken and not inner:
            return [Difference("-", left, None), Difference("+", None, right)]
        return inner
    same = _same(left.values, right.values)
    return [] if same else [Difference("≠", left, right)]


def _same(left: Any, right: Any) -> bool:
    if left is None or right is None:
        return left is right
    if len(left) != len(right):
        return False
    return all(_equal(a, b) for a, b in zip(left, right, strict=True))


def _equal(left: Any, right: Any) -> bool:
    if hasattr(left, "dtype") and "key<" in str(left.dtype):
        left, right = jax.random.key_data(left), jax.random.key_data(right)
    a, b = np.asarray(left), np.asarray(right)
    return a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
