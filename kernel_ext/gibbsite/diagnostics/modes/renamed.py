"""The draws of a run → whether all chains have one labelling of components that the model lets be renamed.

Of a posterior that is symmetric, a number and what it becomes under other labels have the same distribution:
one is the larger in half of the draws. Where a run says otherwise, with draws enough to know, its chains have
left out modes that weigh as much as the one they are in, and agree in that. No R-hat tells.
"""

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import jax.numpy as jnp
import numpy as np

from gibbsite.density import Density
from gibbsite.density.current import why_not
from gibbsite.density.hierarchy.exchangeability import Exchange, Unchanged, component_axes, mixes, ways
from gibbsite.diagnostics.measures.convergence import rank_rhat, scalar_stat
from gibbsite.diagnostics.measures.snapshot import Notice
from gibbsite.ground.arguments import listed
from gibbsite.ground.lazy_import import later
from gibbsite.plans.schedule.plan import Plan
from gibbsite.storage.draws import label_of

optimize = later("scipy.optimize")

TOPIC = "renamed"
_ROUNDING = 0.05, 1e-5
"""Of log densities, absolute and relative: modes of weights that differ by less than 5 % are told as one."""
_MOST_COMPONENTS = 8
_MOST_NAMED = 50
_MOST_BEARERS = 1000
_ALIKE = 1.1
_MOST_ELEMENTS = 256
_MOST_DRAWS = 2000
_FEW_DRAWS = 250
# numbers that are put through the density to see whether it is symmetric: a tenth of a second of NumPy
_MOST_WORK = 2_000_000
_NEARER = 0.1
"""How near means of a mode have to be to another's under other names, beside how far they are as they are
called: squares of standard deviations."""
_TINY = 1e-12
_ERRORS = 6.0
"""Standard errors by which a share has to miss one half: once in 10⁹, and in 10⁵ where ESS is put at twice
what it is. All draws in one order are told from 36 effective ones on."""


def signless(plan: Plan, draws: Mapping[str, np.ndarray], sites: Sequence[str]) -> bool:
    """Whether the density stays where all of `sites` change their signs, at the last draws of two chains;
    also where nobody knows."""
    density, known = plan.density, latent_draws(plan, draws)
    members = [m for s in sites for m in plan.groups.get(s, (s,))]
    if density is None or any(n not in known for n in (*density.latents, *members)):
        return True
    for chain in (0, -1):
        state = {n: jnp.asarray(known[n][chain, -1]) for n in density.latents}
        here = float(density.log_joint(state))
        there = float(density.log_joint(state | {n: -state[n] for n in members}))
        if not abs(here - there) <= _ROUNDING[0] + _ROUNDING[1] * abs(here):
            return False
    return True


def latent_draws(plan: Plan, draws: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The draws `[chain, draw, *shape]` of a run under the names of the sites of its density as well."""
    held = dict(draws)
    for group, members in plan.groups.items():
        if group in held:
            stack = held[group]
            held.update({m: stack[:, :, i] for i, m in enumerate(members)})
    if plan.density is not None:
        for array, members in plan.density.members.items():
            if array not in held and all(m in held for m in members):
                held[array] = np.stack([held[m] for m in members], axis=2)
    return held


def one_labelling(plan: Plan, draws: Mapping[str, np.ndarray]) -> list[Notice]:
    """A notice where components may be renamed, and all draws `[chain, draw, *shape]` of all chains keep to
    one of their orders."""
    density = plan.density
    if density is None or not draws:
        return []
    held = latent_draws(plan, draws)
    unseen = {*plan.generated, *plan.hidden}
    smooth = {
        n: held[n]
        for n in density.latents
        if n in held and n not in unseen and not density.sites[n].discrete and held[n].dtype.kind == "f"
    }
    seen = _Seen(density, held)
    for way in _exchanges(density, smooth):
        apart = [n for n in smooth if n in way.moves and _one_sided(smooth, way, n)]
        if apart and seen.allows and seen.unchanged(way):
            return [_told(density, way, apart, [n for n in smooth if n in way.moves])]
    return []


def renamed_modes(
    plan: Plan, draws: Mapping[str, np.ndarray], groups: Sequence[Sequence[int]]
) -> tuple[str, ...]:
    """The sites whose components are renamed between groups of chains, where that alone is what they differ
    by and the density stays as it is; nothing where they differ by more."""
    density = plan.density
    if density is None or not draws:
        return ()
    held = latent_draws(plan, draws)
    smooth = {n: held[n] for n in density.latents if n in held and held[n].dtype.kind == "f"}
    seen = _Seen(density, held)
    first, *others = ({n: v[list(g)].astype(float) for n, v in smooth.items()} for g in groups)
    moved: set[str] = set()
    for other in others:
        near = (_fitted(w, first, other) for w in _exchanges(density, smooth))
        way = next((w for w in near if w is not None and seen.allows and seen.unchanged(w)), None)
        if way is None:
            return ()
        moved |= way.moves
    return tuple(n for n in smooth if n in moved)


def renamed_chains(plan: Plan, draws: Mapping[str, np.ndarray], bad: Collection[str]) -> tuple[str, ...]:
    """The sites whose components each chain has under names of its own, told by the discrete sites that bear
    the names (`z`, of documents or of groups), where under the first chain's names all chains agree, in
    particular about the sites that are `bad`; nothing where they differ by more."""
    density = plan.density
    if density is None or not draws:
        return ()
    held = latent_draws(plan, draws)
    held = {n: held[n][:, :: -(-held[n].shape[1] // _FEW_DRAWS)] for n in density.latents if n in held}
    seen = _Seen(density, held)
    lengths = {n for name in held for n in density.sites[name].shape if component_axes(density, name, n)}
    for k in sorted(n for n in lengths if 2 <= n <= _MOST_NAMED):
        for way in ways(density, range(k)):
            borne, moved = [n for n in held if n in way.labels], [n for n in held if n in way.moves]
            if not borne or not moved or way.mirrored or not {*bad} <= {*borne, *moved}:
                continue
            labels = [held[n] for n in borne]
            found = [named_as_first(way, labels, k, c) for c in range(1, len(labels[0]))]
            if _agree(held, moved, borne, found) and seen.allows and all(map(seen.unchanged, found)):
                return tuple(moved)
    return ()


def named_as_first(way: Exchange, labels: Sequence[np.ndarray], k: int, chain: int) -> Exchange:
    """The exchange by which the labels of a chain `[chain, draw, …]` are most often the first one's (Kuhn
    1955, by SciPy)."""
    met = np.zeros((k, k))
    for x in labels:
        flat = x[[0, chain]].reshape(2, x.shape[1], -1)
        some = np.unique(np.linspace(0, flat.shape[2] - 1, _MOST_BEARERS).round().astype(int))
        shares = (flat[:, :, some, None] == np.arange(k)).mean(1)
        met += shares[0].T @ shares[1]
    _, order = optimize.linear_sum_assignment(-met)
    return replace(way, order=tuple(order.tolist()))


def _agree(
    draws: Mapping[str, np.ndarray], moved: Sequence[str], borne: Sequence[str], exchanges: Sequence[Exchange]
) -> bool:
    """Whether chains agree about these sites when all but the first have their components renamed."""
    for name in (*moved, *borne):
        first, *others = draws[name]
        flat = [first.reshape(len(first), -1)]
        for way, x in zip(exchanges, others, strict=True):
            _, places, _ = way.source(name, x.shape[1:])
            at = x.reshape(len(x), -1)[:, places]
            flat.append(np.argsort(way.order)[at] if name in borne else at)
        size = flat[0].shape[1]
        some = np.unique(np.linspace(0, size - 1, _MOST_ELEMENTS).round().astype(int))
        if any(rank_rhat(np.stack([v[:, i] for v in flat]).astype(float)) > _ALIKE for i in some):
            return False
    return True


def _fitted(
    way: Exchange, first: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray]
) -> Exchange | None:
    """An exchange along those axes of each site by which the means of one mode become another's; None where
    they do not."""
    means = {n: v.mean(axis=(0, 1)) for n, v in first.items()}
    as_named = as_renamed = 0.0
    axes = {}
    for name, v in other.items():
        now, spread = v.mean(axis=(0, 1)), np.sqrt(0.5 * (v.var(axis=(0, 1)) + first[name].var(axis=(0, 1))))
        usual = way.axes.get(name, ())
        apart = {}
        for along in {usual, (), *((a,) for a, size in enumerate(now.shape) if size == len(way.order))}:
            renamed = replace(way, axes={**way.axes, name: along}).applied(means)[name]
            apart[along] = float(np.square((now - renamed) / (spread + _TINY)).sum())
        best = min(apart, key=apart.__getitem__)
        axes[name] = best if apart[usual] - apart[best] > 1 else usual
        as_named += apart[()]
        as_renamed += apart[axes[name]]
    return replace(way, axes=axes) if as_renamed < _NEARER * as_named else None


def notices_from(saved: Sequence[Sequence[Any]]) -> tuple[Notice, ...]:
    """The notices of a stored run, of which a run without its model can see nothing: text, hint and sites."""
    return tuple(Notice(text, hint, TOPIC, tuple(sites)) for text, hint, sites in saved)


class _Seen:
    """The symmetry of a density, looked for in `_MOST_WORK` of its numbers and no more."""

    def __init__(self, density: Density, draws: Mapping[str, np.ndarray]):
        self._density, self._draws = density, draws
        sizes = [int(np.prod(s.shape, dtype=np.int64)) for s in density.sites.values()]
        self._left = max(1, _MOST_WORK // max(1, sum(sizes)))

    @property
    def allows(self) -> bool:
        return self._left > 0

    def unchanged(self, way: Exchange) -> bool:
        """Whether the exchange leaves the density as it is; what is known of it is kept with the density."""
        if "unchanged" not in self._density.cache:
            self._density.cache["unchanged"] = Unchanged(self._density, mixes(self._density)), {}
        unchanged, known = self._density.cache["unchanged"]
        key = repr(way)
        if key not in known:
            self._left -= 1
            known[key] = unchanged.by(way)
        return known[key] and self._among_draws.by(way)

    @cached_property
    def _among_draws(self) -> Unchanged:
        """The same at the last draws of two chains."""
        known = all(n in self._draws for n in self._density.latents)
        last = [{n: self._draws[n][c, -1] for n in self._density.latents} for c in (0, -1) if known]
        return Unchanged(self._density, mixes(self._density), last)


def _exchanges(density: Density, smooth: Mapping[str, Any]) -> Iterator[Exchange]:
    """Two components in each other's place, of every number of components that there may be."""
    lengths = {n for name in smooth for n in density.sites[name].shape if component_axes(density, name, n)}
    alike: dict[Any, int] = {}
    for name in smooth:
        key = density.sites[name].shape, density.sites[name].fn_name
        alike[key] = alike.get(key, 0) + 1
    for k in sorted(n for n in lengths | {*alike.values()} if 2 <= n <= _MOST_COMPONENTS):
        found = [w for w in ways(density, range(k)) if w.labels or w.families or any(w.axes.values())]
        for i, j in itertools.combinations(range(k), 2):
            order = list(range(k))
            order[i], order[j] = j, i
            yield from (replace(way, order=tuple(order)) for way in found)


def _one_sided(draws: Mapping[str, np.ndarray], way: Exchange, name: str) -> bool:
    """Whether an element of a site and what it becomes are not the larger in half of the draws each."""
    shape = draws[name].shape[2:]
    other, places, whole = way.source(name, shape)
    if other not in draws or draws[other].shape[2:] != shape:
        return False
    own = np.arange(len(places))
    changed = own if other != name or whole is not None else own[places != own]
    if not len(changed):
        return False
    some = changed[np.unique(np.linspace(0, len(changed) - 1, _MOST_ELEMENTS).round().astype(int))]
    few = _over(draws, name, other, some, places[some], whole, _FEW_DRAWS)
    worst = int(np.argmax(np.abs(_share(few) - 0.5)))
    element = some[worst : worst + 1]
    over = _over(draws, name, other, element, places[element], whole, _MOST_DRAWS)[..., 0]
    ess = scalar_stat(label_of(name, ()), name, (), over).ess_bulk
    return bool(ess > 0 and abs(_share(over[..., None])[0] - 0.5) > _ERRORS * 0.5 / np.sqrt(ess))


def _over(
    draws: Mapping[str, np.ndarray],
    name: str,
    other: str,
    elements: np.ndarray,
    places: np.ndarray,
    whole: float | None,
    most: int,
) -> np.ndarray:
    """By how much elements are larger than what they become `[chain, draw, element]`, of `most` draws."""
    step = -(-draws[name].shape[1] // most)
    here, there = ((draws[n][:, ::step], at) for n, at in ((name, elements), (other, places)))
    a, b = (x.reshape(*x.shape[:2], -1)[..., at].astype(np.float64) for x, at in (here, there))
    return a - (b if whole is None else whole - b)


def _share(over: np.ndarray) -> np.ndarray:
    return (over > 0).mean(axis=(0, 1)) + 0.5 * (over == 0).mean(axis=(0, 1))


def _told(density: Density, way: Exchange, apart: Sequence[str], moved: Sequence[str]) -> Notice:
    names = list(dict.fromkeys([*(n for n in apart if n not in (way.mirrored or ())), *apart]))
    fits = [n for n in names if way.axes.get(n) and not why_not(density, n)]
    order = f'put them in order (`model.ordered("{fits[0]}")`), or ' if fits else ""
    return Notice(
        f"all chains have one labelling of components that can be renamed ({listed(names)}): the posterior "
        f"has modes of the same weight under other labels, which no chain visited",
        f"{order}look only at what does not depend on labels, or cross between them: Tempered(NUTS …)",
        TOPIC,
        tuple(moved),
    )
