"""What is asked of a model → what to do at each of its sites, and a line on what was known and what is
new."""

import hashlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gibbsite.density import Density, Site
from gibbsite.density.current import current, weighted_latents
from gibbsite.density.known_elements import constant_value
from gibbsite.density.terms import Term
from gibbsite.errors import DataError, GibbsiteError, ModelError
from gibbsite.prediction.asked.arguments import (
    Asked,
    leaves_of,
    outcomes_of,
)
from gibbsite.prediction.asked.looped import of_other_rows
from gibbsite.prediction.asked.places import Places, Rows, grown_plates, nearly_own, rows_of
from gibbsite.prediction.asked.resting import check_outcomes_go_on, going_on, read_whole, resting
from gibbsite.prediction.asked.row_by_row import check_numbered, company, fewer_elements
from gibbsite.prediction.asked.together import alone_and_among, counted_by_python, own_rows_move
from gibbsite.prediction.asked.tracing import Tracing, instead
from gibbsite.prediction.asked.unheard import unheard
from gibbsite.prediction.drawn.forward import Part, Recipe
from gibbsite.prediction.drawn.joint import GAUSSIAN, PROCESSES
from gibbsite.prediction.drawn.program import Ask
from gibbsite.printing.statements.statement import distribution_text
from gibbsite.programs.jaxpr.compat import Literal
from gibbsite.validation.indices import check_indices, negative_notes
from gibbsite.validation.meeting import check_meeting
from gibbsite.validation.unchanged import check_unchanged
from gibbsite.validation.whole_numbers import check_whole_numbers


@dataclass(frozen=True)
class Planned:
    """What is asked of `origin`: `ask` for the program; `density` of the model under the new arguments;
    `labels` of its plates' elements;
    `news` tell of sites with new elements (known, new, what they are drawn from); `cut` are the first rows
    that were put in front for their conditionals, by length; `rows` how the rows go with the model's own;
    `beside` what to know of rows that do not stand for themselves, and of what stays though it is moved."""

    origin: Any
    ask: Ask
    density: Density
    labels: Mapping[str, tuple[str, ...]]
    news: Mapping[str, tuple[int, int, str]]
    new_rows: bool
    rows: list[Rows]
    cut: tuple[int, int] | None = None
    data: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    resting: Mapping[str, str] = field(default_factory=dict)


def planned(
    origin: Any,
    asked: Asked,
    *,
    prior: bool,
    fixed: Any,
    given: Any,
    draws: Mapping[str, np.ndarray] | None = None,
) -> Planned:
    """What is to be done. With `prior` nothing is known. `fixed` and `given` are the sites that are set;
    `draws` of the run are where rows are looked at.

    Raises `DataError` and `ModelError` for what cannot be had, with the reason.
    """
    check_unchanged(origin.fn, origin.density)
    if not prior:
        _check_steps(origin, asked)
    outcomes = outcomes_of(origin)
    rows = rows_of(origin, asked, outcomes, origin.density.read_names)
    asked, from_the_first = (asked, ()) if prior else going_on(origin, asked, rows)
    sizes = grown_plates(origin, asked)
    data = frozenset(current(origin.density).data)
    tracing = Tracing(origin, asked, outcomes, rows, sizes, data)
    density, values, stood_in = tracing.analysed()
    if more := frozenset(current(density).data) - origin.sites.keys():  # of a loop in Python, one each step
        tracing = replace(tracing, data=data | more)
        density, values, stood_in = tracing.analysed()
    _check_lengths(origin, asked, outcomes, density, stood_in)
    if asked.new:
        check_meeting(density, asked.labels, origin.analysis.known.units)
    # a model that asks whether it has data (`if y is None`) has other statements without them
    in_their_place = (
        density.sites.keys() - origin.sites.keys() if tracing.data - density.sites.keys() else set()
    )
    tracing = replace(tracing, data=tracing.data.intersection(density.sites))
    data = tracing.data
    if not prior:
        check_numbered(origin, density, {r.before for r in rows})
    cut = None
    if not prior:
        density, values, tracing, cut = _among_own(tracing, density, values, stood_in)
        rows = tracing.rows
    anew = tracing.anew
    fn, arguments = tracing.function(values)
    check = set(stood_in) & _read_of(density)
    if check:
        raise DataError(
            f"the model computes with {', '.join(sorted(check))}, and does not only observe it (`obs=`): "
            f"{instead(origin, 'the new data need values of it, too')}"
        )
    check_whole_numbers(density)
    check_indices(density, asked.unknown)
    if negative := [told for told in negative_notes(density) if told not in negative_notes(origin.density)]:
        raise DataError(negative[0])
    places = Places(origin, density, asked.labels, rows)
    others = of_other_rows(origin.density, current(origin.density).data, () if prior else rows)
    recipe, news = _recipe(origin, density, places, data, prior, frozenset(fixed), frozenset(given), others)
    standing = recipe.known | {n for n, part in recipe.parts.items() if part.known.any()} - recipe.series
    rest = {} if prior else resting(origin, density, asked, standing | recipe.series)
    for name in [n for n in rest if n.removesuffix("_missing") in origin.analysis.imputed]:
        del rest[name]  # a gap is drawn anew with its row
        news[name] = 0, int(np.prod(density.sites[name].shape, dtype=int)), _text(density, name)
        recipe = replace(recipe, known=recipe.known - {name})
    for name, leaves in rest.items():
        if fixed_ := [v for v in leaves if v not in asked.new]:
            company(origin, asked, outcomes)  # a number of all rows is the cause where it is one
            raise DataError(f"{', '.join(fixed_)} cannot be set: {_at_rest(density, name)}")
    if not prior:
        check_outcomes_go_on(origin, density, asked, fixed)
    recipe = replace(recipe, filled=_filled(origin, places, density) if anew and not prior else {})
    stays = data if asked.new else frozenset()
    stays -= {outcomes[n] for n in stood_in if n in outcomes}
    seen: dict[str, np.ndarray] = {}
    for name in data:
        site = density.sites[name]
        if cut is not None and site.fn_name in PROCESSES and site.shape[-1:] == (sum(cut),):
            seen[name] = np.arange(sum(cut)) < cut[0]
    recipe = replace(recipe, stays=stays, seen=seen)
    ask = Ask(fn, arguments, data, sizes, recipe, anew, (), "" if fn is origin.fn else _digest(density))
    changed = bool(asked.new) and any(r.same < r.now for r in rows)
    named = tuple(n for n in density.sites if n in data or n in in_their_place)
    moved = any(r.same < r.before for r in rows)
    beside = () if prior or cut is not None or rest else company(origin, asked, outcomes, moved, draws)
    stay: dict[str, str] = {}
    for name, leaves in rest.items() if cut is None else ():
        beside += (f"{', '.join(leaves)} moved: {_at_rest(density, name)}",)
        stay |= dict.fromkeys(leaves, beside[-1])
    if cut is None and not prior and not beside:
        beside = _counted_anew(tracing, density, values, stood_in)
    beside += from_the_first
    beside += () if prior else tuple(_set_above(density, fixed, standing | recipe.series))
    beside += () if prior or not news else tuple(nearly_own(origin, asked, rows, origin.density.read_names))
    beside += () if prior else unheard(origin, density, asked, places, news, {*fixed, *given})
    return Planned(origin, ask, density, places.labels, news, changed, rows, cut, named, beside, stay)


def _among_own(
    tracing: Tracing, density: Density, values: dict[str, Any], stood_in: set[str]
) -> tuple[Density, dict[str, Any], Tracing, tuple[int, int] | None]:
    """The density and its arguments with the model's own rows before the new ones, by how many are cut then,
    where something is drawn or read as a whole; else as they are."""
    apart = _apart(tracing.origin, density, tracing.rows)
    mixed = None if apart else _mixed(tracing.origin, density, tracing.rows, tracing.data)
    split = apart or (mixed[1] if mixed else None)
    if split is None:
        return density, values, tracing, None
    longer = tracing.in_front(values, split, stood_in)
    found, total = tracing.density(longer), split.before + split.now
    if mixed and found.sites[mixed[0]].shape[-1] != total:  # it goes by columns, and not by rows
        return density, values, tracing, None
    among = replace(tracing, rows=[Rows(split.before, total, split.before)])
    return found, longer, among, (split.before, split.now)


def _check_lengths(
    origin: Any, asked: Asked, outcomes: Mapping[str, str], density: Density, stood_in: Collection[str]
) -> None:
    """Raise `DataError` for outcomes that are not as many as the rows that they are of."""
    given = leaves_of(origin, asked.values)
    for leaf in asked.new & outcomes.keys() & given.keys() - set(stood_in):
        site, shape = density.sites.get(outcomes[leaf]), np.shape(given[leaf])
        if site is None or site.in_scan or sorted(shape) == sorted(site.shape):
            continue
        try:
            np.broadcast_shapes(shape, site.shape)
        except ValueError as problem:
            raise DataError(
                f"{leaf!r} has shape {shape} in the new data, and {site.name!r}, whose values it is, "
                f"{site.shape}: give an outcome for every row, missing (NaN) where it is not known, and what "
                "else there is of other rows"
            ) from problem


def _check_steps(origin: Any, asked: Asked) -> None:
    """Refuse rows with other labels than the run's where a loop goes from row to row: the months to come
    would be taken for the first ones."""
    if not any(s.in_scan for s in origin.density.sites.values()):
        return
    numbered = origin.analysis.known.numbered
    for name, now in asked.labels.items():
        own = origin.labels.get(name)
        if own is None and all(map(str.isdecimal, now)):  # rows without labels count as those with numbers
            own = tuple(map(str, range(numbered.get(name.removeprefix("index of "), 0))))
        if own is None or not name.startswith("index of ") or "[" in name:
            continue
        if now[: len(own)] == own[: len(now)]:
            continue
        at = next(i for i, (a, b) in enumerate(zip(now, own, strict=False)) if a != b)
        raise DataError(
            f"row {now[at]!r} stands where the run has {own[at]!r}, and a loop (`scan`) goes from row to "
            "row: a forecast takes the run's own rows, then those to come, as in pandas.concat([table, new])"
        )


def _digest(density: Density) -> str:
    digest = hashlib.sha256()
    density.feed(digest)
    return digest.hexdigest()


def _read_of(density: Density) -> set[str]:
    kept = {v for v in density.outputs["observed"].values() if not isinstance(v, Literal)}
    return {n for v, n in density.data_names.items() if v in density.read and v not in kept}


def _apart(origin: Any, density: Density, rows: list[Rows]) -> Rows | None:
    """The rows of which some site is drawn as a whole, where the model's own are not all among them: they
    have to be put in front."""
    for name, site in density.sites.items():
        before = origin.sites.get(name)
        if site.role == "deterministic" or before is None or site.fn_name not in PROCESSES or site.in_scan:
            continue
        data = before.role == "observed"
        for r in rows:
            ends = (before.shape[-1:], site.shape[-1:]) == ((r.before,), (r.now,))
            more = r.same < r.now and (data or r.same < r.before)
            if ends and len(site.shape) == len(before.shape) and more:
                return r
    return None


def _mixed(origin: Any, density: Density, rows: list[Rows], data: frozenset[str]) -> tuple[str, Rows] | None:
    """A latent vector with an element for each row, of which every datum reads all, as of `cholesky(K) @ z`,
    and the rows; None where the model's own are all among them. What one element is depends on the rows that
    it stands among: new ones come after the model's own, whose elements are known."""
    for name in density.latents:
        site, before = density.sites[name], origin.sites.get(name)
        if before is None or site.in_scan or site.fn_name in PROCESSES:
            continue
        for r in rows:
            ends = (before.shape[-1:], site.shape[-1:]) == ((r.before,), (r.now,))
            ends = ends and len(site.shape) == len(before.shape)
            if ends and r.same < min(r.before, r.now) and read_whole(origin.density, name, data):
                return name, r
    return None


def _recipe(
    origin: Any,
    density: Density,
    places: Places,
    data: frozenset[str],
    prior: bool,
    fixed: frozenset[str],
    given: frozenset[str],
    others: Collection[str],
) -> tuple[Recipe, dict[str, tuple[int, int, str]]]:
    """Per latent site, what stands and what is drawn; those of `others` are of other rows than the run's.
    Raises `ModelError` where new elements cannot be."""
    known, parts, series = set(), {}, set()
    news: dict[str, tuple[int, int, str]] = {}
    weighted = set(weighted_latents(density)) - _halves(density)
    for name in density.latents:
        site = density.sites[name]
        if name in data or name in fixed or name in given:
            continue
        anew = prior or name in others
        axes = None if anew else places.of(name)
        before = None if anew else origin.sites.get(name)
        stands = axes is not None and before is not None and before.role != "deterministic"
        if stands and axes is not None and before is not None:
            kept = Part(axes).known
            count, more = int(kept.sum()), int((~kept).sum())
            whole = all(np.array_equal(a, np.arange(n)) for a, n in zip(axes, before.shape, strict=True))
            if site.in_scan and axes:  # a number in a branch of `cond` has no steps
                _check_loop(name, site, before)
                series.add(name)
                parts[name] = Part(axes)
                if more:
                    news[name] = (count, more, "")
                continue
            if whole and not more:
                known.add(name)
                continue
            joint = any(
                a >= site.element_rank and not np.array_equal(axes[a], np.arange(before.shape[a]))
                for a in range(len(axes))
            )
            if more:
                of_new = name in weighted and _weighs(density, name, kept)
                _check_new(site, before, density, axes, count, of_new)
                news[name] = (count, more, _text(density, name))
            parts[name] = Part(axes, joint)
            continue
        if site.fn_name == "ImproperUniform" or name in weighted:
            raise ModelError(_undrawn(name, site, name in weighted, prior))
        _check_factors(name, density)
        if not prior:
            news[name] = (0, int(np.prod(site.shape, dtype=int)), _text(density, name))
    return Recipe(frozenset(known), parts, frozenset(series), fixed, given), news


def _halves(density: Density) -> set[str]:
    """What NumPyro samples in place of data that `obs_mask` leaves out: masked where these are there, and
    read nowhere but where they are not."""
    return {
        n
        for n in density.latents
        if n.endswith("_unobserved") and (base := n.removesuffix("_unobserved")) in density.sites
        and density.sites[base].role == "deterministic" and f"{base}_observed" in density.sites
    }  # fmt: skip


def _at_rest(density: Density, name: str) -> str:
    """That a latent stays, though what enters its distribution, or what is made of it, is another."""
    return (
        f"{name}, drawn from {_text(density, name)}, stays as the run drew it, and no effect goes through "
        "it; ask for new groups or rows (a table, or arguments with the outcome None), or write what moves "
        f"as a term beside {name}"
    )


def _counted_anew(
    tracing: Tracing, density: Density, values: Mapping[str, Any], stood_in: set[str]
) -> tuple[str, ...]:
    """A sentence for new rows of which the model makes something else among its own than by themselves, since
    Python counts what a column holds. Raises `DataError` where it makes fewer elements of a latent: the first
    of the values that are there would have the first one's."""
    origin, rows, data = tracing.origin, tracing.rows, tracing.data
    follow = next((r for r in rows if r.same == r.before < r.now), None)
    if follow is not None and own_rows_move(origin.density, density, follow.before, data):
        return (
            "the run's own rows are others with new ones after them: the model makes of each what hangs upon "
            "all of them (a mean, a count, dummies), which is another of more rows; compute such numbers "
            "before the model, as columns of their own",
        )
    counted = counted_by_python(origin, sorted(tracing.asked.new - tracing.outcomes.keys()))
    split = next((r for r in rows if r.same < min(r.before, r.now)), None)
    if not counted or split is None:
        return ()
    try:
        among = tracing.density(tracing.in_front(values, split, stood_in))
    except (GibbsiteError, ValueError, TypeError, IndexError):
        return ()
    if not alone_and_among(density, among, split.before, split.now, data):
        return ()
    reads = f"Python reads {', '.join(counted)} within the model (np.unique, dummies, a largest value)"
    if told := fewer_elements(origin, density, {r.before for r in rows}):
        raise DataError(
            f"{told}: {reads}, and numbers the values of other data anew. Number them before the model, in a "
            "column of their own, or index by the column itself"
        )
    return (
        f"what the model makes of these rows is another than among its own: {reads}, and counts other data "
        "anew; compute such numbers before the model, as columns of their own",
    )


def _set_above(density: Density, fixed: Collection[str], stays: Collection[str]) -> Iterator[str]:
    """A sentence for each latent that is set, and enters the distribution of others that stay."""
    for name in density.latents:
        own = density.outputs["log_prob"]
        children = [n for n in stays if n in own and name in density.maps.latents(own[n]) and n != name]
        if name in fixed and children:
            first, *more = (n for n in density.latents if n in children)
            also = f" (so do {', '.join(more)})" if more else ""
            yield f"{name} is set: {_at_rest(density, first)}{also}"


def _filled(origin: Any, places: Places, density: Density) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """By site of data with gaps that were imputed, the places of those of the run's own elements that have
    been, and which elements of what was drawn for them they are."""
    out = {}
    for name, gone in origin.analysis.imputed.items():
        axes = places.of(name) if name in density.sites else None
        if axes is None or gone.shape != origin.sites[name].shape:
            continue
        order = np.full(gone.shape, -1)
        order[gone] = np.arange(int(gone.sum()))
        known = Part(axes)
        which = np.where(known.known, known.picked(order), -1)
        if (which >= 0).any():
            out[name] = np.argwhere(which >= 0).T, which[which >= 0]
    return out


def _weighs(density: Density, name: str, known: np.ndarray) -> bool:
    """Whether a weight or a mask concerns an element that is not known."""
    for atom in density.outputs["weights"].get(name, ()):
        if density.maps.latents(atom):
            return True
        weight = np.asarray(constant_value(density, atom))
        while known.ndim > len(density.sites[name].batch_shape):
            known = np.asarray(known.all(axis=-1))  # an event is known where all of it is
        if weight.ndim > known.ndim or np.any((weight != 1) & ~known):
            return True
    return False


def _text(density: Density, name: str) -> str:
    try:
        return distribution_text(density, name)
    except GibbsiteError:
        return density.sites[name].fn_name


def _undrawn(name: str, site: Site, weighted: bool, prior: bool) -> str:
    why = "it is weighted or masked" if weighted else "its prior is improper"
    if prior:
        return f"{name!r} ~ {site.fn_name} cannot be drawn before there are data: {why}"
    return (
        f"{name!r} ~ {site.fn_name} cannot be drawn from for new rows: {why}. Rows that the run knows are "
        "asked for with the outcome left as it is"
    )


def _check_loop(name: str, site: Site, before: Site) -> None:
    if site.shape[1:] != before.shape[1:]:
        raise ModelError(
            f"{name!r} has shape {before.shape[1:]} in every step of its `scan`, and {site.shape[1:]} under "
            "the new arguments: steps can be added, and a step cannot change"
        )


def _check_new(
    site: Site, before: Site, density: Density, axes: tuple[np.ndarray, ...], count: int, weighted: bool
) -> None:
    """Refuse new elements that nothing says how to draw given the known ones."""
    name = site.name
    if weighted or site.fn_name == "ImproperUniform":
        raise ModelError(_undrawn(name, site, weighted, False))
    _check_factors(name, density)
    events = [a for a in range(site.element_rank, len(site.shape)) if (axes[a] < 0).any()]
    if not events or (not count and site.fn_name in GAUSSIAN):
        return
    if site.fn_name not in GAUSSIAN or len(events) > 1 or name in density.transforms:
        why = (
            "its neighbours would be others" if "CAR" in site.fn_name else "its elements are drawn as a whole"
        )
        raise ModelError(
            f"{name!r} ~ {site.fn_name} has {before.shape[events[0]]} elements in the run, and what new ones "
            f"are given those is not known: {why}. Fit the model with the new elements in it, their data "
            "missing"
        )


def _check_factors(name: str, density: Density) -> None:
    terms: list[tuple[Term, Any]] = density.terms_of(name)
    for term, _ in terms:
        if term.origin in density.factor_names:
            raise ModelError(
                f"the factor {term.origin!r} says something of {name!r}, too, so that new elements of it are "
                "not drawn from its prior alone; write its density as a distribution"
            )
