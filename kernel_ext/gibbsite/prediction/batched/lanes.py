"""One plan and the arrays of many data sets → draws of all of them, by one compiled program.

Data sets stand side by side as chains do: the program of a run is vectorised once more, over them. Chains of
one data set learn from each other as in a run; what belongs to another is never seen. Some data sets at a
time fill a processor's caches, and every processor has its own; or every worker of an executor, which gets
them chunk by chunk as it gets the chains of a run.
"""

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np

from gibbsite.density.model.alone import handlers_alone
from gibbsite.kernels.nuts.windows import FINAL, window_ends
from gibbsite.plans.schedule.plan import Plan
from gibbsite.programs.evaluation.pieces import in_marked
from gibbsite.programs.jaxpr.compiling import compiled
from gibbsite.programs.passes.for_cpu import lowered_for_cpu
from gibbsite.sampling.engine.engine import Engine
from gibbsite.sampling.engine.initial import bad_chains
from gibbsite.sampling.engine.resources import Place, bytes_per_draw
from gibbsite.sampling.engines import surroundings_of
from gibbsite.sampling.remote.pieces import Pieces, checked
from gibbsite.sampling.remote.sent import leaves_of, program_for, rebuilt
from gibbsite.sampling.run import Settings
from gibbsite.sampling.warm.warming import EARLIEST, RHAT

_TRIES = 30  # of starts that have no density; what has none by then is told by a run of its own
_CHAINS = 128  # side by side on a CPU: 64 to 256 take the same time for each in regressions of 50 rows
_NUMBERS = 2**17  # … and that these chains read in a step: what stays in a core's cache
_CHAINS_OF_A_GPU = 2**14
_GROUPS = 64  # for workers, each of which has a thread here that waits for it
_BUFFER = 2**26  # bytes of draws on the device at a time
_MOST_STEPS = 512
_OFTEN = 64  # times that chains learn, .034 s less each, pay for 2.2 s more of compiling it
_LEAST_HALF = 4
_AGREED = 0.95
"""The share of data sets whose chains must agree for warm-up to end: those that do not may never."""


@dataclass(frozen=True)
class Lane:
    """What became of one data set: `values` and `stats` of its draws `[draw, chain, …]`, `warm` statistics of
    `warmup` steps; `state` gives where its chains ended; `sound` tells whether all of it is finite."""

    values: Mapping[str, np.ndarray]
    stats: Mapping[str, np.ndarray]
    warm: Mapping[str, np.ndarray]
    warmup: int
    state: Callable[[], Any]
    sound: bool


class Lanes:
    """The programs of a plan for so many data sets at a time. `differs` tells of each of its data arrays
    whether every data set has its own. With an executor `on`, its workers step the chains."""

    def __init__(
        self,
        plan: Plan,
        settings: Settings,
        place: Place,
        differs: Sequence[bool],
        count: int,
        on: Any = None,
    ):
        self.plan, self.settings, self._device = plan, settings, place.devices[0]
        chains, on_cpu = settings.chains, self._device.platform == "cpu"
        numbers = sum(int(np.size(a)) for a in plan.inputs["data"])
        numbers += sum(int(np.prod(s.shape, dtype=int)) for s in plan.sites.values())
        most = min(_CHAINS, max(1, _NUMBERS // max(1, numbers))) if on_cpu else _CHAINS_OF_A_GPU
        self.workers = (os.cpu_count() or 1) if on_cpu else 1
        self._executor = None if on is None else checked(on)
        if on is not None:  # whoever they are, so that draws do not depend on them
            self.workers = _GROUPS
        self.at_once = int(np.clip(-(-count // self.workers), 1, max(1, most // chains)))
        self._rounds = -(-count // self.at_once)
        each = max(1, bytes_per_draw(plan) * chains * self.at_once)
        self._capacity = int(np.clip(_BUFFER // each, 1, _MOST_STEPS))
        self._around = surroundings_of(plan)
        self._engine = Engine(plan, chains, settings.warmup, self._capacity, place.devices, settings.thin,
                              surroundings=self._around)  # fmt: skip
        self._axes: dict[str, Any] = {"data": tuple(0 if d else None for d in differs)}
        if "options" in plan.inputs:
            self._axes["options"] = None
        self._on_cpu = on_cpu
        self._programs: dict[str, Any] = {}
        self._stop = threading.Event()  # late answers are waited for no longer

    def fitted(self, data: Sequence[tuple], stopped: Callable[[], bool] = lambda: False) -> Iterator[Lane]:
        """A `Lane` for each of the data sets' arrays, in their order; fewer where `stopped()` says so."""
        rows = [range(i, min(i + self.at_once, len(data))) for i in range(0, len(data), self.at_once)]
        with self._here():
            self._compile(self._inputs([data[0]] * self.at_once))
        with ThreadPoolExecutor(self.workers) as pool:
            try:
                for found in pool.map(lambda r: () if stopped() else self._some(data, r), rows):
                    yield from found
            except BaseException:
                self._stop.set()
                raise

    @contextmanager
    def _here(self) -> Iterator[None]:
        with self._around.carried(), jax.default_device(self._device):
            yield

    def _inputs(self, data: Sequence[tuple]) -> dict[str, Any]:
        """The arrays of as many data sets as stand side by side; those that all have in common once."""
        arrays = tuple(
            np.stack([np.asarray(d[i]) for d in data]) if axis == 0 else data[0][i]
            for i, axis in enumerate(self._axes["data"])
        )
        return {**self.plan.inputs, "data": arrays}

    def _compile(self, inputs: dict[str, Any]) -> None:
        engine, axes = self._engine, self._axes
        numbers = np.zeros(self.at_once, np.int32)
        nothing: Any = None
        init = jax.vmap(lambda k, i: engine._init_chains(k, i, nothing), in_axes=(0, axes))
        advance = jax.vmap(engine._advance_chains, in_axes=(0, axes, None, None))
        count = np.int32(0)
        with handlers_alone:
            keys = self._lowered(self._keys, numbers, count)
            first = self._lowered(init, keys.out_info, inputs)
            state, _ = first.out_info
            if self._executor is None:
                step = self._lowered(advance, state, inputs, count, count)
            else:
                self._send(state, inputs)
            pool = None
            if self._engine.window_ends:
                pool = self._lowered(jax.vmap(engine._pool_chains, in_axes=(0, axes)), state, inputs)
            marks = np.zeros((self.at_once, engine.chains), bool)
            choose = self._lowered(in_marked, marks, state, state)
        quickly = self._on_cpu
        made = {"keys": keys, "init": first, "choose": choose}
        self._programs.update({n: compiled(p, quickly=quickly) for n, p in made.items()})
        if pool is not None:
            seldom = quickly and self._rounds * len(engine.window_ends) < _OFTEN
            self._programs["pool"] = compiled(pool, quickly=seldom, on=inputs if quickly else None)
        if self._executor is None:
            self._programs["advance"] = compiled(step, on=inputs if self._on_cpu else None)

    def _send(self, state: Any, inputs: Any) -> None:
        """Make what steps at the workers: data sets' own arrays come with the state, others with it."""
        own, shared = self._parted(inputs)

        def advance(given: Any, shared: Any, steps: Any, sweeps: Any) -> Any:
            state, own = given
            arrays = tuple(own.get(i, a) for i, a in enumerate(shared["data"]))
            inputs = {**shared, "data": arrays}
            step = jax.vmap(
                self._engine._advance_chains, in_axes=(0, self._axes, None, None), out_axes=(0, 1)
            )
            return step(state, inputs, steps, sweeps)

        program, *self._shapes = program_for(
            advance, (state, own), shared, self._around, self._device.platform, self.plan.model_name
        )
        self._programs["pieces"] = Pieces(self._executor, program)

    def _parted(self, inputs: Any) -> tuple[dict[int, Any], dict[str, Any]]:
        """The arrays that differ between data sets, by their place, and the inputs without them."""
        axes = self._axes["data"]
        own = {i: a for i, (a, axis) in enumerate(zip(inputs["data"], axes, strict=True)) if axis == 0}
        rest = tuple(None if axis == 0 else a for a, axis in zip(inputs["data"], axes, strict=True))
        return own, {**inputs, "data": rest}

    def _lowered(self, fn: Any, *arguments: Any) -> Any:
        return lowered_for_cpu(fn, *arguments) if self._on_cpu else jax.jit(fn).lower(*arguments)

    def _keys(self, numbers: Any, attempt: Any) -> Any:
        """Keys `[data set, chain]`: a data set's own, by its number, whatever stands beside it."""
        seed = jax.random.fold_in(jax.random.key(self.settings.seed), attempt)
        return jax.vmap(lambda i: jax.random.split(jax.random.fold_in(seed, i), self._engine.chains))(numbers)

    def _some(self, data: Sequence[tuple], rows: range) -> list[Lane]:
        """Data sets side by side; where they are fewer than the program has room for, the last again."""
        with self._here():
            at = [min(rows.start + i, rows[-1]) for i in range(self.at_once)]
            inputs, numbers = self._inputs([data[i] for i in at]), np.asarray(at, np.int32)
            state, lost = self._start(inputs, numbers)
            state, warm, length = self._warmed(state, inputs)
            parts, done = [], 0
            while done < self.settings.draws:
                steps = min(self._capacity, self.settings.draws - done)
                state, chunk = self._steps(state, inputs, steps, self.settings.thin)
                parts.append(chunk)
                done += steps
        values = {n: np.concatenate([p[0][n] for p in parts], axis=1) for n in parts[0][0]}
        stats = {n: np.concatenate([p[1][n] for p in parts], axis=1) for n in parts[0][1]}
        found = []
        for i in range(len(rows)):
            own = {n: v[i] for n, v in values.items()}
            sound = not lost[i] and all(np.isfinite(v).all() for n, v in own.items() if self._latent(n))
            end = partial(self._of, state, i)
            found.append(
                Lane(
                    own,
                    {n: v[i] for n, v in stats.items()},
                    {n: v[i] for n, v in warm.items()},
                    length,
                    end,
                    bool(sound),
                )
            )
        return found

    def _of(self, state: Any, i: int) -> Any:
        with self._here():
            return jax.tree.map(lambda v: v[i], state)

    def _latent(self, name: str) -> bool:
        return self.plan.sites[name].role == "latent"

    def _start(self, inputs: Any, numbers: np.ndarray) -> tuple[Any, np.ndarray]:
        """A state for each, and which data sets have chains at a point without density after all tries."""
        keys, init = self._programs["keys"], self._programs["init"]
        state, logdensity = init(keys(numbers, np.int32(0)), inputs)
        bad = bad_chains(state, logdensity)
        for attempt in range(1, _TRIES):
            if not bad.any():
                break
            other, level = init(keys(numbers, np.int32(attempt)), inputs)
            better = bad & ~bad_chains(other, level)
            if better.any():
                state, bad = self._programs["choose"](better, other, state), bad & ~better
        return state, np.any(bad, axis=1)

    def _steps(self, state: Any, inputs: Any, steps: int, sweeps: int) -> tuple[Any, tuple[dict, dict]]:
        if "pieces" in self._programs:
            pieces, (shapes, records) = self._programs["pieces"], self._shapes
            piece = pieces.sent(leaves_of((state, self._parted(inputs)[0])), steps, sweeps)
            (answer,) = pieces.answers([piece], self._stop)
            found = jax.tree.unflatten(records, [np.moveaxis(r, 0, 1) for r in answer.records])
            return rebuilt(answer.state, shapes), found
        state, buffers = self._programs["advance"](state, inputs, np.int32(steps), np.int32(sweeps))
        values, stats = jax.tree.map(lambda b: np.asarray(b)[:, :steps], buffers)
        return state, (values, stats)

    def _warmed(self, state: Any, inputs: Any) -> tuple[Any, dict[str, np.ndarray], int]:
        """The state after warm-up, its statistics, and its length. With "auto" it ends at the end of a window
        in whose later half the chains of nearly all data sets agree: all of them have the same length."""
        most, kernel = self.settings.warmup, self._engine.kernel
        learns = self._engine.window_ends
        ends = learns or window_ends(most)
        length, done = most, 0
        values: list[dict[str, np.ndarray]] = []
        stats: list[dict[str, np.ndarray]] = []
        while done < length:
            edge = min([length, *(e for e in ends if e > done)])
            steps = min(self._capacity, edge - done)
            state, (some, told) = self._steps(state, inputs, steps, 1)
            values.append({n: v for n, v in some.items() if self._latent(n)})
            stats.append(told)
            done += steps
            clear = done in ends and not any(done < e < done + FINAL for e in ends)
            early = self.settings.auto_warmup and clear and EARLIEST <= done < length - FINAL
            if early and kernel.ends_early and self._agree(values, done):
                length = done + FINAL
                state = jax.vmap(lambda s, n=length: kernel.ending(s, n))(state)
            if done in learns and done < length:
                state = self._programs["pool"](state, inputs)
        names = stats[0] if stats else {}
        return state, {n: np.concatenate([s[n] for s in stats], axis=1) for n in names}, length

    def _agree(self, values: Sequence[Mapping[str, np.ndarray]], done: int) -> bool:
        """Whether the chains of nearly all agree in the later half of so many steps."""
        later = {n: np.concatenate([v[n] for v in values], axis=1)[:, done // 2 :] for n in values[0]}
        return float(np.mean(rhats(later) < RHAT)) >= _AGREED


def rhats(values: Mapping[str, np.ndarray]) -> np.ndarray:
    """The largest split R-hat (Gelman and others 2013, §11.4; without ranks) of each data set, `[data set]`,
    of draws `[data set, draw, chain, *shape]` by site; 1 where nothing moves or draws are too few to tell."""
    worst = np.ones(len(next(iter(values.values()))))
    for v in values.values():
        n = v.shape[1] // 2
        if n < _LEAST_HALF:
            continue
        halves = v[:, : 2 * n].reshape(len(v), 2, n, v.shape[2], -1).astype(float)
        with np.errstate(all="ignore"):
            means, within = halves.mean(axis=2), halves.var(axis=2, ddof=1).mean(axis=(1, 2))
            between = means.reshape(len(v), -1, means.shape[-1]).var(axis=1, ddof=1)
            found = np.sqrt((n - 1) / n + between / within)
            found = np.where((within <= 0) & (between > 0), np.inf, found)
        worst = np.fmax(worst, np.nanmax(found, axis=1, initial=1.0, where=~np.isnan(found)))
    return worst
