"""How long a run warms up, and what there is to tell of it."""

from collections.abc import Mapping
from typing import Any

from gibbsite.kernels.nuts.block import LearntNUTS
from gibbsite.kernels.nuts.settled import EARLIEST, RHAT, ends_itself, settling
from gibbsite.kernels.nuts.told import Centring
from gibbsite.kernels.nuts.windows import FINAL, LEAST
from gibbsite.kernels.scheduling.plan import Plan
from gibbsite.sampling.engine.engine import Engine
from gibbsite.sampling.watch.snapshot import Notice

# R-hat says little of the fewer draws that a shorter warm-up ends with
_LEAST_TOLD = 200
_LONGER = "warm up longer (--warmup 2000), start elsewhere (init=…), or see %schedule for another kernel"


class Warming:
    """The length of a warm-up of at most `most` steps; with `auto` it is decided at the ends of windows, from
    the state alone, so that it is the same however the run is cut, stopped and resumed."""

    def __init__(self, most: int, auto: bool):
        self._most, self._auto = most, auto
        self.length, self._told = most, ""

    def look(self, engine: Engine, state: Any, done: int) -> None:
        """Decide, where `done` steps end a window, and note what has not settled where it is the last."""
        if done >= self.length or done not in engine.window_ends:
            return
        last = done + FINAL >= self.length
        early = self._auto and done >= EARLIEST and ends_itself(engine.kernel, state, self._most)
        found = settling(engine.kernel, state) if last or early else None
        if found is None:
            return
        waiting = found.waiting_for
        if early and not last and not waiting:
            self.length = done + FINAL
        elif last:
            met = found.rhat < RHAT or done < _LEAST_TOLD
            told = waiting if early and self.length == self._most else () if met else waiting[:1]
            self._told = f"warm-up has not settled: {', '.join(told)}" if told else ""

    def too_short(self, plan: Plan) -> str:
        """That it is too short to learn from, in a sentence; empty where it is not."""
        blocks = () if plan.kernel is None else plan.kernel.blocks
        learning = any(isinstance(b, LearntNUTS) and b.window_ends(2 * LEAST) for b, _ in blocks)
        if not (learning and 0 < self._most < LEAST):
            return ""
        return (
            f"A warm-up of {self._most} steps learns a step size and nothing else: take {LEAST} or more, or "
            f"warmup='auto'."
        )

    def notices(self, centring: Centring) -> list[Notice]:
        """What there is to tell: of a warm-up that left chains apart, and of sites for which no degree of
        centring that it tried was any good."""
        found = [Notice(self._told, _LONGER, "warmup")] if self._told else []
        return found + [
            Notice(text, "other priors, or other coordinates", "misfit") for text in centring.notices
        ]

    def as_json(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {"length": self.length, "told": self._told}

    def take_up(self, saved: Mapping[str, Any]) -> None:
        """Go on from what `as_json` gave."""
        self.length, self._told = saved["length"], saved["told"]
