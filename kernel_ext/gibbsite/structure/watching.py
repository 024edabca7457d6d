"""How a run over structures is judged: by being in each structure, and by what is there in all of them."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from gibbsite.density import Site
from gibbsite.diagnostics.measures.snapshot import ScalarStat
from gibbsite.plans.schedule.plan import Plan
from gibbsite.sampling.warm.warming import Warming
from gibbsite.sampling.watch.monitor import Monitor
from gibbsite.storage.draws import Draws, Part
from gibbsite.structure.automaton import INDEX
from gibbsite.structure.found import conditional_stats
from gibbsite.structure.present import Entry, judged_in_all

LEAST_SHARE = 0.02
"""Of the draws, that a structure must have for its indicator to be judged: R-hat of a rarer one is chance."""
_SECONDS = 2.0  # between measures in mid-run


class FixedWarmup(Warming):
    """A warm-up of a fixed length, in which chains only forget where they began: structures have learnt
    before."""

    def ends(self, engine: Any) -> tuple[int, ...]:
        """None."""
        return ()

    def follow(self, values: Mapping[str, np.ndarray], before: int) -> None:
        """Nothing."""

    def look(self, engine: Any, state: Any, done: int) -> None:
        """Nothing."""

    def found_again(self, engine: Any, state: Any, done: int) -> Any:
        """The state as it is."""
        return state

    def too_short(self, plan: Plan) -> str:
        """Nothing."""
        return ""

    def pack(self, done: int) -> dict[str, np.ndarray]:
        """Nothing."""
        return {}

    def take_up(self, saved: Mapping[str, Any], state: Mapping[str, np.ndarray], done: int) -> None:
        """The length."""
        self.length = int(saved["length"])


class _Judged:
    """Draws as a monitor reads them."""

    def __init__(self, values: Mapping[str, np.ndarray], stats: Part):
        steps = next(iter(values.values())).shape[1]
        self.sampled, self.sampled_stats = Part(steps), stats
        self.sampled.append({n: np.moveaxis(v, 1, 0) for n, v in values.items()}, steps)


class StructureMonitor(Monitor):
    """Measures indicators of structures, and what every structure has under the same name."""

    def __init__(self, plan: Plan, chains: int, entries: Callable[[], list[Entry]]):
        super().__init__(plan, chains)
        self._entries, self._chains = entries, chains
        self._due = 0.0

    def add(self, values: Mapping[str, np.ndarray], stats: Mapping[str, np.ndarray]) -> None:
        """Count divergences; values are read from the draws when they are measured."""
        super().add({}, stats)

    def judge(self, raw: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """What is judged of draws with room for all: indicators, and what `judged_in_all` makes of sites."""
        index, entries = raw[INDEX], self._entries()
        held = {n: v for n, v in raw.items() if n != INDEX}
        out = {}
        for i in np.unique(index):
            here = index == i
            if LEAST_SHARE <= here.mean() < 1:
                # a whole number: at one of two values a chain may rest where others rest, too
                out[f"[{entries[int(i)].name}]"] = here.astype(np.int32)
        return out | judged_in_all(index, held, entries)

    def worst(self, draws: Draws) -> list[ScalarStat]:
        """The measures of all that is judged."""
        raw = draws.sampled.read()
        return conditional_stats(self.judge(raw)) if raw else []

    def measure(self, draws: Draws, ended: bool = False) -> None:
        """Measure all of it anew, now and then and at the end."""
        steps = draws.sampled.steps
        if not steps or (not ended and time.monotonic() < self._due):
            return
        began = time.monotonic()
        values = self.judge(draws.sampled.read())
        sites = {
            n: Site(n, v.shape[2:], v.dtype, None, "latent", v.dtype.kind in "iu", (), (), (), "", None)
            for n, v in values.items()
        }
        plan = replace(self._plan, kernel=None, density=None, sites=sites, groups={}, origin=None)  # type: ignore[arg-type]
        judged: Any = _Judged(values, draws.sampled_stats)
        whole = Monitor(plan, self._chains)
        whole.add({n: np.moveaxis(v, 1, 0) for n, v in values.items()}, {})
        whole.lasting, whole.divergences = self.lasting, self.divergences
        whole.measure(judged, ended=True)
        self.moments, self.scalars, self.stuck = whole.moments, whole.scalars, whole.stuck
        self.notices, self._informed = whole.notices, whole._informed
        self._due = time.monotonic() + max(_SECONDS, 20 * (time.monotonic() - began))
