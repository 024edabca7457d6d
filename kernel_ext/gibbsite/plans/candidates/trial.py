"""A sweep of exact draws → the integrated autocorrelation time of each site, as tried.

Many short chains take the place of a long one: what a sweep forgets shows in all of them at once, and there
is one program to compile, which is called again and again. Starts and keys are its own, so that the same
model has the same schedule on any machine, and a run the same draws.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions.transforms import biject_to

from gibbsite.plans.candidates.limits import KEPT, LEFT_OUT, STATES
from gibbsite.plans.candidates.sweep import Sweep
from gibbsite.programs.jaxpr.compiling import Quick

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
