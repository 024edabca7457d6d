"""Terms that read a finite site only by comparing it with thresholds, as a change point is read.

In `where(t < tau, early, late)` an element of a term has two values, whichever of K the site takes, and its
threshold says from which on it has the second. With both values summed by threshold, running sums along the
support give all K logits: work proportional to N + K, where filling the site with each value in turn takes
N · K.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gibbsite.conditional.factors.sums import sum_by
from gibbsite.conditional.reads.term_access import SINGLE, Touch, maps_after
from gibbsite.density import Density
from gibbsite.density.terms import Term
from gibbsite.programs.jaxpr.compat import JaxprEqn, Literal
from gibbsite.programs.jaxpr.primitives import compares
from gibbsite.programs.maps.access import Access, Shape, component_array, element_number, full_window, inside


@dataclass(frozen=True, eq=False)
class Comparison:
    """An equation that compares a function of one site element with a threshold that the site has no part in.

    `levels` are the function's values over the support, not decreasing; `above` says that the outcome is true
    for the greater ones, `strict` that equality does not count as greater (or, for `above` false, as less).
    """

    out: Any
    threshold: Any
    levels: np.ndarray = field(repr=False)
    above: bool
    strict: bool

    @property
    def side(self) -> str:
        """Where `searchsorted` puts a threshold that equals a level."""
        return "right" if self.above == self.strict else "left"


@dataclass(frozen=True, eq=False)
class Thresholds:
    """Terms of one shape that read the same site elements through comparisons that change at the same level.

    `access` says which element of the comparisons' arrays each element of the terms reads.
    """

    touches: tuple[Touch, ...]
    comparisons: tuple[Comparison, ...]
    access: Access

    @property
    def key(self) -> Any:
        """What terms have in common that are summed together."""
        touch = self.touches[0]
        return touch.term.shape, touch.accesses, self.access, _cut_key(self.comparisons[0])

    def after(self, before: "Thresholds") -> "Thresholds":
        """Those terms and these, of the same key."""
        more = tuple(c for c in self.comparisons if all(c.out is not b.out for b in before.comparisons))
        return Thresholds((*before.touches, *self.touches), before.comparisons + more, self.access)


def thresholds(
    density: Density, site: str, touches: Sequence[Touch], support: np.ndarray
) -> tuple[Thresholds, ...]:
    """The terms, each touching one element of `site`, that read it through comparisons alone."""
    groups: dict[Any, Thresholds] = {}
    for touch in touches:
        found = _of_term(density, site, touch, support)
        if found is None:
            continue
        groups[found.key] = found.after(groups[found.key]) if found.key in groups else found
    return tuple(groups.values())


def compared(
    density: Density, term: Term, accesses: Mapping[str, Sequence[Access]], supports: Mapping[str, np.ndarray]
) -> tuple[Thresholds, ...]:
    """How a term reads several sites through comparisons alone, each with what none of the others has a part
    in, one after another; empty where it does not."""
    found = []
    for site, own in accesses.items():
        one = _of_term(density, site, Touch(term, tuple(own), SINGLE), supports[site])
        if one is None or any(_reads(density, c.threshold, accesses) for c in one.comparisons):
            return ()
        found.append(one)
    return tuple(found)


def _reads(density: Density, atom: Any, sites: Collection[str]) -> bool:
    return any(n in density.maps[atom] for n in sites)


def _of_term(density: Density, site: str, touch: Touch, support: np.ndarray) -> Thresholds | None:
    if support.ndim != 1 or len(touch.accesses) != 1:
        return None
    found: dict[Any, Comparison] = {}
    ends = lambda a: a in found or site not in density.maps[a]  # noqa: E731
    for atom in density.behind(touch.term.atom, ends=ends):
        if site not in density.maps[atom]:
            continue
        eqn = density.producer.get(atom)
        if eqn is None:
            return None
        comparison = _comparison(density, site, eqn, support)
        if comparison is not None:
            found[atom] = comparison
    together = list(found.values())
    if not together or len({_cut_key(c) for c in together}) != 1:
        return None
    accesses = {_access(density, touch, c.out, [o.out for o in together]) for c in together}
    (access,) = accesses if len(accesses) == 1 else (None,)
    return None if access is None else Thresholds((touch,), tuple(together), access)


def _cut_key(c: Comparison) -> Any:
    threshold = (float(c.threshold.val), "number") if isinstance(c.threshold, Literal) else id(c.threshold)
    return threshold, c.side, tuple(c.out.aval.shape), c.levels.tobytes()


def _comparison(density: Density, site: str, eqn: JaxprEqn, support: np.ndarray) -> Comparison | None:
    if not compares(eqn):
        return None
    reads = [site in density.maps[a] for a in eqn.invars]
    if sum(reads) != 1:
        return None
    operand, threshold = eqn.invars if reads[0] else reversed(eqn.invars)
    name = compares(eqn, swapped=not reads[0])
    levels = _levels(density, site, operand, support)
    if levels is None:
        return None
    return Comparison(eqn.outvars[0], threshold, levels, name in ("gt", "ge"), name in ("gt", "lt"))


def _levels(density: Density, site: str, operand: Any, support: np.ndarray) -> np.ndarray | None:
    """The values that `operand` takes over the support, where it reads nothing but one site element."""
    accesses = density.maps[operand].get(site, ())
    if len(accesses) != 1 or not accesses[0].single or set(density.maps[operand]) != {site}:
        return None
    if any(a in density.data_vars for a in density.behind(operand)):
        return None  # its order could differ for other data
    latent = density.sites[site]

    def at(value: Any) -> Any:
        return density.evaluator({site: jnp.full((1,) * len(latent.shape), value)}).lazy(operand)

    levels = np.asarray(jax.vmap(at)(jnp.asarray(support, latent.dtype)))
    if levels.size != len(support):
        return None
    levels = levels.reshape(-1)
    ordered = np.all(np.isfinite(levels)) and np.all(levels[1:] >= levels[:-1])
    return levels if ordered else None


def _access(density: Density, touch: Touch, out: Any, cut: list[Any]) -> Access | None:
    """Which one element of the comparison's array each element of the term reads."""
    names = {v: f"comparison {i}" for i, v in enumerate(cut)}
    latents = {var: name for name, var in density.latent_vars.items()}
    maps = maps_after(density, touch.term.atom, {**names, **latents})
    accesses = maps.get(names[out], ())
    if len(accesses) != 1 or not accesses[0].single or accesses[0].latents():
        return None
    return accesses[0]


def cuts_of(found: Thresholds, ev: Any) -> Any:
    """For each element of the terms, how many of the site's levels lie below its threshold."""
    first, shape = found.comparisons[0], found.touches[0].term.shape
    cut = jnp.broadcast_to(_cut(first, ev.full(first.threshold)), first.out.aval.shape)
    read = [component_array(c, shape, ev.full) for c in found.access.index]  # type: ignore[arg-type]
    return jnp.broadcast_to(cut[tuple(read)], shape)


def threshold_table(
    density: Density, found: Sequence[Thresholds], latents: Mapping[str, Any], data: Any
) -> Any:
    """The sum of terms over their elements for all values of several sites, one element of each, that they
    read through comparisons alone: `[K, …]`, an axis for each of `found`, which are of the same terms.
    `latents` with the sites, whose values do not matter."""
    terms = [t.term for t in found[0].touches]
    bins = [len(f.comparisons[0].levels) + 1 for f in found]
    place = jnp.zeros(terms[0].shape, jnp.int32)
    for f, n in zip(found, bins, strict=True):
        place = place * n + cuts_of(f, density.evaluator(latents, data))

    def by_cuts(late: tuple[bool, ...]) -> Any:
        ev = density.evaluator(latents, data)
        sides = [(c, side) for f, side in zip(found, late, strict=True) for c in f.comparisons]
        ev.give({c.out: _outcome(c, side, ev) for c, side in sides})
        part = jnp.broadcast_to(sum(t.at(ev) for t in terms), terms[0].shape)
        return sum_by(place.reshape(-1), part.reshape(-1), math.prod(bins)).reshape(bins)

    def summed(late: tuple[bool, ...]) -> Any:
        """With the sites from there on at all levels."""
        if len(late) == len(found):
            return by_cuts(late)
        axis = len(late)
        return _before(summed((*late, False)), axis) + _past(summed((*late, True)), axis)

    return summed(())


def _past(by_cut: Any, axis: int) -> Any:
    """Sums of what is past its threshold at each level: from the level of number `cut` on."""
    return jax.lax.slice_in_dim(jnp.cumsum(by_cut, axis), 0, by_cut.shape[axis] - 1, axis=axis)


def _before(by_cut: Any, axis: int) -> Any:
    """Sums of what is before its threshold at each level."""
    return jax.lax.slice_in_dim(jax.lax.cumsum(by_cut, axis, reverse=True), 1, by_cut.shape[axis], axis=axis)


def threshold_logits(
    density: Density,
    found: Thresholds,
    site: str,
    elements: Shape,
    latents: Mapping[str, Any],
    data: Any,
    level: bool = True,
) -> Any:
    """The terms' logits over the support, `(K, *elements)`; `latents` without the site. As in `FiniteTables`,
    all values of an element are off by one number without the `level`."""
    touch, first = found.touches[0], found.comparisons[0]
    count, shape = len(first.levels), touch.term.shape

    def part(late: bool) -> Any:
        ev = density.evaluator(latents, data)
        ev.give({c.out: _outcome(c, late, ev) for c in found.comparisons})
        return sum(t.term.at(ev) for t in found.touches)

    ev = density.evaluator(latents, data)
    cut = cuts_of(found, ev)
    element = element_number(touch.accesses[0].index, shape, elements, ev.full)
    place = (element * (count + 1) + cut).reshape(-1)
    window = touch.accesses[0].window
    total = int(np.prod(elements, dtype=np.int64))

    def by_cut(x: Any) -> Any:
        x = jnp.broadcast_to(x, shape)
        if window != full_window(shape):
            x = jnp.where(inside(window, shape), x, 0)
        summed = sum_by(place, x.reshape(-1), total * (count + 1))
        return summed.reshape(total, count + 1)

    early, late = part(False), part(True)
    if not level:
        less = jnp.where(jnp.isfinite(early), early, jnp.where(jnp.isfinite(late), late, 0))
        early, late = early - less, late - less
    early, late = by_cut(early), by_cut(late)
    logits = _before(early, 1) + _past(late, 1)
    return jnp.moveaxis(logits.reshape((*elements, count)), -1, 0)


def _cut(c: Comparison, threshold: Any) -> Any:
    """How many of the levels lie below the threshold (equal ones too where they count as such)."""
    levels = c.levels
    if levels.dtype.kind in "iu" and np.array_equal(levels, levels[0] + np.arange(len(levels))):
        # compared with a whole number of elements this is arithmetic, not a search
        return jnp.clip(threshold - levels[0] + (c.side == "right"), 0, len(levels))
    found = jnp.searchsorted(jnp.asarray(levels), threshold.reshape(-1), side=c.side)
    return found.reshape(threshold.shape)


def _outcome(c: Comparison, late: bool, ev: Any) -> Any:
    """The comparison's outcome on one side of the threshold, of its rank."""
    outcome = jnp.full((1,) * len(c.out.aval.shape), c.above == late)
    if c.above or not jnp.issubdtype(c.levels.dtype, jnp.floating):
        return outcome
    # a comparison with NaN is false on both sides
    return outcome & ~jnp.isnan(jnp.reshape(ev.full(c.threshold), _padded(c)))


def _padded(c: Comparison) -> Shape:
    shape = np.shape(c.threshold.val) if isinstance(c.threshold, Literal) else tuple(c.threshold.aval.shape)
    return shape if shape else (1,) * len(c.out.aval.shape)
