"""Exact updates of sites with certified conjugate conditionals as a NumPyro kernel."""

from typing import Any

import jax.numpy as jnp

from gibbsite.conditional.conjugate.certify import ConjugateConditional
from gibbsite.conditional.conjugate.dynamic import DynamicConditional
from gibbsite.conditional.conjugate.wishart import WishartConditional
from gibbsite.conditional.gaussian.joint import GaussianConditional
from gibbsite.kernels.blocks.finite import FiniteGibbs


class ConjugateGibbs(FiniteGibbs):
    """Draw continuous sites from their certified conjugate conditionals, whole sites at a time.

    Works on any NumPyro model, on its own where every latent is conjugate, or as a block:

        Gibbs([(ConjugateGibbs(model), ["mu"]), (NUTS(model), None)])

    Several sites in one block are updated in turn. A site without a certified conditional is refused in
    `init`, with the expression that stands in the way.
    """

    _accepted = (ConjugateConditional, DynamicConditional, GaussianConditional, WishartConditional)  # type: ignore[assignment]

    def _start(self, name: str) -> Any:
        site = self._conditionals[name].density.sites[name]
        return site.support.feasible_like(jnp.zeros(site.shape, site.dtype))
