"""Reducibility: chains from dispersed discrete starts, and whether a site can leave the value it began with.

Whatever keeps the posterior may still never get from one part of it to another: two coins that must differ,
moved one by one. Chains start at draws of the prior of positive density; an element that no chain ever moves,
and that differs between chains, is not sampled. Where components can be renamed, chains that differ by their
names alone do not differ.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from gibbsite.checking.finding import Finding
from gibbsite.checking.invariance import Sweeps
from gibbsite.checking.replicates import Replicates
from gibbsite.density import Density
from gibbsite.density.hierarchy.exchangeability import Unchanged, ways
from gibbsite.density.intervals import range_of_support
from gibbsite.diagnostics.modes.renamed import named_as_first

TEST = "reach"
_CHAINS = 256
_SWEEPS = 20
_LOOKS = 8
_MOST_NAMES = 12
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
    every = {
        n: np.stack([one[n][possible] for one in seen]).reshape(len(seen), int(possible.sum()), -1)
        for n in seen[0]
    }
    of_one_naming, named = _renamed(model.density, every)
    for name, paths in of_one_naming.items():
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
    but = f" (but for the names of {', '.join(named)}: each chain may keep its own)" if named else ""
    return Finding(
        TEST, "right", f"{said}: no discrete element keeps every chain where it began{but}", _BLIND
    )


def _renamed(
    density: Density, paths: Mapping[str, np.ndarray]
) -> tuple[dict[str, np.ndarray], tuple[str, ...]]:
    """Paths `[look, chain, element]` of discrete sites, where those that bear names of components under which
    the model stays the same have the first chain's; and the sites whose values that changes."""
    found, changed = dict(paths), list[str]()
    unchanged = Unchanged(density)
    spans = {n: range_of_support(density.sites[n].support) for n in paths}
    for k in sorted({int(high) + 1 for low, high in spans.values() if low == 0 and high < _MOST_NAMES}):
        orders = [np.array([1, 0, *range(2, k)]), np.roll(range(k), 1)]  # all orders are made of these
        for way in ways(density, orders[0].tolist()) if k > 1 else ():
            borne = [n for n in paths if n in way.labels]
            others = [replace(way, order=tuple(o.tolist())) for o in orders[1 : k - 1]]
            if not borne or way.mirrored or not all(map(unchanged.by, (way, *others))):
                continue
            by_chain = [np.moveaxis(paths[n], 0, 1) for n in borne]
            found |= {n: paths[n].copy() for n in borne}
            for c in range(1, paths[borne[0]].shape[1]):
                names = np.argsort(named_as_first(way, by_chain, k, c).order)
                for n in borne:
                    found[n][:, c] = names[paths[n][:, c].astype(int)]
            changed += [n for n in borne if not np.array_equal(found[n], paths[n])]
            break
    return found, tuple(dict.fromkeys(changed))
