"""Linear predictors of logistic likelihoods, drawn jointly given Pólya-gamma variates of their own."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax

from gibbsite.conditional.dispatch import conditional_of
from gibbsite.conditional.draws.polya_gamma import polya_gamma
from gibbsite.conditional.forms.walk import Refused
from gibbsite.conditional.linear.blocks import Row
from gibbsite.conditional.linear.collapsed import CollapsedDraw
from gibbsite.conditional.linear.joint import JointGaussian, check_real, is_gaussian, is_plain
from gibbsite.conditional.linear.logistic import Likelihood, logistic_terms
from gibbsite.conditional.update import Drawn, Update
from gibbsite.density import Density
from gibbsite.ground.once import once


class PolyaGammaBlock(Update):
    """An update of `sites` that leaves their joint conditional invariant (Polson, Scott and Windle 2013).

    One variate is drawn for each element of each likelihood given the sites, and forgotten after the sites
    have been drawn given them: those of the linear predictors jointly, by `gaussian`, and others among the
    sites, such as the scales of effects, right before with these integrated out.
    """

    measured = True

    def __init__(self, density: Density, sites: Sequence[str]):
        linear = tuple(s for s in sites if _linear(density, s))
        outer = [s for s in sites if s not in linear]
        if not linear:
            raise Refused(f"no logistic likelihood reads {' and '.join(sites)} in a linear predictor")
        check_real(density, linear)
        degrees, terms, self.likelihoods = logistic_terms(density, linear)
        if outer and not all(x.free for x in self.likelihoods):
            raise Refused(f"{' and '.join(outer)} cannot be drawn beside exponents that latents decide")
        rows = [_row(x) for x in self.likelihoods]
        for x, row in zip(self.likelihoods, rows, strict=True):
            if not is_plain(density, linear, degrees, row):
                raise Refused(f"the linear predictor of {x.origin} is computed in a way that has no slope")
        self.density, self.sites = density, tuple(sites)
        self.gaussian = JointGaussian(density, linear, degrees, rows, frozenset(terms))
        self._draw = CollapsedDraw(density, outer, self.gaussian) if outer else self.gaussian
        self.eliminated = self._draw.eliminated
        of = " and ".join(x.origin for x in self.likelihoods)
        self.reason = f"given Pólya-gamma variates of {of}, {self._draw.reason}"
        self.cost = f"a Pólya-gamma variate for each element of {of}, then {self._draw.cost}"

    @property
    def fresh(self) -> tuple[str, ...]:
        """None: variates are drawn given the sites."""
        return ()

    def drawn(self, key: Any, latents: Mapping[str, Any], data: Any) -> Drawn:
        """The variates, then the sites given them."""
        auxiliary = {}
        others = {n: v for n, v in latents.items() if n not in self.gaussian.sites}
        ev = self.density.evaluator(latents, data)
        key, *keys = jax.random.split(key, 1 + len(self.likelihoods))
        for x, k in zip(self.likelihoods, keys, strict=True):
            b, kappa = x.exponents(others, data)
            omega = polya_gamma(k, b, ev.full(x.psi), unit=x.unit, whole=x.whole)
            auxiliary[f"omega {x.origin}"], auxiliary[f"kappa {x.origin}"] = omega, kappa
        return self._draw.drawn(key, latents, data, auxiliary)

    @property
    def signature(self) -> str:
        kinds = [(x.origin, x.unit, x.whole) for x in self.likelihoods]
        return repr((kinds, self._draw.signature))


def _linear(density: Density, site: str) -> bool:
    """Whether a site is Gaussian given the rest and Pólya-gamma variates."""
    if density.sites[site].discrete:
        raise Refused(f"{site} is discrete")
    if is_gaussian(conditional_of(density, site)):
        return True
    try:
        check_real(density, (site,))
        logistic_terms(density, (site,))
    except Refused:
        return False
    return True


def _row(x: Likelihood) -> Row:
    return Row(
        x.shape,
        x.psi,
        x.psi,
        lambda ev, auxiliary: -auxiliary[f"omega {x.origin}"] / 2,
        lambda ev, auxiliary: auxiliary[f"kappa {x.origin}"],
    )


@once
def polya_gamma_block(density: Density, sites: Sequence[str]) -> PolyaGammaBlock:
    """The Pólya-gamma update of several sites of `density`; `Refused` where there is none.

    It is derived once per density.
    """
    return PolyaGammaBlock(density, sites)
