"""Draws of a scalar → their ranks as normal scores, sorted once for all measures that want them.

What convergence measures cost is sorting and normal quantiles. ArviZ sorts anew for every measure, and
computes the quantile of every rank.
"""

from collections.abc import Sequence
from functools import cached_property, lru_cache

import numpy as np
from scipy.special import ndtri

_OFFSET = 3 / 8


class Scored:
    """Draws `[chain, draw]`, finite numbers, of which each chain is cut into halves; the middle one of an odd
    number of draws is left out of these."""

    def __init__(self, x: np.ndarray):
        self._x = x.astype(np.float64)
        half = x.shape[1] // 2
        self.split = np.concatenate([self._x[:, :half], self._x[:, x.shape[1] - half :]])

    @cached_property
    def _order(self) -> np.ndarray:
        return np.argsort(self.split, axis=None)

    @cached_property
    def scores(self) -> np.ndarray:
        """The normal scores of the ranks, shaped as `split`."""
        return _scores(self.split, self._order)

    def folded(self) -> np.ndarray:
        """The normal scores of the distances from the median."""
        flat, n = self.split.ravel(), self.split.size
        middle = flat[self._order[[(n - 1) // 2, n // 2]]].mean()
        away = np.abs(self.split - middle)
        return _scores(away, np.argsort(away, axis=None))

    def below(self, shares: Sequence[float]) -> list[np.ndarray]:
        """For each share, whether a draw is at most that quantile of all: 0 and 1, shaped as `split`."""
        return [(self.split <= q).astype(np.float64) for q in np.quantile(self._x, shares)]


def _scores(x: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Normal scores of ranks by Blom (1958); equal numbers share the mean of their ranks."""
    ascending = x.ravel()[order]
    starts = np.flatnonzero(np.concatenate([[True], ascending[1:] != ascending[:-1]]))
    ends = np.append(starts[1:], x.size)
    twice = np.repeat(starts + ends + 1, ends - starts)  # twice the mean rank of what is equal
    found = np.empty(x.size)
    found[order] = _quantiles(x.size)[twice]
    return found.reshape(x.shape)


@lru_cache(maxsize=4)
def _quantiles(n: int) -> np.ndarray:
    """The normal scores of half ranks 0, ½, 1, … n of n numbers."""
    return ndtri((np.arange(2 * n + 1) / 2 - _OFFSET) / (n - 2 * _OFFSET + 1))
