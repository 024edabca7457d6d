"""What to try about a warning, in the words of the model at hand: only what exists for it."""

from collections.abc import Sequence

from gibbsite.density import Density
from gibbsite.density.hierarchy.location_scale import location_scales
from gibbsite.elimination import joint_marginal
from gibbsite.kernels.scheduling.plan import Plan
from gibbsite.sampling.watch.snapshot import ScalarStat

_GRADIENTS = ("NUTS", "HMC")


def for_divergences(plan: Plan) -> str:
    """Smaller steps of the block that diverges; other coordinates for its hierarchies."""
    block = next((b for b in plan.blocks if b.kernel in _GRADIENTS), None)
    if block is None:
        return ""
    found = [f"{block.kernel}(target_accept_prob=0.95) {block.label}"]
    return ", or ".join(found + _other_coordinates(plan))


def for_energies(plan: Plan) -> str:
    """Other coordinates for the hierarchies of the model, if it has any; else lighter tails."""
    return ", or ".join([*_other_coordinates(plan), "choose lighter tails"])


def for_disagreement(plan: Plan, scalars: Sequence[ScalarStat]) -> str:
    """More draws; and for sites that disagree and are drawn in turn, a joint draw where there is one."""
    sites = list(dict.fromkeys(s.site for s in scalars if s.rhat > 1.01))
    discrete = [s for s in sites if (known := plan.sites.get(s)) is not None and known.discrete]
    apart = [b for b in plan.blocks if b.kernel == "Gibbs" and set(b.sites) & set(discrete)]
    density = plan.density
    if density is not None and len(apart) > 1:
        together = [n for b in apart for n in b.sites]
        if not isinstance(joint_marginal(density, together, insist=False), str):
            return f"draw them together: Gibbs [{' '.join(together)}]"
    exact = [n for b in plan.blocks if b.kernel in ("Conjugate", "Slice") for n in b.sites]
    smooth = [n for b in plan.blocks if b.kernel in _GRADIENTS for n in b.sites]
    bad = [n for n in sites if n in exact]
    if (
        density is not None
        and not discrete
        and len(bad) + bool(smooth) > 1
        and all(_smooth(density, n) for n in bad)
    ):
        return f"draw more, or together by gradients: NUTS [{' '.join(dict.fromkeys([*bad, *smooth]))}]"
    return "draw more: run.resume(draws=…)"


def _smooth(density: Density, name: str) -> bool:
    return not density.bounds_of(name)


def _other_coordinates(plan: Plan) -> list[str]:
    if plan.density is None:
        return []
    moved = {n for b in plan.blocks if b.kernel in _GRADIENTS for n in b.sites}
    found = [n for n, f in location_scales(plan.density).items() if f.elementwise and n in moved]
    return [f'model.reparam({{"{found[0]}": "non-centred"}})'] if found else []
