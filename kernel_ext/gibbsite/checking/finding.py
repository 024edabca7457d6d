"""What one kind of test found."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

LEVEL = 1e-3
"""Of a statistical test with all that it compares: so rarely is what is right called wrong by it."""
STATES = ("right", "wrong", "doubtful", "open")
NO_PLACE = "no values of positive density were found"
_LEAST_P = 1e-16


def told_p(p: float) -> str:
    """A p-value in words: what is too small for its distribution's tail to be known is no zero."""
    return f"{p:.2g}" if p >= _LEAST_P else f"below {_LEAST_P:.0e}"


@dataclass(frozen=True)
class Ranks:
    """Ranks of what made the data among `most` draws given them, by quantity, `[data sets]`; `p` of their
    uniformity by quantity."""

    most: int
    by_quantity: Mapping[str, np.ndarray]
    p: Mapping[str, float]


@dataclass(frozen=True)
class Finding:
    """The verdict of one test: `state` is "right", "wrong", "doubtful" (what was seen may have another cause
    than a wrong sampler) or "open" (not tested; `text` says why). `blind` is what it cannot see."""

    test: str
    state: str
    text: str
    blind: str = ""
    seconds: float = 0.0
    ranks: Ranks | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return f"{self.state:8s}  {self.test}: {self.text}"
