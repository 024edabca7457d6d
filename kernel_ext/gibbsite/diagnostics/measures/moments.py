"""Running moments of many scalars: convergence measures at a bounded cost per chunk, to find the worst."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from gibbsite.diagnostics.measures.convergence import MOST_RHAT
from gibbsite.diagnostics.measures.series import spaced
from gibbsite.diagnostics.measures.snapshot import ScalarStat
from gibbsite.storage.draws import label_of

_BATCHES = 16
_MOST_ELEMENTS = 2048


@dataclass
class _Batch:
    """Count, mean and sum of squared deviations of consecutive draws, arrays `[chain, element]`."""

    n: int
    mean: np.ndarray
    m2: np.ndarray

    def joined(self, other: "_Batch") -> "_Batch":
        """Both, by the update of Chan, Golub and LeVeque (1983)."""
        n = self.n + other.n
        with np.errstate(all="ignore"):  # of non-finite draws: the measures say so
            delta = other.mean - self.mean
            mean = self.mean + delta * (other.n / n)
            return _Batch(n, mean, self.m2 + other.m2 + delta**2 * (self.n * other.n / n))


def _batch(x: np.ndarray) -> _Batch:
    with np.errstate(all="ignore"):
        mean = x.mean(axis=0)
        return _Batch(x.shape[0], mean, ((x - mean) ** 2).sum(axis=0))


class SiteMoments:
    """Moments of a site's draws in at most 16 batches of equal length; when they are full, neighbours are
    joined and batches become twice as long. So memory and time per draw do not grow with the run.

    Of a site with more than 2048 elements, evenly spaced ones are followed.
    """

    def __init__(self, shape: tuple[int, ...]):
        self.shape = shape
        self.size = size = int(np.prod(shape, dtype=np.int64))
        self.elements = spaced(size, _MOST_ELEMENTS)
        self._length = 8
        self._draws = 0
        self._full: list[_Batch] = []
        self._open: _Batch | None = None
        self._last: np.ndarray | None = None
        self.unmoved = np.zeros(0, int)

    def update(self, values: np.ndarray) -> None:
        """Add draws `[draw, chain, *shape]`."""
        flat = values.reshape(*values.shape[:2], -1)
        if flat.shape[2] != len(self.elements):
            flat = flat[:, :, self.elements]
        self._count_unmoved(flat)
        self._draws += len(flat)
        flat = flat.astype(np.float64)
        while len(flat):
            room = self._length - (self._open.n if self._open else 0)
            part = _batch(flat[:room])
            self._open = self._open.joined(part) if self._open else part
            flat = flat[room:]
            if self._open.n == self._length:
                self._full.append(self._open)
                self._open = None
                if len(self._full) == _BATCHES:
                    pairs = zip(self._full[::2], self._full[1::2], strict=True)
                    self._full = [a.joined(b) for a, b in pairs]
                    self._length *= 2

    def _count_unmoved(self, flat: np.ndarray) -> None:
        """For how many draws each `[chain, element]` has had the value that it has now."""
        last = flat[:1] if self._last is None else self._last
        if self._last is None:
            self.unmoved = np.full(flat.shape[1:], -1)  # the first draw rests after none
        moved = np.concatenate([last, flat[:-1]]) != flat
        since = np.argmax(moved[::-1], axis=0)  # draws since the last move, if there was one
        self.unmoved = np.where(moved.any(axis=0), since, self.unmoved + len(flat))
        self._last = flat[-1:].copy()

    @property
    def never_moved(self) -> np.ndarray:
        """Which `[chain, element]` have had one value in all draws, of two at least."""
        return self.unmoved >= max(self._draws - 1, 1)

    @property
    def draws(self) -> int:
        """How many draws of each chain were added."""
        return self._draws

    def apart(self) -> np.ndarray:
        """For the last draw: where `[chain, element]` differs from the middle chain's value, which is that of
        most chains if most agree."""
        if self._last is None:
            return np.zeros((0, len(self.elements)), bool)
        last = self._last[0]
        return last != np.sort(last, axis=0)[last.shape[0] // 2]

    def rhat_and_ess(self) -> tuple[np.ndarray, np.ndarray]:
        """Split R-hat (Gelman and others 2013, §11.4; without ranks) and ESS by batch means, per element.

        NaN for constant or non-finite elements, and while there are fewer than four batches.
        """
        size = len(self.elements)
        full = self._full[: len(self._full) // 2 * 2]
        if len(full) < 4:
            return np.full(size, np.nan), np.full(size, np.nan)
        half = len(full) // 2
        halves = [reduce(_Batch.joined, part) for part in (full[:half], full[half:])]
        n = halves[0].n
        with np.errstate(all="ignore"):
            means = np.concatenate([h.mean for h in halves])
            within = np.concatenate([h.m2 for h in halves]).mean(axis=0) / (n - 1)
            between = means.var(axis=0, ddof=1)
            rhat = np.sqrt((within * (n - 1) / n + between) / within)
            batch_means = np.concatenate([b.mean for b in full])
            spread = batch_means.var(axis=0, ddof=1)
            total = self._draws * full[0].mean.shape[0]  # those in open batches too
            variance = within * (n - 1) / n + between
            ess = total * variance / (self._length * spread)
        bad = ~np.isfinite(rhat) | (within <= 0)
        still = (within <= 0) & (between > 0)  # every chain at a value of its own: nothing is worse
        return np.where(still, MOST_RHAT, np.where(bad, np.nan, rhat)), np.where(bad, np.nan, ess)

    def mean_and_sd(self) -> tuple[np.ndarray, np.ndarray]:
        """Per element over all chains; NaN where there are no two draws."""
        parts = [*self._full, *([self._open] if self._open else [])]
        if not parts:
            return np.full(len(self.elements), np.nan), np.full(len(self.elements), np.nan)
        whole = reduce(_Batch.joined, parts)
        chains = whole.mean.shape[0]
        with np.errstate(all="ignore"):
            between = whole.n * ((whole.mean - whole.mean.mean(axis=0)) ** 2).sum(axis=0)
            spread = np.sqrt((whole.m2.sum(axis=0) + between) / (whole.n * chains - 1))
        return whole.mean.mean(axis=0), spread

    def stats(self, site: str, flats: Sequence[int] | np.ndarray, discrete: bool) -> list[ScalarStat]:
        """What these tell of elements of `site`, by flat index, without a tail ESS; NaN of those that are not
        followed."""
        columns, out = np.stack([*self.mean_and_sd(), *self.rhat_and_ess()]), []
        places = np.searchsorted(self.elements, flats).clip(max=len(self.elements) - 1)
        for k, at in zip(flats, places, strict=True):
            index = tuple(int(i) for i in np.unravel_index(int(k), self.shape))
            mean, sd, rhat, ess = columns[:, at].tolist() if self.elements[at] == k else [np.nan] * 4
            mcse = sd / np.sqrt(ess) if ess > 0 else np.nan
            label = label_of(site, index)
            out.append(ScalarStat(label, site, index, mean, sd, mcse, rhat, ess, np.nan, discrete))
        return out

    def worst(self, most: int) -> np.ndarray:
        """Flat indices of up to `most` elements, worst first: highest R-hat, then lowest ESS."""
        if len(self.elements) <= most:
            return self.elements
        rhat, ess = self.rhat_and_ess()
        if not np.isfinite(rhat).any():
            return self.elements[np.linspace(0, len(self.elements) - 1, most).astype(int)]
        excess = np.nan_to_num(np.maximum(rhat - 1.01, 0.0), nan=-1.0)
        order = np.lexsort((np.nan_to_num(ess, nan=np.inf), -np.round(excess, 2)))
        return self.elements[order[:most]]


class Moments:
    """`SiteMoments` of every site of a run."""

    def __init__(self) -> None:
        self.sites: dict[str, SiteMoments] = {}

    @property
    def partly(self) -> dict[str, tuple[int, int]]:
        """Of sites that are not followed whole: how many elements are, and how many there are."""
        counts = {n: (len(m.elements), m.size) for n, m in list(self.sites.items())}
        return {n: (some, size) for n, (some, size) in counts.items() if some < size}

    def update(self, values: Mapping[str, np.ndarray]) -> None:
        """Add draws `[draw, chain, *shape]` by site."""
        for name, v in values.items():
            if v.size:
                if name not in self.sites:
                    self.sites[name] = SiteMoments(v.shape[2:])
                self.sites[name].update(v)
