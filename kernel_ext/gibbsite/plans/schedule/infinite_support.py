"""Integers without end that determine others: no table holds them all, so that is told before a run."""

from collections.abc import Iterable, Sequence
from typing import Any

import jax
import networkx as nx
import numpy as np

from gibbsite.conditional.reads.support import FiniteSupport, finite_support
from gibbsite.conditional.tables.factor import Factor
from gibbsite.density import Density
from gibbsite.density.model.bounds import base_constraint
from gibbsite.elimination.tables.collect import Summed, Tables
from gibbsite.errors import ModelError, ScheduleError
from gibbsite.plans.candidates.limits import MOST_ENTRIES, WINDOWS
from gibbsite.plans.schedule.irreducible import connected, possible_entries


def check_unbounded(density: Density, units: Sequence[str], states: Iterable[dict[str, Any]]) -> None:
    """Raise `ScheduleError` where a discrete unit of infinite support and others cannot reach all their
    possible values by moves of one element at a time.

    Judged inside a window of values around those of `states`: what is connected beyond it is not seen.
    """
    supports = {u: _listed(density, u) for u in units}
    known = [u for u, s in supports.items() if s is None or s.values.ndim == 1]
    endless = {u for u in known if supports[u] is None}
    if not endless:
        return
    graph, seen = nx.Graph(), None
    graph.add_nodes_from(known)
    for term in (*density.terms, *density.bounds):
        mine = [u for u in known if u in density.maps[term.atom]]
        graph.add_edges_from((mine[0], u) for u in mine[1:])
    for component in nx.connected_components(graph):
        names = [u for u in known if u in component]
        several = len(names) + sum(density.sites[u].shape != () for u in names) > 1
        if endless & component and several:
            seen = seen or list(states)
            _check(density, names, {u: supports[u] for u in names}, seen)


def _listed(density: Density, unit: str) -> FiniteSupport | None:
    try:
        return finite_support(density, unit)
    except ModelError:  # it moves with a site of infinite support
        return None


def _check(density: Density, names: Sequence[str], supports: Any, states: Sequence[dict[str, Any]]) -> None:
    for width in WINDOWS:
        listed = {u: supports[u] or _window(density, u, states, width) for u in names}
        try:
            with jax.ensure_compile_time_eval():
                tables = Tables(density, Summed(listed), MOST_ENTRIES)
        except ModelError:
            continue
        if not any(len(f.sites) > 1 for f in tables.factors):
            return
        found = [(f, possible) for f, possible, _ in possible_entries(tables, names, states)]
        alone = {f.sites[0]: mask for f, mask in found if len(f.sites) == 1}
        for factor, mask in found:
            one_endless = any(supports[s] is None for s in factor.sites)
            if len(factor.sites) > 1 and one_endless and not connected(_within(factor, mask, alone)):
                pair = " and ".join(map(repr, dict.fromkeys(factor.sites)))
                raise ScheduleError(
                    f"elements of {pair} determine each other through {factor.origin!r}: moved one by one "
                    f"they never reach all that is possible, and integers without end are not drawn jointly. "
                    f"Truncate them (for example a Categorical over 0…K), or give a schedule"
                )
        return


def _window(density: Density, unit: str, states: Sequence[dict[str, Any]], width: int) -> FiniteSupport:
    """`width` values around those of the states."""
    site = density.sites[unit]
    middle = int(np.median([np.median(np.asarray(s[unit])) for s in states]))
    low = getattr(base_constraint(site.support), "lower_bound", None)
    start = middle - width // 2
    if isinstance(low, int | float | np.integer):
        start = max(start, int(low))
    return FiniteSupport(np.arange(start, start + width).astype(site.dtype), site.shape, None)


def _within(factor: Factor, mask: np.ndarray, alone: dict[str, np.ndarray]) -> np.ndarray:
    """A factor's possible entries where each of its elements can have its value by its own terms."""
    out = np.broadcast_to(mask, (*mask.shape[:-1], factor.rows))
    for i, (site, index) in enumerate(zip(factor.sites, factor.index, strict=True)):
        if site in alone:
            own = alone[site] if alone[site].shape[-1] == 1 else alone[site][:, index]
            shape = [1] * out.ndim
            shape[i], shape[-1] = own.shape
            out = out & own.reshape(shape)
    return out
