"""Where chains start: drawn, made possible, walked a few steps, and drawn again where one stays behind."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gibbsite.conditional.finite.relabel import relabelled
from gibbsite.density.model.bounds import base_constraint
from gibbsite.diagnostics.modes.mass import DOUBT, Bounds
from gibbsite.diagnostics.modes.moves import RESTARTED, Move, told_restarts
from gibbsite.diagnostics.modes.space import space_of
from gibbsite.errors import ModelError
from gibbsite.plans.schedule.plan import Plan, drawn_as_one
from gibbsite.programs.evaluation.pieces import in_marked
from gibbsite.sampling.engine.engine import INPUTS, Engine
from gibbsite.sampling.engine.initial import (
    FAR,
    FAR_PER_ELEMENT,
    RADIUS,
    bad_chains,
    check_start,
    check_terms,
    far_below,
    level_of,
    slopeless,
)
from gibbsite.sampling.engine.repair import bounded, repair_of, repairable, within_bounds
from gibbsite.sampling.warm.scout import STEPS, masses, weightless
from gibbsite.validation.check import told_start
from gibbsite.validation.limits import undecided

TRIES = 100
"""How often a chain's start is drawn anew, as often as NumPyro's `find_valid_initial_params` does."""

_MOST_PASSES = 25
_PASSES_SHARE = 20  # of warm-up steps, one pass before them
_LEAST_PASSES = 10  # of a start that other starts are held against
_WIDER = 5.0
_MIXED = frozenset(["MixtureSameFamily", "MixtureGeneral"])
# with four chains each: a fifth of a prior is missed by all of them once in ninety times
_FROM_PRIOR = 5
# kernels whose step takes as many gradients as its path has steps, of a length that is not known yet:
# millions, from far out
_WITHOUT_BOUND = frozenset(["HMC"])
_FAR_PER_DATUM = 1000.0
"""Nats: more than a datum is worth anywhere in a posterior. Of many data all densities are rounded."""
_ON_THE_WAY = (0.25, 0.5, 0.75)
_DRAWN, _LOOKS_HELD = 8, 2
_ROUNDS = 8
_BEFORE_REPAIR = 5
_BEFORE_PRIOR = 50
_POOL, _MOST_PIECES, _WIDENED = 24, 300, 1.5


@dataclass(frozen=True)
class Start:
    """The state that chains start from, how it was found in one line, and which chains started again."""

    state: Any
    told: str
    moves: tuple[Move, ...] = ()


class Starting:
    """Finds the start of a run: a function of plan, seed and what was `given` (constrained values
    `[chain, *shape]` by site), be the run cut or stopped as it may.

    After some passes of the schedule a chain starts again where its place is certain to be no mode of
    weight: no finite density or slope, or a mass that is a thousandth of another's at most. A lower density
    alone says nothing: a wide mode is low. Without `rescue` every chain goes on from where it came.
    """

    def __init__(
        self,
        engine: Engine,
        plan: Plan,
        seed: int,
        given: Mapping[str, np.ndarray] | None,
        rescue: bool = True,
    ):
        self._engine, self._plan, self._key = engine, plan, jax.random.key(seed)
        self._rescue = rescue
        self._given = dict(given or {})
        self._kwargs = {INPUTS: plan.inputs}
        self._tried = ""

    def found(self, stop: threading.Event) -> Start | None:
        """The start, or None where `stop` was set before it was found.

        Raises `ModelError` where no possible start was found, with the site and what cannot be met.
        """
        said = ["chains start at init="] if self._given else [f"chains start uniform on ±{RADIUS:g}"]
        said[0] += " (unconstrained)" * (not self._given)
        state, logdensity, drawn_again = self._possible(())
        said += drawn_again
        impossible = self._impossible(state)
        told = {"tried": self._tried, "impossible": impossible}
        check_start(self._engine.kernel, self._plan, self._kwargs, state, logdensity, self._given, **told)
        if self._discrete:  # what is continuous would be seen at once
            check_terms(self._engine.term_sums(state))
        if impossible is not None:
            if self._given:
                raise ModelError(f"init: {impossible}")
            said.append(impossible)
        passes = 0 if self._given else min(_MOST_PASSES, self._engine.warmup // _PASSES_SHARE)
        if not passes:
            return Start(state, ", ".join(said))
        engine = self._engine
        walked = self._walked((1,), state, passes, stop)
        if walked is None:
            return None
        at = len(said)
        said.append(f"then {passes} passes of the schedule")
        uphill, nearer = self._nearer((4,), walked)
        if nearer:
            walked = self._walked((5,), uphill, passes, stop)
            if walked is None:
                return None
            said[at] += f", {_chains(nearer)} led uphill from where no difference is seen, and as many more"
        if not self._rescue:
            return Start(walked.state, ", ".join(said))
        bounded = _WITHOUT_BOUND.isdisjoint(b.kernel for b in self._plan.blocks)
        if bounded and not self._stepped and passes >= _LEAST_PASSES and engine.chains > 1:
            looked = self._spread(walked, passes, stop)
            if looked is None:
                return None
            walked, moved = looked
            if moved:
                said.append(f"{_chains(moved)} placed beyond a valley, where another look found a way")
        if (far_below(walked.level, walked.level.max(), engine.elements) & np.isfinite(walked.level)).any():
            # some may only be on their way: all walk on, before anything is said of any
            onward = self._walked((3,), walked.state, STEPS, stop)
            if onward is None:
                return None
            arrived = np.isfinite(onward.level)
            state = engine.chosen(arrived, onward.state, walked.state)
            walked = _Walk(state, np.where(arrived, onward.level, walked.level))
            said[at] += f" and {STEPS} more"
        moves: dict[int, Move] = {}
        floor, best = -np.inf, float(np.max(walked.level))
        for n in range(_ROUNDS):
            # discrete sites have modes that chains do not leave: all of them look twice
            twice = n == 0 and self._discrete
            weight = self._weights(walked, best, floor)
            if not (twice or (weight < np.inf).any()):
                break
            path = (10 + n,)
            # nearer and nearer to 0: what was lost may have been thrown too far
            other, *_ = self._possible(path, RADIUS / 2**n)
            anew = self._walked((*path, 1), other, passes, stop)
            if anew is None:
                return None
            if anew.level.max() > best:
                best = float(anew.level.max())
                if far_below(walked.level, best, engine.elements).any():
                    floor = max([floor, *(b.lower for b in anew.bounds(engine) or ())])
                    weight = self._weights(walked, best, floor)
            better = (weight < np.inf) & (anew.level > walked.level)
            for c in np.flatnonzero(better).tolist():
                log_weight = float(weight[c]) if np.isfinite(weight[c]) else None
                moves[c] = Move(RESTARTED, c, log_weight=log_weight)
            walked = _Walk(
                engine.chosen(better, anew.state, walked.state), np.where(better, anew.level, walked.level)
            )
        said += told_restarts(list(moves.values()))
        state, moved = self._relabelled(walked.state)
        if moved:
            said.append(f"labels of {_chains(moved)} exchanged")
        return Start(state, ", ".join(said), tuple(moves[c] for c in sorted(moves)))

    def _spread(self, walked: "_Walk", passes: int, stop: threading.Event) -> "tuple[_Walk, set[int]] | None":
        """The chains with some of those that share a place put where other starts led that lie beyond a
        valley of the density, seen from every chain; and which these are.

        A few starts may all fall to one mode, and R-hat sees none that no chain is in. Starts as near to 0 as
        the first, and wider ones, each for as many passes; of these what lies far below counts for nothing,
        of those where its mass is not much smaller. Where a prior is itself a mixture, so that its modes may
        lie anywhere, starts are drawn from it as well, and found beside it (`_held`).
        """
        engine, moved = self._engine, set()
        places = {n: np.asarray(v) for n, v in engine.constrained(walked.state).items()}
        near = None
        looks: list[tuple[float, bool, dict[str, Any]]] = [(RADIUS, False, {}), (_WIDER * RADIUS, False, {})]
        looks += [(RADIUS, True, {})] * (_FROM_PRIOR * bool(self._mixed))
        looks += [(0.0, False, given) for given in self._held(places)]
        for look, (radius, prior, given) in enumerate(looks):
            other, _ = engine.init(self._key, given, radius, prior, path=(20 + look,))
            anew = self._walked((20 + look, 1), other, passes, stop)
            if anew is None:
                return None
            found = {n: np.asarray(v) for n, v in engine.constrained(anew.state).items()}
            for e in np.flatnonzero(np.isfinite(anew.level)).tolist():
                one = {n: np.repeat(v[[e]], engine.chains, axis=0) for n, v in found.items()}
                if not self._valley(places, walked.level, one, anew.level[e]).all():
                    continue
                near = self._near(places, walked.level) if near is None else near
                crowd = np.flatnonzero(near[int(near.sum(axis=1).argmax())])
                if len(crowd) < 2 or not self._weighs(e, anew, walked, radius, bool(given)):
                    continue
                c = int(crowd[-1])
                marked = np.arange(engine.chains) == c
                source = np.where(marked, e, np.arange(engine.chains))
                there = engine.gone_to(anew.state, source)
                level = np.where(marked, anew.level[e], walked.level)
                walked = _Walk(engine.chosen(marked, there, walked.state), level)
                places = {n: in_marked(marked, one[n], v, np.where) for n, v in places.items()}
                near = None
                moved.add(c)
        return walked, moved

    def _held(self, places: Mapping[str, np.ndarray]) -> list[dict[str, np.ndarray]]:
        """Values `[chain, *shape]` by site, in which a site whose prior is a mixture is far from all that
        chains know of it, and the others lie as high as they can beside it.

        Where a mode is narrow because of such a site, starts hardly ever come to it: the others are far off
        and drive the site away before they are near. Held where it is, it lets them come. What it is held at
        is that of its start and prior draws which is farthest from those that are taken.
        """
        space, chains = space_of(self._plan, self._engine.sites), self._engine.chains
        if space is None or space.listed or space.absent or not self._mixed:
            return []
        ends = np.cumsum([0, *(int(np.prod(s, dtype=np.int64)) for s in space.smooth.values())])
        at = {n: slice(a, b) for n, a, b in zip(space.smooth, ends[:-1], ends[1:], strict=True)}
        held = [n for n in at if n in self._mixed and 2 * (at[n].stop - at[n].start) <= space.size]
        if not held:
            return []
        drawn = [self._engine.init(self._key, {}, RADIUS, n % 2 == 0, path=(40, n))[0] for n in range(_DRAWN)]
        pool = np.concatenate([space.free(self._engine.constrained(d)) for d in drawn])
        known, out = space.free(places), []
        taken = {n: list(known[:, at[n]]) for n in held}
        turns = np.arange(-(-len(held) // chains) * chains).reshape(-1, chains)
        for turn in turns[:_LOOKS_HELD]:
            x, fixed = known.copy(), np.zeros(known.shape, bool)
            for c, name in enumerate(held[n % len(held)] for n in turn):
                apart = ((pool[:, None, at[name]] - np.array(taken[name])) ** 2).sum(axis=2).min(axis=1)
                taken[name].append(pool[int(np.nanargmax(apart)), at[name]])
                x[c, at[name]], fixed[c, at[name]] = taken[name][-1], True
            out.append(space.values(space.climbed(x, fixed)))
        return out

    def _valley(
        self, a: Mapping[str, np.ndarray], level_a: np.ndarray, b: Mapping[str, np.ndarray], level_b: Any
    ) -> np.ndarray:
        """Whether the density dips on the straight way between values `[chain, *shape]` by site, far below
        both ends `[chain]`, or at all where one end lies far below the other: there a chain that stays is in
        a mode of its own, however shallow. Places without a density tell nothing."""
        lowest = np.full(self._engine.chains, np.inf)
        low, high = np.minimum(level_a, level_b), np.maximum(level_a, level_b)
        dip = np.where(far_below(low, high, self._engine.elements), 0.0, FAR)
        for t in _ON_THE_WAY:
            between = {n: ((1 - t) * v + t * b[n]).astype(v.dtype) for n, v in a.items()}
            there = level_of(*self._engine.init(self._key, between, path=(2,)))
            lowest = np.where(np.isfinite(there), np.minimum(lowest, there), lowest)
        return np.isfinite(lowest) & (lowest < low - dip)

    def _near(self, places: Mapping[str, np.ndarray], level: np.ndarray) -> np.ndarray:
        """Between which chains there is no valley `[chain, chain]`."""
        chains = self._engine.chains
        near = np.eye(chains, dtype=bool)
        for shift in range(1, chains // 2 + 1):
            to = (np.arange(chains) + shift) % chains
            open_ = ~self._valley(places, level, {n: v[to] for n, v in places.items()}, level[to])
            near[np.arange(chains), to] = near[to, np.arange(chains)] = open_
        return near

    def _weighs(
        self, chain: int, anew: "_Walk", walked: "_Walk", radius: float, sought: bool = False
    ) -> bool:
        """Whether a chain of another walk is in a mode that may weigh something beside those of this one: of
        one that was `sought` masses say it, however high it lies."""
        best = float(walked.level.max())
        if not sought and not far_below(anew.level[[chain]], best, self._engine.elements)[0]:
            return True
        if radius > RADIUS:
            return False
        ours, theirs = walked.bounds(self._engine), anew.bounds(self._engine)
        if ours is None or theirs is None:
            return False
        return theirs[chain].lower > max(b.lower for b in ours) - DOUBT

    def _relabelled(self, state: Any) -> tuple[Any, set[int]]:
        """The state with labels of components in the order that their priors like, and in which chains they
        were in another."""
        density, engine = self._plan.density, self._engine
        if density is None or not self._discrete:
            return state, set()

        def level(values: Mapping[str, Any]) -> np.ndarray:
            return level_of(*engine.init(self._key, values, path=(2,)))

        values, moved = relabelled(density, engine.constrained(state), level)
        if not moved.any():
            return state, set()
        there, _ = engine.init(self._key, values, path=(2,))
        return engine.chosen(moved, there, state), set(np.flatnonzero(moved).tolist())

    def _impossible(self, state: Any) -> str | None:
        density = self._plan.density if self._plan.values_checked else None
        if density is None or not undecided(density)[1]:
            return None
        return told_start(density, self._engine.constrained(state))

    @property
    def _discrete(self) -> bool:
        density = self._plan.density
        return density is not None and any(density.sites[n].discrete for n in density.latents)

    @property
    def _stepped(self) -> bool:
        """Whether discrete latents are part of the state, and not summed out of the target: no way leads
        from one of their values to another."""
        density, summed = self._plan.density, self._plan.eliminated
        return density is not None and any(
            density.sites[n].discrete and n not in summed for n in density.latents
        )

    @property
    def _mixed(self) -> list[str]:
        """The latents whose priors are mixtures."""
        density = self._plan.density
        return [n for n in density.latents if density.sites[n].fn_name in _MIXED] if density else []

    def _weights(self, walk: "_Walk", best: float, floor: float) -> np.ndarray:
        """At most what log weight the modes of chains have `[chain]` that are certain to be of none: −∞ of
        those without density or slope; ∞ of all others.

        Masses are compared where any chain lies far below the best that was seen; `floor` is a mass that was
        found elsewhere.
        """
        lost = ~np.isfinite(walk.level)
        weight = np.where(lost, -np.inf, np.inf)
        behind = far_below(walk.level, best, self._engine.elements) & ~lost
        if behind.any():
            found = weightless(walk.bounds(self._engine), len(lost), floor)
            weight = np.where(behind & found.chains, found.log_weight, weight)
        return weight

    def _possible(self, path: tuple[int, ...], radius: float = RADIUS) -> tuple[Any, Any, list[str]]:
        """State and logdensity of all chains, drawn again or repaired where that is impossible. `path`: what
        is folded into the run's key."""
        engine, told = self._engine, []
        state, logdensity = engine.init(self._key, self._given, radius, path=path)
        if not bad_chains(state, logdensity).any():
            return state, logdensity, told
        density = self._plan.density
        if density is not None and (inside := [n for n in bounded(density) if n not in self._given]):
            keys = jax.random.split(self._path_key((*path, 0)), engine.chains)
            now = {n: jnp.asarray(v) for n, v in engine.constrained(state).items()}
            drawn = within_bounds(density, inside)(keys, now, self._plan.inputs["data"])
            other = engine.init(self._key, {**drawn, **self._given}, radius, path=path)
            state, logdensity = self._either(bad_chains(state, logdensity), other, (state, logdensity))
            told = [f"{', '.join(inside)} drawn within bounds"]
        units = repairable(self._plan, self._given)
        tries = TRIES if set(engine.sites) - set(self._given) else 1
        for attempt in range(1, tries):
            if not bad_chains(state, logdensity).any():
                break
            again = (*path, attempt)
            if attempt == _BEFORE_REPAIR and units:
                other, told = self._repaired(again, state, units)
            else:
                # possible values may lie far out, or where nothing overflows
                wider = radius * 1.1 ** (attempt * (-1) ** attempt)
                other = engine.init(self._key, self._given, wider, attempt >= _BEFORE_PRIOR, path=again)
            state, logdensity = self._either(bad_chains(state, logdensity), other, (state, logdensity))
        bad = bad_chains(state, logdensity)
        if tries > 1 and self._plan.density is not None and bad.any():
            pieced = self._piecewise(path, state, radius)
            state, logdensity = self._either(bad, pieced, (state, logdensity))
            told = [*told, "impossible values chosen anew one by one"]
        return state, logdensity, told

    def _nearer(self, path: tuple[int, ...], walk: "_Walk") -> tuple[Any, set[int]]:
        """The state with those chains led uphill, which these are, that the schedule has left so far out that
        the density there is rounded to whole nats: trajectories are accepted by differences that are none,
        and lead nowhere."""
        engine, level = self._engine, walk.level
        size = np.abs(level)  # up to a constant, which may be large itself: then it costs a look
        rounded = size * float(jnp.finfo(jnp.result_type(float)).eps) > 1
        far = np.isfinite(level) & rounded & (size > _FAR_PER_DATUM * max(1, self._data))
        space = space_of(self._plan, engine.sites) if far.any() else None
        if space is None or space.absent or (space.listed and space.marginal is None):
            return walk.state, set()
        places = {n: np.asarray(v) for n, v in engine.constrained(walk.state).items()}
        x = space.free(places)
        # no further than where trajectories find their way: a hierarchy's highest place is none that it is at
        gain = FAR + FAR_PER_ELEMENT * engine.elements
        x[far] = space.climbed(x[far], np.zeros(x[far].shape, bool), gain)
        there = {n: in_marked(far, v, places[n], np.where) for n, v in space.values(x).items()}
        other = engine.init(self._key, places | there, path=path)
        better = far & (level_of(*other) > level + gain)
        return engine.chosen(better, other[0], walk.state), set(np.flatnonzero(better).tolist())

    @property
    def _data(self) -> int:
        """How many numbers are observed."""
        sites = self._plan.density.sites.values() if self._plan.density else ()
        return sum(int(np.prod(s.shape, dtype=np.int64)) for s in sites if s.role == "observed")

    def _path_key(self, path: tuple[int, ...]) -> Any:
        return reduce(jax.random.fold_in, path, self._key)

    def _piecewise(self, path: tuple[int, ...], state: Any, radius: float) -> Any:
        """State and logdensity from values of which one piece after another is chosen among draws, so that
        the fewest elements of the model are impossible: no draw of many numbers at once has each in a place
        of its own."""
        assert self._plan.density is not None
        engine, data = self._engine, self._plan.inputs["data"]
        count = partial(repair_of(self._plan.density, ()).violations, inputs=data)
        now = {n: np.asarray(v) for n, v in engine.constrained(state).items()}
        left = _total(count(now))
        for again in range(_ROUNDS):
            if not left.any():
                break
            paths = [(*path, TRIES + again * _POOL + n) for n in range(_POOL)]
            wider = radius * _WIDENED**again  # what bounds an element may lie far out
            drawn = [
                engine.init(self._key, self._given, wider, n % 2 == 0, path=p) for n, p in enumerate(paths)
            ]
            pool = [engine.constrained(d) for d, _ in drawn]
            for name, where in self._pieces(now):
                if not left.any():
                    break
                many = {n: np.tile(v, (_POOL, *(1,) * (v.ndim - 1))) for n, v in now.items()}
                rows = np.arange(len(left))
                found = np.concatenate([np.asarray(p[name]) for p in pool])
                many[name][(slice(None), *where)] = found[(slice(None), *where)]
                totals = _total(count(many)).reshape(_POOL, -1)
                best = totals.argmin(axis=0)
                fewer = totals[best, rows] < left
                chosen = many[name].reshape(_POOL, *now[name].shape)[best, rows]
                now[name] = in_marked(fewer, chosen, now[name], np.where)
                left = np.where(fewer, totals[best, rows], left)
        return engine.init(self._key, now, radius, path=path)

    def _pieces(self, values: Mapping[str, np.ndarray]) -> list[tuple[str, tuple[int, ...]]]:
        """Sites and indices of what is chosen at once: each of few elements, and vectors as a whole."""
        density, out = self._plan.density, []
        for name, v in values.items():
            support = None if density is None or name not in density.sites else density.sites[name].support
            whole = support is None or base_constraint(support).event_dim > 0 or v[0].size > _MOST_PIECES
            out += [(name, ())] if whole else [(name, i) for i in np.ndindex(v.shape[1:])]
        return out

    def _repaired(
        self, path: tuple[int, ...], state: Any, units: Mapping[str, tuple[str, ...]]
    ) -> tuple[Any, list[str]]:
        assert self._plan.density is not None
        repair, inputs = repair_of(self._plan.density, tuple(units.items())), self._plan.inputs["data"]
        free = {n for u, members in units.items() for n in (u, *members)}
        as_one = [b for b in self._plan.blocks if drawn_as_one(self._plan.density, b)]
        joint = [b.sites for b in as_one if {*b.sites} <= free]
        values, passes = repair(self._path_key(path), self._engine.constrained(state), inputs, joint)
        left = {n: int(c.max()) for n, c in repair.violations(values, inputs).items() if c.any()}
        names = ", ".join(n for members in units.values() for n in members)
        if left:
            what = ", ".join(f"{c} of {n}" for n, c in left.items())
            self._tried = f"after {passes} passes over {names} these stay impossible: {what}"
        found = self._engine.init(self._key, {**values, **self._given}, path=path)
        return found, [f"impossible values of {names} mended in {passes} passes"]

    def _walked(
        self, path: tuple[int, ...], state: Any, passes: int, stop: threading.Event
    ) -> "_Walk | None":
        """A fresh state where `passes` sweeps of the schedule lead; of chains that get lost, that before."""
        engine, after = self._engine, state
        leg = min(engine.leg, engine.capacity)
        for done in range(0, passes, leg):
            if engine.agreed(stop.is_set(), 0)[0]:
                return None
            flight = engine.depart(after, min(leg, passes - done), True)
            flight.landed()
            after = flight.state
        there = engine.init(self._key, engine.constrained(after), path=path)
        level = np.where(slopeless(there[0]), -np.inf, level_of(*there))
        return _Walk(engine.chosen(np.isinf(level), state, there[0]), level)

    def _either(self, chains: np.ndarray, new: tuple[Any, Any], old: tuple[Any, Any]) -> tuple[Any, Any]:
        """State and logdensity as `new` has them in the marked chains, and `old` in the others."""
        told = None if old[1] is None else np.where(chains, np.asarray(new[1]), np.asarray(old[1]))
        return self._engine.chosen(chains, new[0], old[0]), told


def _total(counts: Mapping[str, np.ndarray]) -> np.ndarray:
    return np.sum([np.asarray(c) for c in counts.values()], axis=0)


def _chains(numbers: set[int]) -> str:
    return f"chain{'s' * (len(numbers) > 1)} {', '.join(map(str, sorted(numbers)))}"


@dataclass
class _Walk:
    """A state that chains may start from, and their logdensities; −∞ for those that got lost on the way."""

    state: Any
    level: np.ndarray
    _bounds: "list[Bounds] | None" = None
    _looked: bool = False

    def bounds(self, engine: Engine) -> "list[Bounds] | None":
        """Bounds of the masses of the modes that chains are in; None where they cannot be told."""
        if not self._looked:
            self._bounds, self._looked = masses(engine, self.state), True
        return self._bounds
