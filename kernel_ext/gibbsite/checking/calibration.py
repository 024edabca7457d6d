"""Simulation-based calibration of the user's own model, by runs as they are made: with starts and warm-up.

Talts et al. (2018), "Validating Bayesian inference algorithms with simulation-based calibration": the rank of
what made the data among draws given them is uniform. The log density is ranked too, since quantities of
parameters alone do not tell a posterior from the prior (Modrák et al. 2023).
"""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gibbsite import sampling
from gibbsite.checking.finding import LEVEL, Finding, Ranks, told_p
from gibbsite.checking.invariance import HEIGHT, quantities
from gibbsite.checking.replicates import Replicates
from gibbsite.checking.uniform import ecdf_p
from gibbsite.density.model.alone import handlers_alone
from gibbsite.errors import GibbsiteError
from gibbsite.prediction.batched.lanes import Lanes
from gibbsite.programs.passes.for_cpu import jitted
from gibbsite.sampling.engine.resources import choose_device
from gibbsite.sampling.registry import forget
from gibbsite.sampling.start import settings_for

TEST = "calibration"
WARMUP, DRAWS, CHAINS = 200, 100, 4
KEPT = 5
"""Of each chain: evenly spaced draws, that hardly know each other where a run mixes at all."""
_LEAST = 20
_BLIND = "errors smaller than a tenth of a posterior's width, with few data sets"


def pilot(plan: Any, seed: int) -> Any:
    """One short run of a plan, in the background; the same programs serve all data sets."""
    run = sampling.start(plan, draws=DRAWS, warmup=WARMUP, chains=CHAINS, seed=seed)
    forget(run)
    return run


class Calibration:
    """Ranks, data set by data set."""

    def __init__(self, replicates: Replicates, seed: int):
        self._replicates, self._seed = replicates, seed
        self._rng = np.random.default_rng(seed)
        self._ranks: dict[str, list[int]] = {}
        self._height: Any = jitted(
            lambda values, inputs: jax.vmap(lambda v: replicates.height(v, inputs))(values)
        )
        self.failed: list[str] = []

    @property
    def count(self) -> int:
        """Data sets so far."""
        return len(next(iter(self._ranks.values()), []))

    def add(self, i: int) -> None:
        """One data set more."""
        try:
            run = pilot(self._replicates.planned(i), self._seed + i).wait()
        except GibbsiteError as why:
            self.failed.append(str(why))
            return
        self._ranked(i, run.draws)

    def add_on(self, executor: Any, going: Callable[[], bool]) -> Iterator[None]:
        """Data sets at the workers of an executor, side by side as by `Model.many`, one at a step."""
        made = self._replicates
        settings = settings_for(draws=DRAWS, warmup=WARMUP, chains=CHAINS, seed=self._seed)
        data = [made.planned(i).inputs["data"] for i in range(made.count)]
        differs = [at in made.places.values() for at in range(len(data[0]))]
        place = choose_device("cpu", made.plan, CHAINS)
        lanes = Lanes(made.plan, settings, place, differs, made.count, executor)
        for i, lane in enumerate(lanes.fitted(data, lambda: not going())):
            if lane.sound:
                self._ranked(i, {n: np.moveaxis(v, 0, 1) for n, v in lane.values.items()})
            else:
                self.failed.append("it found no start, or its draws are not finite")
            yield

    def _ranked(self, i: int, draws: Mapping[str, np.ndarray]) -> None:
        """Ranks of what made data set `i` among draws `[chain, draw, *shape]`."""
        plan = self._replicates.plan
        inputs = self._replicates.inputs({n: v[i] for n, v in self._replicates.data.items()})
        at = np.linspace(0, DRAWS, KEPT + 1).astype(int)[1:] - 1
        drawn: dict[str, np.ndarray] = {}
        for name, v in draws.items():
            kept = np.asarray(v)[:, at].reshape(-1, *v.shape[2:])
            members = plan.groups.get(name) or plan.members.get(name)
            drawn.update({m: kept[:, j] for j, m in enumerate(members)} if members else {name: kept})
        truth = {n: v[i : i + 1] for n, v in self._replicates.truth.items()}
        drawn = {n: drawn[n] for n in truth}
        old, new = quantities(truth), quantities(drawn)
        both = {n: jnp.asarray(np.concatenate([truth[n], drawn[n]])) for n in truth}
        with handlers_alone:
            heights = np.asarray(self._height(both, inputs), float)
        old[HEIGHT], new[HEIGHT] = heights[:1], heights[1:]
        for name, value in old.items():
            x = new[name]
            ties = int((x == value[0]).sum())
            rank = int((x < value[0]).sum()) + int(self._rng.integers(0, ties + 1))
            self._ranks.setdefault(name, []).append(rank)

    def ranks(self) -> Ranks:
        """All so far."""
        most = KEPT * CHAINS
        by = {n: np.asarray(r) for n, r in self._ranks.items()}
        return Ranks(most, by, {n: ecdf_p(r, most) for n, r in by.items()})

    def finding(self, sound: bool) -> Finding:
        """What it comes to; `sound` where the schedule leaves the posterior as it is."""
        if self.failed and not self.count:
            return Finding(TEST, "wrong", f"runs on data of the model's own fail: {self.failed[0]}", _BLIND)
        if self.count < _LEAST:
            why = f"{self.count} data sets in the time that was left, of {_LEAST} at least: give it more"
            return Finding(TEST, "open", why, _BLIND)
        found = self.ranks()
        worst = min(found.p, key=lambda n: found.p[n])
        p = min(1.0, found.p[worst] * len(found.p))
        least = f"least p-value {told_p(found.p[worst])} ({worst}), {told_p(p)} when corrected for all"
        text = (
            f"{self.count} data sets, {CHAINS} chains of {WARMUP} + {DRAWS} steps each, {len(found.p)} "
            f"quantities; {least}"
        )
        if self.failed:
            text += f"; {len(self.failed)} runs failed ({self.failed[0]})"
        if p >= LEVEL:
            return Finding(TEST, "right", text, _BLIND, ranks=found)
        if sound:
            why = "the schedule keeps the posterior, so runs this short do not reach it"
            return Finding(TEST, "doubtful", f"{text}: ranks are not uniform; {why}", _BLIND, ranks=found)
        return Finding(TEST, "wrong", f"{text}: ranks are not uniform", _BLIND, ranks=found)


def calibration(
    replicates: Replicates,
    seed: int,
    until: float,
    going: Callable[[], bool],
    sound: bool,
    told: Callable[[Finding], None],
    on: Any = None,
) -> Finding:
    """Data set after data set until time is over, or as many at a time as there are workers of an executor
    `on`; `told` hears of the finding so far."""
    at = Calibration(replicates, seed)
    for _ in _one_by_one(at, replicates.count, going, until) if on is None else at.add_on(on, going):
        if at.count >= _LEAST and at.count % 10 == 0:
            told(at.finding(sound))
    return at.finding(sound)


def _one_by_one(at: Calibration, count: int, going: Callable[[], bool], until: float) -> Iterator[None]:
    longest = 0.0
    for i in range(count):
        began = time.monotonic()
        if not going() or began + longest > until:
            break
        at.add(i)
        longest = max(longest if i else 0.0, time.monotonic() - began)
        yield
