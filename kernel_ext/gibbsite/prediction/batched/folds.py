"""A run and which of its data are left out in turn → how well the others predict these: exact refits.

The refits differ in what counts alone, so that they are one compiled program.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import logsumexp

from gibbsite.density.current import scored_elements
from gibbsite.diagnostics.predictive.caveats import as_one, as_one_text, factors_beside
from gibbsite.diagnostics.predictive.likelihood import without_labels
from gibbsite.diagnostics.predictive.parts import parts_of
from gibbsite.diagnostics.predictive.predict import log_likelihood
from gibbsite.diagnostics.verdict.elpd import (
    computed,
    elpd_of,
    observation_names,
    relative_efficiency,
    scored,
)
from gibbsite.errors import DataError, ModelError, OptionError, ScheduleError, UnknownNameError
from gibbsite.ground import arguments as sensible
from gibbsite.ground.arguments import shown
from gibbsite.ground.lazy_import import later
from gibbsite.ground.telling import Telling
from gibbsite.inputs.tables import in_order_of
from gibbsite.kernels.blocks.finite import INPUTS_KWARG
from gibbsite.kernels.blocks.metropolis import rows_apart
from gibbsite.prediction.asked.arguments import bound_arguments, leaves_of
from gibbsite.prediction.asked.together import check_order
from gibbsite.prediction.averaging import called
from gibbsite.prediction.batched.classes import Class, Set, arrays_of, same_program
from gibbsite.prediction.batched.many import together
from gibbsite.prediction.batched.masked import COUNTED, counting
from gibbsite.validation.unchanged import check_unchanged

xr, results = later("xarray"), later("gibbsite.diagnostics.predictive.elpd_data")

_UNSURE = 0.3
"""Relative errors of a mean of likelihoods above which a few draws are most of it, and the error itself is
not to be relied on."""
_LOOKED_AT = 12  # of the folds, as many have their plan derived: one program has what counts as an input


def left_out(run: Any, kfold: int | None, by: Any, refit: bool, *, found: Any = None) -> Any:
    """See `Run.elpd`; `found` is what it gives without any of these."""
    if (kfold is not None) + (by is not None) + bool(refit) > 1:
        raise OptionError("elpd takes one of kfold=, by= and refit=")
    if isinstance(kfold, str):
        raise OptionError(f"kfold is a number of folds of rows; to leave a group out write by={kfold!r}")
    if run.model is None:
        raise ModelError(f"the run of {run.model_name!r} lacks its model, which is fitted again")
    for part in parts_of(run):
        check_unchanged(part.model.fn, part.model.density)
    there = scored(run)
    count = sum(int(t.sum()) for t in there.values())
    if refit:
        return _refitted(run, there, elpd_of(run) if found is None else found)
    if by is not None:
        groups, names = _groups(run, by, there)
    else:
        groups = _dealt(count, sensible.count("kfold", kfold, 2), as_one(run.plan.density, there))
        names = [f"fold {k}" for k in range(int(groups.max()) + 1)]
    whole = elpd_of(run) if found is None else found
    each, errors, doubtful = _scores(run, there, groups, names, joint=by is not None)
    labels = names if by is not None else observation_names(run)
    lpd = float(whole.elpd + whole.p)
    doubtful += _unsure(labels, errors)
    return _result(run, each, errors, labels, doubtful, len(names), lpd if by is None else np.nan, by)


def _unsure(labels: Sequence[str], errors: np.ndarray) -> list[str]:
    """A sentence for each datum, or group, whose prediction rests on a few draws."""
    return [
        f"{n}: its prediction rests on few of the draws (±{e:.2g}); draw more"
        for n, e in zip(labels, errors, strict=True)
        if e > _UNSURE
    ]


def _dealt(count: int, folds: int, vectors: Mapping[str, int]) -> np.ndarray:
    """Which fold each datum is in: as many in each, at random. `vectors` are sites that are one datum of
    several numbers."""
    if folds > count:
        told = "is 1 datum" if count == 1 else f"are {count} data"
        why = "".join(f"; {as_one_text(name, size)}" for name, size in vectors.items())
        raise OptionError(f"kfold={folds}: there {told}{why}")
    return np.random.default_rng(0).permutation(np.arange(count) % folds)


def _groups(run: Any, by: Any, there: Mapping[str, np.ndarray]) -> tuple[np.ndarray, list[str]]:
    """Which group each datum is in, and what the groups are called: of a column of the data, a plate, or an
    array with a value for every row. Raises `UnknownNameError`, `DataError`."""
    model = run.model
    for name in there if not isinstance(by, np.ndarray) else ():
        check_order(model.density, name)
    columns: list[tuple[Any, Any]] = [(by, None)]
    if isinstance(by, str):
        leaves = leaves_of(model, bound_arguments(model))
        names = [n for n in leaves if n == by or n.endswith(f"[{by!r}]")]
        if not names:
            raise UnknownNameError("argument or column", by, leaves)
        columns = [(leaves[n], model.labels.get(n)) for n in names]
    columns = [(np.asarray(in_order_of(values, model.labels)), told) for values, told in columns]
    found: list[np.ndarray] = []
    every: dict[str, int] = {}  # groups of several tables are the same by their names
    for site, mask in there.items():
        fitting = [(v, t) for v, t in columns if v.ndim == 1 and mask.ndim and mask.shape[0] == len(v)]
        if not fitting:
            rows = f", ({mask.shape[0]},)" if mask.ndim else ""
            raise DataError(
                f"by: {shown(by)} has shape {columns[0][0].shape}, and the data of {site!r} {mask.shape}: "
                f"give one axis, with a value for every row of these{rows}"
            )
        values, told = fitting[0]
        rows = np.broadcast_to(values.reshape(-1, *(1,) * (mask.ndim - 1)), mask.shape)[mask]
        different, groups = np.unique(rows, return_inverse=True)
        texts = [str(called(v, told)) for v in different]
        found.append(np.asarray([every.setdefault(t, len(every)) for t in texts], np.intp)[groups])
    if len(every) < 2:
        raise DataError(f"by: {shown(by)} has one value, and something has to be left")
    return np.concatenate(found), [*every]


def _scores(
    run: Any, there: Mapping[str, np.ndarray], groups: np.ndarray, names: list[str], joint: bool
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """`log p(datum | data of other groups)` of every datum with a group (-1 has none), or jointly of every
    group; their Monte Carlo standard errors; and which refits are not to be relied on."""
    folds = range(len(names))
    held = {k: _spread(groups == k, there) for k in folds}
    of_all = {n for part in parts_of(run) for n in part.model.analysis.doubts}
    fits = refits(run, [{n: ~h for n, h in held[k].items()} for k in folds], names)
    alone = all((groups == k).sum() == 1 for k in folds)
    each = np.full(len(names) if joint else len(groups), np.nan)
    errors, doubtful = np.zeros(len(each)), []
    plan, kwargs = run.plan, {INPUTS_KWARG: run.plan.inputs}
    for k in folds:
        one = fits[names[k]]
        # of what is left out the prior alone should tell: what stood still there is no draw from it
        if not one.verdict.ok or {*one.verdict.notes} - of_all:
            doubtful.append(f"{names[k]}: {one.verdict}")
        # labels were drawn without what is left out; of a single datum they can be summed out as well
        if alone:
            values = without_labels(plan, kwargs, one.draws, run.settings.seed).values
        else:
            values = log_likelihood(plan, kwargs, one.draws, run.settings.seed)
        flat = np.concatenate(
            [np.asarray(values[n], float)[:, :, t].reshape(-1, int(t.sum())) for n, t in there.items()],
            axis=1,
        )[:, groups == k]
        flat = flat.sum(axis=1, keepdims=True) if joint else flat
        found = logsumexp(flat, axis=0) - np.log(len(flat))
        of_fold = [k] if joint else groups == k
        each[of_fold] = found
        ratio = np.exp(flat - found)
        errors[of_fold] = ratio.std(axis=0) / np.sqrt(len(flat) * relative_efficiency(one.draws))
    return each, errors, doubtful


def _spread(flat: np.ndarray, there: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """A truth value for each datum as an array by site."""
    out, at = {}, 0
    for name, mask in there.items():
        out[name] = np.zeros(mask.shape, bool)
        out[name][mask] = flat[at : at + int(mask.sum())]
        at += int(mask.sum())
    return out


def refits(run: Any, counts: list[dict[str, np.ndarray]], names: list[str]) -> dict[str, Any]:
    """The run's model fitted with other choices of what counts, `[*shape of the log density]` by observed
    site: a fit for each by name, as long as the run. Raises what makes one fail."""
    origin = run.model
    fn = counting(origin.fn)

    def made(args: tuple, kwargs: Mapping[str, Any], _: Any = None) -> Any:
        return origin.with_data(args, kwargs, fn)

    everything = {n: np.ones_like(c) for n, c in counts[0].items()}
    model = made(origin.args, {**origin.kwargs, COUNTED: everything})
    if (text := _schedule(model, run)) is not None:

        def made(args: tuple, kwargs: Mapping[str, Any], _: Any = None) -> Any:
            return origin.with_data(args, kwargs, fn).with_schedule(text)

        model = made(origin.args, {**origin.kwargs, COUNTED: everything})
    calls = [(origin.args, {**origin.kwargs, COUNTED: c}) for c in counts]
    _check_counts(origin, made(*calls[0]), counts[0])
    settings = run.settings
    options = {
        "draws": run.kept.sampled.steps,
        "warmup": settings.asked_warmup,
        "chains": settings.all_chains or settings.chains,
        "seed": settings.seed,
        "thin": settings.thin,
    }
    sets = [Set(n, a, k, model.density.arguments, made) for n, (a, k) in zip(names, calls, strict=True)]
    some = [calls[i] for i in np.unique(np.linspace(0, len(calls) - 1, _LOOKED_AT).astype(int))]
    fits: dict[str, Any] = {}
    again = sets
    if len(sets) > 1 and same_program(model, some, made):
        data = [arrays_of(model, *c) for c in calls]
        fits, again, _ = together(Class(sets, model.plan(), data, {}), options)
    telling = Telling("refits one by one", len(again), "folds")
    for k, one in enumerate(again, 1):
        fits[one.name] = one.model.sample(**options)
        telling.at(k)
    return fits


def _schedule(model: Any, run: Any) -> str | None:
    """What the refits are drawn by, where that is not the model's own choice: the run's schedule; and with it
    a draw from the prior, accepted row by row, of discrete latents and of what goes with them. Of rows that
    are left out the prior has many modes, which draws in turn do not cross."""
    asked = None if run.schedule_text == run.model.schedule().text else run.schedule_text
    try:
        updates = model.execution.schedule(asked).updates
    except ScheduleError:  # masks may leave a kernel without what it needs
        asked, updates = None, model.execution.schedule().updates
    density = model.density
    own = [n for n in density.latents if n in density.latent_vars and n in model.sites]
    for z in (n for n in own if density.sites[n].discrete):
        like = [n for n in own if density.sites[n].shape == density.sites[z].shape]
        pairs = [[z, x] for x in like if x != z]
        found = next((s for s in (like, *pairs) if len(s) > 1 and rows_apart(density, tuple(s))), None)
        if found is None:
            continue
        mine = [u for u in updates if {*u.everything} & {*found}]
        text = ", ".join([*map(str, mine), f"Independence [{' '.join(found)}]"])
        text = " (*) ".join([f"Interleave({text})", *(str(u) for u in updates if u not in mine)])
        try:
            return model.schedule(text).text
        except ScheduleError:  # what is summed out, or shares sites already, stays as it is
            continue
    return asked


def _check_counts(origin: Any, model: Any, counts: Mapping[str, np.ndarray]) -> None:
    """That what does not count in `model` is left out of it. Raises `ModelError`."""
    for name, mask in counts.items():
        there = scored_elements(origin.density, name) & mask
        if not np.array_equal(scored_elements(model.density, name), there):
            raise ModelError(f"single data of {name!r} cannot be left out: they are drawn as a whole")


def _refitted(run: Any, there: Mapping[str, np.ndarray], found: Any) -> Any:
    """`found` with the data of bad Pareto k left out in earnest."""
    k = np.asarray(found.pareto_k, float)
    bad = np.flatnonzero(~(k <= found.good_k))
    out = replace(found)
    for name in ("summed", "integrated", "given", "labels", "factors"):
        setattr(out, name, getattr(found, name, ()))
    vars(out).update({n: v for n, v in vars(found).items() if n not in vars(out)})
    out.refitted = tuple(np.asarray(observation_names(run), object)[bad])
    if not len(bad):
        return out
    groups = np.full(len(k), -1)
    groups[bad] = np.arange(len(bad))
    names = [str(n) for n in out.refitted]
    scores, errors, doubtful = _scores(run, there, groups, names, joint=False)
    doubtful += _unsure(names, errors[bad])
    each, shapes = np.array(found.elpd_i, float), k.copy()
    lpd = float(found.elpd + found.p)
    each[bad], shapes[bad] = scores[bad], 0.0
    out.elpd_i = found.elpd_i.copy(data=each)
    out.pareto_k = found.pareto_k.copy(data=shapes)
    out.elpd, out.se = float(each.sum()), float(np.sqrt(len(each) * np.var(each)))
    out.p = lpd - out.elpd
    own = np.array(getattr(found, "mcse_i", np.zeros(len(k))), float)
    # those that stay vary together as all of them did; each refit has draws of its own
    together = getattr(found, "mcse", 0.0) / max(float(np.sqrt(np.sum(own**2))), np.finfo(float).tiny)
    stays = together * np.sqrt(np.sum(np.delete(own, bad) ** 2))
    own[bad] = errors[bad]
    out.mcse_i, out.mcse = own, float(np.hypot(stays, np.sqrt(np.sum(errors[bad] ** 2))))
    out.doubtful, out.warning = tuple(doubtful), bool(doubtful) or bool(out.given)
    return out


def _result(
    run: Any,
    each: np.ndarray,
    errors: np.ndarray,
    labels: list[str],
    doubtful: list[str],
    folds: int,
    lpd: float,
    by: Any,
) -> Any:
    told = xr.DataArray(each, dims="datum", coords={"datum": labels})
    out = results.ELPDData(
        kind="loo_kfold",
        elpd=float(each.sum()),
        se=float(np.sqrt(len(each) * np.var(each))),
        p=lpd - float(each.sum()),
        n_samples=run.kept.sampled.steps * run.settings.chains,
        n_data_points=len(each),
        scale="log",
        warning=bool(doubtful),
        good_k=0.7,
        elpd_i=told,
        n_folds=folds,
    )
    out.doubtful, out.factors = tuple(doubtful), factors_beside(run.plan.density, run.plan.observed)
    out.computed = tuple(computed(run.plan.density))
    out.mcse_i, out.mcse = errors, float(np.sqrt(np.sum(errors**2)))
    out.by = by if isinstance(by, str) else None
    return out
