"""Reducibility: chains from dispersed discrete starts, and whether a site can leave the value it began with.

Whatever keeps the posterior may still never get from one part of it to another: two coins that must differ,
moved one by one. Chains start at draws of the prior of positive density; an element that no chain ever moves,
and that differs between chains, is not sampled.
"""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from gibbsite.checking.finding import Finding
from gibbsite.checking.invariance import Sweeps
from gibbsite.checking.replicates import Replicates

TEST = "reach"
_CHAINS = 256
_SWEEPS = 20
_LOOKS = 8
_BLIND = "parts of the posterior that no start was in, and how long a way between two takes"


def reach(sweeps: Sweeps, replicates: Replicates, model: Any, going: Callable[[], bool]) -> Finding:
    """Of a model with discrete sites and the user's own data."""
    discrete = [n for n in replicates.truth if model.density.sites[n].discrete]
    count = min(_CHAINS, replicates.count)
    values = {n: v[:count] for n, v in replicates.truth.items()}
    own = {n: np.asarray(model.observed[n]) for n in replicates.data}
    data = {n: np.broadcast_to(v, (count, *v.shape)) for n, v in own.items()}
    seen: list[dict[str, np.ndarray]] = []
    possible = np.ones(count, bool)
    for look in range(_LOOKS):
        found, before, after = sweeps(values, data, jax.random.key(1000 + look), _SWEEPS)
        if look == 0:
            possible = np.isfinite(before)
        possible &= np.isfinite(after)
        values = {**values, **found}
        seen.append({n: found[n] for n in discrete if n in found})
        if not going():
            break
    if possible.sum() < 2:
        why = "fewer than two draws of the prior are possible with these data"
        return Finding(TEST, "open", why, _BLIND)
    stuck = []
    for name in seen[0]:
        paths = np.stack([one[name][possible] for one in seen]).reshape(len(seen), int(possible.sum()), -1)
        still = (paths == paths[:1]).all((0, 1))
        differs = (paths[0] != paths[0][:1]).any(0)
        for i in np.flatnonzero(still & differs):
            at = np.unravel_index(int(i), values[name].shape[1:]) if values[name].ndim > 1 else ()
            stuck.append(name + (f"[{', '.join(map(str, at))}]" if len(at) else ""))
    said = f"{int(possible.sum())} chains from draws of the prior, {len(seen) * _SWEEPS} sweeps on your data"
    if stuck:
        few = ", ".join(stuck[:5]) + " …" * (len(stuck) > 5)
        why = f"no chain ever moves {few}, and chains differ there"
        return Finding(TEST, "wrong", f"{said}; {why}. Update what determines it together with it", _BLIND)
    return Finding(TEST, "right", f"{said}: no discrete element keeps every chain where it began", _BLIND)
