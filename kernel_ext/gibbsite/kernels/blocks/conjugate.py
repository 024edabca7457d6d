"""Exact updates of sites with certified conjugate conditionals as a NumPyro kernel."""

from typing import Any

import jax.numpy as jnp

from gibbsite.conditional.linear.choose import Together, together
from gibbsite.density import Density
from gibbsite.errors import ScheduleError
from gibbsite.kernels.blocks.finite import FiniteGibbs, Step, one_site


class ConjugateGibbs(FiniteGibbs):
    """Draw continuous sites from their certified conjugate conditionals, whole sites at a time.

    Works on any NumPyro model, on its own where every latent is conjugate, or as a block:

        Gibbs([(ConjugateGibbs(model), ["mu"]), (NUTS(model), None)])

    Sites of one block that are coupled are drawn as one Gaussian where they are that together, else in turn;
    `joint` True insists, False forbids. A site without a certified conditional is refused in `init`, with
    the expression that stands in the way.
    """

    _kinds = ("conjugate",)

    def _steps_of(self, density: Density) -> list[Step]:
        alone = {unit: one_site(unit, self._conditionals[unit]) for unit in self._units}
        if len(alone) < 2 or self._joint_wanted is False:
            return list(alone.values())
        found = together(density, list(self._units))
        if self._joint_wanted and found.refused:
            raise ScheduleError(refusal(found))
        drawn = {s for j in found.joint for s in j.sites}
        return [Step(density, j.update, j.told) for j in found.joint] + [
            step for unit, step in alone.items() if unit not in drawn
        ]

    def _start(self, name: str) -> Any:
        site = self._conditionals[name].density.sites[name]
        return site.support.feasible_like(jnp.zeros(site.shape, site.dtype))


def refusal(found: Together) -> str:
    """Why a block of conjugate sites cannot be drawn jointly, and the way out."""
    sites, why = next(iter(found.refused.items()))
    in_turn = " (*) ".join(f"Conjugate {s}" for s in sites)
    return f"{' and '.join(sites)} cannot be drawn jointly: {why}; draw them in turn: {in_turn}"
