"""How long a run warms up, and what there is to tell of it."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from gibbsite.diagnostics.measures.snapshot import Notice
from gibbsite.diagnostics.modes.moves import LOST, Move, moves_from, told_lost
from gibbsite.kernels.nuts.report import Centring
from gibbsite.kernels.nuts.warmup_convergence import settling
from gibbsite.kernels.nuts.windows import FINAL, LEAST, window_ends
from gibbsite.plans.schedule.plan import Plan
from gibbsite.sampling.engine.engine import Engine
from gibbsite.sampling.engine.initial import far_below, level_of
from gibbsite.sampling.warm.scout import masses, weightless
from gibbsite.sampling.warm.trace import Followed

EARLIEST = 150
"""Steps before which no warm-up ends by itself."""
RHAT, ESS = 1.05, 100
"""What the later half of a warm-up must have to end it: R-hat below, effective draws of all chains above."""
_RHAT_TOLD = 1.1
# R-hat says little of the fewer draws that a shorter warm-up ends with
_LEAST_TOLD = 200
_LONGER = "warm up longer (--warmup 2000), start elsewhere (init=…), or see %schedule for another kernel"


class Warming:
    """The length of a warm-up of at most `most` steps; with `auto` it is decided at the ends of windows, from
    the state and the draws so far, so that it is the same however the run is cut, stopped and resumed.

    It ends where chains agree about every latent, from enough effective draws, and what blocks learn no
    longer moves. With `rescue` lost chains go on from others.
    """

    def __init__(self, plan: Plan, most: int, auto: bool, rescue: bool = True):
        self._plan, self._most, self._auto, self.rescue = plan, most, auto, rescue
        self._followed = Followed(plan, most)
        self.length, self._told = most, ""
        self._moved: dict[int, tuple[Move, ...]] = {}
        self._before: tuple[str, ...] = ()  # what an older version told of a run that is gone on with

    def ends(self, engine: Engine) -> tuple[int, ...]:
        """After how many steps there is something to learn or to decide: no chunk goes on beyond one."""
        return engine.window_ends or window_ends(self._most)

    def follow(self, values: Mapping[str, np.ndarray], before: int) -> None:
        """Take in steps of warm-up, arrays `[step, chain, …]`, of which `before` others came before."""
        self._followed.add(values, before)

    def look(self, engine: Engine, state: Any, done: int) -> None:
        """Decide, where `done` steps end a window, and note what has not settled where it is the last."""
        ends = self.ends(engine)
        if done >= self.length:
            self._followed.forget()
        if done >= self.length or done not in ends:
            return
        last = done + FINAL >= self.length
        clear = not any(done < e < done + FINAL for e in ends)
        early = self._auto and done >= EARLIEST and clear and engine.kernel.ends_early
        if not (last or early):
            return
        rhat, site = self._followed.rhat(done)
        apart = (f"R-hat is {min(rhat, 99):.2f} for {site}",)
        waiting = (*(apart if rhat >= RHAT else ()), *settling(engine.kernel, state))
        if early and not waiting:
            ess, site = self._followed.ess(done)
            waiting = () if ess >= ESS else (f"only {ess:.0f} draws are effective for {site}",)
        if early and not last and not waiting:
            self.length = done + FINAL
        elif last and done >= _LEAST_TOLD:
            everything = early and self.length == self._most
            told = waiting if everything else apart if rhat >= _RHAT_TOLD else ()
            self._told = f"warm-up has not settled: {', '.join(told)}" if told else ""

    def found_again(self, engine: Engine, state: Any, done: int) -> Any:
        """The state to go on from after `done` steps: where these end a window and chains do not agree, those
        in modes of no weight go on from the place of another, as long as enough steps follow to forget it."""
        early, late = done < EARLIEST, done >= self.length - 2 * FINAL
        if not self.rescue or early or late or done not in self.ends(engine):
            return state
        if self._followed.rhat(done)[0] < _RHAT_TOLD:
            return state
        found, moves = found_again(engine, state, done, self.length - done)
        if moves:
            self._moved[done] = moves
        return found

    @property
    def moves(self) -> tuple[Move, ...]:
        """Which chains went on from another one's place."""
        return tuple(m for done in sorted(self._moved) for m in self._moved[done])

    @property
    def moved(self) -> str:
        """The same in words; empty where none did."""
        return ", ".join((*self._before, *(told_lost(self._moved[done]) for done in sorted(self._moved))))

    def too_short(self, plan: Plan) -> str:
        """That it is too short to learn from, in a sentence; empty where it is not."""
        learning = plan.kernel is not None and plan.kernel.window_ends(2 * LEAST)
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
        return {"length": self.length, "told": self._told, "moved": [m.as_json() for m in self.moves]}

    def pack(self, done: int) -> dict[str, np.ndarray]:
        """The draws that decide, for a checkpoint after `done` steps."""
        return self._followed.pack(done) if done < self.length else {}

    def take_up(self, saved: Mapping[str, Any], state: Mapping[str, np.ndarray], done: int) -> None:
        """Go on, after `done` steps, from what `as_json` and `pack` gave."""
        self.length, self._told = saved["length"], saved["told"]
        rows = saved.get("moved", ())
        self._before = tuple(text for _, text in (r for r in rows if isinstance(r, list)))
        moves = moves_from([r for r in rows if not isinstance(r, list)])
        self._moved = {at: tuple(m for m in moves if m.steps == at) for at in {m.steps for m in moves}}
        if done < self.length:
            self._followed.unpack(state, done)


# A start may lie where the likelihood is flat (a growth curve that has ended before the first datum): no
# gradient leads out, and passes of the schedule only walk about. Another chain finds what the data say; the
# first is lost. It is so where the mass of the mode that it is in is a thousandth of the other's at most,
# beyond doubt: that it lies far below says nothing, as a wide mode does.


def found_again(engine: Engine, state: Any, steps: int, ahead: int) -> tuple[Any, tuple[Move, ...]]:
    """The state after `steps` steps, with `ahead` to come, with every lost chain at the place of one that is
    not, and which went where.

    Looked at are chains below which another lies far above, in the density of all and in that of the data
    alone: for the former alone may be as high as it will, where a scale shrinks to nothing. Of these, masses
    tell which are lost, and of those that still climb, what they can reach in the warm-up that is left. What
    is random of a chain stays its own.
    """
    density = engine.plan.density
    if density is None:
        return state, ()
    values = engine.constrained(state)
    level = level_of(*engine.init(jax.random.key(0), values))
    if not _far_below(level, engine.elements).any():
        return state, ()
    latents = {n: density.sites[n] for n in density.latent_vars}
    # sites that no data see are not in the chains, and are not asked about
    absent = {n: np.zeros((len(level), *s.shape), s.dtype) for n, s in latents.items()}
    values = {n: np.asarray(v) for n, v in values.items()}
    fit = np.asarray(density.log_likelihoods({**absent, **values}), np.float64)
    low, above = _below(level, fit, engine.elements)
    if not low.any():
        return state, ()
    found = weightless(masses(engine, state, ahead), len(level))
    moves = []
    for c in np.flatnonzero(low):
        none = not np.isfinite(level[c])
        if none or found.chains[c]:
            onto = int(above[c]) if none else int(found.beside[c])
            none = none or not np.isfinite(found.log_weight[c])
            moves.append(Move(LOST, int(c), onto, steps, None if none else float(found.log_weight[c])))
    if not moves:
        return state, ()
    source = np.arange(len(level))
    for m in moves:
        source[m.chain] = m.onto
    return engine.gone_to(state, source), tuple(moves)


def _far_below(level: np.ndarray, elements: int) -> np.ndarray:
    """Which chains lie far below which `[by which, which]`."""
    return np.stack([far_below(level, one, elements) & np.isfinite(one) for one in level])


def _below(level: np.ndarray, fit: np.ndarray, elements: int) -> tuple[np.ndarray, np.ndarray]:
    """Which chains lie far below others, and for each of them one that does not and lies far above it."""
    below = _far_below(level, elements) & _far_below(fit, elements)
    lost = np.any(below, axis=0)
    others = [np.flatnonzero(row) for row in (below & ~lost[:, None]).T]
    return lost, np.array([found[i % len(found)] if len(found) else 0 for i, found in enumerate(others)])
