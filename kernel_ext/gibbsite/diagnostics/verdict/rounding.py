"""What rounding left of draws that are exact on paper."""

from collections.abc import Collection, Mapping

import numpy as np
from numpyro.distributions import constraints

from gibbsite.density.model.factorials import lost_to_factorials
from gibbsite.diagnostics.measures.moments import Moments
from gibbsite.diagnostics.measures.snapshot import Notice
from gibbsite.plans.schedule.plan import Plan
from gibbsite.storage.draws import label_of
from gibbsite.validation.whole_numbers import wrapped

# of a standard deviation: what is rounded this much is spread 2 % too widely
MOST_LOST = 0.2
MOST_OFF = 0.1
"""Of logarithms of odds: a tenth of an odds."""


class Rounding:
    """The mean square of what draws of one block lost, in standard deviations: see
    `gibbsite.conditional.linear.joint.Solved`."""

    def __init__(self) -> None:
        self._sum, self._count = 0.0, 0

    def add(self, lost: np.ndarray) -> None:
        """Take in some draws', of any shape."""
        # a chain that starts far off does not say what its later draws lose: each counts as one at the most
        least = np.minimum(np.nan_to_num(lost, nan=1.0), 1.0).astype(np.float64)
        self._sum += float((least**2).sum())
        self._count += lost.size

    @property
    def typical(self) -> float:
        """The root mean square; 0 without draws."""
        return (self._sum / self._count) ** 0.5 if self._count else 0.0


def rounding_notices(plan: Plan, found: Mapping[int, Rounding], moments: Moments) -> list[Notice]:
    """Of blocks, by their number, whose draws lose too much to rounding, and of latents that are known to
    more figures than single precision has."""
    told = {s for i, rounding in found.items() if rounding.typical > MOST_LOST for s in plan.blocks[i].sites}
    out = [*_few_figures(plan, moments, told), *_lost_odds(plan), *_wrapped(plan, moments)]
    for i, rounding in found.items():
        if rounding.typical <= MOST_LOST:
            continue
        block = plan.blocks[i]
        out.append(
            Notice(
                f"single precision does not hold the draws of {block.kernel} {block.label}: they lose "
                f"{rounding.typical:.1g} standard deviations to rounding",
                "subtract from columns of data their means, and divide them by their standard deviations, so "
                "that no coefficient has to make up for another, or run in double precision "
                "(JAX_ENABLE_X64=1)",
                "precision",
                tuple(block.sites),
            )
        )
    return out


def _lost_odds(plan: Plan) -> list[Notice]:
    """Of discrete sites whose odds are those of what is integrated out of counts too large for it."""
    if plan.density is None:
        return []
    for block in plan.blocks:
        discrete = [n for n in block.eliminated if n in plan.sites and plan.sites[n].discrete]
        others = [n for n in block.eliminated if n not in discrete]
        if discrete and others and (lost := lost_to_factorials(plan.density)) > MOST_OFF:
            return [
                Notice(
                    f"single precision does not hold the odds of {', '.join(discrete)}: with "
                    f"{', '.join(others)} integrated out they are of counts so large that their logarithms "
                    f"are off by about {lost:.1g}",
                    f"draw {', '.join(others)} beside {', '.join(discrete)}, as by default, or run in double "
                    f"precision (JAX_ENABLE_X64=1)",
                    "precision",
                    tuple(discrete),
                )
            ]
    return []


def _wrapped(plan: Plan, moments: Moments) -> list[Notice]:
    """Of whole numbers that are made of discrete sites, and larger than their type holds around the draws."""
    if plan.density is None:
        return []
    sites, state = plan.density.sites, {}
    for name, m in moments.sites.items():
        if name in sites and sites[name].role == "latent" and len(m.elements) == m.size:
            mean, sd = (v.reshape(sites[name].shape) for v in m.mean_and_sd())
            state[name] = mean, np.nan_to_num(sd)
    for by in (0, 3, -3):
        at = {n: (mean + by * sd).astype(sites[n].dtype) for n, (mean, sd) in state.items()}
        if (found := wrapped(plan.density, at)) is not None:
            return [Notice(found.says, found.cure, "precision", found.sites)]
    return []


def _few_figures(plan: Plan, moments: Moments, told: Collection[str]) -> list[Notice]:
    out = []
    for name, m in moments.sites.items():
        site = plan.sites.get(name)
        if site is None or site.role != "latent" or site.discrete or site.dtype != np.float32 or name in told:
            continue
        mean, sd = m.mean_and_sd()
        with np.errstate(all="ignore"):
            # of a draw itself rounding takes a third of that, and shifts what sums of as large numbers say by
            # about all of it: means of groups of 20 by .27 of .275
            lost = np.spacing(np.abs(mean).astype(np.float32)) / sd
        bad = (sd > 0) & (lost > MOST_LOST)
        if isinstance(site.support, type(constraints.corr_matrix)):  # its diagonal is 1 but for rounding
            *_, row, column = np.unravel_index(m.elements, site.shape)
            bad &= row != column
        if not bad.any():
            continue
        k = int(np.argmax(np.where(bad, lost, 0)))
        label = label_of(name, tuple(int(i) for i in np.unravel_index(int(m.elements[k]), site.shape)))
        apart = np.spacing(np.float32(abs(mean[k])))
        out.append(
            Notice(
                f"single precision does not hold the draws of {label}: around {mean[k]:.6g} it has numbers "
                f"{apart:.2g} apart, and their standard deviation is {sd[k]:.2g}",
                "subtract what is known of it beforehand (centre the data), or run in double precision "
                "(JAX_ENABLE_X64=1)",
                "precision",
                (name,),
            )
        )
    return out
