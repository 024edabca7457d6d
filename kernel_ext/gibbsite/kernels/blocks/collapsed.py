"""Updates of a discrete site with Gaussian sites integrated out, as a NumPyro kernel."""

from typing import Any

import jax.numpy as jnp

from gibbsite.conditional.forms.walk import Refused
from gibbsite.conditional.linear.collapsed import collapsed_block
from gibbsite.density import Density
from gibbsite.errors import ScheduleError
from gibbsite.kernels.blocks.finite import FiniteGibbs, Step


class Collapsed(FiniteGibbs):
    """Draw one discrete site with the Gaussian sites of its block integrated out, then these given it.

    For change points, indicators of coefficients, assignments to lines: whatever cannot move while the
    coefficients that go with it stay.

        Gibbs([(Collapsed(model), ["k", "slope", "level"]), (Slice(model), None)])

    Sites that are no such block are refused in `init`, with what stands in the way.
    """

    def _accept(self, density: Density) -> None:
        """Nothing is asked of the sites one by one."""

    def _steps_of(self, density: Density) -> list[Step]:
        try:
            block = collapsed_block(density, tuple(self._units))
        except Refused as why:
            raise ScheduleError(f"Collapsed cannot update {' and '.join(self._units)}: {why}") from why
        self._first = {block.site: block.support.values[0]}
        return [Step(density, block.update)]

    def _start(self, name: str) -> Any:
        assert self._density is not None
        return jnp.full(self._density.sites[name].shape, self._first.get(name, 0))
