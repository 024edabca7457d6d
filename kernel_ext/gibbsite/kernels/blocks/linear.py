"""Blocks of Gaussian sites with Pólya-gamma variates, or other sites, beside them, as NumPyro kernels."""

from collections.abc import Callable, Sequence
from typing import Any

from gibbsite.conditional.forms.walk import Refused
from gibbsite.conditional.linear.collapsed import collapsed_block
from gibbsite.conditional.linear.polya_gamma import polya_gamma_block
from gibbsite.conditional.update import Update
from gibbsite.density import Density
from gibbsite.errors import ScheduleError
from gibbsite.kernels.blocks.finite import Exact


class _Block(Exact):
    """All sites in one update, which `_derive` makes; abstract."""

    _derive: Callable[[Density, Sequence[str]], Update]

    def _found(self, density: Density) -> list[Update]:
        sites = tuple(self._units)
        try:
            return [self._derive(density, sites)]
        except Refused as why:
            raise ScheduleError(f"{type(self).__name__} cannot update {' and '.join(sites)}: {why}") from why


class PolyaGamma(_Block):
    """Draw the Gaussian sites of a logistic regression jointly, given Pólya-gamma variates drawn within.

    For Bernoulli, binomial, geometric and negative binomial likelihoods whose logits are linear in sites with
    Gaussian priors: coefficients, intercepts, random effects and their means in one block. Scales of effects
    may join them: they are drawn right before, by a slice, with the Gaussian sites integrated out.

        Gibbs([(PolyaGamma(model), ["b", "effects"]), (NUTS(model), None)])

    Sites that are no such thing are refused in `init`, with what stands in the way.
    """

    _derive: Callable[..., Any] = staticmethod(polya_gamma_block)


class Collapsed(_Block):
    """Draw sites with the Gaussian sites of their block integrated out, then these given them.

    For change points, indicators of coefficients, assignments to lines, and the scales of few effects:
    whatever cannot move while the coefficients that go with it stay. Discrete sites are drawn over the list
    of their values, continuous ones by slices through their unconstrained coordinates.

        Gibbs([(Collapsed(model), ["k", "slope", "level"]), (Slice(model), None)])

    Sites that are no such block are refused in `init`, with what stands in the way.
    """

    _derive: Callable[..., Any] = staticmethod(collapsed_block)
