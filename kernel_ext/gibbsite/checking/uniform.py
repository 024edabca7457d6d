"""Whether ranks are uniform: their empirical distribution function, all of it at once.

Säilynoja, Bürkner and Vehtari (2022), "Graphical test for discrete uniformity and its applications in
goodness-of-fit evaluation and multiple sample comparison": the tail of a binomial distribution at every value
of the rank, and exactly how often the smallest of them is as small where ranks are uniform.
"""

import numpy as np

from gibbsite.ground.lazy_import import later

stats = later("scipy.stats")


def ecdf_p(ranks: np.ndarray, most: int) -> float:
    """The p-value of the smallest pointwise tail of ranks `0 … most`, `[data sets]`."""
    n, places = len(ranks), np.arange(1, most + 1) / (most + 1)
    below = np.array([(ranks < i).sum() for i in range(1, most + 1)])
    law = stats.binom(n, places)
    least = float((2 * np.minimum(law.cdf(below), law.sf(below - 1))).min())
    return 1.0 if least >= 1 else 1.0 - _inside(n, most, least)


def _inside(n: int, most: int, tail: float) -> float:
    """How often all pointwise tails are larger."""
    places = np.arange(1, most + 1) / (most + 1)
    low, high = _bounds(n, places, tail)
    counts = np.arange(n + 1)
    chance = np.zeros(n + 1)
    chance[0] = 1.0
    before = 0.0
    for z, a, b in zip(places, low, high, strict=True):
        step = (z - before) / (1 - before)
        # of those that are not below yet, each is so now with this probability
        more = stats.binom.pmf(counts[None, :] - counts[:, None], n - counts[:, None], step)
        chance = chance @ np.nan_to_num(more)
        chance[(counts < a) | (counts > b)] = 0.0
        before = z
    return float(min(chance.sum(), 1.0))


def _bounds(n: int, places: np.ndarray, tail: float) -> tuple[np.ndarray, np.ndarray]:
    """The least and the largest count at each place with pointwise tails larger than this."""
    counts = np.arange(n + 1)[:, None]
    law = stats.binom(n, places[None, :])
    good = (2 * law.cdf(counts) > tail) & (2 * law.sf(counts - 1) > tail)
    return good.argmax(0), n - good[::-1].argmax(0)


def bands(n: int, most: int, level: float = 0.95) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Places, and the least and largest share of ranks below each, that all hold together with probability
    `level` (`n` data sets, ranks `0 … most`)."""
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if _inside(n, most, middle) >= level else (low, middle)
    places = np.arange(1, most + 1) / (most + 1)
    least, largest = _bounds(n, places, low)
    return places, least / n, largest / n
