"""A schedule: which kernel updates which sites in which order, checked against a model, and why."""

import html
import itertools
import math
import numbers
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpyro.infer.mcmc import MCMCKernel

from gibbsite.elimination import marginal_of
from gibbsite.errors import OptionError, ScheduleError, UnknownNameError
from gibbsite.ground.arguments import shown
from gibbsite.ground.of_process import OfProcess
from gibbsite.ground.opaque import attempted, notes_in
from gibbsite.kernels.blocks.eliminated import Eliminated, MarginalModel
from gibbsite.kernels.composite import RandomScanGibbs, Repeat, SystematicScanGibbs
from gibbsite.kernels.interleaved import Interleaved
from gibbsite.plans.candidates.alone import plainest
from gibbsite.plans.candidates.blocking import because_summed, reason
from gibbsite.plans.candidates.choice import checked, chosen
from gibbsite.plans.candidates.promise import Promises
from gibbsite.plans.candidates.trial import HEAD, Candidate, foremost, told
from gibbsite.plans.schedule.decided import decided_apart
from gibbsite.plans.schedule.deterministic import stuck_apart
from gibbsite.plans.schedule.elimination import check_eliminated, drawn_jointly
from gibbsite.plans.schedule.parse import (
    INTERLEAVE,
    REST,
    Spec,
    Update,
    at_caret,
    nearest,
    parse_schedule,
)
from gibbsite.plans.schedule.plan import Block, Plan
from gibbsite.plans.schedule.registry import Facts, KernelRow, find_kernel, kernels
from gibbsite.plans.schedule.words import blocked_by, blocked_in_detail


@dataclass(frozen=True)
class Row:
    """One line of the explanation: sites, kernel, why this one, what blocked a better one (a line per
    obstacle), cost per sweep; in `detail` the expressions of the model that blocked it."""

    sites: tuple[str, ...]
    kernel: str
    reason: str
    blocked: str
    cost: str
    detail: str = ""


@dataclass(frozen=True)
class Schedule(OfProcess):
    """Checked updates of a model's latent sites, in sweep order.

    Equal schedules have equal updates; printing one shows the table of sites, kernels and reasons; `text` is
    the form that `parse` reads.
    """

    _keep_by = "keep its `text`, which model.schedule(text) and model.sample(schedule=text) read"

    updates: tuple[Update, ...]
    random_scan: bool
    facts: Facts = field(compare=False, repr=False)
    weighed: tuple[Candidate, ...] = field(default=(), compare=False, repr=False)

    @cached_property
    def candidates(self) -> tuple[Candidate, ...]:
        """The schedules that the model's own was chosen from, itself first, then by what they promise; those
        that were turned down, with the reason, last. None for a schedule that was asked for.

        All but the chosen one are derived and held against the rules when this is read first, which takes
        longer than weighing them.
        """
        return checked(self.facts, self.weighed, lambda spec: _checked(self.facts, spec))

    @cached_property
    def work(self) -> float:
        """What a sweep takes, in about nanoseconds for four chains: as it was counted where schedules were
        weighed, else counted now; NaN where that cannot be."""
        known = [c.work for c in self.weighed if c.chosen and not math.isnan(c.work)]
        if known:
            return known[0]
        failed = notes_in(self.facts.density.cache)
        promises = Promises(self.facts, ())
        spec = Spec(self.updates, self.random_scan)
        return attempted("the work of a schedule", lambda: promises.work(spec), lambda: math.nan, failed)

    @property
    def text(self) -> str:
        """The schedule in one line."""
        return str(Spec(self.updates, self.random_scan))

    @property
    def _program_text(self) -> str:
        """As `text`, without what a compiled program takes as inputs."""
        return str(Spec(tuple(map(_compiled_in, self.updates)), self.random_scan))

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """The explanation, one row per update."""
        rows = []
        stuck = {**decided_apart(self.facts, self.updates), **stuck_apart(self.facts, self.updates)}
        for u in self.updates:
            row = _row(u.kernel)
            if u.parts:
                inner = self._interleaved_row(u)
                rows.append(
                    self._eliminated_row(u, inner.cost, f"\n{inner.reason}") if u.eliminated else inner
                )
                continue
            cost = row.cost(self.facts, u.sites, dict(u.options))
            if u.eliminated:
                rows.append(self._eliminated_row(u, cost))
                continue
            joint = drawn_jointly(self.facts, u)
            cost = cost if joint is None else joint.cost
            times = f"{u.repeat} × ({cost})" if u.repeat > 1 else cost
            name = str(u).removesuffix(u.label).strip()
            blocked = blocked_by(self.facts, u.kernel, u.sites)
            detail = blocked_in_detail(self.facts, u.kernel, u.sites)
            told = "; ".join(t for t in (stuck.get(u.sites[0], ""), reason(self.facts, u)) if t)
            rows.append(Row(u.sites, name, told, blocked, times, detail))
        return tuple(rows)

    def _eliminated_row(self, u: Update, cost: str, inner: str = "") -> Row:
        """The row of an update out of which sites are summed, `z | w mu`; `inner` tells of those within."""
        marginal = marginal_of(self.facts.density, u.eliminated)
        times = f"{u.repeat} × " if u.repeat > 1 else ""
        return Row(
            (*u.eliminated, "|", *u.sites),
            str(u).removesuffix(u.label).strip(),
            f"{' and '.join(u.eliminated)} {marginal.gone}, then drawn jointly"
            f"{because_summed(self.facts, u)}. {marginal}{inner}",
            "",
            f"{times}({cost}), each of {marginal.cost}; one draw of about a gradient",
        )

    def _interleaved_row(self, u: Update) -> Row:
        """The row of updates that share sites: a reason and a cost for each."""
        reasons, costs = [], []
        for p in u.parts:
            row, name = _row(p.kernel), str(p).removesuffix(p.label).strip()
            reasons.append(f"{name}: {reason(self.facts, p, shared=True)}")
            costs.append(f"{name}: {row.cost(self.facts, p.sites, dict(p.options))}")
        times = f"{u.repeat} × " if u.repeat > 1 else ""
        told = f"{_row(u.kernel).reason}\n" + "\n".join(reasons)
        return Row(u.sites, str(u), told, "", times + "; ".join(costs))

    @cached_property
    def levels(self) -> Mapping[str, tuple[str, ...]]:
        """What is computed "once", because no latent enters; drawn "per step", by the updates; and drawn or
        computed "per draw", because no observation depends on it."""
        facts = self.facts
        computed = [n for n, s in facts.recorded.items() if s.role == "deterministic"]
        once = tuple(n for n in computed if set(facts.stacked.get(n, (n,))) <= set(facts.constants))
        hidden = {n: f"{n} (drawn forward)" for n in facts.hidden}
        for group, names in facts.groups.items():
            if hidden and set(names) <= set(facts.hidden):
                hidden = {n: t for n, t in hidden.items() if n not in names}
                hidden[group] = f"{group} (drawn forward)"
        later = tuple(hidden.values()) + tuple(f"{n} (computed)" for n in computed if n not in once)
        steps = tuple(n for u in self.updates for n in (*u.eliminated, *u.sites))
        return {"once": once, "per step": steps, "per draw": later}

    def _level_lines(self) -> list[str]:
        return [f"{level}: {', '.join(names)}" for level, names in self.levels.items() if names]

    def members(self, sites: Sequence[str]) -> tuple[str, ...]:
        """The model's own sites behind the names in an update: those of a group for the group's name."""
        grouped = self.facts.density.members
        return tuple(m for s in sites for m in grouped.get(s, (s,)))

    def plan(self) -> Plan:
        """The schedule compiled to one NumPyro kernel, with what a run needs beside it."""
        facts, pairs, blocks, signatures = self.facts, [], [], []
        arguments: dict[str, Any] = {}
        for i, u in enumerate(self.updates):
            options = dict(u.options)
            try:
                kernel = _built(facts, u, str(i), arguments)
            except (OptionError, TypeError, ValueError) as problem:
                raise ScheduleError(f"{u}: {problem}") from problem
            pairs.append((Repeat(kernel, u.repeat) if u.repeat > 1 else kernel, u.everything))
            label = f"{' '.join(u.eliminated)} | {' '.join(u.sites)}" if u.eliminated else u.label
            blocks.append(Block(label, u.kernel, u.everything, options, u.eliminated))
            drawn = drawn_jointly(facts, u)
            signatures += [drawn.signature] if drawn is not None else []
            for p in u.parts or (u,):
                signatures += _row(p.kernel).signature(facts, p.sites)
                # options that are functions are compiled in: they are part of the key as objects
                signatures += [v if callable(v) else repr(v) for _, v in _compiled_in(p).options]
        composite = RandomScanGibbs if self.random_scan else SystematicScanGibbs
        return Plan(
            kernel=composite(pairs),
            inputs={**facts.inputs, "options": arguments} if arguments else facts.inputs,
            blocks=tuple(blocks),
            sites=facts.recorded,
            observed=facts.observed,
            groups={g: m for g, m in facts.groups.items() if m[0] in facts.recorded},
            fingerprint=facts.fingerprint,
            cache_key=(facts.fingerprint, self._program_text, tuple(signatures)),
            model_name=facts.name,
            schedule_text=self.text,
            observed_sites=facts.observed_sites,
            model=facts.written_model,
            members={g: m for g, m in facts.density.members.items() if g in facts.recorded},
            stacked={**facts.stacked, **facts.density.members},
            density=facts.density,
            generated=facts.generated,
            hidden=facts.hidden,
            promised=next((c for c in _weighed(facts) if c.text == self.text), None),
        )

    def __str__(self) -> str:
        head = ("sites", "kernel", "why", "what blocked a better one", "cost per sweep")
        body = [(" ".join(r.sites), r.kernel, r.reason, r.blocked or "–", r.cost) for r in self.rows]
        widths = [min(max(len(line[i]) for line in [head, *body]), 44) for i in range(5)]
        lines = ["random scan" if self.random_scan else "in this order"]
        for line in [head, *body]:
            wrapped = [_wrapped(cell, w) for cell, w in zip(line, widths, strict=True)]
            for cells in itertools.zip_longest(*wrapped, fillvalue=""):
                lines.append("  ".join(c.ljust(w) for c, w in zip(cells, widths, strict=True)).rstrip())
        return "\n".join([*lines, *self._level_lines(), *told(self.candidates)])

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))

    def _repr_html_(self) -> str:
        head = ("sites", "kernel", "why", "what blocked a better one", "cost per sweep")

        def shown(text: str) -> str:
            return html.escape(text).replace("\n", "<br>")

        def line(tag: str, cells: Sequence[str]) -> str:
            left = "<{0} style='text-align:left'>{1}</{0}>"
            return f"<tr>{''.join(left.format(tag, c) for c in cells)}</tr>"

        def cells(r: Row) -> list[str]:
            blocked = shown(r.blocked or "–")
            if r.detail:
                blocked = f"<details><summary>{blocked}</summary>{shown(r.detail)}</details>"
            return [*map(shown, (" ".join(r.sites), r.kernel, r.reason)), blocked, shown(r.cost)]

        body = "".join(line("td", cells(row)) for row in self.rows)
        order = "random scan" if self.random_scan else "in this order"
        text = f"{order}: <code>{html.escape(self.text)}</code>"
        caption = f"<caption style='text-align:left'>{text}</caption>"
        levels = "<br>".join(html.escape(text) for text in self._level_lines())
        foot = f"<tfoot><tr><td colspan='{len(head)}' style='text-align:left'>{levels}</td></tr></tfoot>"
        table = f"<table>{caption}<thead>{line('th', head)}</thead><tbody>{body}</tbody>{foot}</table>"
        weighed = foremost(self.candidates)
        if not weighed:
            return table
        rows = "".join(
            line("td", [f"<b>{t}</b>" if c.chosen else t for t in map(shown, c.row)]) for c in weighed
        )
        why = "; ".join(shown(c.because) for c in weighed if c.chosen and c.because)
        foot = f"<tfoot><tr><td colspan='{len(HEAD)}' style='text-align:left'>{why}</td></tr></tfoot>"
        return f"{table}<table><thead>{line('th', HEAD)}</thead><tbody>{rows}</tbody>{foot}</table>"


def _wrapped(cell: str, width: int) -> list[str]:
    return [line for part in cell.split("\n") for line in textwrap.wrap(part, width)] or [""]


def make_schedule(
    facts: Facts,
    schedule: "str | Spec | Schedule | Sequence[Update] | None" = None,
    *,
    random_scan: bool = False,
    namespace: Mapping[str, Any] | None = None,
) -> Schedule:
    """The schedule in any of its forms, checked against a model; the default policy where it is None.

    `facts` is the model. Text may use names from `namespace` as values of options. Raises `ScheduleError`
    before anything runs: for what cannot be read, kernels and sites that do not exist, sites updated twice or
    never, kernels that do not fit, and options of the wrong type.
    """
    weighed: tuple[Candidate, ...] = ()
    if schedule is None:
        spec, weighed = _default(facts)
    elif isinstance(schedule, str):
        spec = parse_schedule(schedule, namespace)
    elif isinstance(schedule, Schedule):
        spec = Spec(schedule.updates, schedule.random_scan)
    elif isinstance(schedule, Spec):
        spec = schedule
    elif isinstance(schedule, Sequence) and all(isinstance(u, Update) for u in schedule):
        spec = Spec(tuple(schedule))
    else:
        raise ScheduleError(
            f"a schedule is text such as 'Gibbs z (*) NUTS [a b]' or a list of update(…), got {schedule!r}"
        )
    return Schedule(_checked(facts, spec), spec.random_scan or random_scan, facts, weighed)


def _default(facts: Facts) -> tuple[Spec, tuple[Candidate, ...]]:
    """The schedule that is chosen for a model, and what it was chosen from; once per density. Array sites and
    sites as written have one each: supports that move are followed in the one form alone."""
    kept, key = facts.density.cache, _key_of(facts)
    if key not in kept:
        notes = notes_in(kept)
        kept[key] = attempted(
            "a choice between schedules",
            lambda: chosen(facts, lambda spec: _checked(facts, spec)),
            lambda: (plainest(facts), ()),
            notes,
        )
        if notes:  # what failed may have left the rules with half of what they know
            try:
                _checked(facts, kept[key][0])
            except ScheduleError:
                kept[key] = plainest(facts), ()
    return kept[key]


def _key_of(facts: Facts) -> tuple[str, type]:
    return "plan", type(facts)


def _weighed(facts: Facts) -> tuple[Candidate, ...]:
    """What the model's own schedule was chosen from; nothing before anybody asked for that."""
    return facts.density.cache.get(_key_of(facts), ((), ()))[1]


def _built(facts: Facts, u: Update, name: str, arguments: dict[str, Any]) -> MCMCKernel:
    """The kernel of an update. What its program takes as inputs is put into `arguments`, by `name`."""
    options = dict(u.options)
    if u.eliminated:
        marginal = marginal_of(facts.density, u.eliminated)
        left = MarginalModel(facts.name, facts.density, marginal, facts.inputs, u.eliminated)
        inside = _built(left, replace(u, eliminated=()), name, arguments)
        return Eliminated(facts.runtime_model, inside, marginal)
    if u.parts:
        inner = [(_built(facts, p, f"{name}.{i}", arguments), p.sites) for i, p in enumerate(u.parts)]
        return Interleaved(facts.runtime_model, inner)
    row = _row(u.kernel)
    for option, usual in row.arguments.items():
        arguments[name] = np.asarray(options.get(option, usual), float)
        options["argument"] = name
    return row.build(facts, u.sites, options)


def _compiled_in(u: Update) -> Update:
    """The update without the options that are inputs of its program."""
    known = () if u.parts else _row(u.kernel).arguments
    options = tuple((n, v) for n, v in u.options if n not in known)
    return replace(u, options=options, parts=tuple(map(_compiled_in, u.parts)))


def _row(kernel: str) -> KernelRow:
    row = find_kernel(kernel)
    assert row is not None
    return row


def _checked(facts: Facts, spec: Spec) -> tuple[Update, ...]:
    """The updates with kernels and sites by their full names, after every check."""
    latents = tuple(n for n, s in facts.sites.items() if s.role == "latent")
    expanded = []
    for u in spec.updates:
        row = _known_row(u, spec.text)
        check_eliminated(facts, u, row, spec.text)
        out = tuple(m for s in u.eliminated for m in _members(facts, s, u, spec.text))
        u = replace(u, eliminated=out)
        expanded.append((u, row, [m for s in u.everything for m in _members(facts, s, u, spec.text)]))
    owner: dict[str, Update] = {}
    for u, _, sites in expanded:
        for site in sites:
            if site in owner and site != REST:
                again = "in one block" if owner[site] is u else f"by {owner[site].kernel} and by {u.kernel}"
                span = u.spans.get(f"site {site}")
                both = f"name it once, or put both into one: {_shared(owner[site], u)}"
                raise at_caret(f"site {site!r} is updated twice, {again}; {both}", spec.text, span)
            owner[site] = u
    rest = [n for n in latents if n not in owner]
    if REST not in owner and rest:
        fitting = "; ".join(f"{n!r} can be updated by {_fitting(facts, n)}" for n in rest[:4])
        left = f"site{'s' * (len(rest) > 1)} {', '.join(map(repr, rest))}"
        raise ScheduleError(f"the schedule leaves out the latent {left}. {fitting}")
    if REST in owner and not rest:
        u = owner[REST]
        raise at_caret("'*' has nothing left to update", spec.text, u.spans.get(f"site {REST}"))
    checked = []
    for u, row, sites in expanded:
        own = sites[len(u.eliminated) :]
        names = tuple(m for s in own for m in (rest if s == REST else [s]))
        parts = []
        for p in u.parts:
            found = [m for s in p.sites for m in _members(facts, s, p, spec.text)]
            of = tuple(dict.fromkeys(m for s in found for m in (rest if s == REST else [s])))
            parts.append(_fitted(facts, p, _known_row(p, spec.text), of, spec.text))
        if parts:
            checked.append(replace(u, kernel=row.name, sites=names, parts=tuple(parts)))
        else:
            checked.append(_fitted(facts, u, row, names, spec.text))
    return tuple(checked)


def _known_row(u: Update, text: str) -> KernelRow:
    """The row of an update's kernel, which takes its options."""
    row = find_kernel(u.kernel)
    if row is None:
        raise at_caret(
            f"unknown kernel {shown(u.kernel)}{nearest(u.kernel, kernels())} (known: {', '.join(kernels())})",
            text,
            u.spans.get("kernel"),
        )
    _check_options(u, row, text)
    return row


def _fitted(facts: Facts, u: Update, row: KernelRow, names: tuple[str, ...], text: str) -> Update:
    """The update of the sites `names`, each of which, and all together, its kernel can update."""
    for site in names:
        why = row.fits(facts, site)
        if why is not None:
            span = u.spans.get(f"site {site}", u.spans.get("sites"))
            message = (
                f"{row.name} cannot update {site!r}: {why}. It can be updated by {_fitting(facts, site)}"
            )
            raise at_caret(message, text, span)
    why = row.together(facts, names, dict(u.options))
    if why is not None:
        raise at_caret(why, text, u.spans.get("sites"))
    return Update(row.name, names, u.options, u.repeat, u.spans, u.eliminated)


def _shared(one: Update, other: Update) -> str:
    """How two updates that share sites are written."""
    if one is other:
        return f"{one.kernel} {one.label}"
    return f"{INTERLEAVE}({one}, {other})"


def _members(facts: Facts, name: str, u: Update, text: str) -> tuple[str, ...]:
    """The site, or the members of the group, or '*'."""
    groups = facts.density.groups
    if name == REST or name in groups:
        return groups.get(name, (REST,))
    span = u.spans.get(f"site {name}", u.spans.get(f"eliminated site {name}"))
    if name not in facts.sites:
        latents = [n for n, s in facts.sites.items() if s.role == "latent"]
        raise at_caret(str(UnknownNameError("site", name, latents)), text, span)
    role = facts.sites[name].role
    if role != "latent":
        because = "its value is computed" if role == "deterministic" else "its value is data"
        raise at_caret(
            f"{name!r} is {role}: {because}, and no kernel may update it; leave it out", text, span
        )
    return (name,)


def _fitting(facts: Facts, site: str) -> str:
    fits = [k.name for k in kernels().values() if k.fits(facts, site) is None]
    return ", ".join(fits) or "no kernel"


def _check_options(u: Update, row: KernelRow, text: str) -> None:
    for name, value in u.options:
        span = u.spans.get(f"option {name}")
        if name not in row.options:
            known = ", ".join(row.options) or "none"
            message = f"{row.name} has no option {name!r}{nearest(name, row.options)} (options: {known})"
            raise at_caret(message, text, span)
        types = row.options[name]
        as_bool = isinstance(value, bool) and bool not in types and object not in types
        if as_bool or not isinstance(value, types):
            wanted = " or ".join(_TYPE_NAMES.get(t, t.__name__) for t in types)
            raise at_caret(f"{row.name}: {name} must be {wanted}, got {value!r}", text, span)
    given = {name for name, _ in u.options}
    for name in row.needs:
        if name not in given:
            raise at_caret(
                f"{row.name} needs the option {name!r}: write {row.name}({name}=…) {u.label}",
                text,
                u.spans.get("kernel"),
            )


_TYPE_NAMES = {
    numbers.Real: "a number",
    numbers.Integral: "a whole number",
    bool: "True or False",
}
