"""Discrete sites that had one value in every draw of every chain, although their priors let them vary."""

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from gibbsite.conditional.reads.support import finite_support
from gibbsite.density import Density
from gibbsite.diagnostics.measures.moments import Moments
from gibbsite.diagnostics.measures.snapshot import Notice
from gibbsite.errors import ModelError
from gibbsite.plans.schedule.plan import Plan

TOPIC = "stake"
_UNLIKELY = -12.0
"""Log odds against what a prior does not let happen: NumPyro makes such of probabilities of 0 and 1."""
_MOST_VALUES = 64
_MOST_NAMED = 3


def never_at_stake(plan: Plan, moments: Moments, draws: Mapping[str, np.ndarray]) -> list[Notice]:
    """A notice of the discrete latents that the data inform, no element of which ever moved, in any chain,
    and which are the same in all: that their other values have no chance is what such a run cannot tell
    apart from never having been where they have one. `draws` are `[chain, draw, *shape]`."""
    found = []
    for site, m in moments.sites.items():
        members = plan.groups.get(site, (site,))
        info = plan.sites.get(site) or plan.sites[members[0]]
        if info.role != "latent" or not info.discrete or not m.unmoved.size:
            continue
        predicted = {site, *members} & set(plan.generated)
        owned = any(site in g for n, g in plan.groups.items() if n in moments.sites and n != site)
        if predicted or owned or not _constant(draws[site]):
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
        value = draws[found[0]][0, 0].item()
        text = f"{found[0]} was never at stake: it is {value:g} in all draws of all chains"
    hint = (
        "its other values had no chance beside the other sites as they were: if the data alone do not decide "
        "it, start chains at another value (init=…), or sum it out"
    )
    return [Notice(text, hint, TOPIC, tuple(found))]


def _constant(x: np.ndarray) -> bool:
    return x.shape[1] > 1 and bool((x == x[:1, :1]).all())


def _lets_vary(density: Density | None, site: str, draws: Mapping[str, np.ndarray]) -> bool:
    """Whether the site's own statement gives any element another value a chance, its parents being those of
    the last draw of the first chain; True where that cannot be seen."""
    if density is None:
        return True
    packed = {n: x[0, -1] for n, x in draws.items()}
    state = {n: v for n, v in density.packed(packed).items() if n in density.latent_vars}
    if site not in state or set(state) != set(density.latent_vars):
        return True
    try:
        support = finite_support(density, site)
    except ModelError:
        return True
    if support is None or support.values.ndim > 1 or support.size > _MOST_VALUES:
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
    return bool(((tables > top + _UNLIKELY).sum(axis=0) > 1).any())
