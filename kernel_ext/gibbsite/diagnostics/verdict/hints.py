"""What to try about a warning, in the words of the model at hand: only what exists for it."""

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import jax
import numpy as np

from gibbsite.density import Density
from gibbsite.density.hierarchy.location_scale import location_scales
from gibbsite.diagnostics.measures.snapshot import ScalarStat
from gibbsite.diagnostics.verdict.stake import structures_of
from gibbsite.elimination import MissingFraction, joint_marginal
from gibbsite.elimination.pointwise import DRAWS
from gibbsite.errors import ScheduleError
from gibbsite.plans.schedule.edits import with_options
from gibbsite.plans.schedule.parse import parse_schedule
from gibbsite.plans.schedule.plan import GRADIENTS, Plan, switches_apart

_FIRST_AIM, _AIMS = 0.8, (0.95, 0.99)
_MUCH = 0.8
"""The share of missing information beyond which sums over a plate were found to be worth their gradients."""
_MOST_ENTRIES = 2**22
"""Of tables, over all draws of the measure: four processor seconds. What is drawn one by one as sums are
too large is no hint's business."""
_KEPT = 8
_ALONE = threading.Lock()  # runs end in threads of their own
_MEASURED: OrderedDict[Any, MissingFraction | None] = OrderedDict()
_NONE: Mapping[str, np.ndarray] = MappingProxyType({})


def smaller_steps(aim: float | None) -> tuple[float, float | None]:
    """The acceptance that a block aims at, NumPyro's default where that is not known, and the next one to
    try; None where there is none."""
    now = _FIRST_AIM if aim is None else aim
    return now, next((t for t in _AIMS if t > now + 1e-4), None)


def for_divergences(plan: Plan, aims: Mapping[int, float]) -> str:
    """Smaller steps than those that the block makes by now; other coordinates for its hierarchies."""
    at = next((i for i, b in enumerate(plan.blocks) if b.kernel in GRADIENTS), None)
    if at is None:
        return ""
    _, target = smaller_steps(aims.get(at, plan.blocks[at].options.get("target_accept_prob")))
    found = [] if target is None else _aiming(plan.schedule_text, target)
    return ", or ".join(found + _other_coordinates(plan))


def _aiming(text: str, target: float) -> list[str]:
    """The schedule with another acceptance aimed at by its first block of gradients; none of what cannot be
    read, as with kernels of one's own."""
    try:
        schedule = parse_schedule(text)
    except ScheduleError:
        return []
    block = next((u for u in schedule.updates if u.kernel in GRADIENTS), None)
    return [] if block is None else [with_options(schedule, block, target_accept_prob=target)]


def for_energies(plan: Plan) -> str:
    """Other coordinates for the hierarchies of the model, if it has any; else lighter tails."""
    return ", or ".join([*_other_coordinates(plan), "choose lighter tails"])


def for_disagreement(
    plan: Plan, scalars: Sequence[ScalarStat], draws: Mapping[str, np.ndarray] = _NONE
) -> str:
    """More draws; for discrete sites that leave much information missing, a marginal without them; for sites
    that disagree and are drawn in turn, a joint draw where there is one."""
    sites = list(dict.fromkeys(s.site for s in scalars if s.rhat > 1.01))
    discrete = [s for s in sites if (known := plan.sites.get(s)) is not None and known.discrete]
    apart = [b for b in plan.blocks if b.kernel == "Gibbs" and set(b.sites) & set(discrete)]
    density = plan.density
    told = _missing(plan, draws) if any(s.rhat > 1.01 for s in scalars) else ""
    if told:
        return told
    if density is not None and len(apart) > 1:
        together = [n for b in apart for n in b.sites]
        if not isinstance(joint_marginal(density, together, insist=False), str):
            return f"draw them together: Gibbs [{' '.join(together)}]"
    exact = [n for b in plan.blocks if b.kernel in ("Conjugate", "Slice") for n in b.sites]
    smooth = [n for b in plan.blocks if b.kernel in GRADIENTS for n in b.sites]
    bad = [n for n in sites if n in exact]
    if (
        density is not None
        and not discrete
        and len(bad) + bool(smooth) > 1
        and not any(density.bounds_of(n) for n in bad)
    ):
        return f"draw more, or together by gradients: NUTS [{' '.join(dict.fromkeys([*bad, *smooth]))}]"
    return "draw more: run.resume(draws=…)"


def for_modes(plan: Plan) -> str:
    """Replicas that cross between modes, where the model's latents allow it; and what can be done with the
    draws that there are."""
    density = plan.density
    weighed = "run.modes.draws() visits each mode in proportion to its weight"
    if density is None:
        return weighed
    if forms := switches_apart(plan):
        return f"{structures_of(forms)}; {weighed}"
    seen = [n for n in density.latents if n not in plan.generated]
    if any(density.sites[n].discrete or density.bounds_of(n) for n in seen):
        return weighed
    return f"Tempered(NUTS [{' '.join(seen)}]) crosses between them; {weighed}"


def _missing(plan: Plan, draws: Mapping[str, np.ndarray]) -> str:
    """That discrete sites, drawn apart from the continuous ones, hide most of what the data say of these."""
    density, gibbs = plan.density, [n for b in plan.blocks if b.kernel == "Gibbs" for n in b.sites]
    if density is None or not gibbs or not all(n in draws for n in density.latents):
        return ""
    measured = _measured(plan, density, gibbs)
    if measured is None:
        return ""
    means = {n: _middle(density, n, draws[n]) for n in density.latents}
    share = measured(means, jax.random.key(0), tuple(density.arguments.arrays))
    if share is None or share < _MUCH:
        return ""
    names = ", ".join(map(repr, gibbs))
    return (
        f"{100 * share:.0f} % of the information on some parameter is missing while {' '.join(gibbs)} "
        f"{'is' if len(gibbs) == 1 else 'are'} drawn apart: sum out with {plan.model_name}.eliminate({names})"
    )


def _measured(plan: Plan, density: Density, gibbs: Sequence[str]) -> MissingFraction | None:
    """What measures it, one for all plans of one structure; None where the sites have no joint table."""
    key = (plan.cache_key, tuple(gibbs))
    with _ALONE:
        if key not in _MEASURED:
            marginal = joint_marginal(density, gibbs, insist=False)
            if isinstance(marginal, str) or marginal.plan.entries * DRAWS > _MOST_ENTRIES:
                _MEASURED[key] = None
            else:
                _MEASURED[key] = MissingFraction(marginal)
            while len(_MEASURED) > _KEPT:
                _MEASURED.popitem(last=False)
        _MEASURED.move_to_end(key)
        return _MEASURED[key]


def _middle(density: Density, name: str, draws: np.ndarray) -> np.ndarray:
    flat = draws.reshape(draws.shape[0] * draws.shape[1], *draws.shape[2:])
    return flat[-1] if density.sites[name].discrete else flat.mean(axis=0)


def _other_coordinates(plan: Plan) -> list[str]:
    if plan.density is None:
        return []
    moved = {n for b in plan.blocks if b.kernel in GRADIENTS for n in b.sites}
    found = [n for n, f in location_scales(plan.density).items() if f.elementwise and n in moved]
    return [f'{plan.model_name}.reparam({{"{found[0]}": "non-centred"}})'] if found else []
