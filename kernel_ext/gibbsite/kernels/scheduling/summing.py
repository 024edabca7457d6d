"""Discrete sites that are worth summing out of a NUTS block although they could be drawn from a table."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gibbsite.conditional.finite.finite import FiniteStructure
from gibbsite.conditional.forms.binary import gates_of
from gibbsite.conditional.reads.group import unit_of
from gibbsite.elimination import joint_marginal
from gibbsite.kernels.scheduling.parse import Update
from gibbsite.kernels.scheduling.registry import Facts, find_kernel, size
from gibbsite.trace.jaxpr.compat import Literal

_VALUES = 8
"""Of an indicator: with more, tables cost more than gradients gain (a sixth is left for one of 110 years)."""
_DEAREST = 8.0
"""Term elements of a gradient with the sites summed out, in those of one that is given them."""
_MOST = 64
"""Numbers in the block: of more, some are better drawn exactly."""
_MOST_ENTRIES = 2**15
"""Of tables over totals that are not known: gradients through them take a fraction of a millisecond."""


def summing_out(facts: Facts, updates: Sequence[Update]) -> list[Update]:
    """The updates of a default schedule, with indicators summed out of the NUTS block that ends it.

    A sweep that draws the components of a mixture and then its parameters forgets as slowly as its components
    overlap, and no metric helps; summed out, gradients see all components at once. Where some parameters need
    gradients anyway this costs at most a few times a sweep, and what meets the indicators and would be drawn
    exactly joins the block. Chains over time and coupled elements stay: their draw is worth more than their
    sum, whose gradient takes them step by step. Sites that indicators switch off (`Binomial(n, p * z)`) need
    none, and are better off with them: of zeros that may be of either kind the data say little. A total that
    is not known (`Binomial(n, p)` with both to be found) is summed out as well: their product is what counts
    tell of, so that drawn in turn each holds the other where it is.
    """
    if updates and updates[-1].kernel == "NUTS":
        others, last = list(updates[:-1]), updates[-1]
    else:
        conjugate = [u for u in updates if u.kernel == "Conjugate"]
        gated = [u for u in conjugate if _gated(facts, u.sites, updates) or _shares(facts, u.sites, updates)]
        if not gated:
            return list(updates)
        others = [u for u in updates if u not in gated]
        last = Update("NUTS", _in_order(facts, [n for u in gated for n in u.sites]))
    gibbs = [u for u in others if u.kernel == "Gibbs"]
    out = [u for u in gibbs if _indicators(facts, u, last.sites) or _totals(facts, u.sites, last.sites)]
    near = [u for u in others if u not in out and any(_meet(facts, u.sites, z.sites) for z in out)]
    block = _in_order(facts, [*last.sites, *(n for u in near for n in u.sites)])
    fitting = all(u.kernel == "Conjugate" for u in near) and not any(_unsmooth(facts, n) for n in block)
    if not out or not fitting or size(facts, block) > _MOST:
        return list(updates)
    gone = _in_order(facts, [n for u in out for n in u.sites])
    if not _cheap(facts, gone):
        return list(updates)
    kept = [u for u in others if u not in out and u not in near]
    return [*kept, replace(last, sites=block, eliminated=gone)]


def _gated(facts: Facts, sites: Sequence[str], updates: Sequence[Update]) -> bool:
    """Whether counts are free of a site wherever an indicator that is drawn from a table is zero."""
    drawn = {n for u in updates if u.kernel == "Gibbs" for n in u.sites}
    members = [m for n in sites for m in facts.density.groups.get(n, (n,)) if m in facts.density.latent_vars]
    return any(gates_of(facts.density, n) & drawn for n in members)


def _shares(facts: Facts, sites: Sequence[str], updates: Sequence[Update]) -> bool:
    """Whether counts are shares of a total that is drawn from a table, as the sites tell."""
    return any(_totals(facts, u.sites, sites) for u in updates if u.kernel == "Gibbs")


def _totals(facts: Facts, discrete: Sequence[str], continuous: Sequence[str]) -> bool:
    """Whether discrete sites are totals of counts whose probability the continuous ones decide."""
    maps = facts.density.maps
    for parameters in facts.density.outputs["parameters"].values():
        total, share = (
            next((a for n in names if (a := parameters.get(n)) is not None), None)
            for names in (("total_count",), ("probs", "logits"))
        )
        if total is None or share is None or isinstance(total, Literal) or isinstance(share, Literal):
            continue
        if not maps.latents(total).isdisjoint(discrete) and not maps.latents(share).isdisjoint(continuous):
            return True
    return False


def summed_because(facts: Facts, update: Update) -> str:
    """Why sites are summed out of an update of gradients, to follow on what is done; empty where all that it
    moves beside them could be drawn exactly."""
    gone = [m for n in update.eliminated for m in facts.density.groups.get(n, (n,))]
    moved = [n for n in update.sites if n in facts.sites and facts.conditional(n).kind == "none"]
    moved = [n for n in moved if _meet(facts, gone, (n,))]
    off = [n for n in update.sites if n in facts.density.latent_vars and gates_of(facts.density, n) & {*gone}]
    if off and not moved and update.kernel in ("NUTS", "HMC"):
        names = ", ".join(update.eliminated)
        return (
            f": an observed zero says little of {names}, and where that is zero nothing of {', '.join(off)}"
        )
    if not moved and update.kernel in ("NUTS", "HMC") and _totals(facts, gone, update.sites):
        names = ", ".join(n for n in update.sites if _totals(facts, gone, (n,)))
        verb = "makes" if "," not in names else "make"
        totals = ", ".join(update.eliminated)
        return f": {names} {verb} up for every change of {totals}, drawn in turn they crawl"
    if not moved or update.kernel not in ("NUTS", "HMC"):
        return ""
    verb = "needs" if len(moved) == 1 else "need"
    return f": {', '.join(moved)} {verb} gradients anyway, and these see more of the data without"


def _indicators(facts: Facts, update: Update, block: Sequence[str]) -> bool:
    """Whether elements of each site are independent given the rest, of few values, and meet the block's sites
    in terms. Of several sites that are drawn jointly, a switch of all data beside the labels of each, one may
    couple the others' elements: `_cheap` says whether tables stay small."""
    units = dict.fromkeys(unit_of(facts.density, n) for n in update.sites)
    return not update.options and _meet(facts, update.sites, block) and all(_few(facts, u) for u in units)


def _few(facts: Facts, unit: str) -> bool:
    found = facts.conditional(unit)
    structure: FiniteStructure | None = getattr(found, "structure", None)
    if found.kind != "finite" or structure is None or not structure.independent:
        return False
    return structure.support.size <= _VALUES


def _meet(facts: Facts, some: Sequence[str], others: Sequence[str]) -> bool:
    """Whether a term reads sites of both."""
    read = [facts.density.maps.latents(t.atom) for n in some for t, _ in facts.density.terms_of(n)]
    return any(not r.isdisjoint(others) for r in read)


def _unsmooth(facts: Facts, name: str) -> str | None:
    row = find_kernel("NUTS")
    assert row is not None
    return row.fits(facts, name)


def _cheap(facts: Facts, sites: Sequence[str]) -> bool:
    """Whether the sites can be summed out, at a cost in proportion to the terms that are there anyway."""
    marginal = joint_marginal(facts.density, sites)
    if isinstance(marginal, str):
        return False
    plan = marginal.plan
    whole = sum(int(np.prod(t.shape, dtype=np.int64)) for t in facts.density.terms)
    entries = max(plan.tables.evaluations, *(s.entries for s in plan.steps))
    totals = _totals(facts, sites, [n for n in facts.density.latents if n not in sites])
    return entries <= max(_DEAREST * whole, _MOST_ENTRIES if totals else 0)


def _in_order(facts: Facts, names: Sequence[str]) -> tuple[str, ...]:
    return tuple(n for n in facts.sites if n in names)
