"""A run, or a model before any → data beside what it says they could have been: predictive checks.

Which check fits which outcome is Säilynoja, Johnson, Martin and Vehtari (2025): distribution functions for
numbers, rootograms for counts, calibration for yes or no and ordered categories, survival curves for what is
censored; LOO-PIT, which uses no datum twice, for all of them.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

import jax
import numpy as np
import numpyro
from numpyro import handlers

from gibbsite.density.model.alone import handlers_alone
from gibbsite.density.model.collect import base_distribution
from gibbsite.diagnostics.predictive.caveats import factors_beside, factors_text
from gibbsite.diagnostics.predictive.parts import parts_of
from gibbsite.diagnostics.verdict.elpd import elpd_of, given_all, scored
from gibbsite.errors import (
    DataError,
    ExpressionError,
    GibbsiteError,
    ModelError,
    OptionError,
    UnknownNameError,
)
from gibbsite.ground import arguments as sensible
from gibbsite.ground.arguments import a_name, shown
from gibbsite.ground.lazy_import import DataFrame, later
from gibbsite.prediction.averaging import Averages
from gibbsite.prediction.frame import frame_of
from gibbsite.prediction.prediction import Prediction, meant_by
from gibbsite.prediction.verbs import predict, predict_prior, with_groups
from gibbsite.sampling.derived.derived import Derived
from gibbsite.sampling.derived.expression import Shape, at_codes, numbers_of
from gibbsite.sampling.derived.interval import chosen
from gibbsite.showing import Shown, views

ecdf_utils, optimize = later("arviz_stats.ecdf_utils"), later("scipy.optimize")

CONTINUOUS, COUNTS, BINARY, CATEGORIES, CENSORED = "continuous", "counts", "binary", "categories", "censored"
DRAWS = 400  # of replicates: pointwise intervals have a Monte Carlo error below a twentieth of their width
_MOST_PITS = 1000  # the band of a distribution function of more values is as narrow as a line
_SIMULATED = 500  # bands at 95 % to within a hundredth
_BAND = 0.95
_NAMED = {CONTINUOUS: ("mean", "sd", "min", "max"), COUNTS: ("mean", "sd", "zeros", "max")}
_ROUNDING = 4 * float(np.finfo(np.float32).eps)
_MOST_SHARES = 8  # of categories: as many plots as fit a page
_STATISTICS = {
    "mean": lambda v: v.mean(axis=-1),
    "sd": lambda v: v.std(axis=-1),
    "min": lambda v: v.min(axis=-1),
    "max": lambda v: v.max(axis=-1),
    "zeros": lambda v: (v == 0).mean(axis=-1),
}


@dataclass(frozen=True)
class Statistic:
    """A number of a data set: of the data `seen`, and of every replicate, `[draw]`."""

    text: str
    seen: float
    draws: np.ndarray

    @property
    def p(self) -> float:
        """In which share of the replicates it is as large as in the data; equal ones count half."""
        return float(np.mean(self.draws > self.seen) + 0.5 * np.mean(self.draws == self.seen))

    @property
    def is_constant(self) -> bool:
        """Whether it is the same in the data and in every replicate, but for rounding."""
        every = np.append(self.draws, self.seen)
        return bool(np.ptp(every) <= _ROUNDING * np.abs(every).max())


@lru_cache(maxsize=64)
def _band(count: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where distribution functions of `count` uniform numbers lie: at `x` from `low` to `high`. Simulated in
    half a second for a thousand, and the same for all of that number: a live view asks again and again."""
    even = np.arange(count) / max(count, 1)
    if count < 2:  # of which ArviZ simulates nothing
        ends = np.array([0.0, 1.0])
        return ends, np.zeros(2), np.ones(2)
    x, _, low, high = ecdf_utils.ecdf_pit(even, _BAND, _SIMULATED, rng=np.random.default_rng(seed))
    return x, low, high


@dataclass(frozen=True)
class Curve:
    """A line `y` over `x`, and the band where it should lie."""

    x: np.ndarray
    y: np.ndarray
    low: np.ndarray
    high: np.ndarray


@dataclass(frozen=True, eq=False)
class Checks(Shown):
    """One observed site beside its replicates: `data` `[element]`, `replicates` `[draw, element]`, those of
    the prior in `before`; `kind` is "continuous", "counts", "binary", "categories" or "censored".

    `statistics` are numbers of a whole data set; `groups` the elements by the label of `by`, `over` a column
    along which replicates are drawn, `pareto_k` by the name of the observation; the values 0, 1, … are
    `called` so, of categories, which are `nominal` many where they have no order; `note` says what it rests
    on. Made by `run.checks` and `model.checks`.
    """

    model_name: str
    site: str
    kind: str
    data: np.ndarray
    replicates: np.ndarray
    note: str
    before: np.ndarray | None = None
    chances: np.ndarray | None = None
    gone: np.ndarray | None = None
    weights: np.ndarray | None = None
    statistics: Sequence[Statistic] = ()
    by: str = ""
    groups: Mapping[Any, np.ndarray] = field(default_factory=dict)
    over: tuple[str, np.ndarray] | None = None
    pareto_k: Mapping[str, float] = field(default_factory=dict)
    good_k: float = 0.7
    seed: int = 0
    called: Sequence[str] = ()
    nominal: int = 0

    @cached_property
    def pit(self) -> np.ndarray:
        """The share of replicates below each datum, `[element]`: by leave-one-out where `weights` are known,
        so that no datum is used twice; of equal values a random part (Czado, Gneiting and Held 2009)."""
        w = np.full(self.replicates.shape, 1 / len(self.replicates)) if self.weights is None else self.weights
        below = np.sum(w * (self.replicates < self.data), axis=0)
        equal = np.sum(w * (self.replicates == self.data), axis=0)
        return below + np.random.default_rng(self.seed).random(len(below)) * equal

    @cached_property
    def uniform(self) -> Curve:
        """How far the distribution function of `pit` is from that of uniform numbers, with the band where all
        of it lies for these in 95 % of cases (Säilynoja, Bürkner and Vehtari 2022), by ArviZ."""
        values = np.sort(self.pit)
        if len(values) > _MOST_PITS:
            values = values[np.linspace(0, len(values) - 1, _MOST_PITS).round().astype(int)]
        x, low, high = _band(len(values), self.seed)
        y = np.searchsorted(np.clip(values, 0, 1), x, side="right") / len(values)
        return Curve(np.r_[0.0, x, 1.0], *(np.r_[0.0, v - x, 0.0] for v in (y, low, high)))

    def calibration(self, least: int = 1) -> Curve:
        """How often `data >= least` comes, of categories without order `data == least`, by isotonic
        regression on its chance, with the band where that lies for a model whose chances are right
        (Dimitriadis, Gneiting and Jordan 2021)."""
        most = least if self.nominal else np.inf
        chance = ((self.replicates >= least) & (self.replicates <= most)).mean(axis=0)
        if self.chances is not None:
            chance = self.chances[:, least : least + 1 if self.nominal else None].sum(axis=1)
        order = np.argsort(chance, kind="stable")
        p, y = chance[order], ((self.data >= least) & (self.data <= most)).astype(float)[order]
        rng = np.random.default_rng(self.seed)
        others = rng.random((_SIMULATED // 2, len(p))) < p
        fits = np.stack([optimize.isotonic_regression(o.astype(float)).x for o in others])
        low, high = np.quantile(fits, [(1 - _BAND) / 2, (1 + _BAND) / 2], axis=0)
        return Curve(p, optimize.isotonic_regression(y).x, low, high)

    def survival(self) -> Curve:
        """The share that lives on, of the data by Kaplan and Meier (1958), over that of replicates."""
        gone = np.ones(len(self.data), bool) if self.gone is None else self.gone
        times = np.unique(self.data)
        ended = np.array([np.sum(gone & (self.data == t)) for t in times])
        order = np.sort(self.data)
        at_risk = len(order) - np.searchsorted(order, times, side="left")
        alive = np.cumprod(1 - ended / at_risk)
        each = 1 - np.stack(
            [np.searchsorted(np.sort(v), times, side="right") / len(v) for v in self.replicates]
        )
        low, high = chosen().of(each.T)
        return Curve(times, alive, low, high)

    def of(self, group: Any) -> "Checks":
        """The checks of one group's data alone, of those of `by`. Raises `UnknownNameError`."""
        if group not in self.groups:
            raise UnknownNameError("group", str(group), map(str, self.groups))
        at = self.groups[group]

        def some(v: np.ndarray | None, axis: int = 0) -> np.ndarray | None:
            return None if v is None else np.compress(at, v, axis)

        names = list(self.pareto_k)
        known = len(names) == len(at)
        part = replace(
            self,
            data=self.data[at],
            replicates=self.replicates[:, at],
            before=some(self.before, 1),
            chances=some(self.chances),
            gone=some(self.gone),
            weights=some(self.weights, 1),
            over=None if self.over is None else (self.over[0], self.over[1][at]),
            pareto_k={names[i]: self.pareto_k[names[i]] for i in np.flatnonzero(at)} if known else {},
            by="",
            groups={},
            note=f"{self.by} {group}: {int(at.sum())} of {len(at)} data; {self.note}",
        )
        return replace(part, statistics=tuple(t for s in self.statistics if (t := _again(part, s.text))))

    def to_frame(self) -> "DataFrame":
        """A row for each statistic, and for each group of `by` its mean and what of it was asked for by
        `statistics=`: of the data (`seen`), `mean` and interval of replicates, and `p`, the share of these
        that is as large."""
        rows = [*self.statistics, *self._of_groups()]
        draws = [s.draws for s in rows] or [np.zeros((0, len(self.replicates)))]
        low, high = chosen().of(np.stack(draws) if rows else draws[0])
        share = f"{chosen().kind}{round(100 * chosen().prob)}"
        columns = {
            "seen": np.array([s.seen for s in rows]),
            "mean": np.array([s.draws.mean() for s in rows]),
            f"{share}_lb": low,
            f"{share}_ub": high,
            "p": np.array([s.p for s in rows]),
        }
        names, n = [s.text for s in rows], len(rows)
        return frame_of({"s": columns}, {"s": ("statistic",)}, {"s": (names,)}, {"s": (n,)}, None)

    def _of_groups(self) -> Iterator[Statistic]:
        """The mean of each group, of outcomes that have one, and the statistics that were written."""
        mean = () if self.nominal or self.kind == CENSORED else (f"mean({self.site})",)
        usual = {f"{name}({self.site})" for name in _STATISTICS}
        written = () if self.nominal else (s.text for s in self.statistics if s.text not in usual)
        texts = [*mean, *written]
        for group in self.groups:
            part = self.of(group)
            for text in texts:
                if (found := _again(part, text)) is not None:
                    yield replace(found, text=f"{text} of {group}")

    def plot(self, each: str | None = None) -> Any:
        """A picture of all of it; `.save("check.svg")` writes it. With `each`, one plot for every group of
        `by` side by side, by the name that `plots` has for it. Raises `UnknownNameError`."""
        return views().plot_checks(self, each)

    @property
    def plots(self) -> tuple[str, ...]:
        """What is plotted: "outcome", "pit", "rootogram", …, and the statistics by their text."""
        return views().names_of_checks(self)

    def __repr__(self) -> str:
        told = [
            f"{s.text} {s.seen:.4g}, replicates {s.draws.mean():.4g} (p {s.p:.2f})" for s in self.statistics
        ]
        kind = ", ".join(filter(None, (self.kind, meant_by(self.called, self.nominal))))
        return f"<Checks of {self.site} ({kind}) of {self.model_name}: {'; '.join([*told, self.note])}>"


def checks(
    of: Any,
    site: str | None = None,
    *,
    by: Any = None,
    over: str | None = None,
    statistics: Sequence[str] = (),
    prior: bool = False,
    draws: int = DRAWS,
    seed: int = 0,
    leave_one_out: bool = True,
) -> Checks:
    """See `Run.checks`. `of` is a run, or a model, whose prior is checked."""
    count = sensible.count("draws", draws, 1)
    run = of if hasattr(of, "elpd") else None
    model = of if run is None else run.model
    if model is None:
        raise ModelError(
            "this run was loaded without its model, and holds no checks that were asked for like this; give "
            "it: gibbsite.load(path, model=…), or ask before the run is saved"
        )
    if isinstance(statistics, str):
        statistics = (statistics,)
    steps = 0 if run is None else run.kept.sampled.steps
    if run is None:
        found = predict_prior(model, draws=count, seed=seed)
    else:
        found = predict(run, draws=-(-count // run.settings.chains), seed=seed)
    whole = model
    if hasattr(model, "structured"):  # of several structures one: they have the same data
        model = model.one if run is None else parts_of(run)[0].model
    seen = found.facts.observed
    names = [n for n in found.outcomes if n in seen]
    if not names:
        raise ModelError(f"{found.model_name!r} observes nothing that its replicates could stand beside")
    name = names[0] if site is None else a_name("site", site, names)
    if name not in names:
        raise UnknownNameError("observed site", name, names)
    there = np.isfinite(np.asarray(seen[name], float))
    if run is not None:
        counts = with_groups(model.density.groups, scored(run)).get(name)
        there &= counts if counts is not None and counts.shape == there.shape else True
    data = np.asarray(seen[name])[there]
    if not data.size:
        raise DataError(
            f"checks: none of the data of {name!r} was observed, that replicates could stand beside"
        )
    kind, gone = _kind(model, name, data)
    if kind == CENSORED and (written := [t for t in statistics if re.search(rf"\b{re.escape(name)}\b", t)]):
        raise OptionError(
            f"checks: {written[0]!r} is of censored data, and of replicates that are not cut off: they would "
            "differ where the model is right. The plots of `checks()` compare what was seen (Kaplan–Meier)"
        )
    note = f"{found.draws[name].shape[0] * found.draws[name].shape[1]} replicates of {data.size} data"
    if found.facts.components.get(name) and there.all():
        one = ", ".join([":"] * (there.ndim - 1) + ["0"])
        note += f"; components of its rows together: statistics=['mean({name}[{one}])'] looks at one"
    if beside := factors_beside(model.density, (name,)):
        note += f"; {factors_text(beside, 'drawn')}"
    out = Checks(
        model_name=found.model_name,
        site=name,
        kind=kind,
        data=data.astype(float),
        replicates=_flat(found.draws[name])[:, there.ravel()].astype(float),
        note=note,
        gone=None if gone is None else np.broadcast_to(gone, there.shape)[there],
        seed=seed,
        called=tuple(found.facts.categories.get(name, ())),
        nominal=found.facts.nominal.get(name, 0),
    )
    if name in found.probs and found.probs[name].shape[:-1] == there.shape:
        out = replace(out, chances=found.probs[name][there])
    if prior and run is not None:
        out = replace(out, before=_before(whole, name, there, count, seed))
    if by is not None:
        over_rows = Averages.over(found.facts, name, found.draws[name].shape[2:], by)
        number = np.indices(there.shape)[over_rows.axis]
        spread = {k: np.isin(number, at) for k, at in over_rows.groups.items()}
        out = replace(
            out, by=by if isinstance(by, str) else "by", groups={k: s[there] for k, s in spread.items()}
        )
    out = replace(out, over=_along(model, found, over, there))
    if over is not None and out.nominal:
        out = replace(out, note=f"{out.note}; categories without order are not drawn along {over}")
    if run is not None and leave_one_out:
        out = _left_out(run, found, out, steps)
    return replace(out, statistics=_statistics(found, out, statistics, seen, there))


def _shares(out: Checks) -> list[Statistic]:
    """How many are of each category, of those without order; of many, of those that most data are of."""
    common = np.argsort(-np.bincount(out.data.astype(int), minlength=out.nominal), kind="stable")
    found = []
    for k in np.sort(common[:_MOST_SHARES]).tolist():
        told = repr(out.called[k]) if k < len(out.called) else str(k)
        shares = (out.replicates == k).mean(axis=-1)
        found.append(Statistic(f"mean({out.site} == {told})", float(np.mean(out.data == k)), shares))
    return found


def _usual(out: Checks, name: str) -> Statistic:
    find, own = _STATISTICS[name], numbers_of(out.called)
    seen, draws = (v if own is None else at_codes(v, own) for v in (out.data, out.replicates))
    return Statistic(f"{name}({out.site})", float(find(seen)), find(draws))


def _again(part: Checks, text: str) -> Statistic | None:
    """A statistic of a part of the data; None for one that takes other sites' as well."""
    for name in _STATISTICS:
        if text == f"{name}({part.site})":
            return _usual(part, name)
    shape = {part.site: Shape(part.data.shape, (None,), part.called)}
    try:
        draws = Derived().add(text, None, {part.site: part.replicates[None]}, len(part.replicates), shape)
        seen = Derived().add(text, None, {part.site: part.data[None, None]}, 1, shape)
    except ExpressionError:
        return None
    return Statistic(text, float(seen.values[0, 0]), np.asarray(draws.values, float).ravel())


def _flat(draws: np.ndarray) -> np.ndarray:
    return draws.reshape(draws.shape[0] * draws.shape[1], -1)


def _kind(model: Any, name: str, data: np.ndarray) -> tuple[str, Any]:
    """What the outcome can be; and of what is censored, which ends were seen."""
    members = model.density.groups.get(name, (name,))
    family = model.density.sites[members[0]].fn_name
    if "Censored" in family:
        with handlers_alone, numpyro.validation_enabled(False):
            traced = handlers.trace(handlers.seed(model.fn, jax.random.key(0))).get_trace(
                *model.args, **model.kwargs
            )
        gone = [~np.asarray(base_distribution(traced[m]["fn"]).censored, bool) for m in members]
        return CENSORED, gone[0] if members == (name,) else np.stack(gone)
    if data.dtype.kind not in "iub":
        return CONTINUOUS, None
    if "Categorical" in family or "Ordered" in family:
        return CATEGORIES, None
    return (BINARY if data.size and np.isin(data, (0, 1)).all() and "Bernoulli" in family else COUNTS), None


def _before(model: Any, name: str, there: np.ndarray, count: int, seed: int) -> np.ndarray | None:
    try:
        return _flat(predict_prior(model, draws=count, seed=seed).draws[name])[:, there.ravel()].astype(float)
    except ModelError:
        return None  # what has no prior to be drawn from is shown without


def _along(model: Any, found: Prediction, over: str | None, there: np.ndarray) -> Any:
    """The column that replicates are drawn along: the one that was asked for, else time."""
    columns = found.facts.constants
    units = {n.rpartition("['")[2].rstrip("']") or n: unit for n, unit in model.analysis.known.units.items()}
    if over is None:
        times = (n for n, unit in units.items() if unit.startswith("days since") and n in columns)
        over = next((n for n in times if columns[n].shape == there.shape[:1]), None)
        if over is None:
            return None
    if over not in columns:
        raise UnknownNameError("column", over, columns)
    values = np.asarray(columns[over], float)
    if not there.ndim or values.shape != there.shape[:1]:
        raise DataError(f"over: {shown(over)} has shape {values.shape}, and the data {there.shape}")
    spread = np.broadcast_to(values.reshape(-1, *(1,) * (there.ndim - 1)), there.shape)
    return f"{over}, {units[over]}" if over in units else over, spread[there]


def _left_out(run: Any, found: Prediction, out: Checks, steps: int) -> Checks:
    """With Pareto k, and the weights of every replicate with each datum left out: of those draws that have
    replicates, by importance (Gelfand, Dey and Chang 1992), smoothed by ArviZ."""
    try:
        elpd = run.elpd()
        if not getattr(elpd, "weighed", False):  # it was kept, and its weights are not
            elpd = elpd_of(run)
        # replicates are drawn at all latents, a datum's own among them
        whole = given_all(run, elpd) if elpd.summed or elpd.integrated else elpd
    except GibbsiteError as problem:
        return replace(out, note=f"{out.note}; without leave-one-out: {problem}")
    names, k = [str(n) for n in elpd.pareto_k["datum"].values], np.asarray(elpd.pareto_k, float)
    own = [i for i, n in enumerate(names) if n == out.site or n.startswith(f"{out.site}[")]
    out = replace(out, pareto_k={names[i]: float(k[i]) for i in own}, good_k=float(elpd.good_k))
    weights, bad = whole.log_weights, int(np.sum(~(np.asarray(whole.pareto_k, float)[own] <= whole.good_k)))
    if weights is None or len(own) != out.data.size:
        return replace(out, note=f"{out.note}; PIT of the data that the posterior has seen")
    chains = weights.sizes["chain"]
    if weights.sizes["draw"] != steps:  # weights of one draw are no other's
        return replace(out, note=f"{out.note}; PIT of the data that the posterior has seen: the run goes on")
    w = np.asarray(weights.transpose("chain", "draw", ...).values).reshape(chains, steps, -1)[..., own]
    count = found.draws[out.site].shape[1]
    at = np.linspace(0, steps - 1, count).round().astype(int)
    some = w[:, at].reshape(-1, len(own))
    some = np.exp(some - some.max(axis=0))
    doubt = f", not to be relied on where Pareto k is bad: {bad} of {len(own)}" if bad else ""
    return replace(out, weights=some / some.sum(axis=0), note=f"{out.note}; PIT by leave-one-out{doubt}")


def _statistics(
    found: Prediction,
    out: Checks,
    texts: Sequence[str],
    seen: Mapping[str, np.ndarray],
    there: np.ndarray,
) -> tuple[Statistic, ...]:
    """The usual ones of the kind, and those that were written, as `run.derive` has them, of the elements that
    are `there` but where one is named by its index. Raises `ExpressionError`."""
    usual = _NAMED.get(out.kind, ("mean",)) if out.kind != CENSORED else ()  # whose ends are not all known
    every = _shares(out) if out.nominal else [_usual(out, n) for n in usual]
    made = [s for s in every if not s.is_constant]  # no zeros at all, the mean of shares of a whole
    made = [s for s in made if s.text not in texts]  # which come first, as they are asked for
    for text in texts:
        if not isinstance(text, str):
            raise OptionError(f"a statistic is a text such as 'max({out.site})', not {shown(text)}")
        draws = {n: v for n, v in found.draws.items() if n in seen}
        once = {n: np.asarray(seen[n])[None, None] for n in draws}
        called = found.facts.categories
        shapes = {n: Shape(v.shape[2:], (None,) * (v.ndim - 2), called.get(n, ())) for n, v in draws.items()}
        read = Derived().add(text, None, once, 1, shapes).expression
        if out.site in read.sites and not there.all() and not read.indexes:
            for n in (n for n in read.sites if shapes[n].shape == there.shape):
                draws[n], once[n] = draws[n][..., there], once[n][..., there]
                shapes[n] = Shape(draws[n].shape[2:], (None,), shapes[n].values)
        steps = next(iter(draws.values())).shape[1]
        of_draws = Derived().add(text, None, draws, steps, shapes)
        of_data = Derived().add(text, None, once, 1, shapes)
        if of_data.shape:
            raise OptionError(
                f"{text!r} is no number of a data set but {list(of_data.shape)} of them: mean(…)?"
            )
        made.insert(
            0, Statistic(text, float(of_data.values[0, 0]), np.asarray(of_draws.values, float).ravel())
        )
    return tuple(made)
