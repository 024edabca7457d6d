"""A model → the plainest schedule that is right: every site by itself, drawn exactly where that can be done.

Whatever comes after changes how fast a run is; here stands what it must keep. For every site the first row
that fits decides; discrete sites come first in a sweep, then what is drawn exactly or sliced, then one NUTS
block:

| sites | kernel | because |
|---|---|---|
| all, in a model without data | Ancestral | every draw is independent of the last |
| discrete sites that determine each other | Gibbs, jointly | alone they get stuck |
| few discrete elements that meet | Gibbs, jointly | it is hardly more work than one by one |
| discrete sites that continuous ones decide, with these | Crossing, in one block | in turn they never move |
| discrete, listed support | Gibbs | drawn exactly from a table, chains by their recursion |
| integers without end that bound a continuous site | Slice of that, without them | in turn they stay |
| integers without end | Window | drawn exactly from tables over windows around them |
| other integers | RandomWalk, Independence | nothing else fits |
| certified conjugate | Conjugate | drawn exactly |
| support that moves with other sites | Slice | a fixed change of variables would be wrong |
| enters through comparisons alone, few or independent | Slice | gradients do not feel a step |
| the rest | NUTS, in the same block | gradients |

No elliptical slice by default. For a vector with a Gaussian prior and another likelihood, NUTS in a learnt
metric has 12 to 1000 times the effective draws per second (`benchmarks/two_kernels.py`: Cox processes of 30
cells under smooth and rough priors, 1 to 191 counts a cell; stochastic volatility). `ESlice f` is there where
gradients cannot be had.
"""

from collections.abc import Callable, Mapping
from typing import Any

from gibbsite.conditional.reads.group import updated_together
from gibbsite.conditional.reads.support import support_movers
from gibbsite.conditional.reads.term_access import blind_terms, endless_terms
from gibbsite.elimination import marginal_of
from gibbsite.errors import ModelError, ScheduleError
from gibbsite.ground.opaque import attempted, notes_in
from gibbsite.kernels.learnt.moving import moving_support
from gibbsite.plans.candidates.limits import MOST_STEPPED
from gibbsite.plans.schedule.decided import crossing_blocks
from gibbsite.plans.schedule.deterministic import check_endless, joint_blocks
from gibbsite.plans.schedule.parse import Spec, Update
from gibbsite.plans.schedule.registry import Facts, apart, find_kernel, refused, size


def each_alone(facts: Facts) -> Spec:
    """Updates for every latent: discrete sites, then conjugate and sliced ones, the NUTS block last; each
    kind in program order. Raises `ScheduleError` where draws in turn would never move, and nothing else fits.

    Discrete sites start anywhere in their support, continuous ones where the prior or the user put them: the
    first sweep must not draw the latter from what the former happen to be.
    """
    latents = [n for n, s in facts.sites.items() if s.role == "latent"]
    if set(facts.generated) >= set(latents):
        return Spec((Update("Ancestral", tuple(latents)),))
    coupled = [n for n in latents if facts.sites[n].discrete]
    crossing = _tried("sites that decide each other", lambda: crossing_blocks(facts, coupled), facts)
    units = updated_together(facts.density, [n for n in latents if n not in crossing])
    kinds = {n: facts.conditional(n).kind for n in units}
    tables = {n: m for n, m in units.items() if kinds[n] in ("finite", "chain")}
    blocks = _tried("joint draws of discrete sites", lambda: joint_blocks(facts, tables), facts)
    check_endless(facts, {n: m for n, m in units.items() if facts.sites[m[0]].discrete})
    discrete = [Update("Crossing", block) for n, block in crossing.items() if n == block[0]]
    counts = _tried("counts that bound others", lambda: _bounding(facts, units), facts)
    closed, gradients = [], []
    for name, members in units.items():
        if name in counts:
            closed.append(Update("Slice", (counts[name],), eliminated=members))
        elif name in counts.values():
            continue
        elif name in blocks:
            discrete += [blocks[name]] if members[0] == blocks[name].sites[0] else []
        elif kinds[name] in ("finite", "chain"):
            discrete.append(Update("Gibbs", members))
        elif facts.sites[members[0]].discrete:
            kernel = _integers(facts, members[0])
            discrete += [Update(kernel, ms) for ms in ([members] if kernel == "Window" else zip(members))]
        elif kinds[name] == "conjugate":
            closed.append(Update("Conjugate", (name,)))
        elif stepped(facts, name):
            closed.append(Update("Slice", (name,)))
        else:
            gradients.append(name)
    return Spec((*discrete, *closed, *([Update("NUTS", tuple(gradients))] if gradients else [])))


def _bounding(facts: Facts, units: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """By count without end, the one continuous site whose support it moves: each holds the other where it is,
    and slices of the site with the count summed out cross."""
    density, out = facts.density, dict[str, str]()
    for name, members in units.items():
        if len(members) > 1 or facts.sites[name].discrete or size(facts, members) > MOST_STEPPED:
            continue
        moved = [n for n in support_movers(density, name) if n in units and _endless(facts, units[n])]
        if len(moved) != 1 or moved[0] in out:
            continue
        if refused(marginal_of, facts, moved, ModelError) is None:
            out[moved[0]] = name
    return out


def _endless(facts: Facts, members: tuple[str, ...]) -> bool:
    window = find_kernel("Window")
    discrete = facts.sites[members[0]].discrete and facts.conditional(members[0]).kind == "none"
    return discrete and window is not None and window.fits(facts, members[0]) is None


def plainest(facts: Facts) -> Spec:
    """What needs no analysis: each discrete site by the first kernel that fits, continuous ones by NUTS where
    that fits, else by slices."""
    latents = [n for n, s in facts.sites.items() if s.role == "latent"]
    discrete = [n for n in latents if facts.sites[n].discrete]
    gradients = find_kernel("NUTS")
    assert gradients is not None
    sliced = [n for n in latents if n not in discrete and gradients.fits(facts, n) is not None]
    rest = tuple(n for n in latents if n not in (*discrete, *sliced))
    updates = [Update(_integers(facts, n, ("Gibbs",)), (n,)) for n in discrete]
    updates += [Update("Slice", (n,)) for n in sliced]
    return Spec((*updates, Update("NUTS", rest)) if rest else tuple(updates))


def _tried(what: str, analysis: Callable[[], Any], facts: Facts) -> Any:
    """What an analysis offers; nothing where it fails unforeseen."""
    return attempted(what, analysis, dict, notes_in(facts.density.cache))


def stepped(facts: Facts, site: str) -> str | None:
    """Why gradients would be wrong or blind for a continuous site, or cannot be had."""
    moving = moving_support(facts, site)
    if moving:
        return moving
    endless = endless_terms(facts.density, site)
    if endless:
        return f"the terms of {', '.join(endless)} read it through a loop of unknown length, without gradient"
    blind = blind_terms(facts.density, site)
    if not blind or (size(facts, (site,)) > MOST_STEPPED and not apart(facts, (site,))):
        return None
    return f"the terms of {', '.join(blind)} read it through comparisons alone, which have no gradient"


def _integers(facts: Facts, name: str, before: tuple[str, ...] = ()) -> str:
    for kernel in (*before, "Window", "RandomWalk", "Independence"):
        row = find_kernel(kernel)
        if row is not None and row.fits(facts, name) is None:
            return kernel
    raise ScheduleError(f"no kernel fits the discrete site {name!r}: {facts.conditional(name).reason}")
