"""Discrete starts that the data rule out, walked to possible ones by Gibbs passes over a softened density."""

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gibbsite.conditional import FiniteConditional, conditional_of
from gibbsite.conditional.reads.group import updated_together
from gibbsite.density import Density
from gibbsite.density.passes.soften import impossibilities, softened
from gibbsite.elimination import joint_marginal
from gibbsite.errors import ModelError
from gibbsite.ground.once import once
from gibbsite.plans.schedule.plan import Plan
from gibbsite.programs.evaluation.pieces import in_marked
from gibbsite.programs.jaxpr.compiling import ByShape

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


@once
def bounded(density: Density) -> dict[str, Any]:
    """The continuous latents that data or others bound, with their conditionals, where these are drawn from
    as they are: wherever the others start, there is a possible value."""
    read = {n for term in density.bounds for n in density.maps.latents(term.atom)}
    free = [n for n in density.latents if n in read and not density.sites[n].discrete]
    found = {n: conditional_of(density, n) for n in free}
    return {n: c for n, c in found.items() if c.kind == "conjugate"}


@once
def within_bounds(density: Density, names: Sequence[str]) -> ByShape:
    """Keys, values `[chain, *shape]` of all latents and the data → the values with those of `names`, which
    are `bounded`, drawn given the others, one after another."""
    conditionals = {n: bounded(density)[n] for n in names}

    def drawn(key: Any, z: Mapping[str, Any], data: Any) -> dict[str, Any]:
        out = dict(z)
        for i, (name, conditional) in enumerate(conditionals.items()):
            packed = {n: v for n, v in density.packed(out).items() if n in density.latent_vars}
            out[name] = conditional.update(jax.random.fold_in(key, i), packed, data)
        return out

    return ByShape(jax.vmap(drawn, in_axes=(0, 0, None)))


@once
def drawn_jointly(density: Density, sites: Sequence[str]) -> ByShape | None:
    """Keys, values `[chain, *shape]` of all latents and the data → the values with discrete `sites` drawn as
    one given the others, which need not be possible before; None where they cannot be."""
    marginal = joint_marginal(density, sites)
    if isinstance(marginal, str):
        return None

    def drawn(key: Any, z: Mapping[str, Any], data: Any) -> dict[str, Any]:
        found = marginal.draw_at(key, {n: v for n, v in z.items() if n not in sites}, data)
        return {n: jnp.asarray(found.get(n, v), v.dtype) for n, v in z.items()}

    return ByShape(jax.vmap(drawn, in_axes=(0, 0, None)))


class Repair:
    """Gibbs passes over the `units` of a density, softened, for the chains that need them.

    Every unit is drawn from its table, which is defined where the density is not: an impossible element costs
    a penalty, and the penalty rises and falls from pass to pass (simulated annealing in rounds).
    """

    def __init__(self, density: Density, units: Mapping[str, tuple[str, ...]]):
        self._density, self._units = density, units
        soft = softened(density)
        self._conditionals = {u: conditional_of(soft, u) for u in units}
        self._pass, self._count = ByShape(self._swept), ByShape(self._counted)

    def _swept(self, keys: Any, z: Mapping[str, Any], penalty: Any, inputs: Any) -> dict[str, Any]:
        def swept(key: Any, z: Mapping[str, Any]) -> dict[str, Any]:
            out, data = dict(z), (*inputs, penalty)
            for n, (unit, members) in enumerate(self._units.items()):
                conditional: Any = self._conditionals[unit]
                density = conditional.density
                packed = {k: v for k, v in density.packed(out).items() if k in density.latent_vars}
                drawn = conditional.update(jax.random.fold_in(key, n), packed, data)
                out.update({m: drawn if unit in members else drawn[i] for i, m in enumerate(members)})
            return {k: jnp.asarray(v, z[k].dtype) for k, v in out.items()}

        return jax.vmap(swept)(keys, z)

    def _counted(self, z: Mapping[str, Any], inputs: Any) -> dict[str, Any]:
        return jax.vmap(partial(impossibilities, self._density), in_axes=(0, None))(z, inputs)

    def violations(self, values: Mapping[str, Any], inputs: Any) -> dict[str, np.ndarray]:
        """How many elements of each site or factor are impossible, by chain, at these `inputs`."""
        return {n: np.asarray(v) for n, v in self._count(dict(values), inputs).items()}

    def __call__(
        self, key: Any, values: Mapping[str, Any], inputs: Any, joint: Sequence[Sequence[str]] = ()
    ) -> tuple[dict[str, Any], int]:
        """Values `[chain, *shape]` with as few impossibilities as were found, and how many passes it took.
        Sites that are drawn as one, `joint`, are drawn so first."""
        now = {n: jnp.asarray(v) for n, v in values.items()}
        best, least = now, _total(self.violations(now, inputs))
        chains = len(least)
        for n, sites in enumerate(joint):
            draw = drawn_jointly(self._density, tuple(sites)) if least.any() else None
            if draw is not None:
                keys = jax.random.split(jax.random.fold_in(key, PASSES + n), chains)
                other = draw(keys, best, inputs)
                count = _total(self.violations(other, inputs))
                best = {k: in_marked(count < least, other[k], v) for k, v in best.items()}
                least = np.minimum(count, least)
        now = best
        for done in range(PASSES):
            if not least.any():
                return best, done
            penalty = jnp.asarray(_PENALTIES[done % len(_PENALTIES)], jnp.float32)
            keys = jax.random.split(jax.random.fold_in(key, done), chains)
            now = self._pass(keys, now, penalty, inputs)
            count = _total(self.violations(now, inputs))
            better = count < least
            least = np.minimum(count, least)
            best = {n: in_marked(better, now[n], v) for n, v in best.items()}
        return best, PASSES


@once
def repair_of(density: Density, units: Sequence[tuple[str, tuple[str, ...]]]) -> Repair:
    """That of a density over these units, kept with its programs: every run may start with it."""
    return Repair(density, dict(units))


def _total(counts: Mapping[str, np.ndarray]) -> np.ndarray:
    return np.sum(list(counts.values()), axis=0)
