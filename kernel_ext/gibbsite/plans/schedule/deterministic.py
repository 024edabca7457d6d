"""Discrete sites that must not be drawn one by one: those that determine each other, and small networks.

Where a table of several elements has zeros, moves of one element at a time may not reach every possible
combination: of `a xor b` being observed, two chains each stay where they start. Such sites are drawn jointly.
Where their table is too large they are refused, if moves of one element are seen not to be enough.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from gibbsite.conditional import FiniteConditional
from gibbsite.conditional.finite.discrete import swept_work
from gibbsite.conditional.reads.group import updated_together
from gibbsite.conditional.reads.support import FiniteSupport, finite_support
from gibbsite.conditional.tables.factor import Factor
from gibbsite.density import Density, rerolled
from gibbsite.density.model.bounds import base_constraint
from gibbsite.elimination import TableMarginal, joint_marginal
from gibbsite.elimination.tables.collect import Summed, Tables, summed
from gibbsite.errors import ModelError, ScheduleError
from gibbsite.ground.lazy_import import later
from gibbsite.ground.once import once
from gibbsite.plans.candidates.limits import (
    CLOSE,
    MOST_ENTRIES,
    MOST_EVALUATED,
    MOST_ORDERED,
    STUCK_STATES,
    WINDOWS,
    WORTH,
)
from gibbsite.plans.schedule.irreducible import connected, frozen, possible_entries, prior_states
from gibbsite.plans.schedule.parse import Update
from gibbsite.plans.schedule.registry import size

nx = later("networkx")

_NAMED = 4
"""How many sites of one unit an error names."""


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
    seen = None
    for part in _coupled(density, {u: (u,) for u in known}):
        several = len(part) + sum(density.sites[u].shape != () for u in part) > 1
        if endless & part.keys() and several:
            seen = seen or list(states)
            _check(density, [*part], {u: supports[u] for u in part}, seen)


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
                units = {s: density.members.get(s, (s,)) for s in factor.sites}
                sites = [m for unit, members in units.items() for m in _own_names(unit, members)]
                some = f" that sums one out, as `Eliminate {sites[0]} > RandomWalk {sites[-1]}`"
                some = some if len(sites) == 2 and all(supports[s] is None for s in units) else ""
                raise ScheduleError(
                    f"{_elements_of(units)} determine each other through {factor.origin!r}: moved one by one "
                    f"they never reach all that is possible, and integers without end are not drawn jointly. "
                    f"Truncate them (for example a Categorical over 0…K), or give a schedule{some}"
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


Units = Mapping[str, tuple[str, ...]]


def joint_blocks(facts: Any, units: Units) -> dict[str, Update]:
    """The update of each unit of discrete sites that is drawn jointly with others, or as a whole.

    Raises `ScheduleError` for sites that determine each other and cannot be drawn jointly.
    """
    density = _density_of(facts.density, units)
    out: dict[str, Update] = {}
    if density is None:
        return out
    for several in _coupled(density, units):
        if len(several) == 1 and not _swept(facts, several):
            continue
        if _at_once(facts, several):
            out.update(dict.fromkeys(several, _update(several)))
        else:
            out.update(_determined(density, facts, tuple(several.items())))
    return out


def stuck_apart(facts: Any, updates: Iterable[Update]) -> dict[str, str]:
    """What to tell of the Gibbs updates of a schedule that somebody gave, by their first site: that its sites
    determine each other, or sites that it does not draw with them, and what would."""
    gibbs = [u for u in updates if u.kernel == "Gibbs"]
    units = updated_together(facts.density, [n for u in gibbs for n in u.sites])
    density = _density_of(facts.density, units)
    if density is None:
        return {}
    joint = {n: b for b in _needed(facts, density, units).values() for n in b.sites}
    out = {}
    for u in gibbs:
        block = next((joint[n] for n in u.sites if n in joint), None)
        own, options = set(u.sites), dict(u.options)
        as_one = len(updated_together(facts.density, u.sites)) > 1 or bool(options.get("joint"))
        if block is None or (own >= set(block.sites) and as_one and options.get("joint") is not False):
            continue
        others = [n for n in block.sites if n not in own]
        what = f"it and {', '.join(others)} determine" if others else "its elements determine"
        out[u.sites[0]] = f"{what} each other: drawn one by one they may never move; use {block}"
    return out


def _needed(facts: Any, density: Density, units: Units) -> dict[str, Update]:
    out: dict[str, Update] = {}
    for several in _coupled(density, units):
        if len(several) > 1 or _swept(facts, several):
            try:
                out.update(_determined(density, facts, tuple(several.items())))
            except ScheduleError:  # no joint draw to be advised
                continue
    return out


def _coupled(density: Density, units: Units) -> Iterator[dict[str, tuple[str, ...]]]:
    """The units in parts that share no term."""
    if len(units) < 2:  # nothing to part
        yield from filter(None, [dict(units)])
        return
    graph = nx.Graph()
    graph.add_nodes_from(units)
    for term in (*density.terms, *density.bounds):
        mine = [u for u in units if u in density.maps[term.atom]]
        graph.add_edges_from((mine[0], u) for u in mine[1:])
    for component in nx.connected_components(graph):
        yield {u: m for u, m in units.items() if u in component}


def check_endless(facts: Any, units: Units) -> None:
    """Raise `ScheduleError` for discrete units of infinite support that determine each other or others."""
    density = _density_of(facts.density, units)
    if density is not None:
        check_unbounded(density, list(units), _states(facts, density))


def _density_of(density: Density, units: Units) -> Density | None:
    """The density that knows all units by their names."""
    return next((d for d in (rerolled(density), density) if all(u in d.latent_vars for u in units)), None)


def _marginal(facts: Any, units: Units) -> TableMarginal | str:
    return joint_marginal(facts.density, [m for members in units.values() for m in members])


def _at_once(facts: Any, units: Units) -> bool:
    """Whether sites that meet, or the elements of one that are swept, are drawn jointly as that is hardly
    more work: by sums over few values, and of one site where a sweep takes hardly longer for these."""
    if len(units) > 1:
        found = _marginal(facts, units)
        # no more than what predictions are wrong by
        return not isinstance(found, str) and _work(found) < CLOSE * WORTH["sweep"]
    if size(facts, next(iter(units.values()))) > MOST_ORDERED:
        return False
    found = _marginal(facts, units)
    if isinstance(found, str):
        return False
    swept = WORTH["sweep"] + WORTH["element"] * swept_work(facts.conditional(next(iter(units))))
    return WORTH["sweep"] + _work(found) <= CLOSE * swept


def _work(marginal: TableMarginal) -> float:
    """Of a joint draw, in about nanoseconds."""
    plan = marginal.plan
    # of an entry an exponential and a logarithm
    parts = {
        "operation": plan.operations,
        "element": plan.tables.evaluations,
        "costly element": 2 * plan.work,
    }
    return sum(WORTH[kind] * n for kind, n in parts.items())


def _swept(facts: Any, units: Units) -> bool:
    """Whether elements of a single unit are coupled, and updated one after another."""
    c = facts.conditional(next(iter(units)))
    return isinstance(c, FiniteConditional) and c.kind == "finite" and not c.structure.independent


def _update(units: Units) -> Update:
    sites = tuple(m for members in units.values() for m in members)
    return Update("Gibbs", sites, (("joint", True),) if len(units) == 1 else ())


@once
def _determined(
    density: Density, facts: Any, named: Sequence[tuple[str, tuple[str, ...]]]
) -> dict[str, Update]:
    """Joint updates of the units `named` that meet in tables with zeros; many schedules of a model ask."""
    units = dict(named)
    try:
        with jax.ensure_compile_time_eval():
            tables = Tables(density, summed(density, list(units)), MOST_ENTRIES)
        if tables.evaluations > MOST_EVALUATED:
            raise ModelError(f"its tables are made of {tables.evaluations:,.0f} terms")
    except ModelError as problem:
        if frozen(density, list(units), _states(facts, density)):
            raise _refusal(units, str(problem)) from problem
        return {}
    if not any(len(f.sites) > 1 for f in tables.factors):
        return {}
    several = [
        e for e in possible_entries(tables, list(units), _states(facts, density)) if len(e[0].sites) > 1
    ]
    zeros = [(factor, table) for factor, table, _ in several if not table.all()]
    graph = nx.Graph()
    for factor, _ in zeros:
        graph.add_edges_from((factor.sites[0], s) for s in factor.sites)
    out: dict[str, Update] = {}
    for component in nx.connected_components(graph):
        mine = {u: m for u, m in units.items() if u in component}
        if len(mine) == 1 and not _swept(facts, mine):
            continue  # a chain is drawn as a whole anyway
        found = _marginal(facts, mine)
        if not isinstance(found, str):
            out.update(dict.fromkeys(mine, _update(mine)))
        elif any(f.sites[0] in component and not connected(table) for f, table in zeros):
            raise _refusal(mine, found)
    return out or _hardly_connected(facts, [(factor, table) for factor, _, table in several], units)


def _hardly_connected(
    facts: Any, likely: Iterable[tuple[Factor, np.ndarray]], units: Units
) -> dict[str, Update]:
    """Joint updates of units between whose `likely` values single moves lead against long odds only:
    constraints written with narrow noise, or with the probabilities near 0 and 1 that NumPyro makes of 0 and
    1."""
    out: dict[str, Update] = {}
    for factor, table in likely:
        mine = {u: m for u, m in units.items() if u in factor.sites}
        if mine.keys() & out.keys() or connected(table) or (len(mine) == 1 and not _swept(facts, mine)):
            continue
        found = _marginal(facts, mine)
        if not isinstance(found, str) and found.plan.entries <= MOST_ENTRIES:
            out.update(dict.fromkeys(mine, _update(mine)))
    return out


def _own_names(unit: str, members: Sequence[str]) -> Sequence[str]:
    """What the model itself calls the sites of a unit: `k1` and `k2` are one here, `k`, which it may not
    know, and `k[0]` and `k[1]` are its `k`."""
    return (unit,) if unit in members or members[0].startswith(f"{unit}[") else members


def _elements_of(units: Units) -> str:
    """The sites of units in words, as what determines each other; of many the first and the last."""
    named = [_own_names(u, members) for u, members in units.items()]
    short = [[*n[:2], "…", n[-1]] if len(n) > _NAMED else n for n in named]
    names = [m if m == "…" else repr(m) for n in short for m in n]
    told = ", ".join(names[:-1]) + f" and {names[-1]}" if len(names) > 1 else names[0]
    return told if max(map(len, named)) > 1 else f"elements of {told}"


def _refusal(units: Units, why: str) -> ScheduleError:
    why = re.sub(r"[;.] Gibbs [^;.]* still works", "", why)  # in this case it does not
    return ScheduleError(
        f"{_elements_of(units)} determine each other: updated one by one they never move, and they cannot be "
        f"drawn jointly ({why}). Write the constraint over fewer elements, soften it, or give a schedule"
    )


def _states(facts: Any, density: Density) -> Iterator[dict[str, Any]]:
    drawn = prior_states(facts, density, STUCK_STATES)
    for i in range(STUCK_STATES):
        yield {n: v[i] for n, v in drawn.items()}
