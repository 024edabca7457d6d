"""An update → why it is drawn as it is: what was certified of its sites, and the ties it keeps or cuts."""

from gibbsite.kernels.nuts.report import to_be_learnt
from gibbsite.plans.candidates.alone import stepped
from gibbsite.plans.candidates.blocking import across, ties_of, within
from gibbsite.plans.schedule.elimination import joint_draw
from gibbsite.plans.schedule.parse import Update
from gibbsite.plans.schedule.registry import Facts, find_kernel


def reason(facts: Facts, update: Update, shared: bool = False) -> str:
    """Why this kernel for these sites, together or apart. Where updates have `shared` sites, none is apart
    from others."""
    ties = ties_of(facts.density)
    parts = [_own(facts, update)]
    if update.kernel in ("NUTS", "HMC"):
        kept = within(ties, update.sites)
        parts += [f"kept together: {'; '.join(kept)}"] if kept else []
        if update.kernel == "NUTS":
            centring = dict(update.options).get("centring", "auto")
            parts += to_be_learnt(facts.density, update.sites, centring)
    away: dict[str, float] = {}
    for t in () if shared else across(ties, update.everything):
        for n in t.given:
            if n not in update.everything and not facts.density.sites[n].discrete:
                away[n] = max(away.get(n, 1.0), t.most)
    if away:
        most = max(away.values())
        times = f"which holds it for {most:.0f} sweeps at most" if most >= 2 else "which hardly holds it"
        parts.append(f"apart from {', '.join(away)}, {times}")
    return "; ".join(parts)


def because_summed(facts: Facts, update: Update) -> str:
    """What sites that are eliminated from an update would hold, to follow on what is done with them."""
    gone = {m for n in update.eliminated for m in facts.density.members.get(n, (n,))} | {*update.eliminated}
    held = [t for t in ties_of(facts.density) if t.site in update.sites and gone & {*t.given}]
    if not held:
        return ""
    names = ", ".join(dict.fromkeys(t.site for t in held))
    most = max(t.most for t in held)
    return f": given {', '.join(update.eliminated)}, {names} may remember up to {most:.0f} sweeps"


def _own(facts: Facts, update: Update) -> str:
    kernel, sites = update.kernel, update.sites
    row = find_kernel(kernel)
    assert row is not None
    if kernel in ("Gibbs", "Conjugate"):
        joint = joint_draw(facts, kernel, sites, dict(update.options))
        if joint is not None and not isinstance(joint, str):
            return joint.reason
    if row.why is not None:
        return row.why(facts, sites)
    if kernel == "Slice":
        return "; ".join(f"{s}: {m}" for s in sites if (m := stepped(facts, s))) or row.reason
    return row.reason
