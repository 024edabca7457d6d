"""Pólya-gamma updates of linear predictors of logistic likelihoods as a NumPyro kernel."""

from typing import Any

import jax.numpy as jnp

from gibbsite.conditional.forms.walk import Refused
from gibbsite.conditional.linear.polya_gamma import polya_gamma_block
from gibbsite.density import Density
from gibbsite.errors import ScheduleError
from gibbsite.kernels.blocks.finite import FiniteGibbs, Step


class PolyaGamma(FiniteGibbs):
    """Draw the Gaussian sites of a logistic regression jointly, given Pólya-gamma variates drawn within.

    For Bernoulli, binomial, geometric and negative binomial likelihoods whose logits are linear in sites with
    Gaussian priors: coefficients, intercepts, random effects and their means in one block.

        Gibbs([(PolyaGamma(model), ["b", "effects"]), (NUTS(model), None)])

    Sites that are no such thing are refused in `init`, with what stands in the way.
    """

    def _accept(self, density: Density) -> None:
        """Nothing is asked of the sites one by one."""

    def _steps_of(self, density: Density) -> list[Step]:
        try:
            block = polya_gamma_block(density, tuple(self._units))
        except Refused as why:
            raise ScheduleError(f"PolyaGamma cannot update {' and '.join(self._units)}: {why}") from why
        return [Step(density, block.update)]

    def _start(self, name: str) -> Any:
        assert self._density is not None
        return jnp.zeros(self._density.sites[name].shape)
