"""Candidates → the one that is run: by what is predicted, and by a trial where that does not tell.

Times that are not known are taken to be the least they can be, and the most, and the candidate that loses
least in the worse of both cases is preferred (minimax regret, Savage 1951). Where even that one may lose
more than a factor of `limits.CLOSE`, and a run would pay for it, the exact draws in turn are tried. All
that is compared are counts of operations: the same model has the same schedule on any machine.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from gibbsite.conditional.forms.walk import Refused
from gibbsite.errors import GibbsiteError
from gibbsite.kernels.blocks.supports import moving_support
from gibbsite.kernels.plans.candidate import Candidate
from gibbsite.kernels.plans.limits import (
    CLOSE,
    COMPILED,
    KEPT,
    LEFT_OUT,
    MOST_TRIED,
    STATES,
    SWEEPS,
    TRIAL,
)
from gibbsite.kernels.plans.promise import Promises
from gibbsite.kernels.plans.rewrites import REWRITES
from gibbsite.kernels.plans.sweep import Sweep, is_exact
from gibbsite.kernels.plans.ties import Tie, ties_of
from gibbsite.kernels.plans.trial import times_of
from gibbsite.kernels.scheduling.parse import Spec, parse_schedule
from gibbsite.kernels.scheduling.registry import Facts

Legal = Callable[[Spec], object]
"""Raises a `GibbsiteError` for a schedule that does not fit the model."""
_AS_RULED = "as the rules of the default schedule have it"


@dataclass(frozen=True)
class _Weighed:
    """A schedule on the scales."""

    spec: Spec
    rewrite: str
    work: float
    least: float
    most: float
    tie: Tie | None

    def cost(self, most: bool) -> float:
        """Operations for an effective draw."""
        return self.work * (self.most if most else self.least)


def chosen(facts: Facts, base: Spec, legal: Legal) -> tuple[Spec, tuple[Candidate, ...]]:
    """The schedule to run, of `base` and what can be made of it, and all that was weighed, the chosen first.

    Whether a candidate keeps the rules is asked when it would be chosen: deriving a block takes longer than
    weighing it. Those that do not are turned down, with the reason, and the rest is weighed again.
    """
    ties = ties_of(facts.density)
    offered, refused, found = _offered(facts, base, ties), [], {}
    promises, may_try = Promises(facts, ties), True
    while len(offered) > 1:
        weighed, turned_down = _all_weighed(promises, offered)
        if turned_down:
            refused += turned_down
            offered = [o for o in offered if str(o[0]) not in {c.text for c in turned_down}]
            continue
        best, regret = _least_regret(weighed)
        if may_try and regret > CLOSE and _pays(weighed, best) and _can_be_tried(facts, weighed[0]):
            watched = tuple(dict.fromkeys(t.site for t in ties if t.site in facts.density.latent_vars))
            found = dict(times_of(Sweep(facts, base.updates), facts.inputs, watched))
            promises, may_try = promises.tried(found), False
            continue
        try:
            if best is not weighed[0]:
                legal(best.spec)
        except GibbsiteError as why:
            refused.append(_refused(best.spec, best.rewrite, why))
            offered = [o for o in offered if o[0] is not best.spec]
            continue
        return best.spec, (*_told(weighed, best, _decided(best, regret, found), bool(found)), *refused)
    only = Candidate(str(base), _AS_RULED, chosen=True, because="nothing else was offered")
    return base, (only, *refused)


def checked(candidates: Sequence[Candidate], legal: Legal) -> tuple[Candidate, ...]:
    """The same after every one was asked for as its text says: those that do not keep the rules are refused,
    with the reason, and come last."""
    asked = [c if c.chosen or c.refused else _asked(c, legal) for c in candidates]
    return tuple(sorted(asked, key=lambda c: bool(c.refused)))


def _asked(candidate: Candidate, legal: Legal) -> Candidate:
    try:
        legal(parse_schedule(candidate.text))
    except GibbsiteError as why:
        return replace(candidate, refused=str(why).split("\n")[0])
    return candidate


def _refused(spec: Spec, rewrite: str, why: Exception) -> Candidate:
    return Candidate(str(spec), rewrite, refused=str(why).split("\n")[0])


def _all_weighed(
    promises: Promises, offered: Sequence[tuple[Spec, str]]
) -> tuple[list[_Weighed], list[Candidate]]:
    """What is offered on the scales, the default by the rules first, and what cannot be derived, with the
    reason."""
    weighed, refused = [_weighed(promises, *offered[0])], []
    for spec, rewrite in offered[1:]:
        try:
            weighed.append(_weighed(promises, spec, rewrite))
        except (GibbsiteError, Refused) as why:
            refused.append(_refused(spec, rewrite, why))
    return weighed, refused


def _decided(best: _Weighed, regret: float, found: Mapping[str, float]) -> str:
    if found:
        slow = max(found, key=found.__getitem__)
        return f"drawn in turn, {slow} remembers {found[slow]:.1f} sweeps, as tried"
    at_worst = f"; at worst {regret:.1f} times the work of another" if regret > 1.05 else ""
    return f"as predicted{at_worst}"


def _offered(facts: Facts, base: Spec, ties: Sequence[Tie]) -> list[tuple[Spec, str]]:
    offered: dict[str, tuple[Spec, str]] = {str(base): (base, _AS_RULED)}
    for name, rewrite in REWRITES.items() if any(_cut(base, t) for t in ties) else ():
        for spec in rewrite(facts, base, ties):
            offered.setdefault(str(spec), (spec, name))
    return list(offered.values())


def _cut(spec: Spec, tie: Tie) -> bool:
    """Whether a tie that may slow a sweep down runs between two updates."""
    home = {n: i for i, u in enumerate(spec.updates) for n in u.everything}
    return tie.most > CLOSE and tie.site in home and any(home.get(g) != home[tie.site] for g in tie.given)


def _weighed(promises: Promises, spec: Spec, rewrite: str) -> _Weighed:
    least, most, tie = promises.times(spec)
    return _Weighed(spec, rewrite, promises.work(spec), least, most, tie)


def _least_regret(weighed: Sequence[_Weighed]) -> tuple[_Weighed, float]:
    """The candidate that loses least at worst, and by what factor; of equal ones the first, the simplest."""
    least = {most: min(w.cost(most) for w in weighed) for most in (False, True)}
    regrets = [max(w.cost(most) / least[most] for most in (False, True)) for w in weighed]
    at = min(range(len(weighed)), key=lambda i: (round(regrets[i], 3), i))
    return weighed[at], regrets[at]


def _pays(weighed: Sequence[_Weighed], best: _Weighed) -> bool:
    """Whether half of what a run may lose by the choice, compiling included, is more than a trial takes."""
    saved = max(best.cost(most) - min(w.cost(most) for w in weighed) for most in (False, True))
    compiled = sum(COMPILED.get(u.kernel, 0.0) for u in best.spec.updates)
    return (saved * SWEEPS + compiled) / 2 > TRIAL


def _can_be_tried(facts: Facts, plain: _Weighed) -> bool:
    """Whether all of it are exact draws of sites that can be started anywhere, and a trial costs little."""
    sweeps = STATES / 4 * (LEFT_OUT + KEPT)
    fixed = not any(moving_support(facts, n) for u in plain.spec.updates for n in u.sites)
    return fixed and all(map(is_exact, plain.spec.updates)) and plain.work * sweeps < MOST_TRIED


def _told(weighed: Sequence[_Weighed], best: _Weighed, decided: str, tried: bool) -> list[Candidate]:
    """The candidates in words and numbers: the chosen first, the others by what they promise."""
    out = [
        Candidate(
            str(w.spec),
            w.rewrite,
            w.work,
            (w.least, w.most),
            w.most if tried and w is weighed[0] else None,
            "" if w.tie is None else str(w.tie),
            chosen=w is best,
            because=decided if w is best else "",
        )
        for w in weighed
    ]
    return sorted(out, key=lambda c: (not c.chosen, -c.efficiency))
