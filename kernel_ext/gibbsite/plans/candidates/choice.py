"""Candidates → the one that is run: by what is predicted, and by a trial where that does not tell.

Every rewrite is tried upon what those before it left (a beam search). Times that are not known are taken to
be the least they can be, and the most, runs to be without end, or `limits.SWEEPS` long with the compiling
before them, and the candidate that loses least in the worst of these cases is preferred (minimax regret,
Savage 1951). Where even that one may lose more than a factor of `limits.CLOSE`, and a run would pay for it,
the exact draws in turn are tried. All that is compared are counts of operations:
the same model has the same schedule on any machine. What an update takes is counted when it might be chosen;
until then it counts for nothing.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from gibbsite.conditional.forms.walk import Refused
from gibbsite.errors import GibbsiteError
from gibbsite.ground.opaque import attempted, notes_in
from gibbsite.kernels.learnt.moving import moving_support
from gibbsite.plans.candidates.alone import each_alone
from gibbsite.plans.candidates.blocking import Tie, diverging, size_of, ties_of
from gibbsite.plans.candidates.limits import (
    BEAM,
    CLOSE,
    COMPILING,
    EQUAL,
    KEPT,
    LEFT_OUT,
    STATES,
    SWEEPS,
    TRIAL,
    TRIAL_EQUATION,
)
from gibbsite.plans.candidates.promise import Promises, compiling
from gibbsite.plans.candidates.rewrites import (
    REWRITES,
    Rewrite,
    is_small,
    jointly_gaussian,
    labels_switched,
    meeting_noise,
)
from gibbsite.plans.candidates.trial import Candidate, Sweep, is_exact, times_of
from gibbsite.plans.schedule.parse import Spec, Update, parse_schedule
from gibbsite.plans.schedule.registry import Facts

Legal = Callable[[Spec], object]
"""Raises a `GibbsiteError` for a schedule that does not fit the model."""
_PLAINEST = "every site by itself"
_SWITCHED = "Labels change places in every sweep"
_Case = tuple[bool, bool]
"""Whether times are the most they can be, and a run is taken with its compiling."""
_CASES: tuple[_Case, ...] = tuple(itertools.product((False, True), (False, True)))


@dataclass(frozen=True)
class _Weighed:
    """A schedule on the scales; `work` and `compiling` are at least that where it is not `derived`,
    `diverging` tells why its trajectories will diverge, if they will, and where times are the most they can
    be a sweep takes up to so many times `longer`."""

    spec: Spec
    rewrite: str
    work: float
    compiling: float
    least: float
    most: float
    tie: Tie | None
    derived: bool
    diverging: str = ""
    longer: float = 1.0

    @property
    def run(self) -> float:
        """What a run of `limits.SWEEPS` takes, its compiling included."""
        return self.compiling + SWEEPS * self.work

    @property
    def likely(self) -> float:
        """The time between the least and the most."""
        return math.sqrt(self.least * self.most)

    def cost(self, case: "_Case") -> float:
        """What an effective draw takes."""
        most, whole = case
        work = self.work * (self.longer if most else 1.0)
        sweep = self.compiling / SWEEPS + work if whole else work
        return sweep * (self.most if most else self.least)


class _Scales:
    """What is offered for a model, and what was turned down, with the reason."""

    def __init__(self, promises: Promises, offered: Mapping[str, tuple[Spec, str]]):
        self.promises, self.offered = promises, dict(offered)
        self.refused: list[Candidate] = []
        self.tried: dict[str, float] = {}
        self.tried_text = ""

    def weighed(self) -> list[_Weighed]:
        """All that is offered."""
        return [_weighed(self.promises, *o) for o in self.offered.values()]

    def turn_down(self, spec: Spec, why: Exception) -> None:
        """Strike a schedule from what is offered."""
        _, rewrite = self.offered.pop(str(spec))
        self.refused.append(Candidate(str(spec), rewrite, refused=str(why).split("\n")[0]))

    def derive(self, spec: Spec) -> bool:
        """Count a schedule's work; whether it could be derived."""
        try:
            self.promises.work(spec)
        except (GibbsiteError, Refused) as why:
            self.turn_down(spec, why)
            return False
        return True

    def look(self, updates: Sequence[Update]) -> None:
        """Look at the curvature of blocks of gradients."""
        attempted(
            "the curvature of what is Gaussian",
            lambda: self.promises.look(updates),
            lambda: self.promises.look_away(updates),
            notes_in(self.promises.facts.density.cache),
        )

    def try_out(self, spec: Spec) -> None:
        """Run the exact draws of a schedule for a moment."""
        facts = self.promises.facts
        home = {n: u for u in spec.updates for n in u.everything}
        cut = [t for t in self.promises.ties if t.cut_by(home) and t.site in facts.density.latent_vars]
        named = {g for t in cut for g in t.given if facts.density.sites[g].discrete}
        labels = {g for g in named if size_of(facts.density, (g,)) > 1}  # one of several for each of many
        watched = tuple(dict.fromkeys([*(t.site for t in cut), *sorted(named - labels)]))
        labelled = {t.site for t in cut if labels & {*t.given}}
        self.tried_text = str(spec)
        if not watched:
            return
        self.tried = dict(times_of(Sweep(facts, spec.updates), facts.inputs, watched, labelled))
        self.promises = self.promises.tried(spec, self.tried)


def chosen(facts: Facts, legal: Legal) -> tuple[Spec, tuple[Candidate, ...]]:
    """The schedule to run, and all that was weighed, the chosen first."""
    spec, (best, *others) = _best(facts, legal)
    notes = notes_in(facts.density.cache)
    switched = attempted("labels on a stick", lambda: labels_switched(facts, spec), lambda: None, notes)
    if switched is None:
        return spec, (best, *others)
    try:
        legal(switched)
    except GibbsiteError as why:
        refused = Candidate(str(switched), _SWITCHED, refused=str(why).split("\n")[0])
        return spec, (best, *others, refused)
    because = (
        f"{best.because}. {_SWITCHED}, of which the prediction does not know: the sticks' prior alone tells "
        "their order, which nothing else moves"
    )
    return switched, (replace(best, text=str(switched), because=because), *others)


def _best(facts: Facts, legal: Legal) -> tuple[Spec, tuple[Candidate, ...]]:
    """The candidate to run, and all that was weighed.

    Whether a candidate keeps the rules is asked when it would be chosen: deriving a block takes longer than
    weighing it. Those that do not are turned down, with the reason, and the rest is weighed again.
    """
    base, ties = each_alone(facts), ties_of(facts.density)
    promises = Promises(facts, ties, meeting_noise(facts, ties, base))
    scales = _Scales(promises, _offered(promises, base))
    while len(scales.offered) > 1:
        everything = scales.weighed()
        # what diverges does not reach all of the posterior, however fast it is
        weighed = [w for w in everything if not w.diverging] or everything
        best, regret = _least_regret(weighed)
        if not best.derived:
            scales.derive(best.spec)
            continue
        if curved := scales.promises.uncurved(best.spec):
            scales.look(curved)
            continue
        if regret > CLOSE and (rivals := _not_derived(weighed)):
            scales.derive(rivals[0].spec)
            continue
        if not scales.tried_text and regret > CLOSE:
            exact = _to_be_tried(facts, weighed)
            if exact is not None and not exact.derived:
                scales.derive(exact.spec)
                continue
            if exact is not None and _pays(weighed, best, exact):
                scales.try_out(exact.spec)
                continue
        if best.rewrite != _PLAINEST:
            try:
                legal(best.spec)
            except GibbsiteError as why:
                scales.turn_down(best.spec, why)
                continue
        return best.spec, (*_told(everything, weighed, best, regret, scales), *scales.refused)
    (last, _) = next(iter(scales.offered.values()))
    times = scales.promises.times(last)[:2]
    only = Candidate(str(last), _PLAINEST, times=times, chosen=True, because="nothing else was offered")
    return last, (only, *scales.refused)


def checked(facts: Facts, candidates: Sequence[Candidate], legal: Legal) -> tuple[Candidate, ...]:
    """The same after every one was asked for as its text says, and its work counted: those that do not keep
    the rules are refused, with the reason, and come last."""
    promises = Promises(facts, ties_of(facts.density))
    asked = [c if c.chosen or c.refused else _asked(promises, c, legal) for c in candidates]
    first, rest = [c for c in asked if c.chosen], [c for c in asked if not c.chosen]
    return (*first, *sorted(rest, key=lambda c: (bool(c.refused), -c.efficiency if not c.refused else 0.0)))


def _asked(promises: Promises, candidate: Candidate, legal: Legal) -> Candidate:
    spec = parse_schedule(candidate.text)
    try:
        legal(spec)
        found = promises.counted(spec)
        return replace(candidate, work=found.work, compiling=compiling(spec, found))
    except (GibbsiteError, Refused) as why:
        return replace(candidate, refused=str(why).split("\n")[0])


def _offered(promises: Promises, base: Spec) -> dict[str, tuple[Spec, str]]:
    """The plainest schedule, and what the rewrites make of it where something is drawn apart from what holds
    it, or diverges with it, by text."""
    offered: dict[str, tuple[Spec, str]] = {str(base): (base, _PLAINEST)}
    beam = [base]
    home = {n: u for u in base.updates for n in u.everything}
    held = any(t.most > CLOSE and t.cut_by(home) for t in promises.ties) or bool(_diverging(promises, base))
    for name, rewrite in REWRITES.items() if held else ():
        made = _made(rewrite, name, promises, beam)
        for spec in made:
            offered.setdefault(str(spec), (spec, name))
        if len(beam) + len(made) > BEAM:
            weighed = [_weighed(promises, *offered[str(s)]) for s in (*beam, *made)]
            beam = [w.spec for w in sorted(weighed, key=lambda w: w.cost((True, False)))[:BEAM]]
        else:
            beam += made
        if made and rewrite is jointly_gaussian:  # all that follows builds upon it
            beam = made
            joint = [u.sites for u in made[0].updates if u.kernel == "Conjugate" and len(u.sites) > 1]
            if all(is_small(promises.facts, sites) for sites in joint):
                del offered[str(base)]
    return offered


def _made(rewrite: Rewrite, name: str, promises: Promises, beam: Sequence[Spec]) -> list[Spec]:
    """What a rewrite makes of schedules; nothing where it fails unforeseen."""
    facts = promises.facts
    return attempted(
        f"the rewrite {name!r}",
        lambda: [new for spec in beam for new in rewrite(facts, spec, promises.ties)],
        list,
        notes_in(facts.density.cache),
    )


def _weighed(promises: Promises, spec: Spec, rewrite: str) -> _Weighed:
    least, most, tie = promises.times(spec)
    derived = promises.derived(spec)
    found = promises.counted(spec) if derived else promises.least(spec)
    why = _diverging(promises, spec)
    compiled, longer = compiling(spec, found), promises.longer(spec)
    return _Weighed(spec, rewrite, found.work, compiled, least, most, tie, derived, why, longer)


def _diverging(promises: Promises, spec: Spec) -> str:
    moved = [u for u in spec.updates if u.kernel in ("NUTS", "HMC")]
    return next(filter(None, (diverging(promises.facts.density, u.sites) for u in moved)), "")


def _least_regret(weighed: Sequence[_Weighed]) -> tuple[_Weighed, float]:
    """The candidate that loses least at worst, and by what factor; of equal ones that of which a run of
    `limits.SWEEPS` is likely to have most."""
    least = {case: min(w.cost(case) for w in weighed) for case in _CASES}
    regrets = [max(w.cost(case) / least[case] for case in _CASES) for w in weighed]
    equal = [i for i, r in enumerate(regrets) if r < EQUAL * min(regrets)]
    at = min(equal, key=lambda i: (round(weighed[i].run * weighed[i].likely / 1e9, 1), i))
    return weighed[at], regrets[at]


def _not_derived(weighed: Sequence[_Weighed]) -> list[_Weighed]:
    """Those whose work is not known and that others are held against: a regret of what turns out to take
    longer is none."""
    cheapest = [min(weighed, key=lambda w: w.cost(case)) for case in _CASES]
    return [w for w in cheapest if not w.derived]


def _pays(weighed: Sequence[_Weighed], best: _Weighed, exact: _Weighed) -> bool:
    """Whether a trial of exact draws, whose program is a part of theirs, loses less at worst than going
    without it: a run of `limits.SWEEPS` takes the trial besides, one without end does not notice it."""
    rivals = [w for w in weighed if w is not exact]
    equations = (exact.compiling - COMPILING["program"]) / COMPILING["equation"]
    trial = TRIAL + TRIAL_EQUATION * equations + exact.work * _SWEPT

    def left(takes: Callable[[_Weighed], float]) -> float:
        return _expected(exact, takes(exact) / min(takes(w) * w.likely for w in rivals), best is exact)

    # at worst a trial loses the first factor, if it is above 1, and to go without the second's inverse
    return (left(lambda w: w.run) + trial / best.run) * left(lambda w: w.work) < 1


def _expected(exact: _Weighed, each: float, taken: bool) -> float:
    """The share of the time of what would be run untried that is left if the better of two is: of exact
    draws (those that are `taken` untried, or not), which take `each` for every sweep that they remember, and
    of what takes 1. Their logarithm may be anything from the least to the most."""
    ends = math.log(each * exact.least), math.log(each * exact.most)
    low, high = (-ends[1], -ends[0]) if taken else ends
    if high - low < 1e-9:
        return min(1.0, math.exp(low))
    won = min(high, max(low, 0.0))
    return (math.exp(won) - math.exp(low) + high - won) / (high - low)


_SWEPT = STATES / 4 * (LEFT_OUT + KEPT)


def _to_be_tried(facts: Facts, weighed: Sequence[_Weighed]) -> _Weighed | None:
    """The schedule that a trial tells most of: exact draws in turn of sites that can be started anywhere,
    those that are Gaussian together as one."""
    known = {n for u in weighed[0].spec.updates for n in u.everything}
    if any(moving_support(facts, n) for n in known):
        return None
    plain = [w for w in weighed if all(is_exact(u) and u.kernel != "Collapsed" for u in w.spec.updates)]
    return min((w for w in plain if w.tie), key=lambda w: len(w.spec.updates), default=None)


def _told(
    everything: Sequence[_Weighed],
    weighed: Sequence[_Weighed],
    best: _Weighed,
    regret: float,
    scales: _Scales,
) -> list[Candidate]:
    """All candidates in words and numbers: the chosen one of those `weighed` first, the others by what they
    promise."""
    out = [
        Candidate(
            str(w.spec),
            w.rewrite,
            w.work,
            w.compiling,
            (w.least, w.most),
            w.most if scales.tried and str(w.spec) == scales.tried_text else None,
            "" if w.tie is None else str(w.tie),
            chosen=w is best,
            because=_decided(weighed, best, regret, scales) if w is best else _aside(w),
        )
        for w in everything
    ]
    aside = {str(w.spec) for w in everything if w.diverging}
    return sorted(out, key=lambda c: (not c.chosen, c.text in aside, -c.efficiency))


def _aside(weighed: _Weighed) -> str:
    return f"Set aside: {weighed.diverging}" if weighed.diverging else ""


def _decided(weighed: Sequence[_Weighed], best: _Weighed, regret: float, scales: _Scales) -> str:
    if scales.tried:
        slow = max(scales.tried, key=scales.tried.__getitem__)
        took = f"{slow} takes {scales.tried[slow]:.1f} sweeps for an effective draw"
        if str(best.spec) == scales.tried_text:
            return f"Chosen by a trial of it: {took}, few for sweeps as cheap as these"
        return f"Chosen by a trial of {scales.tried_text}: {took} there"
    if regret <= 1.05:
        return "Chosen as the fastest by prediction, at best and at worst"
    ratios = {i: [w.cost(c) / best.cost(c) for c in _CASES] for i, w in enumerate(weighed) if w is not best}
    at = min(ratios, key=lambda i: min(ratios[i]))
    rival, (low, high) = weighed[at], (min(ratios[at]), max(ratios[at]))
    faster = f"{rival.spec} could be {1 / low:.1f} times as fast"
    if high <= 1.05:
        return f"Chosen although {faster}: predictions are no closer than that, and runs are likely to gain"
    lengths = [_CASES[ratios[at].index(end)][1] for end in (low, high)]
    when = [f" in a {'short' if whole else 'long'} run" for whole in lengths if len({*lengths}) > 1]
    ends = [f"{faster}{when[0] if when else ''}", f"{high:.1f} times as slow{when[1] if when else ''}"]
    tie, which = (rival.tie, "it") if rival.tie else (best.tie, "this one")
    why = f". Only a run tells which: {tie}, and {which} draws them apart" if tie else ""
    return f"Chosen as the safer bet: {' or '.join(ends)}{why}"
