"""Updates out of which sites are eliminated: whether they fit a model, and the schedule that eliminates
sites."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from gibbsite.conditional.reads.group import updated_together
from gibbsite.elimination import Marginal, TableMarginal, joint_marginal, marginal_of
from gibbsite.errors import ModelError, ScheduleError
from gibbsite.kernels.learnt.moving import moving_support
from gibbsite.plans.schedule.parse import REST, Spec, Update, at_caret
from gibbsite.plans.schedule.registry import Facts, KernelRow, find_kernel, kernels, refused


def check_eliminated(facts: Facts, u: Update, row: KernelRow, text: str) -> None:
    """Raise `ScheduleError` where sites cannot be eliminated from an update."""
    if not u.eliminated:
        return

    def error(message: str, site: str | None = None) -> Exception:
        return at_caret(message, text, u.spans.get("eliminated sites" if site is None else f"site {site}"))

    if REST in u.eliminated:
        raise error("Eliminate takes the names of the sites to sum or integrate out, not '*'")
    for site in u.eliminated:
        if site in u.sites:
            raise error(f"{site!r} stands on both sides of '>': it is eliminated, or updated", site)
    if len(set(u.eliminated)) < len(u.eliminated):
        raise error(f"a site is named twice to the left of '>': {' '.join(u.eliminated)}")
    inner = [(p, known) for p in u.parts if (known := find_kernel(p.kernel)) is not None] or [(u, row)]
    for part, row in inner:
        if row.density_only:
            continue
        fitting = ", ".join(k.name for k in kernels().values() if k.density_only)
        raise at_caret(
            f"{row.name} needs more of the model than its log density, so no site can be summed or "
            f"integrated out of it; to the right of '>' fit {fitting}",
            text,
            part.spans.get("kernel"),
        )
    known = [s for s in u.eliminated if s in facts.sites or s in facts.density.groups]
    if len(known) < len(u.eliminated):
        return  # the check of names tells
    try:
        marginal_of(facts.density, u.eliminated)
    except ModelError as problem:
        named = [s for s in u.eliminated if repr(s) in str(problem)]
        stuck = [s for s in u.eliminated if refused(marginal_of, facts, [s], ModelError) is not None]
        others = [s for s in u.eliminated if s not in stuck]
        names = [" and ".join(map(repr, several)) for several in (others, stuck)]
        summed = all(facts.sites[s].discrete for s in others if s in facts.sites)
        verb = "summed" if summed else "integrated"
        without = f"; {names[0]} can be {verb} out without {names[1]}" if stuck and others else ""
        at = stuck if len(stuck) == 1 else named
        raise error(f"{problem}{without}", at[0] if len(at) == 1 else None) from problem


def drawn_jointly(facts: Facts, u: Update) -> Marginal | None:
    """The marginal behind an update: of the sites summed out of it, or of discrete sites drawn jointly."""
    if u.eliminated:
        return marginal_of(facts.density, u.eliminated)
    found = joint_draw(facts, u.kernel, u.sites, dict(u.options))
    return None if isinstance(found, str) else found


def joint_draw(
    facts: Facts, kernel: str, sites: Sequence[str], options: Mapping[str, Any] = MappingProxyType({})
) -> TableMarginal | str | None:
    """The joint draw of a block of discrete sites or why there is none; None where none is wanted."""
    units, wanted = updated_together(facts.density, sites), options.get("joint")
    if kernel != "Gibbs" or wanted is False or (len(units) < 2 and not wanted):
        return None
    return joint_marginal(facts.density, [m for ms in units.values() for m in ms], insist=bool(wanted))


def eliminating(facts: Facts, sites: Sequence[str], default: Sequence[Update]) -> Spec:
    """The `default` schedule of a model with `sites` eliminated from one NUTS block of its smooth sites.

    Where nothing continuous is left to move, discrete sites are drawn jointly; `ScheduleError` for continuous
    ones, which Conjugate draws by themselves.
    """
    gone = [m for s in sites for m in facts.density.groups.get(s, (s,))]
    smooth = [n for n, s in facts.sites.items() if s.role == "latent" and not s.discrete]
    smooth = [n for n in smooth if not moving_support(facts, n)]
    out = _by_group(facts, gone)
    if not set(smooth).difference(gone) and any(
        not facts.sites[n].discrete for n in gone if n in facts.sites
    ):
        raise ScheduleError(
            f"with {' and '.join(out)} integrated out nothing is left for NUTS to move; "
            f"'Conjugate [{' '.join(out)}]' draws exactly what is Gaussian together, and sites alone"
        )
    smooth = [n for n in smooth if n not in gone]
    taken = {*gone, *smooth}
    first = Update("NUTS", _by_group(facts, smooth), eliminated=out) if smooth else Update("Gibbs", out)
    rest = [kept for u in default for kept in u.keeping(set(u.everything) - taken)]
    return Spec((*[replace(u, sites=_by_group(facts, u.sites)) for u in rest], first))


def _by_group(facts: Facts, names: Sequence[str]) -> tuple[str, ...]:
    """Complete groups by their names, which runs on array sites understand."""
    owner = {
        m: g for g, members in facts.density.groups.items() if set(members) <= set(names) for m in members
    }
    return tuple(dict.fromkeys(owner.get(n, n) for n in names))
