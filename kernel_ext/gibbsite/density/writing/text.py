"""A piece of written expression, and what its surroundings need to know of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gibbsite.density.writing.operators import ATOM
from gibbsite.trace.jaxpr.compat import Literal


@dataclass(frozen=True)
class Text:
    """What was written: its outermost operation's level, and the free axes that its value has, in order."""

    text: str
    level: int = ATOM
    tags: tuple[int, ...] = ()


class Opaque(Exception):
    """An array that has no short form."""


def shape_of(atom: Any) -> tuple[int, ...]:
    """The shape of a variable or literal."""
    return tuple(np.shape(atom.val)) if isinstance(atom, Literal) else tuple(atom.aval.shape)


def longest(texts: Sequence[Text]) -> tuple[int, ...]:
    """The free axes of what an operation on aligned texts gives."""
    return max((t.tags for t in texts), key=len, default=())
