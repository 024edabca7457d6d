"""Discrete starts that the data rule out, walked to possible ones by Gibbs passes over a softened density."""

from collections.abc import Collection, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gibbsite.conditional import FiniteConditional, conditional_of
from gibbsite.conditional.reads.group import updated_together
from gibbsite.density import Density
from gibbsite.density.passes.soften import impossibilities, softened
from gibbsite.errors import ModelError
from gibbsite.plans.schedule.plan import Plan

PASSES = 60
# a pass under a low penalty wanders, one under a high penalty goes downhill: rounds of both
_PENALTIES = (3.0, 6.0, 12.0, 24.0, 48.0, 96.0)


def repairable(plan: Plan, fixed: Collection[str]) -> dict[str, tuple[str, ...]]:
    """The discrete latents with tables, as units of update, but for those in `fixed`."""
    density = plan.density
    if density is None:
        return {}
    free = [n for n in density.latents if density.sites[n].discrete and n not in fixed]
    units = updated_together(density, free)
    return {u: m for u, m in units.items() if _tabulated(softened(density), u)}


def _tabulated(density: Density, unit: str) -> bool:
    try:
        return isinstance(conditional_of(density, unit), FiniteConditional)
    except ModelError:
        return False  # a support that moves has no table


def bounded(plan: Plan, fixed: Collection[str]) -> dict[str, Any]:
    """The continuous latents that data or others bound, with their conditionals, where these are drawn from
    as they are: wherever the others start, there is a possible value. Those in `fixed` are left out."""
    density = plan.density
    if density is None:
        return {}
    read = {n for term in density.bounds for n in density.maps.latents(term.atom)}
    free = [n for n in density.latents if n in read and not density.sites[n].discrete and n not in fixed]
    found = {n: conditional_of(density, n) for n in free}
    return {n: c for n, c in found.items() if c.kind == "conjugate"}


def within_bounds(
    plan: Plan, conditionals: Mapping[str, Any], key: Any, values: Mapping[str, Any]
) -> dict[str, Any]:
    """Values `[chain, *shape]` of all latents, with those of `conditionals` drawn given the others, one after
    another."""
    density = plan.density
    assert density is not None

    def drawn(key: Any, z: Mapping[str, Any], data: Any) -> dict[str, Any]:
        out = dict(z)
        for i, (name, conditional) in enumerate(conditionals.items()):
            packed = {n: v for n, v in density.packed(out).items() if n in density.latent_vars}
            out[name] = conditional.update(jax.random.fold_in(key, i), packed, data)
        return out

    now = {n: jnp.asarray(v) for n, v in values.items()}
    keys = jax.random.split(key, len(next(iter(now.values()))))
    return dict(jax.jit(jax.vmap(drawn, in_axes=(0, 0, None)))(keys, now, plan.inputs["data"]))


class Repair:
    """Gibbs passes over the `units` of a plan's softened density, for the chains that need them.

    Every unit is drawn from its table, which is defined where the density is not: an impossible element costs
    a penalty, and the penalty rises and falls from pass to pass (simulated annealing in rounds).
    """

    def __init__(self, plan: Plan, units: Mapping[str, tuple[str, ...]]):
        density = plan.density
        assert density is not None
        self._density, self._units, self._inputs = density, units, plan.inputs["data"]
        soft = softened(density)
        self._conditionals = {u: conditional_of(soft, u) for u in units}
        self._pass: Any = jax.jit(jax.vmap(self._swept, in_axes=(0, 0, None, None)))
        self._count: Any = jax.jit(
            jax.vmap(lambda z, data: impossibilities(density, z, data), in_axes=(0, None))
        )

    def _swept(self, key: Any, z: Mapping[str, Any], penalty: Any, inputs: Any) -> dict[str, Any]:
        out, data = dict(z), (*inputs, penalty)
        for n, (unit, members) in enumerate(self._units.items()):
            conditional: Any = self._conditionals[unit]
            density = conditional.density
            packed = {k: v for k, v in density.packed(out).items() if k in density.latent_vars}
            drawn = conditional.update(jax.random.fold_in(key, n), packed, data)
            out.update({m: drawn if unit in members else drawn[i] for i, m in enumerate(members)})
        return {k: jnp.asarray(v, z[k].dtype) for k, v in out.items()}

    def violations(self, values: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """How many elements of each site or factor are impossible, by chain."""
        return {n: np.asarray(v) for n, v in self._count(dict(values), self._inputs).items()}

    def __call__(self, key: Any, values: Mapping[str, Any]) -> tuple[dict[str, Any], int]:
        """Values `[chain, *shape]` with as few impossibilities as were found, and how many passes it took."""
        now = {n: jnp.asarray(v) for n, v in values.items()}
        best, least = now, _total(self.violations(now))
        chains = len(least)
        for done in range(PASSES):
            if not least.any():
                return best, done
            penalty = jnp.asarray(_PENALTIES[done % len(_PENALTIES)], jnp.float32)
            now = self._pass(
                jax.random.split(jax.random.fold_in(key, done), chains), now, penalty, self._inputs
            )
            count = _total(self.violations(now))
            better = count < least
            least = np.minimum(count, least)
            best = {n: _where(better, now[n], v) for n, v in best.items()}
        return best, PASSES


def _total(counts: Mapping[str, np.ndarray]) -> np.ndarray:
    return np.sum(list(counts.values()), axis=0)


def _where(chains: np.ndarray, new: Any, old: Any) -> Any:
    return jnp.where(chains.reshape(-1, *(1,) * (jnp.ndim(old) - 1)), new, old)
