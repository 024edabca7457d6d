"""One model, many data sets → a run for each, and one tree of all their draws."""

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from gibbsite.density.model.names import variable_name
from gibbsite.diagnostics.measures.convergence import all_stats
from gibbsite.diagnostics.measures.snapshot import ScalarStat
from gibbsite.diagnostics.verdict.verdict import Verdict, judged
from gibbsite.errors import DataError, GibbsiteError, ModelError, OptionError, UnknownNameError
from gibbsite.ground import arguments as sensible
from gibbsite.ground.arguments import shown
from gibbsite.ground.lazy_import import later
from gibbsite.ground.telling import Telling
from gibbsite.inputs.tables import missing
from gibbsite.prediction.asked.new_data import asked_of
from gibbsite.prediction.batched.classes import Class, Made, Set, classes_of, set_of
from gibbsite.prediction.batched.lanes import Lane, Lanes, rhats
from gibbsite.prediction.frame import columns_of
from gibbsite.sampling.derived.interval import chosen
from gibbsite.sampling.engine.resources import choose_device, planned
from gibbsite.sampling.engines import engine_for
from gibbsite.sampling.options import kept
from gibbsite.sampling.remote.pieces import checked
from gibbsite.sampling.run import Run, Settings
from gibbsite.sampling.start import known_options, settings_for
from gibbsite.storage.datatree import named_stats
from gibbsite.storage.draws import label_of

nw, pd, xr = later("narwhals.stable.v1"), later("pandas"), later("xarray")

TOGETHER = frozenset("draws warmup chains seed thin device keep rescue on".split())
"""The options that data sets can have side by side; with others they are sampled one after another."""
_APART = (
    1.1  # R-hat beyond which chains have not met: such a data set is sampled again, with all that a run does
)
_ENOUGH = 200  # draws per chain below which R-hat says little


class Fit:
    """What one data set gave where many were fitted together: its draws, and a `Run` of them when it is asked
    for."""

    def __init__(self, one: Set, of: Class, lane: Lane, settings: Settings, seconds: float):
        self._set, self._of, self._lane, self._settings = one, of, lane, settings
        self._plan, self._padded, self._seconds = of.plan, bool(of.like), seconds

    @property
    def _like(self) -> Any:
        """The model of a data set of its shapes."""
        return self._of.like[self._set.shapes].model if self._padded else self._plan.origin

    @property
    def observed(self) -> dict[str, np.ndarray]:
        """The data by site."""
        given = dict(zip(self._set.arrays.names, self._set.arrays.given, strict=True))
        found = {s: np.asarray(given[n]) for n, s in self._of.outcomes.items()}
        return found if set(self._like.observed) <= set(found) else self._set.model.observed

    @cached_property
    def draws(self) -> dict[str, np.ndarray]:
        """`[chain, draw, *shape]` by site, of its own rows."""
        sites = self._like.density.sites
        found = {}
        for name, v in self._lane.values.items():
            if self._padded and name in sites:
                v = v[(slice(None), slice(None), *(slice(n) for n in sites[name].shape))]
            found[name] = np.moveaxis(v, 0, 1)
        for group, members in self._plan.groups.items():
            if all(m in found for m in members):
                found[group] = np.stack([found.pop(m) for m in members], axis=2)
        keep = self._settings.keep
        return found if keep is None else {n: v for n, v in found.items() if n in keep}

    @property
    def stats(self) -> dict[str, np.ndarray]:
        """Statistics `[chain, draw]` under ArviZ's names."""
        return named_stats(self._plan, {n: np.moveaxis(v, 0, 1) for n, v in self._lane.stats.items()})

    @cached_property
    def scalars(self) -> list[ScalarStat]:
        """The measures of what it is judged by: latents that the data inform."""
        hidden = {*self._plan.generated}
        groups = {g for g, m in self._plan.groups.items() if set(m) <= hidden}
        latent = {n for n, s in self._plan.sites.items() if s.role == "latent"} | {*self._plan.groups}
        own = {n: v for n, v in self.draws.items() if n in latent and n not in hidden | groups}
        return all_stats(own)

    @cached_property
    def verdict(self) -> Verdict:
        """Whether its draws can be used, by R-hat, ESS and divergences."""
        diverging = [v for n, v in self._lane.stats.items() if n.endswith(".diverging")]
        divergent = sum(int(v.sum()) for v in diverging)
        transitions = self._settings.draws * self._settings.chains
        counts = divergent, transitions
        return judged("finished", None, self.scalars, (), counts, self._settings.chains)

    @cached_property
    def run(self) -> Run:
        """All that a run is: it can go on, unless it had rows that did not count beside it."""
        plan = self._set.model.plan()
        engine, place = engine_for(plan, self._settings, None)
        lane = self._lane
        sites = plan.sites
        values = {
            n: v[(slice(None), slice(None), *(slice(k) for k in sites[n].shape))] if self._padded else v
            for n, v in lane.values.items()
        }
        made = Run(plan, None if self._padded else engine, self._settings, place=place)
        state = None if self._padded else lane.state()
        made.made_elsewhere(values, lane.stats, lane.warm, lane.warmup, state, self._seconds)
        return made


class _Runs(Mapping[Any, Any]):
    """The runs by the name of their data set, each made when it is looked at."""

    def __init__(self, fits: Mapping[Any, Any]):
        self._fits = fits

    def __getitem__(self, name: Any) -> Any:
        one = self._fits[name]
        return one.run if isinstance(one, Fit) else one

    def __iter__(self) -> Iterator[Any]:
        return iter(self._fits)

    def __len__(self) -> int:
        return len(self._fits)

    def __repr__(self) -> str:
        return f"<runs of {', '.join(map(str, list(self._fits)[:8]))}{', …' * (len(self._fits) > 8)}>"


class Many:
    """Runs of one model by the name of their data set: `runs`, `verdicts`, and in `failures` what stopped the
    others; `note` says in one line how they were fitted."""

    def __init__(
        self, origin: Any, fits: Mapping[Any, Any], failures: Mapping[Any, GibbsiteError], note: str = ""
    ):
        self.model_name, self._fits, self.failures, self.note = origin.name, dict(fits), dict(failures), note
        # of categories, which mean the same in all data sets; rows are each one's own
        codes = {t for n, t in origin.labels.items() if " of " not in n}
        self._labels = {p: t for p, t in origin.plate_labels.items() if t in codes}

    @property
    def runs(self) -> Mapping[Any, Any]:
        """A `Run` by name, made when it is looked at."""
        return _Runs(self._fits)

    @cached_property
    def verdicts(self) -> dict[Any, Any]:
        """Whether the draws of each can be used."""
        return {name: one.verdict for name, one in self._fits.items()}

    @cached_property
    def draws(self) -> dict[str, np.ndarray]:
        """`[data set, chain, draw, *shape]` by site, in the order of `runs`; NaN where a data set has fewer
        elements than others. Raises `ModelError` where every one failed."""
        if not self._fits:
            raise ModelError(f"none of the data sets of {self.model_name!r} has a run: see .failures")
        parts = [one.draws for one in self._fits.values()]
        return {n: _stacked([p[n] for p in parts]) for n in parts[0] if all(n in p for p in parts)}

    def summary(self) -> Any:
        """A pandas table with a row for every number of every data set (`dataset`, `parameter`): `mean`,
        `sd`, the interval, `ess_bulk` and `r_hat`, these of latents."""
        rows: dict[str, list[Any]] = {}
        for name, one in self._fits.items():
            measured = {s.label: s for s in (one.scalars if isinstance(one, Fit) else one.diagnostics())}
            for site, v in one.draws.items():
                columns = columns_of(np.asarray(v), chosen())
                labels = [label_of(site, tuple(map(int, i))) for i in np.ndindex(v.shape[2:])]
                columns["ess_bulk"] = np.array([getattr(measured.get(t), "ess_bulk", np.nan) for t in labels])
                columns["r_hat"] = np.array([getattr(measured.get(t), "rhat", np.nan) for t in labels])
                rows.setdefault("dataset", []).extend([name] * len(labels))
                rows.setdefault("parameter", []).extend(labels)
                for column, found in columns.items():
                    rows.setdefault(column, []).extend(np.asarray(found).tolist())
        return pd.DataFrame(rows).set_index(["dataset", "parameter"]) if rows else pd.DataFrame()

    def to_datatree(self) -> Any:
        """The groups of ArviZ's schema with a dimension `dataset` in front; NaN where a data set has fewer
        elements than others. Labels of elements are there where all data sets have the same. Raises
        `ModelError` where every one failed."""
        draws, names = self.draws, list(self._fits)
        shape = self.runs[names[0]].to_datatree()
        observed = [
            one.observed if isinstance(one, Fit) else one.model.observed for one in self._fits.values()
        ]
        data = {n: _stacked([np.asarray(o[n]) for o in observed]) for n in observed[0]}
        tree = xr.DataTree()
        told = [
            one.stats if isinstance(one, Fit) else named_stats(one.plan, one.kept.sampled_stats.read())
            for one in self._fits.values()
        ]
        stats = {n: _stacked([s[n] for s in told]) for n in told[0] if all(n in s for s in told)}
        for group, found in (("posterior", draws), ("sample_stats", stats), ("observed_data", data)):
            if group not in shape.children:
                continue
            like, own = shape[group].to_dataset(), {}
            for n, v in found.items():
                dims = like[variable_name(n)].dims
                own[variable_name(n)] = (("dataset", *dims), v)
            sizes = {d: k for ds, v in own.values() for d, k in zip(ds, v.shape, strict=True)}
            labels = {d: self._labels.get(d, ()) for d in sizes if d not in ("dataset", "chain", "draw")}
            coords = {d: list(t) if len(t) == sizes[d] else np.arange(sizes[d]) for d, t in labels.items()}
            coords |= {d: like[d].values for d in ("chain", "draw") if d in like.dims}
            tree[group] = xr.DataTree(xr.Dataset(own, {"dataset": names, **coords}))
        tree.attrs["model"] = self.model_name
        return tree

    def __len__(self) -> int:
        return len(self._fits) + len(self.failures)

    def __getitem__(self, name: Any) -> Any:
        """The run of one data set. Raises what made it fail, and `UnknownNameError`."""
        if name in self.failures:
            raise self.failures[name]
        if name not in self._fits:
            raise UnknownNameError("data set", name, map(str, [*self._fits, *self.failures]))
        return self.runs[name]

    def __repr__(self) -> str:
        doubtful = {n: v for n, v in self.verdicts.items() if not v.ok}
        lines = [f"<{len(self)} data sets of {self.model_name}: {len(self._fits) - len(doubtful)} converged>"]
        lines += [f"  {n}: {v}" for n, v in list(doubtful.items())[:10]]
        lines += [f"  {n} failed: {e}" for n, e in list(self.failures.items())[:10]]
        return "\n".join(lines)


def _stacked(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Arrays of equal rank as one, as long as the longest along every axis."""
    shape = tuple(max(a.shape[i] for a in arrays) for i in range(arrays[0].ndim))
    if all(a.shape == shape for a in arrays):
        return np.stack(arrays)
    out = np.full((len(arrays), *shape), np.nan)
    for row, a in zip(out, arrays, strict=True):
        row[tuple(slice(n) for n in a.shape)] = a
    return out


def many(origin: Any, datasets: Any, by: str | None, made: Made, options: Mapping[str, Any]) -> Many:
    """See `Model.many`; `made` is the model with other arguments."""
    if origin.analysis.missing:
        raise ModelError(
            f"{origin.name!r} has dealt with the gaps in its own data, and other data have others; make a "
            f"model of complete data, and give it data sets without gaps"
        )
    known_options({n: v for n, v in options.items() if n not in ("schedule", "on_start")})
    if options.get("on") is not None:
        checked(options["on"])
    sets, failures = [], {}
    for name, table, arguments in _named(datasets, by):
        try:
            # what cannot be asked of it is known at once; what its data cannot be, when they are looked at
            sets.append(set_of(origin, name, asked_of(origin, table, arguments).values, made))
        except GibbsiteError as error:
            failures[name] = error
    order = [s.name for s in sets]
    fits, failed, note = fit(origin, sets, made, options)
    failures |= failed
    return Many(origin, {n: fits[n] for n in order if n in fits}, failures, note)


def fit(
    origin: Any, sets: Sequence[Set], made: Made, options: Mapping[str, Any]
) -> tuple[dict[Any, Any], dict[Any, GibbsiteError], str]:
    """A `Fit` or a `Run` for each data set by name, what stopped the others, and how they were fitted."""
    fits: dict[Any, Any] = {}
    alone = list(sets)
    failures: dict[Any, GibbsiteError] = {}
    told = []
    if set(options) <= TOGETHER and len(sets) > 1:
        alone = []
        classes, failures = classes_of(origin, sets, made)
        for some in classes:
            if len(some.sets) == 1:
                alone += some.sets
                continue
            found, again, seconds = together(some, options)
            fits |= found
            alone += again
            if not found:
                continue
            rows = ", shorter ones with rows that do not count" if some.like else ""
            told.append(f"{len(some.sets)} together in {seconds:.1f} s{rows}")
    options = dict(options)
    store = options.pop("store", None)
    telling = Telling("fits one by one", len(alone), "data sets")
    for k, one in enumerate(alone, 1):
        try:
            fits[one.name] = one.model.sample(**options, **_store_of(one.name, store))
        except GibbsiteError as error:
            failures[one.name] = error
        telling.at(k)
    if alone:
        told.append(f"{len(alone)} one by one")
    return fits, failures, "; ".join(told)


def _store_of(name: Any, folder: Any) -> dict[str, Path]:
    """Where the run of a data set is stored: by its name, in the folder that is given for all."""
    if folder is None:
        return {}
    return {"store": sensible.a_path("store", folder) / re.sub(r"[^\w.+-]", "_", str(name))}


def together(some: Class, options: Mapping[str, Any]) -> tuple[dict[Any, Fit], list[Set], float]:
    """Fits by name, which data sets want a run of their own, and the seconds that it took: those that found
    no start, whose draws are not finite, or whose chains are apart."""
    plan, asked = some.plan, dict(options)
    device, on = asked.pop("device", None), asked.pop("on", None)
    settings = settings_for(**{**asked, "keep": kept(plan, asked.get("keep"))})
    count = len(some.sets)
    planned(plan, settings.chains * count, settings.draws, 0, False, settings.thin, settings.keep)
    began = time.monotonic()
    place = choose_device(device or (None if on is None else "cpu"), plan, settings.chains * count)
    lanes = Lanes(plan, settings, place, some.differs, count, on)
    if lanes.at_once == 1 and on is None:  # one fills a processor: a run of its own has all that runs have
        return {}, some.sets, 0.0
    fits, again = {}, []
    found, telling = [], Telling("fits", count, "data sets")
    for lane in lanes.fitted(some.data):
        found.append(lane)
        telling.at(len(found))
    seconds = time.monotonic() - began
    for one, lane in zip(some.sets, found, strict=False):
        fitted = Fit(one, some, lane, settings, seconds / count)
        if lane.sound and not (settings.draws >= _ENOUGH and _apart(lane)):
            fits[one.name] = fitted
        else:
            again.append(one)
    return fits, again, seconds


def _apart(lane: Lane) -> bool:
    numbers = {n: v[None] for n, v in lane.values.items() if v.dtype.kind == "f"}
    return bool(numbers) and float(rhats(numbers)[0]) > _APART


def _named(datasets: Any, by: str | None) -> Iterator[tuple[Any, Any, dict[str, Any]]]:
    """Name, table and arguments of every data set."""
    if by is not None:
        whole = nw.from_native(datasets, eager_only=True)
        if by not in whole.columns:
            raise UnknownNameError("column", by, whole.columns)
        values = whole[by].unique(maintain_order=True).to_list()
        if gaps := sum(map(missing, whole[by].to_list())):
            raise DataError(
                f"{by!r} is missing in {gaps} of {len(whole)} rows, which belong to no data set: leave them "
                f"out, or name them, as with `table.fillna({{{by!r}: 'other'}})`"
            )
        for value in values:
            yield value, whole.filter(nw.col(by) == value).to_native(), {}
        return
    if not isinstance(datasets, Mapping | Sequence) or isinstance(datasets, str) or not len(datasets):
        raise OptionError(
            f"many takes a sequence of arguments by name, [{{'y': …}}, …], or a table and by=, not "
            f"{shown(datasets)}"
        )
    named = datasets.items() if isinstance(datasets, Mapping) else enumerate(datasets)
    for name, one in named:
        if isinstance(one, Mapping):
            yield name, None, dict(one)
        elif isinstance(one, np.ndarray | str | int | float):
            raise OptionError(f"many: each data set is a mapping of arguments or a table, not {shown(one)}")
        else:
            yield name, one, {}
