"""Which discrete sites continuous ones decide, so that neither moves while the other is held.

Where the values of an element fall into parts, and whatever the rest is, it leaves those of one part alone,
draws in turn never lead from one part to another: `scheduling/determined.py` looks at discrete sites among
themselves, here are those that a continuous site decides.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gibbsite.conditional.forms.walk import Refused
from gibbsite.conditional.reads.support import listed, support_movers
from gibbsite.conditional.reads.term_access import blind_terms
from gibbsite.density import Density
from gibbsite.density.intervals import range_of
from gibbsite.density.known_elements import equations_behind
from gibbsite.errors import ScheduleError
from gibbsite.ground.lazy_import import later
from gibbsite.kernels.blocks.crossing import together
from gibbsite.plans.candidates.limits import (
    DECIDED_STATES,
    LEAST_SEEN,
    LONG_ODDS,
    LOOKED_AT,
    MOST_CROSSING,
    MOST_VALUES,
)
from gibbsite.plans.schedule.irreducible import prior_states
from gibbsite.plans.schedule.parse import Update
from gibbsite.programs.jaxpr.compat import Literal
from gibbsite.programs.jaxpr.compiling import once

nx = later("networkx")

Facts = Any


def crossing_blocks(facts: Facts, discrete: Collection[str]) -> dict[str, tuple[str, ...]]:
    """The block of sites that are updated as one, by each of its members: of the `discrete` sites and the
    continuous ones that decide them. Sites are the model's own.

    Raises `ScheduleError` where a site is decided, and no update of both exists.
    """
    density: Density = facts.density
    key = ("crossing blocks", tuple(discrete))
    if key not in density.cache:
        density.cache[key] = _blocks(facts, density, discrete)
    return density.cache[key]


def decided_apart(facts: Facts, updates: Iterable[Update]) -> dict[str, str]:
    """What to tell of the updates of a schedule that somebody gave, by their first site: that continuous
    sites that they do not move along decide theirs, and what would."""
    latents = [n for n, s in facts.sites.items() if s.role == "latent" and s.discrete]
    if all(n in facts.density.latent_vars for n in latents):
        try:
            blocks = crossing_blocks(facts, latents)
        except ScheduleError as why:
            return {u.sites[0]: str(why) for u in updates if set(u.sites) & set(latents)}
        out = {}
        for u in updates:
            one = next((n for n in u.sites if n in latents and n in blocks), None)
            if one is not None and not set(blocks[one]) <= set(u.everything):
                others = ", ".join(n for n in blocks[one] if n not in latents)
                told = f"{one} and {others} decide each other: drawn in turn they never move"
                out[u.sites[0]] = f"{told}; use Crossing [{' '.join(blocks[one])}]"
        return out
    return {}


def _blocks(facts: Facts, density: Density, discrete: Collection[str]) -> dict[str, tuple[str, ...]]:
    near = {z: found for z in discrete if (found := _candidates(density, z))}
    if not near:
        return {}
    states = prior_states(facts, density, DECIDED_STATES)
    graph = nx.Graph()
    hard: dict[str, bool] = {}
    for z, candidates in near.items():
        decided = _decided(density, z, candidates, states)
        if decided is not None:
            deciding, hard[z] = decided
            graph.add_edges_from((z, x) for x in deciding)
    out: dict[str, tuple[str, ...]] = {}
    for component in nx.connected_components(graph):
        sites = tuple(n for n in density.latents if n in component)
        try:
            together(density, sites)
        except Refused as why:
            if any(hard.get(n) for n in sites):
                named = [n for n in sites if n in hard], [n for n in sites if n not in hard]
                raise _refusal(*named, why) from why
            continue  # against long odds, which verdicts tell
        out.update(dict.fromkeys(sites, sites))
    return out


def _refusal(discrete: list[str], continuous: list[str], why: Refused) -> ScheduleError:
    z, x = " and ".join(map(repr, discrete)), " and ".join(map(repr, continuous))
    return ScheduleError(
        f"{z} and {x} decide each other: given {x} only some values of {z} are possible, and given {z} "
        f"{x} stays where they are; drawn in turn they never move, and they cannot be drawn together: {why}. "
        f"Soften the constraint, write {z} as a deterministic function of {x}, or give a schedule"
    )


def _candidates(density: Density, z: str) -> dict[str, tuple[Any, ...]]:
    """The continuous latents that may decide `z`, each with the terms that both enter: supports that move,
    and terms of steps or with zeros."""
    site = density.sites[z]
    if int(np.prod(site.shape, dtype=np.int64)) > MOST_CROSSING:
        return {}
    found: dict[str, list[Any]] = {}
    terms = [t for t, _ in (*density.terms_of(z), *density.bounds_of(z))]
    for t in terms:
        near = [x for x in density.latents if x in density.maps.latents(t.atom)]
        moved = t.origin in near and t.origin != z and z in support_movers(density, t.origin)
        for x in [t.origin] if moved else near:  # what else bounds that one need not move along
            if x == z or density.sites[x].discrete:
                continue
            if moved or t.origin in blind_terms(density, x) or _has_zeros(density, t.atom, x):
                found.setdefault(x, []).append(t)
    return {x: tuple(ts) for x, ts in found.items()}


def _has_zeros(density: Density, atom: Any, x: str) -> bool:
    """Whether −∞ is written into what an array is computed from, `where(…, 0, -inf)`, and some comparison in
    it may come out either way by `x`: else `x` has no say in what is possible (the weights of a mixture)."""
    equations = [*equations_behind(density, [atom])]
    literals = (a.val for e in equations for a in e.invars if isinstance(a, Literal))
    compared = (v for e in equations for v in e.outvars if v.aval.dtype == bool)
    return any(
        np.ndim(v) == 0 and np.asarray(v).dtype.kind == "f" and v == -np.inf for v in literals
    ) and any(x in density.maps.latents(v) and range_of(density, v) != (1.0, 1.0) for v in compared)


def _decided(
    density: Density, z: str, candidates: Mapping[str, tuple[Any, ...]], states: Mapping[str, Any]
) -> tuple[tuple[str, ...], bool] | None:
    """Which of the candidates decide some element of `z`, and whether by zeros, not by long odds alone; None
    where none does."""
    support = listed(density, z, MOST_VALUES)
    if support is None:
        return None
    shape = density.sites[z].shape
    terms = tuple(dict.fromkeys(t for ts in candidates.values() for t in ts))
    values = jnp.asarray(support.values)
    data = tuple(density.arguments.arrays)
    size = int(np.prod(shape, dtype=np.int64))

    def one(state: Mapping[str, Any]) -> Any:
        now = state[z]

        def at(i: Any, value: Any) -> list[Any]:
            moved = now.ravel().at[i].set(value.astype(now.dtype)).reshape(shape)
            ev = density.evaluator({**state, z: moved}, data)
            parts = (t.contribution(ev.lazy(t.atom), ev.full) for t in terms)
            whole = [jnp.broadcast_to(p, t.shape) for p, t in zip(parts, terms, strict=True)]
            return [jnp.where(jnp.isnan(p), -jnp.inf, p).ravel() for p in whole]

        def of_element(i: Any) -> Any:
            found = []
            for whole in jax.vmap(lambda v: at(i, v))(values):
                # what is the same for all values is of other elements, which may be impossible by themselves
                own = jnp.any(whole != whole[:1], axis=0)
                found.append(jnp.sum(jnp.where(own, whole, 0.0), axis=1))
            return jnp.stack(found, axis=-1)

        return jax.vmap(of_element)(jnp.arange(min(size, LOOKED_AT)))

    def logits(at: Mapping[str, Any]) -> np.ndarray:
        """By state, element, value and term."""
        return np.asarray(once(lambda s: jax.lax.map(one, s), dict(at)), np.float64)

    deciding: list[str] = []
    hard, found = False, logits(states)
    for by_zeros in (True, False):
        for x, mine in candidates.items():
            columns = [terms.index(t) for t in mine]
            now = found[..., columns].sum(-1)
            if x in deciding or not _parted(now, by_zeros):
                continue
            # another latent of the same terms may be what decides: then the values of x in other states
            # leave the same ones possible
            other = logits({**states, x: jnp.roll(states[x], 1, axis=0)})[..., columns].sum(-1)
            if not np.array_equal(_likely(now, by_zeros), _likely(other, by_zeros)):
                deciding.append(x)
                hard |= by_zeros
    return (tuple(deciding), hard) if deciding else None


def _likely(logits: np.ndarray, by_zeros: bool) -> np.ndarray:
    """Which values an element may take: all that are possible, or those not against long odds."""
    top = logits.max(axis=-1, keepdims=True)
    return logits > (-np.inf if by_zeros else np.where(np.isfinite(top), top, np.inf) - LONG_ODDS)


def _parted(logits: np.ndarray, by_zeros: bool) -> bool:
    """Whether the values of some element, of logits `[state, element, value]`, fall into parts of which no
    state has two: no draw given the rest leads from one to another. `by_zeros`: the others being impossible,
    not against long odds alone."""
    likely = _likely(logits, by_zeros)
    known = np.isfinite(logits.max(axis=-1))
    for e in range(logits.shape[1]):
        rows = likely[known[:, e], e].astype(int)
        if len(rows) < LEAST_SEEN:
            continue
        occurring = np.flatnonzero(rows.any(axis=0))
        together = (rows.T @ rows)[np.ix_(occurring, occurring)]
        if not nx.is_connected(nx.from_numpy_array(together)):
            return True
    return False
