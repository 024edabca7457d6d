"""Whether what warm-up learns still moves.

All that windows learn, metric and centring, are functions of draws and gradients. Where their earlier and
their later half agree in spread, so does what would be learnt from either. Spreads are distances between
quartiles: as the model is written, gradients of a hierarchy have tails that no variance survives. Whether the
chains agree with each other is another question, and not asked here.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from gibbsite.kernels.nuts.block import LearntNUTS
from gibbsite.kernels.nuts.report import gradient_blocks
from gibbsite.kernels.nuts.tuning import PER_DIMENSION

_MOVED = 0.2
_STEP = np.log(1.5)
_TINY = 1e-30
_FOLLOWING = 500
"""Steps that a block learns for whose supports move. GARCH(1, 1) on 200 points, four seeds, least ESS of 4000
draws: 700 to 1270 after warm-ups that ended at 210 to 270, 1160 to 1330 after 600."""


@dataclass(frozen=True)
class Settling:
    """Of the draws that a window ends with: by what factor spreads of draws and gradients differ between the
    two halves (root mean square of logarithms); how far the step size is from its average, a logarithm;
    whether there are too few draws for a metric of directions that the block would take; and whether there
    are too few for supports that move."""

    moved: float
    step: float
    few: bool = False
    following: bool = False

    @property
    def waiting_for(self) -> tuple[str, ...]:
        """What has not settled, in words; nothing where all has."""
        found = []
        if not self.moved < _MOVED:
            found.append(f"spreads still change by {100 * np.expm1(self.moved):.0f} %")
        if not self.step < _STEP:
            found.append(f"the step size is {100 * np.expm1(self.step):.0f} % off its average")
        found += ["too few draws for the metric"] * self.few
        return (*found, *["too few draws for supports that move"] * self.following)


def settling(kernel: Any, state: Any) -> tuple[str, ...]:
    """What has not settled of what the blocks learn, in words, from the state of all chains at the end of a
    window; nothing where all has, and where nothing is learnt."""
    learning = [(block, own) for block, own in gradient_blocks(kernel, state) if own.ring.shape[1]]
    learning = [(block, own) for block, own in learning if block.problem.coordinates.size]
    found = [text for block, own in learning for text in _of_block(block, own).waiting_for]
    found += ["trajectories go astray" for block, own in learning if block.wants_smaller_steps(own)]
    return tuple(dict.fromkeys(found))


def _of_block(block: LearntNUTS, state: Any) -> Settling:
    c = block.problem.coordinates
    steps, ring = int(np.asarray(state.i)[0]), np.asarray(state.ring, np.float64)
    length = ring.shape[1]
    count = min((steps + 1) // 2, length)
    ages = (steps - 1 - np.arange(length)) % length
    order = np.argsort(ages)[:count][::-1]  # the draws that count, oldest first
    half = count // 2
    rows = ring[:, order[count - 2 * half :], : 2 * c.size]
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        early, late = (rows[:, part].reshape(-1, rows.shape[-1]) for part in (np.s_[:half], np.s_[half:]))
        change = np.log((_spread(late) + _TINY) / (_spread(early) + _TINY))
    log_size, log_average = (float(np.asarray(a)[0]) for a in state.averages[:2])
    moved = float(np.sqrt(np.mean(change**2)))
    directions = state.tuning.metric.stretch.shape[-1]
    few = bool(directions) and len(rows) * count < PER_DIMENSION * c.size <= len(rows) * length
    away = abs(log_size - log_average)
    following = steps < _FOLLOWING and any(p.moving is not None for p in c.parts)
    return Settling(moved if np.isfinite(moved) else np.inf, away, few, following)


def _spread(x: np.ndarray) -> np.ndarray:
    low, high = np.quantile(x, [0.25, 0.75], axis=0)
    return high - low
