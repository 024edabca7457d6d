"""Updates that are exact draws → one sweep as a function, to be counted or tried without a run."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from numpyro.distributions.transforms import biject_to
from numpyro.infer.gibbs import GIBBS_SITES_KWARG

from gibbsite.conditional.reads.support import finite_support
from gibbsite.density import Density
from gibbsite.kernels.blocks.finite import INPUTS_KWARG, Exact, FiniteGibbsState
from gibbsite.plans.schedule.parse import Update
from gibbsite.plans.schedule.registry import Facts, find_kernel
from gibbsite.programs.jaxpr.compiling import once

_RADIUS = 2.0


class Sweep:
    """The `updates`, all of them exact draws, in order.

    Raises `ValueError` for another kind of update.
    """

    def __init__(self, facts: Facts, updates: Sequence[Update]):
        self.density: Density = facts.density
        self.sites = tuple(n for u in updates for n in u.sites)
        self._blocks = [(_kernel(facts, u), u.sites) for u in updates]

    def __call__(self, key: Any, state: Mapping[str, Any], inputs: Any) -> dict[str, Any]:
        """The values by site after a sweep from `state`; pure."""
        values = dict(state)
        for (kernel, own), k in zip(self._blocks, jax.random.split(key, len(self._blocks)), strict=True):
            others = {n: v for n, v in values.items() if n not in own}
            block = FiniteGibbsState({n: values[n] for n in own}, k)
            moved = kernel.sample(block, (), {INPUTS_KWARG: inputs, GIBBS_SITES_KWARG: others})
            values |= moved.z
        return values

    def starts(self, seed: int, chains: int) -> dict[str, np.ndarray]:
        """Values by site, `[chains, *shape]`: continuous ones uniform between −2 and 2 where they have no
        constraint, discrete ones any of those listed."""
        rng, out = np.random.default_rng(seed), {}
        free: dict[str, np.ndarray] = {}
        for name in self.sites:
            site = self.density.sites[name]
            shape = (chains, *site.shape)
            listed = finite_support(self.density, name) if site.discrete else None
            if listed is not None:
                of = rng.integers(listed.size, size=(chains, *listed.elements))
                out[name] = np.asarray(listed.values)[of].reshape(shape).astype(site.dtype)
                continue
            inverse = biject_to(site.support).inverse_shape(site.shape)
            free[name] = rng.uniform(-_RADIUS, _RADIUS, (chains, *inverse)).astype(site.dtype)

        def constrained(free: Mapping[str, Any]) -> dict[str, Any]:
            sites = {n: self.density.sites[n] for n in free}
            return {n: biject_to(s.support)(free[n]).astype(s.dtype) for n, s in sites.items()}

        return {**out, **{n: np.asarray(v) for n, v in once(constrained, free).items()}}


def is_exact(update: Update) -> bool:
    """Whether an update is drawn as a whole, with nothing to be learnt."""
    return update.kernel in ("Gibbs", "Conjugate", "Collapsed", "PolyaGamma") and not update.eliminated


def _kernel(facts: Facts, update: Update) -> Exact:
    row, density = find_kernel(update.kernel), facts.density
    if row is None or not is_exact(update):
        raise ValueError(f"{update} is not an exact draw")
    kernel = row.build(facts, update.sites, dict(update.options))
    assert isinstance(kernel, Exact)
    start = {n: np.zeros(density.sites[n].shape, density.sites[n].dtype) for n in update.sites}
    kernel.init(jax.random.key(0), 0, start, (), {INPUTS_KWARG: facts.inputs})
    return kernel
