"""How well a run's posterior predicts what it has not seen: by ArviZ."""

import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
from scipy.special import logsumexp

from gibbsite.density.current import current, element_weights, scored_elements
from gibbsite.diagnostics.predictive.bounding import bounding
from gibbsite.diagnostics.predictive.caveats import as_one, factors_beside
from gibbsite.diagnostics.predictive.likelihood import without_labels
from gibbsite.diagnostics.predictive.parts import Part, in_full, joined, parts_of
from gibbsite.diagnostics.predictive.predict import log_likelihood
from gibbsite.errors import ModelError
from gibbsite.ground.lazy_import import later
from gibbsite.ground.telling import Telling
from gibbsite.kernels.blocks.finite import INPUTS_KWARG

xr, az, results = (
    later(name) for name in ("xarray", "arviz_stats.base", "gibbsite.diagnostics.predictive.elpd_data")
)

_NAME = "all"
_NUMBERS, _PIECE = 40_000_000, 10_000_000
"""Log likelihoods that ArviZ smooths at once, at some 80 bytes each; and of more so many at a time."""
_LEAST_TAIL = 5
_LEAST_DRAWS = 25
"""A fifth of the draws is the tail, and fewer than five are none (Vehtari et al. 2024)."""


def elpd_of(run: Any) -> Any:
    """ArviZ's leave-one-out cross-validation over all data together, `elpd_i` in the order of the sites.

    A datum is an element of an observed site that counts (`gibbsite.density.current`): not one that is masked
    or missing, nor what the model was conditioned on; one with a weight adds its weighted density, as to the
    posterior that it is left out of. Discrete sites are `summed` out, and continuous latents that are a
    datum's own `integrated` out (`without_labels`); `given` names those that could not be, each drawn with
    the very datum that is left out, so that `warning` is set. `mcse` is the error of `elpd` that comes of the
    run's length; `se` is of the data.

    Raises `ModelError` for a run without draws, without observed sites, or without its model.
    """
    missing = (
        "its model" if run.model is None else "draws" if not run.kept.sampled.steps else
        "observed sites" if not parts_of(run)[0].plan.observed else ""
    )  # fmt: skip
    if missing:
        factors = () if missing != "observed sites" else parts_of(run)[0].model.density.factor_names
        why = (
            f"; what the factor {factors[0]!r} adds is no datum, which could be left out: write it as data "
            "of a distribution (a class of your own with `log_prob` will do)" if factors else ""
        )  # fmt: skip
        if missing == "observed sites" and (found := computed(parts_of(run)[0].model.density)):
            why = f"; what {found[0]!r} is observed at is computed from latents, and no datum"
        raise ModelError(
            f"the run of {run.model_name!r} lacks {missing}: nothing can be predicted by it{why}"
        )
    parts, count = parts_of(run), run.kept.sampled.steps * run.settings.chains
    if count < _LEAST_DRAWS:
        raise ModelError(f"leave-one-out takes {_LEAST_DRAWS} draws at least, and the run has {count}")
    each = [_told(without_labels, p, run.settings.seed) for p in parts]
    there = scored(run)
    if any(not _same_data(there, _scored(p)) for p in parts):
        raise ModelError(
            "other data are observed in some structures than in others: elpd is of one at a time"
        )
    if not any(mask.any() for mask in there.values()):
        raise ModelError(f"the run of {run.model_name!r} lacks observed sites that count: all are masked out")
    out = _estimated(joined(parts, [e.values for e in each]), there, relative_efficiency(run.draws))
    ends = _at_ends(parts, there, [e.integrated for e in each])
    out.pareto_k = np.where(ends, np.inf, np.asarray(out.pareto_k, float))
    names = observation_names(run)
    out.bounding = tuple(np.asarray(names, object)[ends])
    out.elpd_i = xr.DataArray(np.asarray(out.elpd_i), dims="datum", coords={"datum": names})
    out.pareto_k = xr.DataArray(np.asarray(out.pareto_k), dims="datum", coords={"datum": names})
    out.summed, out.integrated, out.given = (
        tuple(dict.fromkeys(n for e in each for n in getattr(e, kind)))
        for kind in ("summed", "integrated", "given")
    )
    out.factors = tuple(
        dict.fromkeys(n for p in parts for n in factors_beside(p.model.density, p.plan.observed))
    )
    out.computed = tuple(dict.fromkeys(n for p in parts for n in computed(p.model.density)))
    out.vectors = as_one(parts[0].model.density, there)
    sites = {n: s for p in parts for n, s in p.model.density.sites.items()}
    out.labels = tuple(n for n in out.given if n in sites and sites[n].fn_name.startswith("Categorical"))
    out.warning = bool(out.warning) or bool(out.given) or bool(ends.any())
    out.data, out.weighed = _data(run), True
    return out


def _told(by: Callable[..., Any], part: Part, seed: int) -> Any:
    with in_full(part) as (plan, draws):
        return by(plan, {INPUTS_KWARG: plan.inputs}, draws, seed)


def computed(density: Any) -> list[str]:
    """The observed sites whose values are computed from latents."""
    now = current(density)
    return [n for n in density.outputs["observed"] if n not in (*now.data, *now.given)]


def _at_ends(
    parts: Sequence[Part], there: Mapping[str, np.ndarray], gone: Sequence[Collection[str]]
) -> np.ndarray:
    """Which data alone keep latents that are not integrated out within their support, in the order of the
    sites."""
    found = []
    for part, names in zip(parts, gone, strict=True):
        with part.model.density.surroundings.carried():
            found.append(bounding(part.plan, part.draws, there, names))
    return np.concatenate([np.any([f[n] for f in found], 0)[mask] for n, mask in there.items()])


def given_all(run: Any, elpd: Any) -> Any:
    """The same given the draws of all latents: weights for what was drawn at these. `elpd` is that of the
    same draws."""
    parts = parts_of(run)
    values = [_told(log_likelihood, p, run.settings.seed) for p in parts]
    return _estimated(joined(parts, values), scored(run), elpd.reff)


def _data(run: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The data that are scored, one after another in the order of `elpd_i`, events as they are; of how many
    numbers each is, and what it weighs."""
    found, weights = [np.zeros(0)], [np.zeros(0)]
    sizes: list[int] = []
    part = parts_of(run)[0]
    for name, there in _scored(part).items():
        value = np.asarray(part.plan.observed[name], float)
        events = len(part.model.density.sites[name].event_shape)
        batch = value.shape[: value.ndim - events]
        value = np.broadcast_to(value, (*np.broadcast_shapes(batch, there.shape), *value.shape[len(batch) :]))
        of_site = value[there]
        found.append(of_site.ravel())
        weights.append(element_weights(part.model.density, name)[there])
        sizes += [int(np.prod(of_site.shape[1:], dtype=int))] * len(of_site)
    return np.concatenate(found), np.array(sizes, int), np.concatenate(weights)


def scored(run: Any) -> dict[str, np.ndarray]:
    """Which elements of the log density of each observed site are data, in the model's order of sites."""
    return _scored(parts_of(run)[0])


def _scored(part: Part) -> dict[str, np.ndarray]:
    density, observed = part.model.density, part.plan.observed
    return {n: scored_elements(density, n) for n in density.sites if n in observed and n not in part.decided}


def _same_data(a: Mapping[str, np.ndarray], b: Mapping[str, np.ndarray]) -> bool:
    return a.keys() == b.keys() and all(np.array_equal(a[n], b[n]) for n in a)


def observation_names(run: Any) -> list[str]:
    """What each datum is called, in the order of `elpd_i`: `y[Hennepin]`, `y[17]`."""
    out = []
    part = parts_of(run)[0]
    for name, there in _scored(part).items():
        labels = part.model.element_labels(name)
        for at in np.argwhere(there):
            told = [
                str(i) if m is None or len(m) != n else m[i]
                for i, m, n in zip(at, labels, there.shape, strict=False)
            ]
            out.append(f"{name}[{', '.join(told)}]" if told else name)
    return out


def difference(first: Any, second: Any) -> tuple[float, float]:
    """The second's elpd less the first's, of the same data in the same order, and its standard error: of the
    sum of differences, which are paired (Vehtari, Gelman and Gabry 2017, eq. 24)."""
    each = np.ravel(np.asarray(second.elpd_i, float)) - np.ravel(np.asarray(first.elpd_i, float))
    return float(each.sum()), float(np.sqrt(len(each) * np.var(each)))  # as ArviZ has it


def _estimated(values: Mapping[str, np.ndarray], there: Mapping[str, np.ndarray], reff: float) -> Any:
    """The result for the log likelihoods `[chain, draw, *shape]` of the data that are `there`, with the
    errors that come of the draws; of many data piece by piece, without the weights of every draw."""
    found, errors, together = [], [], 0.0
    data = sum(int(mask.sum()) for mask in there.values())
    for flat in _columns(values, there):
        found.append(_loo(flat, reff))
        shapes = np.asarray(found[-1].pareto_k, float)
        each, sums = _adds(found[-1].log_weights, flat, shapes, reff)
        errors.append(each)
        together = together + sums
        if flat.shape[-1] < data:
            found[-1].log_weights = None
    out = results.ELPDData(**{f.name: getattr(found[0], f.name) for f in fields(found[0])})
    if len(found) > 1:
        whole = {n: np.concatenate([getattr(f, n).values for f in found]) for n in ("elpd_i", "pareto_k")}
        out.elpd_i, out.pareto_k = (xr.DataArray(v, dims="datum") for v in whole.values())
        out.elpd, out.p = float(whole["elpd_i"].sum()), sum(f.p for f in found)
        out.n_data_points = len(whole["elpd_i"])
        out.se = float(np.sqrt(out.n_data_points * np.var(whole["elpd_i"])))
        out.warning = any(f.warning for f in found)
    out.mcse_i, out.mcse, out.reff = np.concatenate(errors), _of_sum(np.asarray(together), reff), reff
    return out


def _columns(values: Mapping[str, np.ndarray], there: Mapping[str, np.ndarray]) -> Iterator[np.ndarray]:
    """`[chain, draw, datum]`, in double precision: of all data, or of some after each other where ArviZ would
    take gigabytes."""
    shape = next(iter(values.values())).shape[:2]
    rows = {n: values[n].reshape(*shape, -1) for n in there}
    kept = {n: np.flatnonzero(mask) for n, mask in there.items()}
    draws, data = shape[0] * shape[1], sum(map(len, kept.values()))
    if draws * data <= _NUMBERS:
        yield np.concatenate([np.asarray(rows[n][:, :, at], float) for n, at in kept.items()], axis=2)
        return
    done, most, telling = 0, max(1, _PIECE // draws), Telling("leave-one-out", data, "data")
    for name, at in kept.items():
        for start in range(0, len(at), most):
            telling.at(done)
            done += len(at[start : start + most])
            yield np.asarray(rows[name][:, :, at[start : start + most]], float)
    telling.at(done)


def _loo(flat: np.ndarray, reff: float) -> Any:
    """ArviZ's result for the columns of `flat`, `[chain, draw, datum]`.

    Columns whose largest importance ratios are all the same have no tail for a Pareto distribution to be
    fitted to (what no latent enters, or only discrete ones): their ratios are as good as they are.
    """
    from arviz_stats.loo.loo import loo

    draws = flat.reshape(-1, flat.shape[-1])

    def smoothed(columns: np.ndarray) -> Any:
        told = xr.Dataset({_NAME: (("chain", "draw", "datum"), columns)})
        tree = xr.DataTree(children={"log_likelihood": xr.DataTree(told)})
        with warnings.catch_warnings(), np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            warnings.simplefilter("ignore", UserWarning)  # the result says it, too
            return loo(tree, var_name=_NAME, pointwise=True, reff=reff)

    # ArviZ refuses a tail of equal values; a tail has five draws at least
    tied = np.flatnonzero((draws == draws.min(axis=0)).sum(axis=0) >= _LEAST_TAIL)
    without = []
    for i in tied:
        try:
            smoothed(flat[..., [i]])
        except ValueError:
            without.append(i)
    tailed = np.ones(len(draws.T), bool)
    tailed[without] = False
    count = np.log(len(draws))
    plain, shapes = count - logsumexp(-draws, axis=0), np.full(len(tailed), -np.inf)
    # a result to write into: of all that is smoothed, or of any numbers where nothing is
    found = smoothed(
        flat[..., tailed] if tailed.any() else np.arange(float(len(draws))).reshape(*flat.shape[:2], 1)
    )
    each = plain.copy()
    if tailed.any():
        each[tailed], shapes[tailed] = found.elpd_i.values, found.pareto_k.values
    # ratios of few values, some of them in the tail: no Pareto distribution fits, and nobody knows its shape
    lost = np.isnan(each) & ~np.isnan(plain)
    if not without and not lost.any():
        return found
    each[lost], shapes[lost] = plain[lost], np.nan
    found.elpd_i, found.pareto_k = xr.DataArray(each, dims="datum"), xr.DataArray(shapes, dims="datum")
    found.elpd, found.se = float(each.sum()), float(np.sqrt(len(each) * np.var(each)))
    found.p = float((logsumexp(draws, axis=0) - count - each).sum())
    found.n_data_points, found.log_weights = len(each), None
    found.warning = bool((shapes > found.good_k).any() or lost.any())
    return found


def _adds(
    log_weights: Any, flat: np.ndarray, shapes: np.ndarray, reff: float
) -> tuple[np.ndarray, np.ndarray]:
    """The Monte Carlo standard errors of what these weights give for every datum, from `flat`, `[chain, draw,
    datum]`, by the delta method (Vehtari et al. 2024, §3.2), as if draws were `reff` of their number and
    independent; and what each draw adds to the sum over the data, `[chain, draw]`. Beyond a Pareto shape of
    1/2 ratios have no variance, and their mean converges more slowly, as `S ** -(rate / 2)`: the error is
    what `S ** rate` draws would give."""
    draws = flat.reshape(-1, flat.shape[-1])
    weights = -draws if log_weights is None else log_weights.transpose("chain", "draw", ...).values
    log_w = np.asarray(weights, float).reshape(len(draws), -1)
    part = np.exp(log_w - logsumexp(log_w, axis=0))
    relative = np.exp(draws - logsumexp(log_w + draws, axis=0) + logsumexp(log_w, axis=0))
    count = len(draws) * reff
    slower = count ** ((1 - convergence_rate(shapes, count)) / 2)
    adds = part * (relative - 1) * slower
    return np.sqrt(np.sum(adds**2, axis=0) / reff), adds.sum(axis=1).reshape(flat.shape[:2])


def _of_sum(together: np.ndarray, reff: float) -> float:
    """The error of a sum over the data, to which every draw adds `[chain, draw]`. What draws say of a latent
    that all data share they say of all together, so that it is by the sums' own effective draws."""
    effective = az.array_stats.ess(together, chain_axis=0, draw_axis=1, method="mean")
    each = float(effective) / together.size if np.isfinite(effective) else reff
    return float(np.sqrt(np.sum(together**2) / each))


def convergence_rate(shapes: np.ndarray, count: float) -> np.ndarray:
    """How fast the squared error of a mean of `count` importance ratios falls with their number, 1 where they
    have a variance: given their Pareto shapes (Vehtari et al. 2024, appendix B, as in R's `posterior`)."""
    k = np.clip(np.nan_to_num(np.asarray(shapes, float), nan=1.0), 0.0, 1.0)
    k = np.where(np.abs(k - 0.5) < 1e-3, 0.501, k)  # at 1/2 it is 0 / 0, and goes on
    s = count ** (2 * k)
    return np.clip((2 * (k - 1) * count * s + (1 - 2 * k) * s + count**2) / ((count - 1) * (count - s)), 0, 1)


def relative_efficiency(draws: Mapping[str, Any]) -> float:
    """Effective draws per draw, the mean over all scalars, as ArviZ has it."""
    chains, count = next(iter(draws.values())).shape[:2]
    if chains == 1:
        return 1.0
    always = [v for v in draws.values() if np.isfinite(v).all()]  # in every structure, of several
    found = [az.array_stats.ess(v, chain_axis=0, draw_axis=1, method="mean") for v in always] or [np.ones(1)]
    each = np.concatenate([np.ravel(v) for v in found])
    return float(np.nanmean(each) / (chains * count)) if np.isfinite(each).any() else 1.0
