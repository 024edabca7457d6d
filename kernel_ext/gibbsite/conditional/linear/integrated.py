"""The log density of other sites with Gaussian sites integrated out."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp

from gibbsite.conditional.linear.joint import JointGaussian
from gibbsite.density import Density


class IntegratedOut:
    """The log density of `outer` sites with those of `gaussian` integrated out, up to a constant.

    It is the density at the Gaussian sites' mean, over the root of the determinant of their precision (George
    and McCulloch 1997, "Approaches for Bayesian variable selection", §4.2).
    """

    def __init__(self, density: Density, outer: Sequence[str], gaussian: JointGaussian):
        self.density, self.gaussian = density, gaussian
        sites = {*outer, *gaussian.sites}
        self._terms = [
            t
            for i, t in enumerate(density.terms)
            if i not in gaussian.without and not density.maps.latents(t.atom).isdisjoint(sites)
        ]

    def logdensity(
        self, latents: Mapping[str, Any], data: Any, auxiliary: Mapping[str, Any] | None = None
    ) -> Any:
        """At latent values by site, of which those of the Gaussian sites do not count; a scalar, −inf where
        it is undefined."""
        mean, factor, _ = self.gaussian.solved(latents, data, auxiliary)
        ev = self.density.evaluator({**latents, **self.gaussian.values(mean)}, data)
        total = self.gaussian.replaced_at(ev, auxiliary or {}) - factor.half_log_det
        for term in self._terms:
            part = term.contribution(ev.full(term.atom), ev.full)
            total = total + jnp.sum(jnp.broadcast_to(part, term.shape))
        return jnp.where(jnp.isnan(total), -jnp.inf, total)
