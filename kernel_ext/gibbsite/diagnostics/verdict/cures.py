"""What would help a run that has not converged: changes that fit its model, in its own names, best first.

Each row of `_TABLE` looks at one sort of trouble and yields cures; what the model refuses is left out.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpyro.distributions import constraints

from gibbsite.density.current import exchangeable, why_not
from gibbsite.density.hierarchy.location_scale import location_scales
from gibbsite.density.liveness import switched
from gibbsite.diagnostics.verdict.cure import Case, Cure
from gibbsite.diagnostics.verdict.hints import smaller_steps
from gibbsite.diagnostics.verdict.verdict import RHAT_LIMIT
from gibbsite.elimination import joint_marginal
from gibbsite.errors import GibbsiteError
from gibbsite.ground.arguments import listed
from gibbsite.plans.candidates.limits import CLOSE
from gibbsite.plans.schedule.edits import with_block, with_options
from gibbsite.plans.schedule.parse import Update
from gibbsite.plans.schedule.plan import GRADIENTS, drawn_apart
from gibbsite.validation.covariates import far_from_zero

_MOST_MORE = 100_000  # draws; a run that asks for more needs another cure
_WINDOWS = 150  # steps below which no window is left to learn a metric in (Stan's 75 + 25 + 50)
_FAR = 1.1  # an R-hat above which more of the same draws will hardly do
_APART = 2.0  # one of chains that share no place: their draws say nothing of when they would meet


def cures(run: Any) -> tuple[Cure, ...]:
    """What to try about an ended run, best first; none for one that has converged without a warning, or was
    loaded without its model."""
    if run.model is None or run.status not in ("finished", "stopped"):
        return ()
    if run.verdict.ok and all(w.topic == "moved" for w in run.snapshot(limit=1).warnings):
        return ()
    if not run.kept.sampled.steps:
        return ()
    case = Case(run)
    found: dict[Any, Cure] = {}
    for row in (_more_draws,) if case.structures else _TABLE:
        try:
            for cure in row(case):
                if _accepted(case.model, cure):
                    found.setdefault((cure.method, repr(cure.value), cure.draws > 0, cure.warmup), cure)
        except GibbsiteError:  # what this row thought of does not fit the model
            continue
    return tuple(found.values())


def _accepted(model: Any, cure: Cure) -> bool:
    if cure.method != "with_schedule":
        return True
    try:
        return model.schedule(cure.value) is not None
    except GibbsiteError:
        return False


def _scheduled(words: str, expects: str, text: str) -> Cure:
    return Cure(words, expects, "with_schedule", text)


def _ordered(case: Case) -> Iterator[Cure]:
    """Labels that switch, or of which there is one order in all chains: an order among the components, by a
    site on the whole line where there is one."""
    notice = case.topics.get("labels") or case.topics.get("orders") or case.topics.get("renamed")
    fits = [n for n in (notice.sites if notice else ()) if not why_not(case.density, n)]
    for name in sorted(fits, key=lambda n: case.density.sites[n].support is not constraints.real)[:1]:
        k = case.density.sites[name].shape[0]
        same = "everything else keeps its posterior"
        if not exchangeable(case.density, name):
            same = "but priors tell them apart: this is another model"
        yield Cure(
            f"order the components by {name}",
            f"of {_orders(k)} orders of the same components one is left, and chains agree on which is which; "
            f"{same}",
            "ordered",
            name,
        )


def _orders(k: int) -> str:
    return f"{int(np.prod(np.arange(1, k + 1))):,}" if k < 8 else "many"


def _forked(case: Case) -> Iterator[Cure]:
    """Forms of a model that chains do not cross between: structures."""
    updates = [(u.kernel, members, u.eliminated) for u, members in case.blocks]
    apart = drawn_apart(case.density, updates)
    names = [n for n in apart if "forms" in case.topics or n in case.bad]
    if names:
        off = sorted({n for name in names for n in switched(case.density)[name]})
        yield _scheduled(
            f"chains between the forms that {listed(names)} switches",
            f"what the other form has ({listed(off)}) is drawn from where that form fits the data, not from "
            f"its prior, so that chains cross; each form is compiled by itself",
            f"Structure {' '.join(names)}",
        )


def _centred_columns(case: Case) -> Iterator[Cure]:
    """Levels and slopes that make up for each other: covariates less their means."""
    names = far_from_zero(case.density)
    if names and ("precision" in case.topics or case.bad):
        yield Cure(
            f"centre {listed(names)}",
            f"less its mean a covariate leaves level and slope nearly uncorrelated, in figures that single "
            f"precision has; slopes stay what they are, the level is that at the mean of {listed(names)}",
            "centred",
            names,
        )


def _planned(case: Case) -> Iterator[Cure]:
    """What the model's schedule was chosen from, weighed again by how long the run remembers, where this one
    draws in turn what holds each other, or remembers far longer than was predicted: another one that at its
    worst has several times the effective draws for the work."""
    weighed = [c for c in case.model.execution.schedule().candidates if not c.refused and np.isfinite(c.work)]
    own = next((c for c in weighed if c.text == case.schedule.text), None)
    known = [s for s in case.snapshot.scalars if np.isfinite(s.ess_bulk) and s.ess_bulk > 0]
    if own is None or not known or {"labels", "orders", "renamed", "modes"} & set(case.topics):
        return
    least = min(known, key=lambda s: s.ess_bulk)
    times = case.snapshot.chains * case.snapshot.draws_done / least.ess_bulk
    if not own.slowest and times < CLOSE * own.times[1]:
        return
    # where gradients of few sites move slowly, those of these and others together do no better
    slow = _gradients_of(case, own.text, least.site)
    others = [c for c in weighed if not slow or not slow <= _gradients_of(case, c.text, least.site)]
    others = [c for c in others if c is not own]
    best = min(others, key=lambda c: c.work * c.times[1], default=None)
    if best is None or own.work * times < CLOSE * best.work * best.times[1]:
        return
    low, high = (f"{x:.0f}" for x in own.times)
    predicted = low if low == high else f"{low} to {high}"
    yield _scheduled(
        f"the schedule {best.text}",
        f"{least.called} remembers {times:.0f} steps, where {predicted} were predicted; this one takes "
        f"{best.work / own.work:.2g} times the work a step and was predicted to remember {best.times[1]:.0f} "
        f"at most: {own.work * times / (best.work * best.times[1]):.0f} times the effective draws",
        best.text,
    )


def _gradients_of(case: Case, text: str, site: str) -> set[str]:
    """The sites that a schedule moves by gradients together with `site`; none where it does not."""
    names = {site, *case.density.groups.get(site, ())}
    blocks = (u for u in case.model.schedule(text).updates if u.kernel in GRADIENTS)
    return next(({*u.sites} for u in blocks if names & {*u.sites}), set())


def _drawn_jointly(case: Case) -> Iterator[Cure]:
    """Discrete sites that are drawn in turn and cannot cross: one block."""
    apart = [(u, m) for u, m in case.blocks if u.kernel == "Gibbs" and set(m) & set(case.bad)]
    names = [n for _, members in apart for n in members]
    if len(apart) > 1 and not isinstance(joint_marginal(case.density, names, insist=False), str):
        yield _scheduled(
            f"one block for [{' '.join(names)}]",
            f"{listed(names)} are drawn together, exactly: chains cross where they move only together",
            with_block(case.schedule, names, "Gibbs"),
        )


def _warmed_up(case: Case) -> Iterator[Cure]:
    """Gradients whose step size and metric had no time to be learnt."""
    asked, learn = case.settings.asked_warmup, any(u.kernel in GRADIENTS for u, _ in case.blocks)
    troubled = bool({"divergences", "bfmi"} & set(case.topics) or case.bad)
    if learn and troubled and isinstance(asked, int) and asked < _WINDOWS:
        yield replace(
            _scheduled(
                "warm up for as long as it takes",
                f"in {asked} steps neither step sizes nor scales are learnt, which decide how far a draw "
                f"goes and whether it diverges",
                case.schedule_text,
            ),
            warmup="auto",
        )


def _summed_out(case: Case) -> Iterator[Cure]:
    """Discrete sites beside a block of gradients: sum them out of it."""
    if all(u.kernel == "Gibbs" for u, _ in case.blocks):
        return
    names = [n for u, members in case.blocks if u.kernel == "Gibbs" and not u.eliminated for n in members]
    if names and not {"labels", "orders", "renamed"} & set(case.topics):
        case.model.eliminate(*names)  # raises where it cannot be
        yield Cure(
            f"sum out {listed(names)}",
            f"the gradients see the sum over {listed(names)}, not one value at a time: what depends on "
            f"{'it' if len(names) == 1 else 'them'} mixes as fast as it can; a step costs more",
            "eliminate",
            tuple(names),
        )


def _centred_otherwise(case: Case) -> Iterator[Cure]:
    """Hierarchies that are drawn as they are written: learn their centring, or non-centre them."""
    troubled = {"divergences", "bfmi"} & set(case.topics)
    for name, found in location_scales(case.density).items():
        group = (name, *found.reads)
        if not found.elementwise or not (troubled or set(group) & set(case.bad)):
            continue
        own = case.block_of(name)
        together = all(case.block_of(r) is own for r in found.reads)
        kernel = own.kernel if own is not None and together else ""
        if kernel == "Conjugate":  # one exact draw of all, which is slow only with the rest
            continue
        learns = own is not None and dict(own.options).get("centring", "auto") == "auto"
        whole = kernel == "NUTS" and learns
        if not whole:
            smooth = [n for u, members in case.blocks if u.kernel in GRADIENTS for n in members]
            block = _in_order(case, [*found.reads, name, *smooth])
            yield _scheduled(
                f"let NUTS learn the centring of {name}",
                f"{listed(block)} move together, and every element of {name} in the coordinates that its "
                f"data suit: several times the ESS of {listed(found.reads)}, and few divergences",
                with_block(case.schedule, block, "NUTS"),
            )
        if not whole and "non-centred" in case.model.reparam_choices(name):
            yield Cure(
                f"non-centre {name}",
                f"{name} is drawn on a scale of its own, which {listed(found.reads)} no longer squeeze: the "
                f"funnel becomes a round hill where the data say little about single elements",
                "reparam",
                {name: "non-centred"},
            )


def _moved_together(case: Case) -> Iterator[Cure]:
    """Sites that are drawn one after the other, exactly or by slices, and disagree: one block."""
    exact = [n for u, m in case.blocks if u.kernel in ("Conjugate", "Slice", "RandomWalk") for n in m]
    smooth = [n for u, members in case.blocks if u.kernel in GRADIENTS for n in members]
    bad = [n for n in exact if n in case.bad and not case.density.sites[n].discrete]
    names = _in_order(case, [*bad, *smooth])
    if bad and len(names) > 1 and not any(case.density.bounds_of(n) for n in bad):
        yield _scheduled(
            f"one block for [{' '.join(names)}]",
            f"{listed(names)} move together along gradients; one after the other they take small steps",
            with_block(case.schedule, names, "NUTS"),
        )


def _tempered(case: Case) -> Iterator[Cure]:
    """Chains in different modes: replicas that cross between them."""
    if "modes" not in case.topics or any(u.kernel == "Tempered" for u, _ in case.blocks):
        return
    seen = [n for n in case.density.latents if n not in case.model.generated]
    discrete = [n for n in seen if case.density.sites[n].discrete]
    smooth = [n for n in seen if n not in discrete]
    block = str(Update("Tempered", tuple(smooth), eliminated=tuple(discrete)))
    case.model.schedule(block).plan()  # raises where it cannot be
    yield _scheduled(
        "replicas that cross between the modes",
        "replicas at flatter densities exchange places with the chains, which so visit every mode in "
        "proportion to what it weighs; a step costs about 150 gradients",
        block,
    )


def _smaller_steps(case: Case) -> Iterator[Cure]:
    """Divergences: a higher acceptance target."""
    if "divergences" not in case.topics:
        return
    block = next((u for u, _ in case.blocks if u.kernel in GRADIENTS), None)
    if block is None:
        return
    aim = next((b.target for b in case.snapshot.blocks if b.kernel in GRADIENTS), None)
    now, target = smaller_steps(dict(block.options).get("target_accept_prob") if aim is None else aim)
    if target is not None:
        yield _scheduled(
            f"raise the acceptance target from {now:.3g} to {target:g}",
            "smaller steps follow the curved parts of the posterior: fewer divergences, for up to twice the "
            "gradients per draw",
            with_options(case.schedule, block, target_accept_prob=target),
        )


def _more_draws(case: Case) -> Iterator[Cure]:
    """Chains that agree and are too short: go on."""
    known = [s for s in case.snapshot.scalars if np.isfinite(s.ess_bulk) and np.isfinite(s.rhat)]
    if {"labels", "orders", "signs", "stuck"} & set(case.topics) or not known:
        return
    worst, least = max(s.rhat for s in known), min(known, key=lambda s: s.ess_bulk)
    if worst > _APART:
        return
    done = case.snapshot.draws_done
    missing = max(done * (case.limit / least.ess_bulk - 1), done if worst > RHAT_LIMIT else 0)
    more = int(np.ceil(missing / 500) * 500)
    if 0 < more <= _MOST_MORE:
        doubt = " (but the chains are far apart: another cure first)" if worst > _FAR else ""
        yield Cure(
            f"draw {more} more",
            f"ESS of {least.called} from {least.ess_bulk:.0f} to about "
            f"{least.ess_bulk * (done + more) / done:.0f}, if it goes on as it went{doubt}",
            draws=more,
        )


def _in_order(case: Case, names: list[str]) -> list[str]:
    return [n for n in case.density.latents if n in names]


_TABLE: tuple[Callable[[Case], Iterator[Cure]], ...] = (
    _warmed_up,
    _forked,
    _centred_columns,
    _tempered,
    _ordered,
    _planned,
    _drawn_jointly,
    _centred_otherwise,
    _moved_together,
    _smaller_steps,
    _summed_out,
    _more_draws,
)
