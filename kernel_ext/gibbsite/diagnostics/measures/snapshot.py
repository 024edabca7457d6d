"""What a person watching a run sees, as plain values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class BlockStat:
    """A block of the sweep: its share of a step's time (None while that is not measured), and what its
    kernel tells; `target` is the acceptance that it aims at by now."""

    label: str
    kernel: str
    sites: tuple[str, ...]
    seconds_share: float | None = None
    accept: float | None = None
    step_size: float | None = None
    tree_depth: float | None = None
    target: float | None = None


@dataclass(frozen=True)
class ScalarStat:
    """One scalar component of a site over the draws so far; NaN where a measure is not defined yet. `label`
    is what it is asked for by, `shown` what people call it where that differs: `alpha[Choate]`."""

    label: str
    site: str
    index: tuple[int, ...]
    mean: float
    sd: float
    mcse: float
    rhat: float
    ess_bulk: float
    ess_tail: float
    discrete: bool
    shown: str = ""

    @property
    def called(self) -> str:
        """What to print."""
        return self.shown or self.label


@dataclass(frozen=True)
class Efficiency:
    """The lowest bulk ESS of a latent scalar per second of sampling, all chains together; warm-up does not
    count. None where that is not defined (yet)."""

    ess_per_second: float | None = None


@dataclass(frozen=True)
class Notice:
    """A warning in words, and what to try; `topic` is the section of `advice` that says more, `sites` are
    those that it is about, where it is about some."""

    text: str
    hint: str
    topic: str = ""
    sites: tuple[str, ...] = ()


@dataclass(frozen=True)
class Stored:
    """A store under a run: seconds since the last commit (None before the first of this session), bytes that
    the rest of the run will want there, bytes that are free on its disk (None where that is not known)."""

    path: str
    age: float | None
    wanted: int
    free: int | None


@dataclass(frozen=True)
class Snapshot:
    """The state of a run at one moment. Times in seconds; counts are per chain.

    `status` is "compiling", "warmup", "sampling", "finished", "stopped" or "failed". `partly` tells of large
    sites how many of their elements are followed while the run goes on, and how many there are. `stage` is
    what the run is at, `stages` how long each has taken, `because` why programs that were there would not
    do. `verdict`: see `gibbsite.diagnostics.verdict.verdict`. `centring` holds the degrees of centring that
    NUTS has learnt by now, by site, of its shape: 1 is as written, 0 non-centred. `compiling` is how
    many seconds that will take in all, None where it is over or not known. `groups` is how many chains count
    as such for the verdict: superchains, where there are any. `scalars` are the worst of the `numbers` that
    there are draws of.
    """

    status: str
    message: str | None
    chains: int
    warmup_done: int
    warmup_total: int
    draws_done: int
    draws_total: int
    elapsed: float
    eta: float | None
    compile_seconds: float
    steps_per_second: float
    divergences: tuple[int, ...]
    chain_states: tuple[str, ...]
    blocks: tuple[BlockStat, ...]
    scalars: tuple[ScalarStat, ...]
    warnings: tuple[Notice, ...]
    efficiency: Efficiency = Efficiency()
    partly: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    verdict: Any = None
    stage: str | None = None
    stages: Mapping[str, float] = field(default_factory=dict)
    because: str = ""
    stored: Stored | None = None
    centring: Mapping[str, np.ndarray] = field(default_factory=dict)
    compiling: float | None = None
    groups: int = 0
    numbers: int = 0


@dataclass(frozen=True)
class TraceView:
    """A scalar over the whole run, thinned to few points: per point the draw number and, per chain, the
    value there and the lowest and highest value of the stretch that the point stands for."""

    draw: np.ndarray
    values: np.ndarray
    low: np.ndarray
    high: np.ndarray


@dataclass(frozen=True)
class History:
    """How the measures of convergence went: at each number of draws, R-hat and bulk ESS by label."""

    draw: np.ndarray
    rhat: Mapping[str, np.ndarray] = field(default_factory=dict)
    ess: Mapping[str, np.ndarray] = field(default_factory=dict)

    @classmethod
    def of(cls, marks: Sequence[tuple[int, Mapping[str, tuple[float, float]]]]) -> "History":
        """Of numbers of draws, each with R-hat and bulk ESS by label; NaN where a label is missing."""
        labels, nan = dict.fromkeys(label for _, m in marks for label in m), (np.nan, np.nan)
        return cls(
            np.array([d for d, _ in marks], int),
            {n: np.array([m.get(n, nan)[0] for _, m in marks]) for n in labels},
            {n: np.array([m.get(n, nan)[1] for _, m in marks]) for n in labels},
        )
