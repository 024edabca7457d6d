"""Whether a warm-up has done its work: what it learns from agrees between chains, and no longer moves.

All that windows learn, metric and centring, are functions of draws and gradients. Where their earlier and
their later half agree in place and spread, so does what would be learnt from either. Spreads are distances
between quartiles: as the model is written, gradients of a hierarchy have tails that no variance survives.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from gibbsite.kernels.nuts.block import LearntNUTS
from gibbsite.kernels.nuts.tuning import PER_DIMENSION

EARLIEST = 150
"""Steps before which no warm-up ends by itself."""

RHAT = 1.1
_MOVED = 0.2
_STEP = np.log(1.5)
_TINY = 1e-30


@dataclass(frozen=True)
class Settling:
    """Of the draws that a window ends with: the largest split R-hat and the site that has it; by what factor
    spreads of draws and gradients differ between the two halves (root mean square of logarithms); how far the
    step size is from its average, a logarithm; and whether there are too few draws for a metric of directions
    that the block would take."""

    rhat: float
    site: str
    moved: float
    step: float
    few: bool = False

    @property
    def waiting_for(self) -> tuple[str, ...]:
        """What has not settled, in words; nothing where all has."""
        found = []
        if not self.rhat < RHAT:
            found.append(f"R-hat is {min(self.rhat, 99):.2f} for {self.site}")
        if not self.moved < _MOVED:
            found.append(f"spreads still change by {100 * np.expm1(self.moved):.0f} %")
        if not self.step < _STEP:
            found.append(f"the step size is {100 * np.expm1(self.step):.0f} % off its average")
        return (*found, "too few draws for the metric") if self.few else tuple(found)


def learners(kernel: Any, state: Any) -> Iterator[tuple[LearntNUTS, Any]]:
    """The blocks of a composite that learn in windows, each with its state."""
    for (block, _), own in zip(kernel.blocks, state.block_states, strict=True):
        if isinstance(block, LearntNUTS) and own.ring.shape[1]:
            yield block, own


def ends_itself(kernel: Any, state: Any, warmup: int) -> bool:
    """Whether a warm-up of at most so many steps can be ended early: where all sites are one block that
    learns in windows, so that its draws tell of everything that has to settle."""
    found = list(learners(kernel, state))
    return len(found) == len(kernel.blocks) == 1 and bool(kernel.window_ends(warmup))


def settling(kernel: Any, state: Any) -> Settling | None:
    """How far warm-up has come, from the state of all chains at the end of a window; None where nothing is
    learnt. The worst block counts."""
    found = [_of_block(block, own) for block, own in learners(kernel, state)]
    return max(found, key=lambda s: s.rhat, default=None)


def _of_block(block: LearntNUTS, state: Any) -> Settling:
    c = block.problem.coordinates
    steps, ring = int(np.asarray(state.i)[0]), np.asarray(state.ring, np.float64)
    length = ring.shape[1]
    count = min((steps + 1) // 2, length)
    ages = (steps - 1 - np.arange(length)) % length
    order = np.argsort(ages)[:count][::-1]  # the draws that count, oldest first
    half = count // 2
    rows = ring[:, order[count - 2 * half :], : 2 * c.size]
    halves = rows.reshape(2 * len(rows), half, -1)  # of every chain, one after the other
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        means, variances = halves.mean(1), halves.var(1, ddof=1)
        within = variances.mean(0) + _TINY
        rhat = np.sqrt((half - 1) / half + means.var(0, ddof=1) / within)[: c.size]
        early, late = (rows[:, part].reshape(-1, rows.shape[-1]) for part in (np.s_[:half], np.s_[half:]))
        change = np.log((_spread(late) + _TINY) / (_spread(early) + _TINY))
    rhat = np.where(np.isfinite(rhat), rhat, np.inf)
    worst = int(np.argmax(rhat))
    site = next(p.name for p in c.parts if p.at.start <= worst < p.at.stop)
    log_size, log_average = (float(np.asarray(a)[0]) for a in state.averages[:2])
    moved = float(np.sqrt(np.mean(change**2)))
    directions = state.tuning.metric.stretch.shape[-1]
    few = bool(directions) and len(rows) * count < PER_DIMENSION * c.size <= len(rows) * length
    away = abs(log_size - log_average)
    return Settling(float(rhat[worst]), site, moved if np.isfinite(moved) else np.inf, away, few)


def _spread(x: np.ndarray) -> np.ndarray:
    low, high = np.quantile(x, [0.25, 0.75], axis=0)
    return high - low
