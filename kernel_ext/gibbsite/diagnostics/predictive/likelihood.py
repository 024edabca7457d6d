"""What each datum adds to the log density at the draws of a run, discrete sites and its own latents gone."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gibbsite.conditional.finite.window import lowest
from gibbsite.conditional.forms.walk import Refused
from gibbsite.conditional.reads.support import finite_support
from gibbsite.density import Density
from gibbsite.diagnostics.predictive.predict import log_likelihood
from gibbsite.diagnostics.predictive.probabilities import all_latents, density_of, summed_out
from gibbsite.elimination import CHANGED, Own, Pointwise, TableMarginal, marginal_of
from gibbsite.errors import ModelError
from gibbsite.plans.schedule.plan import Plan
from gibbsite.programs.evaluation.pieces import in_pieces

_AT_ONCE = 16
_TOLERANCE = 0.01
"""By how much keeping likelihoods from falling, or ending a sum, may change a log density: 1 % of a
probability."""
_BESIDE, _SOME = 16, 64
"""Values beside those that were drawn, at the least; draws at which it is asked whether they are enough."""


@dataclass(frozen=True)
class Likelihood:
    """`values`: what each datum adds to the log density, `[chain, draw, *batch_shape]` by observed site; with
    the discrete sites `summed` summed out, elements of `integrated` that are single data's own integrated
    out, and given the draws of those in `given`, which data read."""

    values: Mapping[str, np.ndarray]
    summed: tuple[str, ...]
    integrated: tuple[str, ...]
    given: tuple[str, ...]

    @property
    def words(self) -> str:
        """What the likelihood is given, in words."""
        gone = [
            f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} {how}"
            for names, how in ((self.summed, "summed out"), (self.integrated, "integrated out"))
            if names
        ]
        rest = f", {', '.join(self.given)} at their draws" if self.given else ""
        what = "the other data and the other latents; "
        return what + ", ".join(gone) + rest if gone else "all latents"


def without_labels(
    plan: Plan, kwargs: Mapping[str, Any], draws: Mapping[str, np.ndarray], seed: int, strict: bool = False
) -> Likelihood:
    """`log p(y_i | the other data, the other latents)` of every datum at every draw, with all discrete sites
    summed out, or those that can be, counts without end as far as it takes; and continuous latents that are
    a datum's own integrated out (`Own`), or named in `given` where they cannot be. `1 / p(y_i | the other
    data)` is the mean of its inverse over the draws, whatever was summed out (Gelfand, Dey and Chang 1992);
    but what was drawn with the very datum never shows what it would be under other values.

    `strict` raises `ModelError` where discrete sites cannot be summed out for all data. Raises `ModelError`
    where the run has no model, or lacks draws of a site that is read.
    """
    density = density_of(plan)
    known = density.packed(all_latents(plan, draws), 1)
    states = {n: known[n] for n in density.latent_vars}
    found, labelled = _summed(plan, density, states, draws, strict)
    if found is None:
        read = [_read_by(plan, density, n, ()) for n in plan.observed]
        given = tuple(dict.fromkeys(s for sites in read for s in sites))
        found = Likelihood(log_likelihood(plan, kwargs, draws, seed), (), (), given)
    values, integrated, given = dict(found.values), [], [*found.given]
    for name in _data(plan, density):
        own, members = Own(density, name, states), members_of(plan, density, name)
        if not own.sites or labelled & {*members}:
            given += (*own.sites, *own.given)
            continue
        each = _evaluated(own, plan, draws, own.at_once)
        off = float(np.max(each.pop(CHANGED)))
        if not off <= _TOLERANCE and (finer := Own(density, name, states, finer=True)).sites == own.sites:
            each = _evaluated(finer, plan, draws, finer.at_once)
            off = float(np.max(each.pop(CHANGED)))
        if not off <= _TOLERANCE:
            given += own.sites
            continue
        integrated += own.sites
        given += own.given
        values.update(_by_member(each, {name: members}))
    return replace(
        found, values=values, integrated=tuple(dict.fromkeys(integrated)), given=tuple(dict.fromkeys(given))
    )


def _summed(
    plan: Plan, density: Density, states: Mapping[str, Any], draws: Mapping[str, np.ndarray], strict: bool
) -> tuple[Likelihood | None, set[str]]:
    """With discrete sites summed out, and which data read them; None where none can be."""
    problem = None
    for sites, ended, further in _candidates(plan, density, states):
        try:
            found, marginal = _pointwise(plan, ended, sites)
        except ModelError as error:
            problem = problem or error
            continue
        for reason in found.unread.values() if strict else ():
            raise ModelError(
                f"{reason}: its pointwise likelihood with them summed out is not computed; "
                f"log_likelihood=True gives it at their draws"
            )
        if further is not None and not _same_further(found, _pointwise(plan, further, sites)[0], plan, draws):
            continue
        values = _evaluated(found, plan, draws)
        changed = float(np.max(values.pop(CHANGED)))
        if not changed <= _TOLERANCE:
            problem = problem or ModelError(
                f"likelihoods of single data outweigh all else that is known of {', '.join(sites)} by more "
                f"than single precision holds; log_likelihood=True gives them at their draws"
            )
            continue
        names = {n: members_of(plan, marginal.density, n) for n in values}
        gone = marginal.sites if found.read > found.unread.keys() else ()
        given = [
            _read_by(plan, density, m, () if n in found.unread else gone) for n in names for m in names[n]
        ]
        told = tuple(dict.fromkeys(s for sites in given for s in sites))
        return Likelihood(_by_member(values, names), gone, (), told), {
            m for n in found.read for m in names[n]
        }
    if strict and problem is not None:
        raise problem
    return None, set()


def _by_member(
    values: Mapping[str, np.ndarray], names: Mapping[str, tuple[str, ...]]
) -> dict[str, np.ndarray]:
    """Values of a density's sites by the model's own names."""
    return {m: v if m == n else v[:, :, i] for n, v in values.items() for i, m in enumerate(names[n])}


def _pointwise(plan: Plan, density: Density, sites: tuple[str, ...]) -> tuple[Pointwise, TableMarginal]:
    """Raises `ModelError`."""
    marginal = marginal_of(density, sites)
    assert isinstance(marginal, TableMarginal)  # the sites are discrete
    return Pointwise(marginal, _data(plan, marginal.density)), marginal


def _same_further(found: Pointwise, further: Pointwise, plan: Plan, draws: Mapping[str, np.ndarray]) -> bool:
    """Whether sums over counts without end say the same when they go further, at some of the draws."""
    count = next(iter(draws.values())).shape[1]
    some = np.unique(np.linspace(0, count - 1, _SOME).astype(int))
    few = {n: v[:, some] for n, v in draws.items()}
    one, other = (_evaluated(f, plan, few) for f in (found, further))
    return all(bool(np.all(np.abs(one[n] - other[n]) <= _TOLERANCE)) for n in one if n != CHANGED)


def _candidates(
    plan: Plan, density: Density, states: Mapping[str, Any]
) -> Iterator[tuple[tuple[str, ...], Density, Density | None]]:
    """Sites to sum out, best first: all that can be, those that blocks sum out, those that data read; with
    the density, and for counts without end the one in which their values go further."""
    blocks = {n for names in summed_out(plan) for n in names}
    read = {s for n in plan.observed for s in _read_by(plan, density, n, ())}
    tried: list[tuple[Density, Density | None]] = [(density, None)]
    if counts := _counts(density):
        tried.insert(0, (_with_ends(density, counts, states, 1), _with_ends(density, counts, states, 2)))
    known = set()
    for ended, further in tried:
        listed = [n for n in ended.latents if ended.sites[n].discrete and finite_support(ended, n)]
        for sites in (listed, [n for n in listed if n in blocks], [n for n in listed if n in read]):
            if sites and tuple(sites) not in known:
                known.add(tuple(sites))
                yield tuple(sites), ended, further if {*sites} & {*counts} else None


def _counts(density: Density) -> dict[str, int]:
    """The least values of counts without end that no latent bounds."""
    found = {}
    for name in density.latents:
        if density.sites[name].discrete and name not in density.outputs["bounds"]:
            with suppress(Refused):
                if (low := lowest(density, name)) is not None:
                    found[name] = low
    return found


def _with_ends(density: Density, counts: Mapping[str, int], states: Mapping[str, Any], times: int) -> Density:
    """With values listed for counts without end: those of their draws, and as many beside them `times`."""
    values = dict(density.enumerated)
    for name, low in counts.items():
        least, most = int(np.min(states[name])), int(np.max(states[name]))
        more = times * (_BESIDE + (most - least) // 2)
        values[name] = np.arange(max(low, least - more), most + more + 1)
    return replace(density, enumerated=values, cache={})


def _data(plan: Plan, density: Density) -> list[str]:
    """The observed sites of a density that are data, as it names them."""
    named = density.outputs["observed"]
    return [n for n in named if all(m in plan.observed for m in members_of(plan, density, n))]


def members_of(plan: Plan, density: Density, name: str) -> tuple[str, ...]:
    """The model's own sites behind one of a density, which may have them as one array."""
    groups = {} if plan.origin is None or name in plan.origin.sites else plan.origin.density.groups
    return density.members.get(name) or groups.get(name, (name,))


def _read_by(plan: Plan, density: Density, name: str, gone: tuple[str, ...]) -> list[str]:
    """The discrete latents that an observed site reads, as the density names them, but for those gone."""
    owner = next((n for n in density.sites if name in members_of(plan, density, n)), name)
    atom = density.outputs["log_prob"][owner]
    read = density.maps.latents(atom)
    return [n for n in density.latents if n in read and density.sites[n].discrete and n not in gone]


def _evaluated(
    found: Callable[[Any, Any], Any], plan: Plan, draws: Mapping[str, np.ndarray], at_once: int = _AT_ONCE
) -> dict[str, np.ndarray]:
    data = tuple(plan.inputs["data"])
    states = all_latents(plan, draws)
    shape = next(iter(draws.values())).shape[:2]
    numbers = shape[0] * shape[1] * sum(np.size(v) for v in plan.observed.values())
    out = in_pieces(found, states, data, at_once, "likelihoods", numbers)
    return {n: v.reshape(*shape, *v.shape[1:]) for n, v in out.items()}
