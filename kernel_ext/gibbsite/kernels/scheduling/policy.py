"""The schedule that the default is chosen from (`kernels.plans`), and the reasons given for its updates.

For every site the first row that fits decides; discrete sites come first in a sweep, then what is
drawn exactly or sliced, then one NUTS block:

| sites | kernel | because |
|---|---|---|
| all, in a model without data | Ancestral | every draw is independent of the last |
| discrete sites that determine each other, small discrete networks | Gibbs, jointly | alone they get stuck |
| discrete sites that continuous ones decide, with these | Crossing, in one block | in turn they never move |
| a switch or indicators, and their coefficients | Collapsed, in one block | one moves with the other |
| indicators of few values, beside few numbers that need gradients anyway | summed out of NUTS | it mixes |
| discrete, listed support | Gibbs | drawn exactly from a table, chains by their recursion |
| integers without end | Window | drawn exactly from tables over windows around them |
| other integers | RandomWalk, Independence | nothing else fits |
| support that moves with other sites | Conjugate, Slice | a fixed change of variables would be wrong |
| … with continuous ones alone, none of them exact | NUTS, in one block | coordinates follow the ends |
| enters through comparisons alone, few or independent | Conjugate, Slice | gradients do not feel a step |
| a hierarchy that is not conjugate as a whole | NUTS, in one block | cut apart it walks; centring is learnt |
| effects in logistic predictors, in an exact hierarchy | PolyaGamma, in one block | one draw, not a walk |
| coupled, and Gaussian together given the rest | Conjugate, in one block | one exact draw of them all |
| certified conjugate | Conjugate | drawn exactly |
| the rest | NUTS, in the same block | gradients |

No elliptical slice by default. For a vector with a Gaussian prior and another likelihood, NUTS in a learnt
metric has 12 to 1000 times the effective draws per second (`benchmarks/two_kernels.py`: Cox processes of 30
cells under smooth and rough priors, 1 to 191 counts a cell; stochastic volatility). `ESlice f` is there where
gradients cannot be had.
"""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from gibbsite.conditional.linear.choose import collapsed_blocks, gaussian_blocks, logistic_blocks
from gibbsite.conditional.linear.joint import is_gaussian
from gibbsite.conditional.reads.blind import blind_terms, endless_terms
from gibbsite.conditional.reads.group import unit_of, updated_together
from gibbsite.elimination import TableMarginal, joint_marginal
from gibbsite.errors import ScheduleError
from gibbsite.ground.opaque import attempted, notes_in
from gibbsite.kernels.blocks.supports import moving_support
from gibbsite.kernels.crossing.decided import crossing_blocks
from gibbsite.kernels.nuts.told import to_be_learnt
from gibbsite.kernels.scheduling.determined import check_endless, joint_blocks
from gibbsite.kernels.scheduling.parse import Spec, Update
from gibbsite.kernels.scheduling.registry import Facts, apart, conjugate_reason, find_kernel, size
from gibbsite.kernels.scheduling.summing import summing_out
from gibbsite.kernels.scheduling.ties import kept_together, ties_across, ties_within
from gibbsite.kernels.scheduling.words import obstacle_in_words

# beyond so many numbers that are coupled, updates one by one cost more than what gradients miss
_FEW = 32


def default_spec(facts: Facts) -> Spec:
    """Updates for every latent: discrete sites, then conjugate and sliced ones, the NUTS block last; each
    kind in program order.

    Discrete sites start anywhere in their support, continuous ones where the prior or the user put them: the
    first sweep must not draw the latter from what the former happen to be.
    """
    discrete, closed, gradients = [], [], []
    latents = [n for n, s in facts.sites.items() if s.role == "latent"]
    if set(facts.generated) >= set(latents):
        return Spec((Update("Ancestral", tuple(latents)),))
    crossing = _tried(
        "sites that decide each other",
        lambda: crossing_blocks(facts, [n for n in latents if facts.sites[n].discrete]),
        facts,
    )
    units = updated_together(facts.density, [n for n in latents if n not in crossing])
    kinds = {n: facts.conditional(n).kind for n in units}
    conjugate = [n for n, k in kinds.items() if k == "conjugate"]
    named = [n for n in units if n in facts.density.latent_vars]
    logistic = _tried("logistic predictors", lambda: logistic_blocks(facts.density, named), facts)
    conjugate += [n for n in logistic if n not in conjugate]
    stepped = [n for n in units if not facts.sites[units[n][0]].discrete and _stepped(facts, n)]
    tied = _tried("hierarchies", lambda: kept_together(facts.density, conjugate, stepped), facts)
    exact = [n for n in conjugate if n not in tied and n not in logistic]
    # a chain is drawn as a whole by its recursion, which is worth more than its coefficients integrated out
    switches = [n for n in units if n in facts.sites and kinds[n] == "finite"]
    integrated = _tried("integrals", lambda: collapsed_blocks(facts.density, switches + exact), facts)
    rest = [n for n in exact if n not in integrated]
    jointly = _tried("joint Gaussian draws", lambda: gaussian_blocks(facts.density, rest), facts)
    alone = {n: (n,) for n in exact if n not in integrated and is_gaussian(facts.conditional(n))}
    gaussian = {**alone, **jointly, **{n: b for n, b in logistic.items() if not tied.keys() & set(b)}}
    tables = {n: m for n, m in units.items() if kinds[n] in ("finite", "chain") and n not in integrated}
    blocks = _tried("joint draws of discrete sites", lambda: joint_blocks(facts, tables), facts)
    check_endless(
        facts, {n: m for n, m in units.items() if facts.sites[m[0]].discrete and n not in integrated}
    )
    discrete += [Update("Crossing", block) for n, block in crossing.items() if n == block[0]]
    for name, members in units.items():
        if name in integrated:
            discrete += [Update("Collapsed", integrated[name])] if name == integrated[name][0] else []
        elif name in blocks:
            discrete += [blocks[name]] if members[0] == blocks[name].sites[0] else []
        elif kinds[name] in ("finite", "chain"):
            discrete.append(Update("Gibbs", members))
        elif facts.sites[members[0]].discrete:
            kernel = _integers(facts, members[0])
            discrete += [Update(kernel, ms) for ms in ([members] if kernel == "Window" else zip(members))]
        elif name in tied:
            gradients.append(name)
        elif name in gaussian:
            kernel = "PolyaGamma" if name in logistic else "Conjugate"
            closed += [Update(kernel, gaussian[name])] if name == gaussian[name][0] else []
        elif kinds[name] == "conjugate":
            closed.append(Update("Conjugate", (name,)))
        elif name in stepped:
            closed.append(Update("Slice", (name,)))
        else:
            gradients.append(name)
    updates = discrete + closed
    if gradients:
        updates.append(Update("NUTS", tuple(gradients)))
    notes = notes_in(facts.density.cache)
    return attempted(
        "summing discrete sites out",
        lambda: Spec(tuple(summing_out(facts, updates))),
        lambda: Spec(tuple(updates)),
        notes,
    )


def plainest_spec(facts: Facts) -> Spec:
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


def _stepped(facts: Facts, site: str) -> str | None:
    """Why gradients would be wrong or blind for a continuous site, or cannot be had."""
    moving = moving_support(facts, site)
    if moving:
        return moving
    endless = endless_terms(facts.density, site)
    if endless:
        return f"the terms of {', '.join(endless)} read it through a loop of unknown length, without gradient"
    blind = blind_terms(facts.density, site)
    if not blind or (size(facts, (site,)) > _FEW and not apart(facts, (site,))):
        return None
    return f"the terms of {', '.join(blind)} read it through comparisons alone, which have no gradient"


def _integers(facts: Facts, name: str, before: tuple[str, ...] = ()) -> str:
    for kernel in (*before, "Window", "RandomWalk", "Independence"):
        row = find_kernel(kernel)
        if row is not None and row.fits(facts, name) is None:
            return kernel
    raise ScheduleError(f"no kernel fits the discrete site {name!r}: {facts.conditional(name).reason}")


def reason_for(
    facts: Facts,
    kernel: str,
    sites: tuple[str, ...],
    options: Mapping[str, Any] = MappingProxyType({}),
    shared: bool = False,
) -> str | None:
    """Why this kernel for these sites, together or apart; None where the kernel's own reason says it. Where
    updates have `shared` sites, none is apart from others."""
    away = [] if shared else _apart(facts, sites)
    if kernel in ("Gibbs", "Conjugate"):
        joint = _joint(facts, kernel, sites, options)
        if joint is not None and not isinstance(joint, str):
            return joint.reason
        if kernel == "Conjugate":
            own = conjugate_reason(facts, sites)
        else:
            own = "; ".join(facts.conditional(s).reason for s in updated_together(facts.density, sites))
        return "; ".join([own, *away])
    row = find_kernel(kernel)
    if row is not None and row.why is not None:
        return "; ".join([row.why(facts, sites), *away])
    if kernel == "Slice":
        return "; ".join(f"{s}: {m}" for s in sites if (m := _stepped(facts, s))) or None
    if kernel in ("NUTS", "HMC"):
        own = row.reason if row else ""
        tied = ties_within(facts.density, sites)
        kept = [f"kept together: {'; '.join(tied)}"] if tied else []
        centring = options.get("centring", "auto")
        learnt = to_be_learnt(facts.density, sites, centring) if kernel == "NUTS" else []
        return "; ".join([own, *kept, *learnt, *away])
    return None


def _apart(facts: Facts, sites: tuple[str, ...]) -> list[str]:
    """Why a block does without the sites that the locations and scales of its own are tied to."""
    away = dict.fromkeys(m for ms in ties_across(facts.density, sites).values() for m in ms)
    if not away:
        return []
    named = (*sites, *away)
    logistic = logistic_blocks(facts.density, [n for n in facts.sites if facts.sites[n].role == "latent"])
    inexact = [n for n in named if facts.conditional(n).kind == "none" and n not in logistic]
    sliced = [n for n in away if _stepped(facts, n)]
    because = "all of it is exact" if not inexact else "as asked for"
    if sliced:
        because = f"gradients do not feel {', '.join(sliced)}"
    return [f"apart from {', '.join(away)}: {because}"]


def _joint(
    facts: Facts, kernel: str, sites: tuple[str, ...], options: Mapping[str, Any] = MappingProxyType({})
) -> TableMarginal | str | None:
    """The joint draw of a block of discrete sites or why there is none; None where none is wanted."""
    units, wanted = updated_together(facts.density, sites), options.get("joint")
    if kernel != "Gibbs" or wanted is False or (len(units) < 2 and not wanted):
        return None
    return joint_marginal(facts.density, [m for ms in units.values() for m in ms], insist=bool(wanted))


def blocked_by(facts: Facts, kernel: str, sites: tuple[str, ...]) -> str:
    """What kept each site from an exact update, or that one was there and was not asked for.

    A line per obstacle, with the sites that meet it; of many, the first.
    """
    return _obstacles(facts, kernel, sites, _obstacle)


def blocked_in_detail(facts: Facts, kernel: str, sites: tuple[str, ...]) -> str:
    """As `blocked_by`, with the expressions that stand in the way and their lines; empty where that says no
    more."""
    detail = _obstacles(facts, kernel, sites, _expression)
    return "" if detail == blocked_by(facts, kernel, sites) else detail


def _obstacles(facts: Facts, kernel: str, sites: tuple[str, ...], of: Callable[[Facts, str], str]) -> str:
    if kernel in ("Gibbs", "Conjugate"):
        joint = _joint(facts, kernel, sites)
        return f"a joint draw: {joint}" if isinstance(joint, str) else ""
    row = find_kernel(kernel)
    if row is not None and row.why is not None:  # it was certified for these sites
        return ""
    found: dict[str, dict[str, str]] = {}
    for site in sites:
        text = of(facts, site)
        found.setdefault(_impersonal(text, site), {})[site] = text
    if len(sites) == 1:
        return next(iter(found.values()))[sites[0]]
    lines = []
    for alike, told in list(found.items())[:_MOST_TOLD]:
        names = list(told)
        text = alike if len(names) > 1 else told[names[0]]
        lines.append(f"· {_several(names)}: {text.removeprefix('nothing: ')}")
    untold = [n for told in list(found.values())[_MOST_TOLD:] for n in told]
    if untold:
        lines.append(f"· and {len(untold)} more: see model.conditional({untold[0]!r}).reason")
    return "\n".join(lines)


_MOST_TOLD = 3
_MOST_NAMES = 4
_LONG = 50


def _several(names: list[str]) -> str:
    rest = len(names) - _MOST_NAMES
    if rest < 2:
        return ", ".join(names)
    return f"{', '.join(names[:_MOST_NAMES])} and {rest} more"


def _obstacle(facts: Facts, site: str) -> str:
    c = facts.conditional(unit_of(facts.density, site))
    better = {"conjugate": "Conjugate", "finite": "Gibbs", "chain": "Gibbs"}.get(c.kind)
    return f"nothing: {better} fits too" if better else obstacle_in_words(c)


def _expression(facts: Facts, site: str) -> str:
    c = facts.conditional(unit_of(facts.density, site))
    if c.obstacle is None:
        return _obstacle(facts, site)
    return re.sub(r"`([^`]*)`", lambda m: f"`{_cut(m[1])}`", str(c.obstacle))


def _impersonal(text: str, site: str) -> str:
    """The same for all sites that meet the same obstacle: their names, in code, in brackets and as the last
    word, are "it"; elsewhere a name may be a word."""
    name = rf"(?<![\w.]){re.escape(site)}(?![\w.])"
    return re.sub(r"`[^`]*`|\([^()]*(?:\([^()]*\)[^()]*)*\)|\S+$", lambda m: re.sub(name, "it", m[0]), text)


def _cut(expression: str) -> str:
    return expression if len(expression) <= _LONG else f"{expression[:_LONG]}…"
