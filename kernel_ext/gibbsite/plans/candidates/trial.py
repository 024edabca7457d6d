"""A sweep of exact draws → the integrated autocorrelation time of each site, as tried.

Many short chains take the place of a long one: what a sweep forgets shows in all of them at once, and there
is one program to compile, which is called again and again. Starts and keys are its own, so that the same
model has the same schedule on any machine, and a run the same draws.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions.transforms import biject_to
from numpyro.infer.gibbs import GIBBS_SITES_KWARG

from gibbsite.conditional.reads.support import finite_support
from gibbsite.density import Density
from gibbsite.kernels.blocks.finite import INPUTS_KWARG, Exact, FiniteGibbsState
from gibbsite.plans.candidates.limits import KEPT, LEFT_OUT, STATES
from gibbsite.plans.schedule.parse import Update
from gibbsite.plans.schedule.registry import Facts, find_kernel
from gibbsite.programs.jaxpr.compiling import Quick, once

_RADIUS = 2.0


class Sweep:
    """The `updates`, all of them exact draws, in order.

    Raises `ValueError` for another kind of update.
    """

    def __init__(self, facts: Facts, updates: Sequence[Update]):
        self.density: Density = facts.density
        self.sites = tuple(n for u in updates for n in u.sites)
        self._blocks = [(_kernel(facts, u), u.sites) for u in updates]

    def __call__(self, key: Any, state: Mapping[str, Any], inputs: Any) -> dict[str, Any]:
        """The values by site after a sweep from `state`; pure."""
        values = dict(state)
        for (kernel, own), k in zip(self._blocks, jax.random.split(key, len(self._blocks)), strict=True):
            others = {n: v for n, v in values.items() if n not in own}
            block = FiniteGibbsState({n: values[n] for n in own}, k)
            moved = kernel.sample(block, (), {INPUTS_KWARG: inputs, GIBBS_SITES_KWARG: others})
            values |= moved.z
        return values

    def starts(self, seed: int, chains: int) -> dict[str, np.ndarray]:
        """Values by site, `[chains, *shape]`: continuous ones uniform between −2 and 2 where they have no
        constraint, discrete ones any of those listed."""
        rng, out = np.random.default_rng(seed), {}
        free: dict[str, np.ndarray] = {}
        for name in self.sites:
            site = self.density.sites[name]
            shape = (chains, *site.shape)
            listed = finite_support(self.density, name) if site.discrete else None
            if listed is not None:
                of = rng.integers(listed.size, size=(chains, *listed.elements))
                out[name] = np.asarray(listed.values)[of].reshape(shape).astype(site.dtype)
                continue
            inverse = biject_to(site.support).inverse_shape(site.shape)
            free[name] = rng.uniform(-_RADIUS, _RADIUS, (chains, *inverse)).astype(site.dtype)

        def constrained(free: Mapping[str, Any]) -> dict[str, Any]:
            sites = {n: self.density.sites[n] for n in free}
            return {n: biject_to(s.support)(free[n]).astype(s.dtype) for n, s in sites.items()}

        return {**out, **{n: np.asarray(v) for n, v in once(constrained, free).items()}}


def is_exact(update: Update) -> bool:
    """Whether an update is drawn as a whole, with nothing to be learnt."""
    return update.kernel in ("Gibbs", "Conjugate", "Collapsed", "PolyaGamma") and not update.eliminated


def _kernel(facts: Facts, update: Update) -> Exact:
    row, density = find_kernel(update.kernel), facts.density
    if row is None or not is_exact(update):
        raise ValueError(f"{update} is not an exact draw")
    kernel = row.build(facts, update.sites, dict(update.options))
    assert isinstance(kernel, Exact)
    start = {n: np.zeros(density.sites[n].shape, density.sites[n].dtype) for n in update.sites}
    kernel.init(jax.random.key(0), 0, start, (), {INPUTS_KWARG: facts.inputs})
    return kernel


_FEW = 8
_SEED = 27


def times_of(
    sweep: Sweep, inputs: Any, watched: Sequence[str], labelled: Collection[str] = ()
) -> Mapping[str, float]:
    """The integrated autocorrelation time of each of the `watched` sites, in sweeps: that of the slowest of
    its elements (of many, of eight), on the unconstrained scale; at least 1.

    Chains are held against what all of them found together, so that those that have not met count as slow;
    of `labelled` sites each against its own mean, as what discrete sites name may have another name in every
    chain. A site that is not finite somewhere, or that never moves, has as long a time as the trial can tell.
    """
    chains = range(STATES)

    def seen(state: Mapping[str, Any]) -> dict[str, Any]:
        out = {}
        for name in watched:
            site = sweep.density.sites[name]
            value = state[name]
            free = value if site.discrete else biject_to(site.support).inv(value)
            out[name] = jnp.reshape(free, (len(chains), -1))
        return out

    def step(number: Any, state: Mapping[str, Any], inputs: Any) -> Any:
        keys = jax.random.split(jax.random.fold_in(jax.random.key(_SEED), number), len(chains))
        moved = jax.vmap(sweep, (0, 0, None))(keys, state, inputs)
        return moved, seen(moved)

    program = Quick(step)
    state: Any = sweep.starts(_SEED, len(chains))
    kept: dict[str, list[np.ndarray]] = {n: [] for n in watched}
    for i in range(LEFT_OUT + KEPT):
        state, told = program(np.uint32(i), state, inputs)
        for name in watched if i >= LEFT_OUT else ():
            kept[name].append(told[name])
    draws = {n: np.stack([np.asarray(x, np.float64) for x in v], axis=1) for n, v in kept.items()}
    return {n: _slowest(x - x.mean(1, keepdims=True) if n in labelled else x) for n, x in draws.items()}


def _slowest(draws: np.ndarray) -> float:
    """The longest time among columns of `draws`, `[chain, draw, column]`."""
    columns = np.unique(np.linspace(0, draws.shape[2] - 1, _FEW).astype(int))
    return max(integrated_time(draws[:, :, c]) for c in columns)


def integrated_time(draws: np.ndarray) -> float:
    """The integrated autocorrelation time of `draws`, `[chain, draw]`, between 1 and their number.

    It is Geyer's (1992) initial monotone sequence of sums of two correlations, about the mean of all chains
    together: those that have not met count as slow.
    """
    chains, length = draws.shape
    if not np.isfinite(draws).all():
        return float(chains * length)
    centred = draws - draws.mean()
    variance = float(np.mean(centred**2))
    if variance == 0:
        return float(chains * length)  # it never moved
    lags = [float(np.mean(centred[:, : length - k] * centred[:, k:])) / variance for k in range(length // 2)]
    total, least = -1.0, np.inf
    for even, odd in zip(lags[::2], lags[1::2], strict=False):
        least = min(least, even + odd)
        if least <= 0:
            break
        total += 2 * least
    return float(np.clip(total, 1.0, chains * length))


@dataclass(frozen=True)
class Candidate:
    """A schedule that a model could have, as `text`, and which rewrite made it.

    `work` is what a sweep takes and `compiling` what its program does, in processor nanoseconds for four
    chains, by counts of operations which are the same on every machine. `times` are the least and the most
    integrated autocorrelation time, in sweeps, that are predicted for the site that moves least, and
    `measured` what a trial found; `slowest` names the tie that decides. `refused` says what kept
    it from being weighed; `chosen` is whether it is the model's schedule, and `because` then the one reason.
    """

    text: str
    rewrite: str
    work: float = math.nan
    compiling: float = math.nan
    times: tuple[float, float] = (math.nan, math.nan)
    measured: float | None = None
    slowest: str = ""
    refused: str = ""
    chosen: bool = False
    because: str = ""

    @property
    def predicted(self) -> float:
        """Effective draws per processor second of sampling, of four chains, by the time between the least and
        the most, their geometric mean."""
        return 4e9 / (self.work * math.sqrt(self.times[0] * self.times[1]))

    @property
    def efficiency(self) -> float:
        """The same by the time that a trial found, else as predicted."""
        return self.predicted if self.measured is None else 4e9 / (self.work * self.measured)

    def outcome(self, times: float | None, per_second: float | None) -> Mapping[str, Any]:
        """What was predicted beside what came of it in a run: `times`, the integrated autocorrelation time
        of its slowest number, in sweeps, and effective draws `per_second`."""
        each = None if math.isnan(self.work) else self.efficiency
        predicted = {"times": self.times, "tried": self.measured, "ess_per_second": each}
        return {
            "schedule": self.text,
            "predicted": predicted,
            "measured": {"times": times, "ess_per_second": per_second},
        }

    def __str__(self) -> str:
        if self.refused:
            return f"{self.text}: not offered: {self.refused}"
        if math.isnan(self.work):
            return f"{self.text}: {self.because}"
        rate, times = self._ranges()
        rate = rate if " to " in rate else f"about {rate}"
        tried = ", as tried," if self.measured is not None else ""
        holds = f": {self.slowest}" if self.slowest else ""
        return (
            f"{self.text}: {rate} effective draws per processor second ({self.work / 1e3:,.0f} µs a sweep; "
            f"{times} sweeps{tried} for an effective draw of what moves slowest{holds}; "
            f"{self.compiling / 1e9:.0f} s to compile)" + (f". {self.because}" if self.because else "")
        )

    def _ranges(self) -> tuple[str, str]:
        """Effective draws per processor second, and sweeps for one."""
        low, high = self.times
        if self.measured is not None:
            return _rounded(self.efficiency), f"{self.measured:.1f}"
        if high < 1.05 * low:
            return _rounded(self.efficiency), f"{low:.1f}"
        ends = (4e9 / (self.work * t) for t in (high, low))
        return " to ".join(map(_rounded, ends)), f"{low:.1f} to {high:.0f}"

    @property
    def row(self) -> tuple[str, ...]:
        """What `HEAD` names, as text."""
        rate, times = self._ranges()
        times += " (tried)" if self.measured is not None else ""
        holds = "" if self.chosen else self.because or self.slowest
        return self.text, rate, f"{self.work / 1e3:,.0f}", times, f"{self.compiling / 1e9:.0f}", holds


def _rounded(rate: float) -> str:
    return f"{float(f'{rate:.2g}'):,.0f}"


HEAD = (
    "weighed",
    "effective draws per processor second",
    "µs a sweep",
    "sweeps for an effective draw",
    "s to compile",
    "what holds it",
)


def foremost(candidates: tuple[Candidate, ...], most: int = 4) -> list[Candidate]:
    """The chosen one and the next; nothing where there was nothing to choose."""
    weighed = [c for c in candidates if not c.refused]
    return weighed[:most] if len(weighed) > 1 else []


def told(candidates: tuple[Candidate, ...]) -> list[str]:
    """The foremost, a line each."""
    return [f"{'chosen' if c.chosen else 'weighed'}: {c}" for c in foremost(candidates)]
