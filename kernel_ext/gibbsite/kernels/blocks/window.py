"""Updates of integers without end as a NumPyro kernel."""

from typing import Any

import jax.numpy as jnp

from gibbsite.conditional.finite.window import window_draw
from gibbsite.conditional.forms.walk import Refused
from gibbsite.density import Density
from gibbsite.errors import ScheduleError
from gibbsite.kernels.blocks.finite import FiniteGibbs, Step, one_site


class WindowGibbs(FiniteGibbs):
    """Draw integer sites of infinite support (Poisson, geometric, negative binomial) from tables over windows
    placed at random around their values: exact, nothing is cut off.

        Gibbs([(WindowGibbs(model), ["k"]), (NUTS(model), None)])

    Elements that are independent, or that colours keep apart, are drawn at once. Other sites are refused in
    `init`, with what stands in the way.
    """

    def _accept(self, density: Density) -> None:
        """Nothing is asked of the sites but what `_steps_of` asks."""

    def _steps_of(self, density: Density) -> list[Step]:
        steps = []
        for unit in self._units:
            try:
                steps.append(one_site(unit, window_draw(density, unit)))
            except Refused as why:
                raise ScheduleError(f"Window cannot update {unit!r}: {why}") from why
        return steps

    def _start(self, name: str) -> Any:
        site = self._steps[list(self._units).index(name)].density.sites[name]
        return site.support.feasible_like(jnp.zeros(site.shape, site.dtype))
