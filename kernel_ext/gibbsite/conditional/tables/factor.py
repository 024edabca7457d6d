"""Lifted factors: many factors of one shape, held as one table.

The `rows` of a factor are its instances; read `i` of row `r` is element `index[i][r]` of site `sites[i]`. Its
table has one axis per read, over that site's values, and the rows last (size 1 where all rows agree). What a
lifted factor saves is that its size is the program's and not the data's (de Salvo Braz et al. 2005, "Lifted
first-order probabilistic inference").
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gibbsite.errors import ModelError

Latents = Mapping[str, Any]

MAX_ENTRIES = 2**25
"""Entries of the largest table that an elimination may make."""


class TooLarge(ModelError):
    """An elimination needs a table beyond the limit; the message names the table and what makes it."""


@dataclass(frozen=True, eq=False)
class Factor:
    """`sites` and `index` (element numbers) per read, the number of `rows`, the sizes of the value axes, and
    the `origin`: the site or factor of the model that it came from, for messages."""

    sites: tuple[str, ...]
    index: tuple[np.ndarray, ...]
    rows: int
    sizes: tuple[int, ...]
    origin: str

    @property
    def entries(self) -> float:
        """Entries of the whole table."""
        return float(np.prod(self.sizes, dtype=float)) * self.rows


@dataclass(frozen=True, eq=False)
class Source:
    """Factors with the function that tabulates them: `tables(latents, data)`, one array per factor."""

    factors: tuple[Factor, ...]
    tables: Callable[[Latents, Any], Sequence[Any]]
    evaluations: float
    """Evaluations of the term that one tabulation makes, counted in elements."""
