"""Series that grow without end, kept at a bounded number of points."""

import numpy as np

from gibbsite.diagnostics.measures.snapshot import TraceView


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
