"""A density → its ties: which site hardly moves while which others are held, and by how much at most.

Drawn in turn, a site forgets as slowly as the others tell where it was: with the share γ of the information
on it that is lost when the others are integrated out, its integrated autocorrelation time is (1 + γ) /
(1 − γ) (Liu 1994, "The fraction of missing information and convergence rate for data augmentation"). Counts
bound γ before anything is compiled:

- What the prior of K numbers reads is told by all K while they are held, and by the data through them
  otherwise: anything between what all of them tell and next to nothing. Unknown until tried, at most about
  K + 1.
- The noise of N data is told by N, of which p coefficients take away p: γ = p / N. Values that data lack
  take away as many; a covariance that imputes them makes itself likely again (Tanner and Wong 1987, §5).
- What meets in one parameter of data makes up for each other, and what a discrete site decides is known
  again as soon as it moves: unknown.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpyro.distributions import constraints

from gibbsite.conditional.dispatch import conditional_of
from gibbsite.conditional.linear.joint import is_gaussian
from gibbsite.conditional.reads.group import unit_of
from gibbsite.conditional.reads.support import endless
from gibbsite.conditional.reads.term_access import maps_after
from gibbsite.density import Density
from gibbsite.density.hierarchy.location_scale import location_scales
from gibbsite.density.known_elements import observed_values, sources
from gibbsite.density.model.bounds import base_constraint
from gibbsite.ground.once import once
from gibbsite.kernels.nuts.report import to_be_learnt
from gibbsite.plans.candidates.alone import stepped
from gibbsite.plans.candidates.limits import (
    FEW_DECIDED,
    FEW_EFFECTS,
    FILLED,
    LEAST_TOLD,
    MOST_COUNTED,
    MOST_GRADIENT_TIMES,
    MOST_MISSING,
    MOST_UNBOUNDED_TIMES,
    STATES_TAKEN,
)
from gibbsite.plans.schedule.elimination import joint_draw
from gibbsite.plans.schedule.parse import Update
from gibbsite.plans.schedule.registry import Facts, find_kernel

_SPREADS = ("scale", "concentration", "covariance_matrix", "precision_matrix", "scale_tril")
_MATRICES = ("covariance_matrix", "precision_matrix", "scale_tril")
_SHAPES = ("concentration", "concentration0", "concentration1", "rate")
"""Of gamma and beta distributions: no noise around a location, as data know their ratio far better."""
_AWAY = ("InverseGamma", "LogNormal", "InverseWishart")
"""Of positive numbers, with next to no density near 0."""
_BOUNDED = ("InverseGamma", "LogNormal", "Gamma", "Exponential", "Chi2", "Wishart", "InverseWishart")


@dataclass(frozen=True)
class Tie:
    """`site` is held by `given`: drawn apart from them, its draws have an integrated autocorrelation time
    between `least` and `most`; `where` names the statement in which they meet, and `through` in what."""

    site: str
    given: tuple[str, ...]
    where: str
    least: float
    most: float
    unbounded: bool = False
    """Whether `site` is the noise of data that `given` can meet all of, and nothing keeps it from 0."""
    through: str = ""
    level: bool = False
    """Whether they meet in a parameter of data other than their noise."""

    @property
    def known(self) -> bool:
        """Whether the counts tell it."""
        return self.least == self.most

    def tried(self, times: float, alone: bool = True) -> "Tie":
        """The same with the time that a trial found, of it `alone` or of it and others together."""
        if alone:
            return replace(self, least=times, most=times)
        return replace(self, least=min(self.least, times), most=min(self.most, times))

    def cut_by(self, home: Mapping[str, object]) -> bool:
        """Whether the updates, by the sites that they draw, draw it apart from some of what holds it."""
        return self.site in home and any(home.get(g) is not home[self.site] for g in self.given)

    def __str__(self) -> str:
        if self.through:
            return self.through
        return f"{self.site} and {', '.join(self.given)} hold each other in {self.where}"


@once
def ties_of(density: Density) -> tuple[Tie, ...]:
    """The ties of the continuous latents of a density, in program order."""
    found: dict[tuple[str, tuple[str, ...], str], Tie] = {}
    near_of: dict[str, dict[str, None]] = {}
    decided: dict[str, dict[str, None]] = {}
    ties = []
    for term in density.terms:
        read = [n for n in density.latents if n in density.maps.latents(term.atom)]
        smooth = [n for n in read if not density.sites[n].discrete]
        near_of.setdefault(term.origin, {}).update(dict.fromkeys(smooth))
        if term.origin in density.factor_names or not density.outputs["parameters"].get(term.origin):
            ties += _of_unknown(term.origin, smooth)
        discrete = tuple(n for n in read if density.sites[n].discrete)
        if discrete:
            decided.setdefault(term.origin, {}).update(dict.fromkeys(discrete))
    data = {own: near for own, near in near_of.items() if own in density.sites and own not in near}
    noise = {n: t for own, near in data.items() for n, t in _of_data(density, own, near)}
    ties += [t for own in data for t in _of_level(density, own)]
    for own, near in near_of.items():
        parents = [n for n in near if n != own] if own in near else []
        ties += [_of_prior(density, n, own, noise.get(n)) for n in parents]
        given = tuple(decided.get(own, ()))
        ties += [Tie(n, given, own, 1.0, _most_decided(density, given, n, own)) for n in near if given]
    ties += [t.tie for t in noise.values()]
    found = {(t.site, t.given, t.where): t for t in ties}
    order = {n: i for i, n in enumerate(density.latents)}
    return tuple(sorted(found.values(), key=lambda t: (order.get(t.site, 0), t.where)))


def within(ties: Iterable[Tie], sites: Collection[str]) -> list[str]:
    """What holds the sites of one block, and nothing outside it, in words."""
    return list(dict.fromkeys(str(t) for t in ties if {t.site, *t.given} <= {*sites}))


def across(ties: Iterable[Tie], sites: Collection[str]) -> list[Tie]:
    """The ties between sites of a block and others."""
    return [t for t in ties if t.site in sites and not {*t.given} <= {*sites}]


def hardly_told(density: Density, sites: Collection[str], fewer: int = FEW_EFFECTS) -> Mapping[str, str]:
    """Of the `sites`, scales that may be 0 of which `fewer` effects tell that are among them too, and no
    data: by name, the effects."""
    found = {}
    data = [t.atom for t in density.terms if t.origin not in density.latents]
    by_data = {n for atom in data for n in _latents(density, atom)}
    for child in location_scales(density).values():
        for name in child.scale if child.site in sites else ():
            site = density.sites[name]
            each = size_of(density, [child.site]) / max(1, size_of(density, [name]))
            reaches = base_constraint(site.support) is not constraints.real and site.fn_name not in _AWAY
            if name in sites and reaches and each < fewer and name not in by_data:
                found[name] = child.site
    return found


def diverging(density: Density, sites: Collection[str]) -> str:
    """Why trajectories that move all of the `sites` will diverge, in words, if they will."""
    for scale, effects in hardly_told(density, sites).items():
        each = size_of(density, [effects]) / size_of(density, [scale])
        told = f"{effects} has {each:.2g} effect{'s' * (each != 1)} for each number of its scale {scale}"
        return f"{told}, and trajectories that move both diverge"
    return ""


def size_of(density: Density, names: Iterable[str]) -> int:
    """Numbers in sites together."""
    return sum(math.prod(density.sites[n].shape) for n in names)


def _most_decided(density: Density, discrete: Sequence[str], name: str, own: str) -> float:
    """The most time of what discrete sites decide: about what as many effects tell of their scale; but a
    coefficient that a switch turns off is anywhere when it is turned on again, and where each is a parameter
    of data by itself, a total and a share, the one makes up for any change of the other."""
    parameters = density.outputs["parameters"].get(own, {})
    read = [{*_latents(density, a)} for p, a in parameters.items() if p not in _SPREADS]
    apart = any({*discrete} & r and name not in r for r in read) and any(name in r for r in read)
    switched = any(_switches(density, g) for g in discrete) and is_gaussian(conditional_of(density, name))
    if any(endless(density, g) for g in discrete) and name != own and own not in discrete:
        return MOST_COUNTED
    if (apart and name != own) or switched:
        return MOST_MISSING
    return min(MOST_MISSING, FEW_DECIDED + size_of(density, discrete))


def _switches(density: Density, name: str) -> bool:
    """Whether a discrete site is one for all data, or several that all read, and not a label of each."""
    structure = getattr(conditional_of(density, unit_of(density, name)), "structure", None)
    return density.sites[name].shape == () or structure is None or not structure.independent


@dataclass(frozen=True)
class _Noise:
    """A tie to the location of data: `data` of them tell of the site, `lost` of which the location takes."""

    tie: Tie
    data: int
    lost: int


def _of_prior(density: Density, parent: str, child: str, noise: _Noise | None) -> Tie:
    size = size_of(density, [child])
    each = size / max(1, size_of(density, [parent]))
    least, most = 1.0, max(1.0, each) + LEAST_TOLD
    # one that is the noise of data as well: they tell of it whatever the child is
    if noise is not None and size_of(density, [parent]) == 1:
        least, most = _times(size + noise.lost, size + noise.data, least, most)
    return Tie(parent, (child,), child, least, most, through=_through(density, child))


_WORDS = {"loc": "location", "concentration": "shape", "df": "degrees of freedom", "probs": "probability"}


def _word(parameter: str) -> str:
    name = parameter.rpartition("/")[2]
    return _WORDS.get(name, name.replace("_", " "))


def _through(density: Density, child: str) -> str:
    """`theta's location reads mu, its scale reads tau`; empty where its parameters are not known."""
    parameters = density.outputs["parameters"].get(child, {})
    read = {p: [n for n in _latents(density, a) if n != child] for p, a in parameters.items()}
    told = [f"{_word(p)} reads {', '.join(names)}" for p, names in read.items() if names]
    return f"{child}'s " + ", its ".join(told) if told else ""


def _of_level(density: Density, name: str) -> Iterator[Tie]:
    """What meets in a parameter of data, their noise among these, or in their shape and their rate: the one
    makes up for the other (a scale of all data and what multiplies it for each, as in Student's t)."""
    parameters = density.outputs["parameters"].get(name, {})
    read = {
        p: [n for n in _latents(density, a) if not density.sites[n].discrete] for p, a in parameters.items()
    }
    met = [(_word(p), near) for p, near in read.items() if p not in _MATRICES and p != "concentration"]
    if shaped := _shaped(read):
        among = {n for p in shaped for n in read[p]}
        met.append((" and the ".join(map(_word, shaped)), [n for n in density.latents if n in among]))
    for what, near in met:
        if len(near) < 2:
            continue
        told = f"{', '.join(near)} meet in the {what} of {name}"
        for n in near:
            others = tuple(m for m in near if m != n)
            yield Tie(n, others, name, 1.0, 1.0 + LEAST_TOLD, through=told, level=True)


def _of_unknown(name: str, near: Sequence[str]) -> Iterator[Tie]:
    """What meets in a part of a factor, or of a density without parameters."""
    for n in near if len(near) > 1 else ():
        others, told = tuple(m for m in near if m != n), f"{', '.join(near)} meet in {name}"
        yield Tie(n, others, name, 1.0, 1.0 + LEAST_TOLD, through=told, level=True)


def _shaped(read: Mapping[str, Collection[str]]) -> list[str]:
    """The parameters that are a shape and a rate, or two shapes, where latents are read by more than one."""
    found = [p for p in _SHAPES if read.get(p)]
    return found if len(found) > 1 else []


def _of_data(density: Density, name: str, near: Collection[str]) -> Iterator[tuple[str, _Noise]]:
    """Noise and what the location reads, or what the data lack."""
    parameters = density.outputs["parameters"].get(name, {})
    read = {p: _latents(density, a) for p, a in parameters.items()}
    spread = {n for p in _SPREADS if p not in _shaped(read) for n in read.get(p, ())}
    matrix = {n for p in _MATRICES for n in read.get(p, ())}
    told = {n for p, names in read.items() if p not in _SPREADS for n in names}
    lacking = set(_latents(density, density.outputs["observed"].get(name)))
    noise = [n for n in near if n in spread - told]
    level = tuple(n for n in density.latents if n in near and n in (told | lacking) - spread)
    lost, data = size_of(density, level), size_of(density, [name])
    for n in noise if level else ():
        free = [n for n in level if not density.sites[n].discrete]
        first = MOST_GRADIENT_TIMES if size_of(density, free) >= data >= STATES_TAKEN else 1.0
        least, most = _times(lost, data, first, max(data + 1.0, MOST_UNBOUNDED_TIMES))
        if n in matrix and lacking:  # the values that it imputes speak for it: a row that lacks one is lost
            rows = data / math.prod(density.sites[name].event_shape)
            least = max(least, (rows + lost) / (rows - lost) if lost < rows else least)
        if n in matrix and (lacking or _reads_itself(density, name)):
            most = max(most, 1.0 + LEAST_TOLD)
        through = f"{n} and {', '.join(level)} make each other likely in {name}" if n in matrix else ""
        through += f", {size_of(density, [*lacking])} values of which lack" if through and lacking else ""
        unbounded = density.sites[n].fn_name not in _BOUNDED and all_met(density, name, level)
        yield n, _Noise(Tie(n, level, name, least, most, unbounded, through), data, lost)


def _reads_itself(density: Density, name: str) -> bool:
    """Whether the location of a vector of data reads elements of the very vector, as simultaneous equations
    do: coefficients and the noise's correlations make up for each other then."""
    observed, names = density.outputs["observed"].get(name), density.data_names
    if observed is None:
        return False
    behind, rows = sources(density, [observed]), len(density.sites[name].batch_shape)
    for parameter, atom in density.outputs["parameters"].get(name, {}).items():
        if parameter in _SPREADS or len(atom.aval.shape) < rows:
            continue
        shared = {v: str(i) for i, v in enumerate(names) if v in behind & sources(density, [atom])}
        if not shared:
            continue
        own, read = (maps_after(density, a, shared) for a in (observed, atom))
        if any(a.index[:rows] == b.index[:rows] for v in shared.values()
               for a in own.get(v, ()) for b in read.get(v, ())):  # fmt: skip
            return True
    return False


def all_met(density: Density, name: str, sites: Collection[str]) -> bool:
    """Whether sites can meet all data of a statement: as many numbers as these, or as different ones."""
    data, observed = size_of(density, [name]), observed_values(density).get(name)
    different = data if observed is None else min(data, np.unique(np.asarray(observed)).size)
    return size_of(density, sites) >= different


def _times(lost: int, data: int, least: float, most: float) -> tuple[float, float]:
    """The least and the most time where `lost` of `data` are, which is not known beyond `limits.FILLED`."""
    if lost >= data:
        return least, most
    times = (data + lost) / (data - lost)
    return (times, times) if lost <= FILLED * data else (least, min(2 * times, most))


def _latents(density: Density, atom: object) -> Sequence[str]:
    near = () if atom is None else density.maps.latents(atom)
    return tuple(n for n in density.latents if n in near) if near else ()


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
