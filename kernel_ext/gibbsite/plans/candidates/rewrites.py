"""A schedule → others that do the same: each rewrite a function from updates to schedules, all in one table.

A rewrite does not judge. What it yields is weighed by `choice`, and checked there against the rules that
every schedule has to keep.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from gibbsite.conditional.dispatch import conditional_of
from gibbsite.conditional.linear.choose import coupled, gaussian_blocks
from gibbsite.conditional.linear.collapsed import collapsed_block, outer_site
from gibbsite.conditional.linear.joint import is_gaussian, joint_gaussian
from gibbsite.conditional.linear.polya_gamma import polya_gamma_block
from gibbsite.conditional.reads.group import unit_of
from gibbsite.density.hierarchy.location_scale import location_scales
from gibbsite.density.hierarchy.stick_labels import stick_labels
from gibbsite.elimination import eliminable, marginal_of
from gibbsite.errors import ModelError
from gibbsite.plans.candidates.blocking import Tie, all_met, hardly_told, size_of
from gibbsite.plans.candidates.limits import CLOSE, MOST_DENSE, WORTH
from gibbsite.plans.schedule.deterministic import stuck_apart
from gibbsite.plans.schedule.parse import Spec, Update
from gibbsite.plans.schedule.registry import Facts, find_kernel, refused

Rewrite = Callable[[Facts, Spec, Sequence[Tie]], Iterator[Spec]]


def jointly_gaussian(facts: Facts, base: Spec, ties: Sequence[Tie]) -> Iterator[Spec]:
    """What is Gaussian together given the rest, drawn as one."""
    alone = [n for n in _alone(base) if is_gaussian(facts.conditional(n))]
    blocks = gaussian_blocks(facts.density, alone, MOST_DENSE)
    if blocks:
        yield _gathered(base, {b[0]: Update("Conjugate", b) for b in blocks.values()})


def is_small(facts: Facts, sites: Sequence[str]) -> bool:
    """Whether a joint Gaussian draw cannot take more than `limits.CLOSE` times what draws in turn do."""
    layout = joint_gaussian(facts.density, tuple(sites)).layout
    arithmetic = (layout.rest + layout.border) ** 3 / 3
    return WORTH["arithmetic"] * arithmetic < CLOSE * WORTH["sweep"]


def augmented(facts: Facts, base: Spec, ties: Sequence[Tie]) -> Iterator[Spec]:
    """Linear predictors of logistic likelihoods, drawn given Pólya-gamma variates."""
    density = facts.density
    drawn = [
        n for u in base.updates if u.kernel in ("Conjugate", "NUTS") and not u.eliminated for n in u.sites
    ]
    drawn = [n for n in facts.sites if n in drawn and n in density.latent_vars]
    blocks = []
    linear = [
        n
        for n in drawn
        if is_gaussian(facts.conditional(n)) or refused(polya_gamma_block, facts, (n,)) is None
    ]
    for part in coupled(density, linear):
        if refused(polya_gamma_block, facts, part) is None:
            blocks.append(part)
    if blocks:
        yield _gathered(base, {b[0]: Update("PolyaGamma", b) for b in blocks})


def switches_collapsed(facts: Facts, base: Spec, ties: Sequence[Tie]) -> Iterator[Spec]:
    """A discrete site whose values go with coefficients of their own, drawn with the coefficients integrated
    out: a switch, a change point, a few indicators that many data read at once. Chains are drawn as a whole
    by their recursion, and what is independent, as the assignments of a mixture, in one pass."""
    density, blocks = facts.density, {}
    taken: set[str] = set()
    gaussian = {u: u.sites for u in base.updates if u.kernel == "Conjugate" and _all_gaussian(facts, u)}
    for u in base.updates:
        switch = u.sites[0]
        if u.kernel != "Gibbs" or len(u.sites) > 1 or switch not in density.latent_vars:
            continue
        if u.options and stuck_apart(facts, [replace(u, options=())]):
            continue  # one by one its elements never move, whatever is integrated out
        structure = getattr(facts.conditional(switch), "structure", None)
        if structure is None or unit_of(density, switch) != switch:
            continue
        if facts.conditional(switch).kind != "finite" or (
            density.sites[switch].shape and structure.independent
        ):
            continue
        near = [
            k for k, names in gaussian.items() if any(len(coupled(density, (switch, n))) == 1 for n in names)
        ]
        inner = tuple(n for n in facts.sites if any(n in k.sites for k in near))
        block = (switch, *inner)
        if inner and not taken & {*inner} and refused(collapsed_block, facts, block) is None:
            blocks[switch] = Update("Collapsed", block)
            taken |= {*block}
    if blocks:
        yield _gathered(base, blocks)


def scales_collapsed(facts: Facts, base: Spec, ties: Sequence[Tie]) -> Iterator[Spec]:
    """Scales of effects, drawn with the effects integrated out; then with the noise of their data."""
    effects = _around(facts, base, ties, lambda t, block: t.where in block) or _only_scale(facts, base, ties)
    noise = _around(facts, base, ties, lambda t, block: t.where not in block and not t.level)
    if effects:
        yield _with_outer(base, effects)
    if noise:
        both = {b: (*effects.get(b, ()), *noise.get(b, ())) for b in dict.fromkeys((*effects, *noise))}
        yield _with_outer(base, {b: tuple(dict.fromkeys(names)) for b, names in both.items()})


def slices_collapsed(facts: Facts, base: Spec, ties: Sequence[Tie]) -> Iterator[Spec]:
    """Numbers that gradients do not feel, and are sliced one by one (a change point, a class that rounding
    makes), drawn with the Gaussian sites that they meet integrated out."""
    sliced = {
        u.sites[0] for u in base.updates if u.kernel == "Slice" and size_of(facts.density, u.sites) == 1
    }
    found: dict[Update, tuple[str, ...]] = {}
    for u in base.updates:
        if u.kernel == "Conjugate" and _all_gaussian(facts, u):
            met = [t.site for t in ties if not t.known and t.site in sliced and {*t.given} & {*u.sites}]
            mine = tuple(n for n in dict.fromkeys(met) if _outer(facts, n))
            if mine:
                found[u] = mine
                sliced -= {*mine}
    if found:
        yield _with_outer(base, found)


def by_gradients(facts: Facts, base: Spec, ties: Sequence[Tie]) -> Iterator[Spec]:
    """What is tied, directly or through others, in one block of NUTS: hierarchies in learnt coordinates."""
    last = _gradients(base)
    for mine in _held_together(facts, base, ties):
        yield _moved(facts, base, last, mine)


def labels_switched(facts: Facts, base: Spec) -> Spec | None:
    """With exchanges of labels in every sweep, where only sticks tell their order: as many evaluations of the
    density as there are labels. None where there are none such, or
    the sites that bear the labels are spread over updates that cannot stand within one."""
    found = stick_labels(facts.density)
    if found is None:
        return None
    bearing = [n for n in facts.sites if n in {*found.continuous, *found.labels}]
    near = [u for u in base.updates if {*bearing} & {*u.everything}]
    if base.random_scan or any(u.repeat > 1 or u.parts for u in near):
        return None
    if len(near) == 1:  # perhaps without the indicators
        (one,) = near
        left = tuple(n for n in bearing if n in one.sites)
        within = (replace(one, eliminated=()), Update("SwitchLabels", left))
        together = Update("Interleave", one.sites, eliminated=one.eliminated, parts=within)
    elif any(u.eliminated for u in near):
        return None
    else:
        last = Update("SwitchLabels", tuple(bearing))
        sites = tuple(n for u in near for n in u.sites)
        together = Update("Interleave", sites, parts=(*near, last))
    if not {*found.continuous} <= {*together.parts[-1].sites}:
        return None
    at = base.updates.index(near[-1])
    before = tuple(u for u in base.updates[:at] if u not in near)
    return Spec((*before, together, *base.updates[at + 1 :]), base.random_scan)


def _held_together(facts: Facts, base: Spec, ties: Sequence[Tie]) -> Iterator[set[str]]:
    """What gradients move and what is tied to that; the same with all that is tied."""
    last = _gradients(base)
    if last is not None and last.eliminated:
        return
    exact = ("Conjugate", "PolyaGamma")
    smooth = {n for u in base.updates if u.kernel in exact and _smooth(facts, u.sites) for n in u.sites}
    cut = [t for t in ties if not t.known and t.cut_by(_home(base))]
    held = [{n for n in (t.site, *t.given) if not facts.density.sites[n].discrete} for t in cut]
    near_all = {n for near in held for n in near} & smooth
    offered: list[set[str]] = []
    for seed in ({*last.sites}, {*last.sites} | near_all) if last else (near_all,):
        mine = set(seed)
        while True:
            near = {n for h in held if mine & h for n in h & (smooth | mine)}
            # a block that is drawn jointly moves as one
            near |= {n for u in base.updates if u.kernel in exact and near & {*u.sites} for n in u.sites}
            if near <= mine:
                break
            mine |= near
        grown = len(mine) > 1 and not (last and mine <= {*last.sites})
        if grown and mine not in offered:
            offered.append(mine)
            yield mine


def integrated_out(facts: Facts, base: Spec, ties: Sequence[Tie]) -> Iterator[Spec]:
    """Gradients of what is tied to sites that have an integral, with these integrated out: chains over time,
    rates under a gamma or a beta prior. Where slices can do it (`scales_collapsed`) and leave nothing to
    gradients, there is no need to."""
    if any(_gradients(sliced) is None for sliced in scales_collapsed(facts, base, ties)):
        return
    held = {g for t in ties if not t.known for g in t.given}
    meeting = meeting_noise(facts, ties, base)
    for mine in _held_together(facts, base, ties):
        plain = _moved(facts, base, _gradients(base), mine)
        last = plain.updates[-1]
        blocks = [b for b in eliminable(facts.density) if held & {*b} and {*b} < mine]
        out = max(blocks, key=lambda b: size_of(facts.density, b), default=())
        # integrated out, they meet no data: the noise has a bound, unless the others meet all
        met = [t for t in meeting if {t.site, *t.given} <= mine]
        if out and not any(all_met(facts.density, t.where, {*t.given} - {*out}) for t in met):
            left = tuple(n for n in last.sites if n not in out)
            yield Spec((*plain.updates[:-1], replace(last, sites=left, eliminated=out)), base.random_scan)


def summed_out(facts: Facts, base: Spec, ties: Sequence[Tie]) -> Iterator[Spec]:
    """Gradients of what discrete sites decide, with these summed out: all of them, or those of which each
    element is by itself; or those without end."""
    last = _gradients(base)
    if last is not None and last.eliminated:
        return
    gibbs = [u for u in base.updates if u.kernel == "Gibbs"]
    free = [u for u in gibbs if not u.options and all(_independent(facts, n) for n in u.sites)]
    endless = [u for u in base.updates if u.kernel == "Window"]
    offered = set()
    for out in (gibbs, free, endless):
        gone = {n for u in out for n in u.sites}
        home = _home(base)
        cut = [t for t in ties if not t.known and t.cut_by(home) and gone & {*t.given}]
        gone = {n for u in out if any({*u.sites} & {*t.given} for t in cut) for n in u.sites}
        near = {home[t.site] for t in cut if home[t.site].kernel != "NUTS"}
        mine = {n for u in near for n in u.sites} | ({*last.sites} if last else set())
        if not gone or frozenset(gone) in offered or not mine or not _smooth(facts, mine):
            continue
        offered.add(frozenset(gone))
        names = tuple(n for n in facts.sites if n in gone)
        if any(u.kernel not in ("Conjugate", "PolyaGamma") for u in near):
            continue
        if refused(marginal_of, facts, names, ModelError) is not None:
            continue
        plain = _moved(facts, base, last, mine)
        kept = [k for u in plain.updates[:-1] for k in u.keeping([n for n in u.everything if n not in gone])]
        yield Spec((*kept, replace(plain.updates[-1], eliminated=names)), base.random_scan)


REWRITES: Mapping[str, Rewrite] = {
    "what is Gaussian together drawn as one": jointly_gaussian,
    "logistic predictors given Pólya-gamma variates": augmented,
    "switches with their coefficients integrated out": switches_collapsed,
    "scales with their effects integrated out": scales_collapsed,
    "what is sliced with what it meets integrated out": slices_collapsed,
    "what has an integral integrated out of gradients": integrated_out,
    "all that is tied by gradients": by_gradients,
    "discrete sites summed out of gradients": summed_out,
}
"""Every way to change a schedule, by what it does, in the order in which they are tried one upon another."""


def _home(spec: Spec) -> dict[str, Update]:
    return {n: u for u in spec.updates for n in u.everything}


def _alone(spec: Spec) -> list[str]:
    return [u.sites[0] for u in spec.updates if u.kernel == "Conjugate" and len(u.sites) == 1]


def _gradients(spec: Spec) -> Update | None:
    return next((u for u in spec.updates if u.kernel == "NUTS"), None)


def _smooth(facts: Facts, sites: Collection[str]) -> bool:
    """Whether gradients can move all of them."""
    row = find_kernel("NUTS")
    return row is not None and all(row.fits(facts, n) is None for n in sites)


def _independent(facts: Facts, name: str) -> bool:
    structure = getattr(facts.conditional(unit_of(facts.density, name)), "structure", None)
    return facts.conditional(unit_of(facts.density, name)).kind == "finite" and bool(
        structure and structure.independent
    )


def meeting_noise(facts: Facts, ties: Sequence[Tie], base: Spec) -> list[Tie]:
    """The noise of data that others can meet all of, and these, where it is not moved already with some that
    can: moved together, their density has no bound where they meet, and hardly any step size fits it."""
    last = _gradients(base)
    old = {*last.sites} if last else set()

    def moved(t: Tie) -> bool:
        return t.site in old and all_met(facts.density, t.where, old & {*t.given})

    return [t for t in ties if t.unbounded and not moved(t)]


def _moved(facts: Facts, base: Spec, last: Update | None, sites: Collection[str]) -> Spec:
    """With the sites in one block of NUTS, the last of a sweep."""
    order = tuple(n for n in facts.sites if n in sites)
    block = replace(last, sites=order) if last else Update("NUTS", order)
    free = [u for u in base.updates if u is not last]
    left = [k for u in free for k in u.keeping([n for n in u.everything if n not in sites])]
    return Spec((*left, block), base.random_scan)


def _gathered(base: Spec, blocks: Mapping[str, Update]) -> Spec:
    """With each of the blocks where the first of its sites that is drawn exactly stood, its sites out of what
    drew them."""
    taken = {n: b for b in blocks.values() for n in b.sites}
    updates: list[Update] = []
    put: set[Update] = set()
    for u in base.updates:
        for b in dict.fromkeys(taken[n] for n in u.sites if n in taken):
            if b not in put and u.kernel != "NUTS":
                updates.append(b)
                put.add(b)
        updates += u.keeping([n for n in u.everything if n not in taken])
    late = [b for b in blocks.values() if b not in put]
    at = next((i for i, u in enumerate(updates) if u.kernel == "NUTS"), len(updates))
    return Spec((*updates[:at], *late, *updates[at:]), base.random_scan)


def _around(
    facts: Facts, base: Spec, ties: Sequence[Tie], of: Callable[[Tie, Sequence[str]], bool]
) -> dict[Update, tuple[str, ...]]:
    """By update of Gaussian sites, the sites drawn alone that are tied to it in a statement of a kind, or by
    gradients, single numbers of which hardly any effects tell."""
    last, density = _gradients(base), facts.density
    told = hardly_told(density, facts.sites) if last and not last.eliminated else ()
    few = {n for n in told if last and n in last.sites and size_of(density, [n]) == 1}
    alone, found = {*_alone(base)} | few, {}
    taken: set[str] = set()
    for u in base.updates:
        if u.kernel not in ("Conjugate", "PolyaGamma") or not _all_gaussian(facts, u):
            continue
        tied = dict.fromkeys(t.site for t in ties if of(t, u.sites) and {*t.given} & {*u.sites})
        mine = [n for n in tied if n in alone and n not in taken and n not in u.sites and _outer(facts, n)]
        if mine:
            found[u] = tuple(mine)
            taken |= {*mine}
    return found


def _only_scale(facts: Facts, base: Spec, ties: Sequence[Tie]) -> dict[Update, tuple[str, ...]]:
    """The scale of Gaussian effects, one number, where gradients would move nothing else. Where they move
    more, or given Pólya-gamma variates, slices remember for longer than is predicted: a horseshoe's global
    scale for 6 sweeps, logistic ones for 2 to 3.6, and not for 1.2."""
    last, scales = _gradients(base), location_scales(facts.density)
    if last is None or last.eliminated or len(last.sites) != 1 or size_of(facts.density, last.sites) > 1:
        return {}
    (scale,) = last.sites
    of = {t.where for t in ties if t.site == scale and t.where in scales and scale in scales[t.where].scale}
    exact = [u for u in base.updates if u.kernel == "Conjugate" and of & {*u.sites}]
    if len(exact) != 1 or not of <= {*exact[0].sites} or not _all_gaussian(facts, exact[0]):
        return {}
    return {exact[0]: (scale,)} if _outer(facts, scale) else {}


def _all_gaussian(facts: Facts, update: Update) -> bool:
    known = all(n in facts.density.latent_vars for n in update.sites)
    if not known or update.kernel == "PolyaGamma":
        return known
    return all(is_gaussian(conditional_of(facts.density, n)) for n in update.sites)


def _outer(facts: Facts, site: str) -> bool:
    if site not in facts.density.latent_vars or is_gaussian(facts.conditional(site)):
        return False
    return refused(outer_site, facts, site) is None


def _with_outer(base: Spec, outer: Mapping[Update, tuple[str, ...]]) -> Spec:
    taken = {n for names in outer.values() for n in names}
    updates = []
    for u in base.updates:
        if u in outer:
            kernel = "PolyaGamma" if u.kernel == "PolyaGamma" else "Collapsed"
            updates.append(replace(u, kernel=kernel, sites=(*outer[u], *u.sites)))
        else:
            updates += u.keeping([n for n in u.everything if n not in taken])
    return Spec(tuple(updates), base.random_scan)
