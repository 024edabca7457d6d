"""What is wrong with a run, in words, and what to try."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from numpyro.distributions import biject_to, constraints

from gibbsite.density import Density
from gibbsite.density.current import why_not
from gibbsite.density.model.bounds import base_constraint
from gibbsite.diagnostics.measures.convergence import bfmi, rank_rhat, sorted_rhat
from gibbsite.diagnostics.measures.moments import Moments
from gibbsite.diagnostics.measures.snapshot import Notice, ScalarStat
from gibbsite.diagnostics.modes.found import told_chains
from gibbsite.plans.schedule.plan import Plan
from gibbsite.storage.draws import label_of
from gibbsite.storage.names import axis_labels, scalar_name

_STUCK = 500
_NEVER = 50
"""Draws of a run in which a site of all chains has moved in none: no kernel that works rests so long."""
_LOW_BFMI = 0.3
_POSITIVE = (constraints.positive, constraints.nonnegative, constraints.softplus_positive)
_ENOUGH = 400
_LEAST_POWER = 0.25
"""Half of the least power of a positive number that conjugate densities have at zero."""
_FAR = 1e15
"""The middle of draws under a flat prior: no unit of measurement makes data as large."""
_MOST_COMPONENTS = 20
_MOST_DRAWS = 2000
_MOST_LENGTHS = 8
_OPPOSED = 1.3
"""R-hat of what has one sign in some chains and the other in others, well away from zero."""
ORDERS = "orders"
"""The topic of orders of components that are modes."""


def divergence_notice(divergent: int, draws: int, hint: str = "") -> list[Notice]:
    """Of divergent transitions among all chains' draws."""
    if not divergent:
        return []
    share = 100 * divergent / max(1, draws)
    few = "less than 0.1" if share < 0.05 else f"{share:.1f}"
    return [
        Notice(
            f"{divergent} divergent transition{'s' * (divergent > 1)} ({few} % of draws)",
            hint or "other coordinates, or other priors",
            "divergences",
        )
    ]


def endless(plan: Plan, draws: Mapping[str, np.ndarray]) -> list[Notice]:
    """A notice of latents without a proper prior whose draws `[chain, draw, *shape]` go on to ever larger
    numbers, or of positive ones to ever smaller: the posterior has infinite mass there, and what ends it is
    how far a kernel goes. Chains agree on that.

    Near zero a proper posterior is a power `x^(c - 1)` with c above 0, most often a multiple of 1/2, and far
    out one of `x^(-c - 1)`; the mean distance of logarithms from that of the draws' median is then 1/c (Hill
    1975). Where it does not even fall, draws are as good as uniform up to what ends them.
    """
    found = []
    for name, x in draws.items():
        info = plan.sites.get(name)
        if info is None or info.role != "latent" or info.support is None:
            continue
        positive = base_constraint(info.support) in _POSITIVE
        if info.discrete or info.fn_name != "ImproperUniform" or x.shape[0] * x.shape[1] < _ENOUGH:
            continue
        flat = np.abs(x.reshape(x.shape[0] * x.shape[1], -1)[:, :_MOST_COMPONENTS].astype(np.float64))
        flat = np.sort(flat, 0)
        middle = len(flat) // 2
        with np.errstate(all="ignore"):
            logs = np.log(flat)
            below = logs[middle] - logs[:middle].mean(axis=0)
            above = logs[middle:].mean(axis=0) - logs[middle]
            # of both the one that is farther from one
            down = positive & (below > 1 / _LEAST_POWER) & ~(logs[-1] > -logs[0])
        up = (positive & (above > 1 / _LEAST_POWER)) | (flat[middle] > _FAR)
        if not (bad := down | up).any():
            continue
        k = int(np.argmax(bad))
        end = "zero" if down[k] else "infinity"
        side = ("below", "least", flat[0, k]) if down[k] else ("above", "greatest", flat[-1, k])
        found.append(
            Notice(
                f"the posterior of {name} has no end at {end}: half of its draws are {side[0]} "
                f"{flat[middle, k]:.1g}, and the {side[1]} is {side[2]:.1g}",
                f"its prior is improper, and the data do not rule {end} out: give it a proper prior",
                "improper",
                (name,),
            )
        )
    return found


def run_away(draws: Mapping[str, np.ndarray]) -> list[Notice]:
    """A notice of counts without end that have come to the largest whole number that there is, where sums and
    products of them mean nothing: no mode, however their chains agree."""
    ends = [
        n for n, x in draws.items()
        if x.dtype.kind == "i" and x.size and x[:, -1].max() == np.iinfo(x.dtype).max
    ]  # fmt: skip
    if not ends:
        return []
    several = len(ends) > 1
    return [
        Notice(
            f"{', '.join(ends[:3])}{', …' * (len(ends) > 3)} {'have' if several else 'has'} run away to the "
            f"largest whole number there is, {np.iinfo(draws[ends[0]].dtype).max:,}",
            "start where counts are likely (init=…), or bound them (a Categorical over 0…K), which can be "
            "summed out",
            "improper",
            tuple(ends),
        )
    ]


def stuck_chains(plan: Plan, moments: Moments) -> tuple[dict[int, str], list[Notice]]:
    """Chains in which a latent scalar has kept its value for 500 draws, or all chains for a whole run: the
    label by chain, and a notice for each site. Discrete scalars may rest where all chains agree: of them
    those count that rest in all chains, at different values, in the chains that are not with the most."""
    stuck: dict[int, str] = {}
    notices = []
    summed = summed_sites(plan)
    for site, m in moments.sites.items():
        info = plan.sites.get(site) or plan.sites[plan.groups[site][0]]
        if info.role != "latent" or m.unmoved.size == 0 or {site, info.name} & {*plan.generated, *summed}:
            continue
        still = m.unmoved >= _STUCK
        if m.draws >= _NEVER:
            still = still | m.never_moved.all(axis=0)
        if info.discrete:
            still = (m.unmoved >= _STUCK).all(axis=0) & m.apart()
        elif site in plan.sites and still.any():
            still &= ~_the_same_always(info)[m.elements]
        chains = np.flatnonzero(still.any(axis=1)).tolist()
        if not chains:
            continue
        shape = info.shape if site in plan.sites else (len(plan.groups[site]), *info.shape)
        firsts = [int(np.argmax(still[c])) for c in chains]
        for chain, k in zip(chains, firsts, strict=True):
            at = np.unravel_index(int(m.elements[k]), shape)
            stuck.setdefault(chain, label_of(site, tuple(int(i) for i in at)))
        at = [int(i) for i in np.unravel_index(int(m.elements[firsts[0]]), shape)]
        label = scalar_name(site, at, axis_labels(plan, site, shape))
        draws = min(int(m.unmoved[c, k]) for c, k in zip(chains, firsts, strict=True))
        more = int(still.any(axis=0).sum()) - 1
        others = f" and {more} more of {site!r}" if more else ""
        which = f"{told_chains(chains)} {'has' if len(chains) == 1 else 'have'}"
        notices.append(
            Notice(
                f"{which} not moved for {draws} draws: {label}{others}",
                "each chain keeps to values of its own: draw what moves only together in one block, sum it "
                "out, or give the site another kernel"
                if info.discrete
                else "its proposals are all rejected: warm up longer, start elsewhere (init=…), or give the "
                "site another kernel",
                "stuck",
                (site,),
            )
        )
    return stuck, notices


def summed_sites(plan: Plan) -> frozenset[str]:
    """The sites that are drawn exactly given all others at every step: where they rest, these decide them."""
    blocks = [b for b in plan.blocks if len(b.sites) > len(b.eliminated)]
    return frozenset(n for b in blocks for n in b.eliminated)


def told_by_labels(plan: Plan, notices: Sequence[Notice]) -> set[str]:
    """The discrete sites whose resting is nothing but the switching of labels, which `notices` tell."""
    if not any(n.topic in ("labels", ORDERS) for n in notices):
        return set()
    resting = [s for n in notices if n.topic == "stuck" for s in n.sites]
    return {s for s in resting if (plan.sites.get(s) or plan.sites[plan.groups[s][0]]).discrete}


def _the_same_always(info: Any) -> np.ndarray:
    """Which elements of a continuous site its support leaves one value: zeros above the diagonal of a
    triangular matrix, ones on that of correlations."""
    free = np.prod(info.shape, dtype=np.int64)
    if info.support is None or not free:
        return np.zeros(free, bool)
    through = biject_to(info.support)
    shape = through.inverse_shape(info.shape)
    if shape == info.shape:
        return np.zeros(free, bool)
    found = [np.ravel(through(jax.random.normal(jax.random.key(s), shape))) for s in range(3)]
    return (found[0] == found[1]) & (found[1] == found[2])


def missing_information(plan: Plan, stats: Mapping[str, np.ndarray], hint: str = "") -> list[Notice]:
    """Of a low E-BFMI. Energies compare across draws only where one block moves everything."""
    energy = stats.get("0.energy")
    if len(plan.blocks) != 1 or energy is None or energy.shape[1] < 100:
        return []
    low = [f"{c} ({v:.2f})" for c, v in enumerate(bfmi(energy)) if v < _LOW_BFMI]
    if not low:
        return []
    return [
        Notice(
            f"E-BFMI is below {_LOW_BFMI} in chain {', '.join(low)}: the tails are explored slowly",
            hint or "choose lighter tails",
            "bfmi",
        )
    ]


def disagreement(
    scalars: Sequence[ScalarStat],
    draws: Mapping[str, np.ndarray],
    hint: str = "",
    nameless: Callable[[str], bool] = lambda site: True,
    signless: Callable[[Sequence[str]], bool] = lambda sites: True,
    summed: Collection[str] = (),
) -> list[Notice]:
    """Of R-hats above 1.01 in an ended run; sites whose components agree once sorted have switched labels,
    or, where these are not `nameless` (the model is another when they are renamed), are in another mode; so
    with sites of other signs that are not `signless` together;
    discrete ones that never move and differ between chains show that the kernel cannot cross, but for those
    that are `summed` out of it."""
    bad = [s for s in scalars if s.rhat > 1.01]
    switched = []
    for site in dict.fromkeys(s.site for s in bad if s.rhat > 1.05 and not s.discrete):
        x = draws[site]
        if x.ndim != 3 or not 1 < x.shape[-1] <= _MOST_COMPONENTS:
            continue
        x = x[:, :: max(1, x.shape[1] // _MOST_DRAWS)]
        if sorted_rhat(x) < 1.02 and _permuted(x):
            switched.append(site)
    if switched and not all(map(nameless, switched)):
        return [
            Notice(
                f"the components of {', '.join(switched)} differ in order between chains, and the model "
                "tells them apart (by priors, or where a chain of states begins): orders are modes",
                "start all chains in the order that is meant (init=…), or have the model allow no other "
                "(`model.ordered(…)`, narrower priors)",
                ORDERS,
                tuple(switched),
            )
        ]
    if switched:
        return [labels_switched(switched)]
    turned = _turned_sites(bad, draws)
    if turned and signless(turned):
        verb = "have" if len(turned) > 1 else "has"
        return [
            Notice(
                f"directions switched: {', '.join(turned)} {verb} the same lengths in all chains, "
                "and other signs",
                "look at what has no sign, such as products, or give it one: a positive loading for "
                "each factor",
                "signs",
                tuple(turned),
            )
        ]
    rests = [s for s in bad if s.discrete and s.site not in summed]
    frozen = [s for s in rests if _frozen(draws[s.site][(..., *s.index)])]
    if frozen:
        return [
            Notice(
                f"{_few(frozen)} never move{'s' * (len(frozen) == 1)}, and differ between chains: the chains "
                f"are in different parts of the posterior and cannot cross",
                hint or "draw sites that move only together in one block, or sum them out",
                "stuck",
            )
        ]
    if not bad:
        return []
    return [Notice(f"R-hat is above 1.01 for {_few(bad)}", hint or "draw more", "rhat")]


def labels_switched(sites: Sequence[str], density: Density | None = None) -> Notice:
    """The notice of chains that differ by the names of their components alone. Of a `density` it is known
    which of the sites can be put in order."""
    fit = (
        ["…"]
        if density is None
        else [repr(n) for n in sites if n in density.sites and not why_not(density, n)]
    )
    ordered = f"put them in order (`model.ordered({fit[0]})`), or " if fit else ""
    none = "" if fit else "; none of them is a vector of numbers that could be put in order"
    return Notice(
        f"labels switched: the components of {', '.join(sites)} differ in order between chains",
        f"{ordered}look only at what does not depend on labels{none}",
        "labels",
        tuple(sites),
    )


def _turned_sites(bad: Sequence[ScalarStat], draws: Mapping[str, np.ndarray]) -> list[str]:
    """The sites that disagree by their signs alone, or as vectors by their directions, where no other does: a
    model that reads two of them through their product knows no more."""
    apart: dict[str, list[ScalarStat]] = {}
    for s in bad:
        if s.rhat > 1.05:
            apart.setdefault(s.site, []).append(s)
    far = {n for n, stats in apart.items() if max(s.rhat for s in stats) > _OPPOSED}
    if not far or any(s.discrete for stats in apart.values() for s in stats):
        return []
    return list(apart) if all(_same_lengths(draws[n], stats) for n, stats in apart.items()) else []


def _same_lengths(x: np.ndarray, stats: Sequence[ScalarStat]) -> bool:
    """Whether the lengths of rows (or the sizes of numbers) of draws `[chain, draw, …]` agree between chains
    in those that disagree most."""
    x = x[:, :: max(1, x.shape[1] // _MOST_DRAWS)].astype(np.float64)
    rows = x.ndim > 3 and x.shape[-1] <= _MOST_COMPONENTS
    worst = sorted(stats, key=lambda s: -s.rhat)[:_MOST_LENGTHS]
    places = dict.fromkeys(s.index[:-1] if rows else s.index for s in worst)
    found = [x[(slice(None), slice(None), *i)] for i in places]
    lengths = [np.linalg.norm(v, axis=-1) if rows else np.abs(v) for v in found]
    return all(rank_rhat(v) < 1.05 for v in lengths)


def _few(scalars: Sequence[ScalarStat]) -> str:
    return ", ".join(s.called for s in scalars[:3]) + (", …" if len(scalars) > 3 else "")


def _frozen(x: np.ndarray) -> bool:
    """Whether draws `[chain, draw]` stay where each chain began, at different values."""
    return bool((x == x[:, :1]).all() and np.ptp(x[:, 0]) > 0)


def _permuted(x: np.ndarray) -> bool:
    """Whether two components of draws `[chain, draw, K]` stand in one order in one chain and in the other
    order in another, well apart both times; or whether the chains themselves change the order as they go."""
    x = x.astype(np.float64)
    means, spread = x.mean(axis=1), np.sqrt(x.var(axis=1).mean(axis=0))
    wide = spread[:, None] + spread[None, :]
    gap = means[:, :, None] - means[:, None, :]
    across = (gap > wide).any(axis=0) & (gap < -wide).any(axis=0)
    ordered = np.sort(x, axis=-1)
    # components that trade places are spread over values that are well apart once sorted
    inner = np.sqrt(ordered.var(axis=1).mean(axis=0)).max()
    apart = np.diff(ordered.mean(axis=(0, 1))).min()
    return bool(across.any() or (apart > 2 * inner and spread.min() > 2 * inner))
