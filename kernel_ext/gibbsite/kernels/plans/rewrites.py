"""A schedule → others that do the same: each rewrite a function from updates to schedules, all in one table.

A rewrite does not judge. What it yields is weighed by `choice`, and checked there against the rules that
every schedule has to keep.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from gibbsite.conditional.forms.walk import Refused
from gibbsite.conditional.linear.joint import is_gaussian
from gibbsite.conditional.linear.outer import outer_site
from gibbsite.elimination import eliminable
from gibbsite.kernels.plans.ties import Tie, size_of
from gibbsite.kernels.scheduling.parse import Spec, Update
from gibbsite.kernels.scheduling.registry import Facts

Rewrite = Callable[[Facts, Spec, Sequence[Tie]], Iterator[Spec]]


def scales_collapsed(facts: Facts, base: Spec, ties: Sequence[Tie]) -> Iterator[Spec]:
    """Scales of effects, drawn with the effects integrated out; then with the noise of their data."""
    effects = _around(facts, base, ties, lambda t, block: t.where in block)
    noise = _around(facts, base, ties, lambda t, block: t.where not in block)
    if effects:
        yield _with_outer(base, effects)
    if noise:
        both = {b: (*effects.get(b, ()), *noise.get(b, ())) for b in dict.fromkeys((*effects, *noise))}
        yield _with_outer(base, {b: tuple(dict.fromkeys(names)) for b, names in both.items()})


def all_by_gradients(facts: Facts, base: Spec, ties: Sequence[Tie]) -> Iterator[Spec]:
    """What is tied, directly or through others, in one block of NUTS: hierarchies in learnt coordinates."""
    exact = {n for u in base.updates if u.kernel == "Conjugate" for n in u.sites}
    last = next((u for u in base.updates if u.kernel == "NUTS"), None)
    moved = {*last.sites} if last else {t.site for t in ties if not t.known and t.site in exact}
    mine = set(moved)
    while True:
        near = {n for t in ties if not t.known and mine & {t.site, *t.given} for n in (t.site, *t.given)}
        if near <= mine:
            break
        mine |= near
    if not mine <= exact | moved:
        return  # some of them are drawn by a kernel that gradients cannot replace
    # a block that is drawn jointly moves as one
    mine |= {n for u in base.updates if u.kernel == "Conjugate" and mine & {*u.sites} for n in u.sites}
    if mine <= moved and last:
        return
    order = [n for n in facts.sites if n in mine]
    if not order:
        return
    block = replace(last, sites=tuple(order)) if last else Update("NUTS", tuple(order))
    free = [u for u in base.updates if u is not last]
    left = [k for u in free for k in u.keeping([n for n in u.everything if n not in mine])]
    yield Spec((*left, block), base.random_scan)


def integrated_out(facts: Facts, base: Spec, ties: Sequence[Tie]) -> Iterator[Spec]:
    """Gradients of what is tied to sites that have an integral, with these integrated out: chains over time,
    rates under a gamma or a beta prior. Where a slice can do it (`scales_collapsed`), there is no need to."""
    if next(scales_collapsed(facts, base, ties), None) is not None:
        return
    held = {g for t in ties if not t.known for g in t.given}
    for plain in all_by_gradients(facts, base, ties):
        last = plain.updates[-1]
        blocks = [b for b in eliminable(facts.density) if held & {*b} and {*b} < {*last.sites}]
        if blocks and not last.eliminated:
            out = max(blocks, key=lambda b: size_of(facts.density, b))
            left = tuple(n for n in last.sites if n not in out)
            yield Spec((*plain.updates[:-1], replace(last, sites=left, eliminated=out)), base.random_scan)


REWRITES: Mapping[str, Rewrite] = {
    "scales with their effects integrated out": scales_collapsed,
    "all that is tied by gradients": all_by_gradients,
    "what has an integral integrated out of gradients": integrated_out,
}
"""Every way to change a schedule, by what it does."""


def _around(
    facts: Facts, base: Spec, ties: Sequence[Tie], of: Callable[[Tie, Sequence[str]], bool]
) -> dict[Update, tuple[str, ...]]:
    """By update of Gaussian sites, the sites drawn alone that are tied to it in a statement of a kind."""
    alone = {u.sites[0] for u in base.updates if u.kernel == "Conjugate" and len(u.sites) == 1}
    found: dict[Update, tuple[str, ...]] = {}
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


def _all_gaussian(facts: Facts, update: Update) -> bool:
    known = all(n in facts.density.latent_vars for n in update.sites)
    if not known or update.kernel == "PolyaGamma":
        return known
    return all(is_gaussian(facts.conditional(n)) for n in update.sites)


def _outer(facts: Facts, site: str) -> bool:
    if site not in facts.density.latent_vars or is_gaussian(facts.conditional(site)):
        return False
    try:
        outer_site(facts.density, site)
    except Refused:
        return False
    return True


def _with_outer(base: Spec, outer: Mapping[Update, tuple[str, ...]]) -> Spec:
    taken = {n for names in outer.values() for n in names}
    updates = []
    for u in base.updates:
        if u in outer:
            kernel = "PolyaGamma" if u.kernel == "PolyaGamma" else "Collapsed"
            updates.append(replace(u, kernel=kernel, sites=(*outer[u], *u.sites)))
        elif not taken & {*u.sites}:
            updates.append(u)
    return Spec(tuple(updates), base.random_scan)
