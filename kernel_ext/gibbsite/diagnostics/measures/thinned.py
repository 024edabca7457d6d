"""Series that grow without end, kept at a bounded number of points."""

from collections.abc import Mapping

import numpy as np

from gibbsite.diagnostics.measures.series import spaced
from gibbsite.diagnostics.measures.snapshot import TraceView
from gibbsite.plans.schedule.plan import Plan
from gibbsite.storage.draws import label_of


class Thinned:
    """A series `[chain, step, …]` in bins of equal length, of which each keeps its first, lowest and highest
    value. When there are `most` bins, neighbours are joined and bins become twice as long, so the whole
    series stays in sight at between `most / 2` and `most` points, and the cost of a step does not depend on
    how many came before it.
    """

    def __init__(self, most: int):
        self._most = max(2, most - most % 2)
        self.steps = 0
        # Length of a bin, full bins [first, low, high] `[chain, bin, …]`, and the steps after them: replaced
        # as one, so that another thread always reads what belongs together.
        self._held: tuple[int, list[np.ndarray], np.ndarray] | None = None

    def add(self, x: np.ndarray) -> None:
        """Take in the next steps `[chain, step, …]`."""
        self.steps += x.shape[1]
        length, bins, rest = self._held or (1, [x[:, :0]] * 3, x[:, :0])
        rest = np.concatenate([rest, x], axis=1)
        while True:
            fit = min(rest.shape[1] // length, self._most - bins[0].shape[1])
            taken, rest = np.split(rest, [fit * length], axis=1)
            if fit:
                new = taken.reshape(x.shape[0], fit, length, *x.shape[2:])
                parts = (new[:, :, 0], *_range(new, axis=2))
                bins = [np.concatenate(pair, axis=1) for pair in zip(bins, parts, strict=True)]
            if bins[0].shape[1] < self._most:
                break
            first, low, high = bins
            pairs = (a.reshape(a.shape[0], a.shape[1] // 2, 2, *a.shape[2:]) for a in (low, high))
            lowest, highest = (_range(p, axis=2)[i] for i, p in enumerate(pairs))
            bins, length = [first[:, ::2], lowest, highest], 2 * length
        self._held = (length, bins, rest.copy())

    def view(self, index: tuple[int, ...] = ()) -> TraceView:
        """All steps so far, of one scalar: `index` picks it from the axes after chain and step."""
        if self._held is None:
            nothing = np.zeros((0, 0))
            return TraceView(np.zeros(0, int), nothing, nothing, nothing)
        length, bins, rest = self._held
        at = (slice(None), slice(None), *index)
        parts, rest = [b[at] for b in bins], rest[at]
        if rest.shape[1]:
            last = (rest[:, :1], *(v[:, None] for v in _range(rest, axis=1)))
            parts = [np.concatenate(pair, axis=1) for pair in zip(parts, last, strict=True)]
        return TraceView(np.arange(parts[0].shape[1]) * length, *parts)


def _range(x: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    with np.errstate(invalid="ignore"):  # of what is not a number: the plot has a gap there
        return x.min(axis=axis), x.max(axis=axis)


_PER_SITE = 16
_CHAINS = 8
_POINTS = 400


class Preview:
    """Up to 16 evenly spaced scalars of every site in up to 8 chains. Written by the sampling thread, read by
    any; its size does not depend on the length of the warm-up."""

    def __init__(self, plan: Plan):
        self._plan = plan
        self._series: dict[str, Thinned] = {}
        self._places: dict[str, tuple[str, int]] = {}

    def add(self, values: Mapping[str, np.ndarray]) -> None:
        """Take in steps of warm-up, arrays `[step, chain, …]` by site."""
        for site in sorted(values, key=self._dullness):
            v = values[site]
            flat = np.moveaxis(v[:, :_CHAINS].reshape(v.shape[0], min(v.shape[1], _CHAINS), -1), 1, 0)
            some = spaced(flat.shape[2], _PER_SITE)
            new = site not in self._series
            if new:
                self._series[site] = Thinned(_POINTS)
            self._series[site].add(flat[:, :, some])
            for k, at in enumerate(some if new else ()):
                index = tuple(int(i) for i in np.unravel_index(int(at), v.shape[2:]))
                self._places[label_of(site, index)] = (site, k)

    def _dullness(self, site: str) -> tuple[bool, bool]:
        """What tells most comes first: continuous latents, discrete ones, what follows from them."""
        names = self._plan.groups.get(site, (site,))
        facts = self._plan.sites[names[0]]
        return facts.role != "latent", facts.discrete

    @property
    def labels(self) -> tuple[str, ...]:
        """The scalars that there are: the first of every site, then the second of every site, …"""
        places = list(self._places.items())
        return tuple(label for label, (_, k) in sorted(places, key=lambda item: item[1][1]))

    def trace(self, label: str) -> TraceView:
        """One of `labels` over the warm-up so far."""
        site, k = self._places[label]
        return self._series[site].view((k,))
