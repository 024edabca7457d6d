"""A piece of written expression, and what its surroundings need to know of it."""

from collections.abc import Sequence
from dataclasses import dataclass

from gibbsite.printing.elements.operators import ATOM
from gibbsite.programs.jaxpr.compat import shape_of as shape_of


@dataclass(frozen=True)
class Text:
    """What was written: its outermost operation's level, and the free axes that its value has, in order."""

    text: str
    level: int = ATOM
    tags: tuple[int, ...] = ()


class Opaque(Exception):
    """An array that has no short form."""


def longest(texts: Sequence[Text]) -> tuple[int, ...]:
    """The free axes of what an operation on aligned texts gives."""
    return max((t.tags for t in texts), key=len, default=())
