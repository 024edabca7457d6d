"""Exact updates of sites with certified conjugate conditionals as a NumPyro kernel."""

from collections.abc import Callable

from gibbsite.conditional.linear.choose import Together, together
from gibbsite.conditional.update import Update
from gibbsite.density import Density
from gibbsite.errors import ScheduleError
from gibbsite.kernels.blocks.finite import Exact, conditionals


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
