"""Exact updates as NumPyro kernels: conjugate sites, Gaussian blocks and what is beside them, draws ahead."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from gibbsite.conditional.forms.walk import Refused
from gibbsite.conditional.linear.choose import Together, together
from gibbsite.conditional.linear.collapsed import collapsed_block
from gibbsite.conditional.linear.polya_gamma import polya_gamma_block
from gibbsite.conditional.update import Update
from gibbsite.density import Density
from gibbsite.errors import ScheduleError
from gibbsite.kernels.base import SiteKernel, StepInfo, step_info
from gibbsite.kernels.blocks.finite import Exact, conditionals
from gibbsite.kernels.blocks.target import Target, Values


class ConjugateGibbs(Exact):
    """Draw continuous sites from their certified conjugate conditionals, whole sites at a time.

    Works on any NumPyro model, on its own where every latent is conjugate, or as a block:

        Gibbs([(ConjugateGibbs(model), ["mu"]), (NUTS(model), None)])

    Sites of one block that are coupled are drawn as one Gaussian where they are that together, else in turn;
    `joint` True insists, False forbids. A site without a certified conditional is refused in `init`, with
    the expression that stands in the way.
    """

    def __init__(self, model: Callable, density: Density | None = None, joint: bool | None = None):
        super().__init__(model, density)
        self._joint_wanted = joint

    def _found(self, density: Density) -> list[Update]:
        alone = conditionals(self, density, ("conjugate",))
        if len(alone) < 2 or self._joint_wanted is False:
            return [*alone.values()]
        found = together(density, list(self._units))
        if self._joint_wanted and found.refused:
            raise ScheduleError(refusal(found))
        drawn = {s for j in found.joint for s in j.sites}
        return [*found.joint, *(c for unit, c in alone.items() if unit not in drawn)]


def refusal(found: Together) -> str:
    """Why a block of conjugate sites cannot be drawn jointly, and the way out."""
    sites, why = next(iter(found.refused.items()))
    in_turn = " (*) ".join(f"Conjugate {s}" for s in sites)
    return f"{' and '.join(sites)} cannot be drawn jointly: {why}; draw them in turn: {in_turn}"


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
        return target.draw_prior(key, z), tuning, step_info()
