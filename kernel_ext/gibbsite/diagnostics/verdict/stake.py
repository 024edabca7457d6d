"""Discrete sites that had one value in every draw of every chain, although their priors let them vary."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gibbsite.conditional import conditional_of
from gibbsite.conditional.reads.support import listed
from gibbsite.density import Density
from gibbsite.density.terms import summed
from gibbsite.diagnostics.measures.moments import Moments
from gibbsite.diagnostics.measures.snapshot import Notice
from gibbsite.elimination.tables.consistency import decided
from gibbsite.plans.candidates.limits import LONG_ODDS
from gibbsite.plans.schedule.plan import Plan, drawn_as_one, switches_apart
from gibbsite.programs.jaxpr.compiling import once

TOPIC, HELD, FORMS = "stake", "held", "forms"
_MOST_VALUES = 64
_MOST_NAMED = 3
_LOOKED_AT = 64
"""Elements that never moved that are looked at one by one."""
_FEW, _MANY = 3, 400  # draws: of another value, and in all
ONE_BY_ONE = ("Gibbs", "Window", "RandomWalk")
"""Kernels that draw the elements of a site that meet in a term one after another."""


def never_at_stake(plan: Plan, moments: Moments, draws: Mapping[str, np.ndarray]) -> list[Notice]:
    """A notice of the discrete latents that the data inform, no element of which ever moved, in any chain,
    and which are the same in all: that their other values have no chance is what such a run cannot tell
    apart from never having been where they have one. Of a site of one element nor do a few draws of another
    value, beside what was drawn with the first. `draws` are `[chain, draw, *shape]`."""
    found = []
    summed_out = plan.eliminated
    for site, m in moments.sites.items():
        members = plan.groups.get(site, (site,))
        info = plan.sites.get(site) or plan.sites[members[0]]
        if info.role != "latent" or not info.discrete:
            continue
        predicted = {site, *members} & set(plan.generated)
        owned = any(site in g for n, g in plan.groups.items() if n in moments.sites and n != site)
        still = m.unmoved.size and _constant(draws[site])
        if predicted or owned or not (still or (site in summed_out and _hardly(draws[site]))):
            continue
        if _lets_vary(plan.density, site, draws):
            found.append(site)
    if not found:
        return []
    names = ", ".join(found[:_MOST_NAMED]) + (", …" if len(found) > _MOST_NAMED else "")
    was, has = ("was", "it has one value") if len(found) == 1 else ("were", "they have one value each")
    text = f"{names} {was} never at stake: {has} in all draws of all chains"
    single = [n for n in found if draws[n][0, 0].size == 1]
    if len(found) == 1 and single:
        values, counts = np.unique(draws[found[0]], return_counts=True)
        value, rest = values[counts.argmax()], int(counts.sum() - counts.max())
        text = f"{found[0]} was never at stake: it is {value:g} in all draws of all chains"
        if rest:
            text = f"{found[0]} was hardly at stake: it is {value:g} in all draws but {rest}"
    hint = (
        "its other values had no chance beside the other sites as they were: if the data alone do not decide "
        "it, start chains at another value (init=…), or sum it out"
    )
    if found[0] in summed_out:
        hint = (
            "where the other sites are, its other values have no chance, summed out as it is: if the data "
            "alone do not decide it, start chains where another value fits (init= of what it decides)"
        )
    if len(found) == 1 and found[0] in switches_apart(plan):
        text += ", and what another form has is drawn from its prior meanwhile, where it fits nothing"
        return [Notice(text, structures_of(found), FORMS, tuple(found))]
    return [Notice(text, hint, TOPIC, tuple(found))]


def structures_of(sites: Sequence[str]) -> str:
    """The schedule whose chains go between the values of some sites as between structures, in words."""
    return f"let chains go between its values as between structures: the schedule Structure {' '.join(sites)}"


def _constant(x: np.ndarray) -> bool:
    return x.shape[1] > 1 and bool((x == x[:1, :1]).all())


def _hardly(x: np.ndarray) -> bool:
    """Whether one number has so few draws of any value but one that they are an excursion, not a share."""
    if x[0, 0].size != 1 or x.size < _MANY:
        return False
    return x.size - np.unique(x, return_counts=True)[1].max() <= _FEW


def _lets_vary(density: Density | None, site: str, draws: Mapping[str, np.ndarray]) -> bool:
    """Whether the site's own statement gives any element another value a chance, its parents being those of
    the last draw of the first chain; True where that cannot be seen."""
    if density is None:
        return True
    packed = {n: x[0, -1] for n, x in draws.items()}
    state = {n: v for n, v in density.packed(packed).items() if n in density.latent_vars}
    if site not in state or set(state) != set(density.latent_vars):
        return True
    support = listed(density, site, _MOST_VALUES)
    if support is None:
        return True
    terms = [t for t in (*density.terms, *density.bounds) if t.origin == site]
    now = np.asarray(state[site])
    one = now.size == 1

    def total(value: Any) -> np.ndarray:
        ev = density.evaluator({**state, site: jnp.full(now.shape, value, now.dtype)})
        parts = [t.contribution(ev.lazy(t.atom), ev.full) for t in terms]
        if one or any(t.shape != now.shape for t in terms):
            return np.asarray(
                sum(jnp.sum(jnp.broadcast_to(p, t.shape)) for p, t in zip(parts, terms, strict=True))
            )
        return np.asarray(sum(jnp.broadcast_to(p, t.shape) for p, t in zip(parts, terms, strict=True)))

    tables = np.stack([total(v) for v in support.values])
    top = tables.max(axis=0)
    # of probabilities of 0 and 1 NumPyro makes such odds
    return bool(((tables > top - LONG_ODDS).sum(axis=0) > 1).any())


def held_by_each_other(plan: Plan, draws: Mapping[str, np.ndarray]) -> list[Notice]:
    """A notice of discrete latents that are drawn one element at a time, of which elements had one value in
    all draws of all chains that is not their own data's doing: what they meet other discrete elements in
    rules other values out, and these never moved either. Such draws cannot tell a posterior of one point from
    one that single moves do not get through (a Latin square, a table whose margins are known)."""
    density = plan.density
    if density is None:
        return []
    last = density.packed({n: x[0, -1] for n, x in draws.items()})
    state = {n: np.asarray(last[n]) for n in density.latent_vars if n in last}
    if set(state) != set(density.latent_vars):
        return []
    held = {}
    for block in plan.blocks:
        if block.kernel in ONE_BY_ONE and not drawn_as_one(density, block):
            for site in (s for s in block.sites if s in state and s not in block.eliminated):
                stuck, share = _stuck(density, site, state, draws)
                if len(stuck):
                    held[site] = stuck, share
    one_value = decided(density, state, LONG_ODDS) if held else {}
    found = []
    for site, (stuck, share) in held.items():
        size = int(state[site].size)
        left = stuck[~one_value[site][stuck]] if site in one_value else stuck
        if number := round(len(left) * share):
            found.append((site, f"{number} of {size} elements of {site}" if size > 1 else site))
    if not found:
        return []
    names = ", ".join(text for _, text in found[:_MOST_NAMED]) + (", …" if len(found) > _MOST_NAMED else "")
    text = (
        f"{names} never moved: where the discrete values beside them stay as they are, no other value of "
        f"theirs has a chance, and one at a time they cannot change together"
    )
    hint = (
        "if the data alone do not decide them, draw what holds each other as one (Gibbs(joint=True), or "
        "Eliminate), soften the constraint, or write as the latent what is free in it"
    )
    return [Notice(text, hint, HELD, tuple(s for s, _ in found))]


def _stuck(
    density: Density, site: str, state: Mapping[str, np.ndarray], draws: Mapping[str, np.ndarray]
) -> tuple[np.ndarray, float]:
    """Flat indices of elements of a site that never moved and are held by other discrete elements, and for
    how many each of them stands."""
    own, shared = [], []
    for term, accesses in (*density.terms_of(site), *density.bounds_of(site)):
        others = any(density.sites[n].discrete and n != site for n in density.maps.latents(term.atom))
        alone = len(accesses) == 1 and accesses[0].single and not others
        (own if alone else shared).append(term)
    nothing = np.zeros(0, int), 1.0
    if not shared or conditional_of(density, site).kind == "chain":
        return nothing
    still = _never_moved(np.asarray(density.packed(_of(density, site, draws), 2)[site]))
    if not still.size:
        return nothing
    values = _other_values(density, site)
    now = jnp.asarray(state[site])
    looked_at = still[np.linspace(0, len(still) - 1, min(len(still), _LOOKED_AT)).astype(int)]

    def heights(element: Any, value: Any) -> tuple[Any, Any]:
        moved = now.ravel().at[element].set(value.astype(now.dtype)).reshape(now.shape)
        ev = density.evaluator({**state, site: moved})
        return summed(own, ev), summed(shared, ev)

    def changes(element: Any) -> Any:
        at = now.ravel()[element]
        alone, beside = heights(element, at)
        tried = jax.vmap(lambda v: heights(element, v))(values(at))
        lost = [jnp.nan_to_num(t - h, nan=-jnp.inf) for t, h in zip(tried, (alone, beside), strict=True)]
        other = values(at) != at
        return jnp.any(other & (lost[0] > -LONG_ODDS)) & ~jnp.any(other & (lost[0] + lost[1] > -LONG_ODDS))

    held = np.asarray(once(lambda e: jax.lax.map(changes, e), jnp.asarray(looked_at)))
    return looked_at[held], len(still) / len(looked_at)


def _of(density: Density, site: str, draws: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {n: draws[n] for n in (site, *density.members.get(site, ())) if n in draws}


def _never_moved(x: np.ndarray) -> np.ndarray:
    """Flat indices of the elements of `[chain, draw, *shape]` that are the same in all of them."""
    flat = x.reshape(*x.shape[:2], -1)
    found = np.flatnonzero((flat[:, -1] == flat[:1, 0]).all(axis=0))  # most have moved by then
    return found[(flat[..., found] == flat[:1, :1, found]).all(axis=(0, 1))]


def _other_values(density: Density, site: str) -> Callable[[Any], Any]:
    """What an element may be instead: all that are listed, or those beside it."""
    support = listed(density, site, _MOST_VALUES)
    if support is None:
        return lambda now: now + jnp.array([-2, -1, 1, 2])
    values = jnp.asarray(support.values)
    return lambda now: values
