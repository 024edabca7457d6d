"""`run.predict` and `model.predict`: from what is asked to a `Prediction`."""

import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from gibbsite.conditional.draws.directions import turns_of
from gibbsite.diagnostics.predictive.parts import Part, parts_of
from gibbsite.diagnostics.predictive.predict import ungrouped
from gibbsite.errors import DataError, ModelError, ResourceError
from gibbsite.ground import arguments as sensible
from gibbsite.prediction.across import across
from gibbsite.prediction.asked.arguments import Asked, leaves_of, outcomes_of
from gibbsite.prediction.asked.looped import check_decided
from gibbsite.prediction.asked.new_data import asked_of
from gibbsite.prediction.asked.planned import Planned, planned
from gibbsite.prediction.asked.set_sites import Held, held_of
from gibbsite.prediction.asked.together import in_another_order
from gibbsite.prediction.drawn.program import MOST_BYTES, bytes_per_draw, drawn, in_files
from gibbsite.prediction.frame import columns_beside
from gibbsite.prediction.note import thinned, told
from gibbsite.prediction.prediction import Facts, Prediction
from gibbsite.sampling.derived.expression import numbers_of
from gibbsite.sampling.engine.resources import available_memory, readable
from gibbsite.validation.whole_numbers import wrapped

_FILLED = 0.8  # of the free memory
_ONE = (
    "is of one structure at a time: model.structure(…) is the ordinary model of one; sample that, and "
    "predict from its run"
)
_FEW = 100  # draws' worth below which a mean's error is a tenth of the spread, and is told


def predict(
    run: Any,
    table: Any = None,
    arguments: Mapping[str, Any] | None = None,
    *,
    do: Mapping[str, Any] | None = None,
    given: Mapping[str, Any] | None = None,
    draws: int | None = None,
    seed: int = 0,
    to: Any = None,
) -> Prediction:
    """A run's prediction; see `Run.predict`."""
    origin = run.model
    if origin is None:
        raise ModelError(
            "this run was loaded without its model, which predictions run; give it: gibbsite.load(path, "
            "model=…)"
        )
    if not run.kept.sampled.steps:
        raise ModelError(f"the run of {run.model_name!r} has no draws yet: nothing can be predicted by it")
    wanted = None if draws is None else sensible.count("draws", draws, 1)
    folder = None if to is None else sensible.a_path("to", to)
    sensible.count("seed", seed, 0)

    def one(part: Part, seed: int) -> Prediction:
        own = part.model
        with own.density.surroundings.carried():
            asked, held = held_of(own, asked_of(own, table, dict(arguments or {})), do, given)
            plan = planned(own, asked, prior=False, fixed=held.fixed, given=held.given, draws=part.draws)
            leading = next(iter(part.draws.values())).shape[:2]
            flat = ungrouped(part.plan, part.draws)
            return _result(own, asked, held, plan, flat, leading, wanted, seed, id(run), folder)

    parts = parts_of(run)
    if parts[0].there is None:
        return one(parts[0], seed)
    if folder is not None:
        raise ModelError(f"to= {_ONE}")
    return _of_structures(parts, table, dict(arguments or {}), do, given, wanted, seed, id(run))


def _of_structures(
    parts: Sequence[Part],
    table: Any,
    arguments: dict[str, Any],
    do: Mapping[str, Any] | None,
    given: Mapping[str, Any] | None,
    wanted: int | None,
    seed: int,
    pairs: int | None,
) -> Prediction:
    """The prediction from a run's draws of several structures, or (`pairs` is None) from the prior's."""
    if given:
        raise ModelError(f"given= {_ONE}")
    makes = {m for part in parts for n in part.decided for m in n.partition("?")[0].split("+")}
    if decided := sorted(makes & {*(do or {})}):
        name = decided[0]
        value = f"{name}=…" if name.isidentifier() else f"{{{name!r}: …}}"
        raise ModelError(f"do: {name!r} makes the structure: model.structure({value}) is the model of one")
    latents = [set(part.model.density.latents) for part in parts]
    if some := sorted(set().union(*latents).difference(set.intersection(*latents)) & {*(do or {})}):
        raise ModelError(
            f"do: {some[0]!r} is not there in all structures; model.structure(…) is the model of one"
        )

    def one(part: Part, seed: int) -> Prediction:
        own = part.model
        asked, held = held_of(own, asked_of(own, table, arguments), do, given)
        plan = planned(own, asked, prior=False, fixed=held.fixed, given=held.given)
        check_decided(part.decided, plan.rows if pairs is not None else ())
        leading = next(iter(part.draws.values())).shape[:2]
        flat = {n: v[0] for n, v in part.draws.items()}
        return _result(own, asked, held, plan, flat, leading, leading[1], seed, pairs)

    return across(parts, one, wanted, seed, prior=pairs is None)


def predict_prior(
    origin: Any,
    table: Any = None,
    arguments: Mapping[str, Any] | None = None,
    *,
    do: Mapping[str, Any] | None = None,
    given: Mapping[str, Any] | None = None,
    draws: int = 1000,
    seed: int = 0,
) -> Prediction:
    """The prior's prediction; see `Model.predict`."""
    count = sensible.count("draws", draws, 1)
    if (structured := getattr(origin, "structured", None)) is not None:
        parts = structured.prior(count, sensible.count("seed", seed, 0))
        return _of_structures(parts, table, dict(arguments or {}), do, given, None, seed, None)
    if origin.density.factor_names:
        raise ModelError(
            f"the factor {origin.density.factor_names[0]!r} has no distribution to be drawn from, so that "
            "the prior is not what the statements draw"
        )
    asked, held = held_of(origin, asked_of(origin, table, dict(arguments or {})), do, given)
    plan = planned(origin, asked, prior=True, fixed=held.fixed, given=held.given)
    return _result(origin, asked, held, plan, {}, (1, count), count, seed, id(origin))


def _result(
    origin: Any,
    asked: Asked,
    held: Held,
    plan: Planned,
    flat: Mapping[str, Any],
    leading: tuple[int, int],
    wanted: int | None,
    seed: int,
    pairs: Any,
    folder: Path | None = None,
) -> Prediction:
    sensible.count("seed", seed, 0)
    gaps = _gaps(origin, asked) if asked.new or held.words else None
    sites = plan.density.sites
    discrete = frozenset(n for n in plan.data if n in sites and sites[n].discrete)
    doubted = discrete if gaps is not None else frozenset()
    recipe = replace(plan.ask.recipe, doubted=doubted, partly=_partly(plan, held))
    for name in sites.keys() & held.values.keys():
        there, given = sites[name].shape, np.shape(held.values[name])
        if given != there and (given == (1,) * len(there) or not _fits(given, there)) and given:
            raise DataError(f"{name!r} has shape {there} there, and {given} is given")
    if not plan.ask.anew:
        _check_missing(origin, held)
    needed = [*recipe.known, *recipe.parts, *(f"{n}_missing" for n in recipe.filled)]
    needed = list(dict.fromkeys(needed))
    missing = [n for n in needed if n not in flat]
    if missing:
        several = len(missing) > 1
        raise ModelError(
            f"predictions take draws of every latent site, and {', '.join(missing)} "
            f"{'were' if several else 'was'} not kept; sample with keep= naming "
            f"{'them' if several else 'it'}, too"
        )
    prior = not flat
    out = tuple(n for n, s in sites.items() if prior or s.role == "deterministic" or n not in recipe.known)
    ask = replace(plan.ask, sites=tuple(n for n in out if not (n in recipe.parts and n not in plan.news)))
    ask = replace(
        ask, sites=tuple(dict.fromkeys([*ask.sites, *held.given, *(n for n in held.fixed if n in sites)]))
    )
    if not ask.sites:
        factors = origin.density.factor_names
        raise ModelError(
            f"{origin.name!r} observes nothing that could be drawn anew: "
            + (
                f"the factor {factors[0]!r} has no distribution to be drawn from"
                if factors
                else "no data are"
            )
            + "; write what is observed as data of a distribution (`obs=`)"
        )
    one = {n: np.asarray(flat[n])[:1] for n in needed if n in flat}
    one = {n: _series(v, recipe, n) for n, v in one.items()}
    nothing = {n for n, v in one.items() if v.shape[1:] == (0,) or (n in recipe.series and not v.shape[1])}
    one = {n: v for n, v in one.items() if n in recipe.known or n not in nothing}
    ask = replace(ask, recipe=replace(recipe, series=frozenset(n for n in recipe.series if n in one)))
    each = bytes_per_draw(ask, one, held.values)
    count, words = thinned(leading, wanted, each, MOST_BYTES if folder is None else sys.maxsize)
    if folder is None:
        _check_memory(each, count, leading[0])
    room = None if folder is None else in_files(folder)
    at = np.linspace(0, leading[1] - 1, count).round().astype(int) if not prior else np.arange(count)
    rows = (np.arange(leading[0])[:, None] * leading[1] + at).ravel()
    values = {n: _series(np.asarray(flat[n]), recipe, n)[rows] for n in one}
    keys = jax.random.split(jax.random.fold_in(jax.random.key(seed), 2), len(rows))
    kept = origin.density.cache.setdefault("predictions", {})
    found = drawn(ask, keys, values, held.values, kept, each, room)
    shape = (leading[0], count)
    arrays = {n: v.reshape(*shape, *v.shape[1:]) for n, v in found.values.items()}
    known = {
        n: np.asarray(v)[rows].reshape(*shape, *np.shape(v)[1:]) for n, v in flat.items() if n not in arrays
    }
    if gaps is not None:
        of_data = {n: arrays[n] for n in plan.data if n in arrays}
        _check_numbers(of_data, doubted if np.isnan(found.weights).any() else frozenset(), gaps, plan)
    order = worth = None
    if held.given:
        order, worth = _resampled(found.weights, seed)
    arrays, known = _taken(arrays, order), _taken(known, order)
    arrays = {n: _cut(v, n, plan, origin) for n, v in arrays.items()}
    probs = {n: _cut(v[None, None], n, plan, origin)[0, 0] for n, v in found.probs.items()}
    if worth is not None:
        probs = {}
    arrays = _grouped(arrays, known, plan)

    def expected() -> dict[str, np.ndarray]:
        of_data = tuple(n for n in ask.sites if n in plan.data)
        _check_memory(each, count, leading[0])
        means = replace(ask, sites=of_data, recipe=replace(ask.recipe, expected=frozenset(of_data)))
        now = drawn(means, keys, values, held.values, kept, each).values
        now = _taken({n: v.reshape(*shape, *v.shape[1:]) for n, v in now.items()}, order)
        now = {n: _cut(v, n, plan, origin) for n, v in now.items()}
        return _grouped(now, known, plan)

    plan = replace(plan, beside=(*plan.beside, *_cut_short(arrays), *_wrapped(plan, {**known, **arrays})))
    note = told(origin, asked, held, plan, prior, worth, words)
    for told_beside in plan.beside:
        warnings.warn(told_beside, stacklevel=5)
    facts = _facts(origin, asked, plan, arrays, prior, held, (pairs, seed, tuple(rows[:1]), len(rows)))
    note = "; ".join([note, *(f"{n}: {meant}" for n in facts.outcomes if (meant := facts.meant_by(n)))])
    return Prediction(arrays, probs, note, facts, known, expected)


def _cut_short(arrays: Mapping[str, np.ndarray]) -> Iterator[str]:
    """A sentence for each site of counts that are larger than whole numbers are drawn."""
    for name, values in arrays.items():
        if values.dtype.kind == "i" and (values == np.iinfo(values.dtype).max).any():
            yield (
                f"{name} comes to {np.iinfo(values.dtype).max}, where NumPyro's whole numbers end: larger "
                "ones are cut there. Their means are in `.expected`; in double precision (JAX_ENABLE_X64=1) "
                "they go on"
            )


def _wrapped(plan: Planned, arrays: Mapping[str, np.ndarray]) -> Iterator[str]:
    """A sentence where whole numbers of latents, at their means, are larger than their type holds."""
    sites = plan.density.sites
    state = {n: arrays[n].mean((0, 1)).astype(sites[n].dtype) for n in plan.density.latents if n in arrays}
    known = all(n in state and state[n].shape == sites[n].shape for n in plan.density.latents)
    if known and (found := wrapped(plan.density, state)) is not None:
        yield f"{found.says}; {found.cure}"


def _check_missing(origin: Any, held: Held) -> None:
    """Refuse to condition on elements that are missing in the model's own data."""
    for name in sorted(held.given & origin.analysis.missing.keys()):
        gone = origin.analysis.missing[name]
        known = np.broadcast_to(~np.isnan(np.asarray(held.values[name], float)), gone.shape)
        if at := np.argwhere(gone & known).tolist():
            raise ModelError(
                f"given: {name!r} is missing at {at[0]} in the model's own data, where nothing was observed "
                "that could be another value: leave nan there, put it into the data and sample again, or ask "
                "for it as a new row"
            )


def _check_memory(each: int, count: int, chains: int) -> None:
    if (needed := each * count * chains) > _FILLED * available_memory():
        raise ResourceError(
            f"{count} draws of {chains} chains take {readable(needed)}, and {readable(available_memory())} "
            "are free: ask for fewer by draws=, or write them to files by to='a folder'"
        )


def _series(v: np.ndarray, recipe: Any, name: str) -> np.ndarray:
    """Of a loop's site the steps that are known."""
    if name not in recipe.series:
        return v
    axis = recipe.parts[name].axes[0]
    return v[:, : int((axis >= 0).sum())]


def _cut(v: np.ndarray, name: str, plan: Planned, origin: Any) -> np.ndarray:
    """Without the run's own rows, which were put in front."""
    if plan.cut is None or name not in plan.density.sites or name not in origin.sites:
        return v
    before, now = origin.sites[name].shape, plan.density.sites[name].shape
    for axis, (a, b) in enumerate(zip(before, now, strict=False)):
        if (a, b) == (plan.cut[0], sum(plan.cut)):
            v = np.take(v, np.arange(plan.cut[0], b), axis=axis + 2)
    return v


def _grouped(
    arrays: dict[str, np.ndarray], known: Mapping[str, np.ndarray], plan: Planned
) -> dict[str, np.ndarray]:
    """Indexed sites `y[0]`, `y[1]`, … under one name, where any of them is drawn; the others as they are."""
    have = {**known, **arrays}
    for group, members in plan.density.groups.items():
        if any(m in arrays for m in members) and all(m in have for m in members):
            stacked = np.stack([have[m] for m in members], axis=2)
            arrays = {n: v for n, v in arrays.items() if n not in members} | {group: stacked}
    return arrays


def with_groups(
    groups: Mapping[str, tuple[str, ...]], values: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Values by site, and of indexed ones `y[0]`, `y[1]`, … under one name, too."""
    whole = {
        g: np.stack([np.asarray(values[m]) for m in ms]) for g, ms in groups.items() if {*ms} <= {*values}
    }
    return {**values, **whole}


def _resampled(weights: np.ndarray, seed: int) -> tuple[np.ndarray, float]:
    """Which draws to take in proportion to the likelihood of what is given (likelihood weighting, Fung and
    Chang 1990; drawn systematically, Kitagawa 1996), and how many draws they are worth (Kong 1992)."""
    if not np.isfinite(weights).any():
        raise DataError("what is given is impossible at every draw: its likelihood is 0")
    w = np.exp(weights - weights.max())
    w /= w.sum()
    worth = float(1 / np.sum(w**2))
    if worth < _FEW:
        warnings.warn(
            f"given: the draws, weighted by the likelihood of what is given, are worth {worth:.0f} of them; "
            "condition the model on it and sample again",
            stacklevel=5,
        )
    n = len(w)
    at = (np.random.default_rng(seed).random() + np.arange(n)) / n
    places = np.minimum(np.searchsorted(np.cumsum(w), at), n - 1)
    return np.random.default_rng(seed + 1).permutation(places), worth


def _taken(arrays: Mapping[str, np.ndarray], order: np.ndarray | None) -> dict[str, np.ndarray]:
    """Draws `[chain, draw, ...]` in another order, or as they are."""
    if order is None:
        return dict(arrays)
    return {n: v.reshape(len(order), *v.shape[2:])[order].reshape(v.shape) for n, v in arrays.items()}


def _gaps(origin: Any, asked: Asked) -> list[str]:
    """The arrays and columns that lack values: if there are any, those that no site observes."""
    found = [n for n, v in leaves_of(origin, asked.values).items() if np.isnan(np.asarray(v, float)).any()]
    return sorted(set(found) - set(outcomes_of(origin))) or sorted(found)


def _check_numbers(
    drawn: Mapping[str, np.ndarray], lost: frozenset[str], gaps: list[str], plan: Planned
) -> None:
    """Refuse data that were drawn as no number, or of parameters that are none (among those of `lost`)."""
    for name, v in drawn.items():
        site = plan.density.sites.get(name)
        share = float(np.isnan(v).mean()) if v.dtype.kind == "f" and v.size and np.isnan(v.min()) else 0.0
        if not share and name not in lost:
            continue
        if site is not None and site.in_scan and gaps:
            raise DataError(
                f"{name!r} cannot be forecast: the loop (`scan`) hands {', '.join(gaps)} on from "
                "step to step as given, and what is to come is not known (NaN). Have it hand on what "
                f"`numpyro.sample({name!r}, …)` returns, which is the datum where there is one"
            )
        told = (
            f"comes out as no number in {100 * share:.3g} % of what was drawn" if share else "has no chances"
        )
        if not gaps:
            raise DataError(
                f"{name!r} {told}: what its distribution is computed from is no number (NaN) there, though "
                "no argument lacks values. Of one row, or of equal ones, a standard deviation is 0: "
                "standardise columns before the model and not within, by hand or by "
                "`model.centred(…, scaled=True)`"
            )
        raise DataError(
            f"{name!r} {told}: {', '.join(gaps)} lacks values (NaN), and they enter it. "
            "Fill them in or leave those rows out; where a model goes on with its own data, have it go "
            "on with what `sample` returns"
        )


def _facts(
    origin: Any,
    asked: Asked,
    plan: Planned,
    arrays: Mapping[str, np.ndarray],
    prior: bool,
    held: Held,
    pairs: Any,
) -> Facts:
    groups = plan.density.groups
    dims, labels, named_sites, components = {}, {}, {}, {}
    for name, v in arrays.items():
        site, shift = plan.density.sites.get(name), 0
        if site is None:
            site, shift = plan.density.sites[groups[name][0]], 1
        axes = {a + shift: p for a, p in zip(site.plate_axes, site.plates, strict=True)}
        # rows are plates, and time or the statements of a loop; or the first axis where there are neither
        rows = {*axes, *([0] if site.in_scan or shift else [])} or {0}
        named_sites[name], components[name] = site, tuple(a for a in range(v.ndim - 2) if a not in rows)
        own = [axes.get(a, f"{name}_dim_{a}") for a in range(v.ndim - 2)]
        named = [d if own.index(d) == a else f"{d}_{a}" for a, d in enumerate(own)]
        dims[name] = tuple(f"{d}_" if d in ("chain", "draw") or d in arrays else d for d in named)
        found = (plan.labels.get(axes.get(a, "")) for a in range(v.ndim - 2))
        labels[name] = tuple(
            t if t is not None and len(t) == n else None for t, n in zip(found, v.shape[2:], strict=True)
        )
    members = {m: g for g, ms in groups.items() for m in ms}
    outcomes = tuple(dict.fromkeys(members.get(n, n) if members.get(n) in arrays else n for n in plan.data))
    outcomes = tuple(n for n in outcomes if n in arrays)
    same = not asked.new and not held.words
    group = "prior_predictive" if prior else "posterior_predictive" if same else "predictions"
    observed = with_groups(origin.density.groups, origin.observed) if group != "predictions" else {}
    observed = {
        n: np.asarray(v) for n, v in observed.items() if n in arrays and np.shape(v) == arrays[n].shape[2:]
    }
    leaves = leaves_of(origin, asked.values)
    constants = {_plain(n): np.asarray(v) for n, v in leaves.items() if n not in outcomes_of(origin)}
    constants |= {n: np.asarray(v) for n, v in asked.values.items() if isinstance(v, int | float)}
    constants = {n: v for n, v in constants.items() if n not in plan.density.sites and v.dtype.kind in "biuf"}
    told = {_plain(n): t for n, t in asked.labels.items() if n in leaves}
    for name, (values, texts) in columns_beside(asked.source, {*constants, *plan.density.sites}).items():
        constants[name] = values
        told |= {} if texts is None else {name: texts}
    named = outcomes_of(origin)
    told |= {site: asked.labels[n] for n, site in named.items() if n in asked.labels}
    unordered = dict.fromkeys(
        name
        for n in origin.analysis.known.alphabetical & asked.labels.keys()
        if len(asked.labels[n]) > 2 and numbers_of(asked.labels[n]) is None
        for name in (_plain(n), named.get(n, _plain(n)))
    )
    reordered = tuple(n for n in outcomes if n in origin.sites and in_another_order(origin.density, n))
    labels |= {n: (None, *labels[n][1:]) for n in reordered}
    return Facts(
        origin.name, group, outcomes, dims, labels, observed, constants, told, _nominal(plan, outcomes),
        None if held.given else pairs, None if reordered else asked.source, pairs[1],
        {n: t for n, t in asked.labels.items() if n.startswith("index of ")}, reordered,
        turns_of(named_sites), components, {_plain(n): told for n, told in plan.resting.items()},
        tuple(unordered),
    )  # fmt: skip


def _partly(plan: Planned, held: Held) -> dict[str, np.ndarray]:
    """Of sites of which vectors are given in part, the elements that are not. Raises `DataError` within
    loops."""
    found = {}
    for name in held.given & plan.density.sites.keys():
        site, given = plan.density.sites[name], np.asarray(held.values[name])
        if not site.event_shape or given.dtype.kind != "f" or not _fits(given.shape, site.shape):
            continue
        gone = np.isnan(np.broadcast_to(given, site.shape))
        events = tuple(range(-len(site.event_shape), 0))
        if (gone.any(axis=events) & ~gone.all(axis=events)).any():
            if site.in_scan:
                raise DataError(
                    f"given: vectors of {name!r} are given in part, and drawn as a whole in a loop"
                )
            found[name] = gone
    return found


def _fits(shape: tuple[int, ...], whole: tuple[int, ...]) -> bool:
    """Whether numbers of a shape go into the elements of another."""
    try:
        return np.broadcast_shapes(shape, whole) == whole
    except ValueError:
        return False


def _nominal(plan: Planned, outcomes: Sequence[str]) -> dict[str, int]:
    """The outcomes of more than two categories without order, and how many these are."""
    found = {}
    for name in outcomes:
        site, parameters = plan.density.sites.get(name), plan.density.outputs["parameters"].get(name, {})
        if site is None or site.fn_name not in ("CategoricalProbs", "CategoricalLogits"):
            continue
        count = max((a.aval.shape[-1] for a in parameters.values() if a.aval.shape), default=0)
        if count > 2:
            found[name] = count
    return found


def _plain(leaf: str) -> str:
    """A column's own name."""
    head, _, rest = leaf.partition("[")
    return rest.rstrip("]").strip("'\"") if rest else head
