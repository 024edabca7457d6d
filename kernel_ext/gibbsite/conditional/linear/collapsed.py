"""Sites drawn with Gaussian sites integrated out, then these given them.

Where the value of a discrete site goes with coefficients that fit it (a change point and the lines on both
sides, an indicator and the coefficient that it lets in), draws in turn hardly move, or never; and given few
effects, their scale moves little. Such sites are drawn first, each of their elements given the others, from
their density with the Gaussian sites integrated out, and these jointly right after: nothing in between is
drawn given values of the Gaussian sites that belong to other values of theirs (van Dyk and Park 2008,
"Partially collapsed Gibbs samplers").
"""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from gibbsite.conditional.dispatch import conditional_of
from gibbsite.conditional.forms.walk import Refused
from gibbsite.conditional.linear.collapsed_sites import outer_site
from gibbsite.conditional.linear.joint import JointGaussian, is_gaussian, joint_gaussian
from gibbsite.conditional.update import Drawn, Update
from gibbsite.density import Density
from gibbsite.density.terms import summed
from gibbsite.ground.once import once


class CollapsedDraw(Update):
    """The update of `outer` sites with those of `gaussian` integrated out, and of these given them."""

    measured = True

    def __init__(self, density: Density, outer: Sequence[str], gaussian: JointGaussian):
        self.density, self.gaussian = density, gaussian
        self.outer = tuple(outer_site(density, s) for s in outer)
        self.sites, self.eliminated = (*outer, *gaussian.sites), gaussian.sites
        self._terms = [
            t
            for i, t in enumerate(density.terms)
            if i not in gaussian.without and not density.maps.latents(t.atom).isdisjoint(self.sites)
        ]
        self.evaluations = sum(s.evaluations for s in self.outer)
        inner = " and ".join(gaussian.sites)
        told = "; ".join(f"{s.site} is {s.told} with {inner} integrated out" for s in self.outer)
        swept = [s for s in self.outer if s.elements > 1]
        told += "".join(f"; the {s.elements} elements of {s.site} one after another" for s in swept)
        self.reason = f"{told}; then {gaussian.reason}"
        self.cost = f"{self.evaluations} + 1 times ({gaussian.cost})"

    def logdensity(
        self, latents: Mapping[str, Any], data: Any, auxiliary: Mapping[str, Any] | None = None
    ) -> Any:
        """The log density of the outer sites, up to a constant, at latent values by site: a scalar, −inf
        where it is undefined.

        It is the density at the Gaussian sites' mean, over the root of the determinant of their precision
        (George and McCulloch 1997, "Approaches for Bayesian variable selection", §4.2).
        """
        mean, factor, _ = self.gaussian.solved(latents, data, auxiliary)
        ev = self.density.evaluator({**latents, **self.gaussian.values(mean)}, data)
        total = self.gaussian.replaced_at(ev, auxiliary or {}) - factor.half_log_det
        total = summed(self._terms, ev, total)
        return jnp.where(jnp.isnan(total), -jnp.inf, total)

    @property
    def fresh(self) -> tuple[str, ...]:
        """The Gaussian sites."""
        return self.eliminated

    def drawn(
        self, key: Any, latents: Mapping[str, Any], data: Any, auxiliary: Mapping[str, Any] | None = None
    ) -> Drawn:
        """One update of the outer sites, then a draw of the Gaussian ones."""
        key, *keys = jax.random.split(key, 1 + len(self.outer))
        drawn: dict[str, Any] = {}
        for site, k in zip(self.outer, keys, strict=True):
            here = {**latents, **drawn}
            drawn[site.site] = site.update(k, here, lambda x: self.logdensity(x, data, auxiliary))
        found, rounding = self.gaussian.drawn(key, {**latents, **drawn}, data, auxiliary)
        return Drawn({**drawn, **found}, rounding)

    @property
    def signature(self) -> str:
        return repr(([s.signature for s in self.outer], self.gaussian.signature))


@once
def collapsed_block(density: Density, sites: Sequence[str]) -> CollapsedDraw:
    """The collapsed update of the Gaussian ones among `sites` and of the others; `Refused` where there is
    none.

    It is derived once per density.
    """
    inner = [s for s in sites if not density.sites[s].discrete and is_gaussian(conditional_of(density, s))]
    outer = [s for s in sites if s not in inner]
    if not outer or not inner:
        raise Refused(
            "it takes sites that are Gaussian given the rest, and a discrete one or a scale that is drawn "
            "with them integrated out"
        )
    near = [density.maps.latents(t.atom) for t in density.terms]
    for s in outer:
        if not any(s in n and n.intersection(inner) for n in near):
            raise Refused(f"{s} meets none of {', '.join(inner)} in any term")
    return CollapsedDraw(density, outer, joint_gaussian(density, inner))
