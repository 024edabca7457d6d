"""Draws forward through the model, for what nothing outside the block depends on."""

from collections.abc import Mapping
from typing import Any

import jax

from gibbsite.kernels.base import SiteKernel, StepInfo, step_info
from gibbsite.kernels.blocks.target import Target, Values


class Ancestral(SiteKernel):
    """Every site from its own statement, parents first: independent exact draws.

    Right only where no observation and no factor depends on the block, and no other latent does: schedules
    check it.
    """

    def check(self, name: str, site: Mapping[str, Any]) -> None:
        """Takes any site."""

    def step(
        self, key: jax.Array, z: Values, tuning: Any, target: Target, adapting: jax.Array
    ) -> tuple[dict[str, jax.Array], Any, StepInfo]:
        """One draw."""
        return target.draw_prior(key, z), tuning, step_info()
