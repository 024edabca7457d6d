"""What a posterior view shows at one moment, gathered from a run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gibbsite.diagnostics.measures.series import spaced
from gibbsite.sampling.derived.interval import Interval, chosen
from gibbsite.sampling.derived.marginals import (
    Marginal,
    Shown,
    elements,
    explained,
    marginal,
    places,
    ribbon,
    with_prior,
)
from gibbsite.sampling.run import Run
from gibbsite.storage.draws import label_of
from gibbsite.views.run.content import MAX_CHAINS

MOST_SITES = 36
_POINTS = 2000
_MARKED = 400
_WALKS = ("GaussianRandomWalk", "EulerMaruyama", "GaussianStateSpace")


@dataclass(frozen=True)
class Pair:
    """Two scalars against each other: by chain the same draws of both, `[chain, draw]`, and the draws that
    diverged, `[draw]`."""

    labels: tuple[str, str]
    x: np.ndarray
    y: np.ndarray
    diverged_x: np.ndarray
    diverged_y: np.ndarray


@dataclass(frozen=True)
class Posterior:
    """Marginals of all sites, `more` sites left out; and what is plotted large: `focus`, and `pair` if it is
    two scalars."""

    shown: tuple[Shown, ...]
    more: int
    interval: Interval
    focus: tuple[Shown, ...] = ()
    pair: Pair | None = None


def gather_posterior(
    run: Run, focus: Sequence[str] = (), *, prior: bool = False, beside: Run | None = None
) -> Posterior:
    """The posterior of `run` now.

    Args:
        run: the run.
        focus: labels of up to two scalars, or one site, to plot large.
        prior: whether to draw the prior where that is possible; the first time it is compiled.
        beside: another run, whose draws of the same sites are shown too.

    Raises:
        UnknownNameError: the run has no such scalar.
    """
    interval = chosen()
    arrays = _arrays(run)
    names = list(arrays)[:MOST_SITES]
    others = {} if beside is None else _arrays(beside)
    others = {n: v for n, v in others.items() if n in arrays and v.shape[2:] == arrays[n].shape[2:]}
    gathered = _Gathered(run, arrays, others, interval)
    shown = tuple(gathered.shown(n) for n in names)
    large = tuple(gathered.large(label) for label in focus[:2])
    scalars = [m.label for m in large if isinstance(m, Marginal)]
    pair = _pair(run, scalars[0], scalars[1]) if len(scalars) == 2 else None
    found = Posterior(shown, len(arrays) - len(names), interval, large, pair)
    return with_priors(found, run) if prior else found


def with_priors(found: Posterior, run: Run) -> Posterior:
    """The same with the prior's densities beside scalars, where that is possible; the first time it is
    compiled."""
    before, arrays = run.prior(), _arrays(run)

    def with_own(shown: Shown) -> Shown:
        known = before.get(shown.site)
        fits = known is not None and known.shape[1:] == arrays[shown.site].shape[2:]
        if known is None or not fits or not isinstance(shown, Marginal):
            return shown
        return with_prior(shown, known[(slice(None), *_index(shown.label, shown.site))])

    return replace(found, shown=tuple(map(with_own, found.shown)), focus=tuple(map(with_own, found.focus)))


def _index(label: str, site: str) -> tuple[int, ...]:
    """Which element of its site a label names: `x[0, 2]` the one at 0, 2."""
    inside = label[len(site) + 1 : -1]
    return tuple(int(i) for i in inside.split(", ")) if inside else ()


def _arrays(run: Run) -> dict[str, np.ndarray]:
    """Derived quantities first: somebody asked for them."""
    derived = {n: q.values for n, q in run.derived.items()}
    return {n: v for n, v in {**derived, **run.draws}.items() if v.shape[1] > 1 and 0 not in v.shape}


@dataclass(frozen=True)
class _Gathered:
    """A run's `arrays` by name, and the `others` of another run."""

    run: Run
    arrays: Mapping[str, np.ndarray]
    others: Mapping[str, np.ndarray]
    interval: Interval
    near: dict[int, str] = field(default_factory=dict)  # by length of data, the array that is nearest to them

    def shown(self, site: str) -> Shown:
        values, run = self.arrays[site], self.run
        if values[0, 0].size == 1:
            return self._scalar(site, (0,) * (values.ndim - 2))
        names, called = run.element_names(site), run.value_labels(site)
        plan: Any = getattr(run, "plan", None)
        own = None if plan is None else plan.sites.get(site)
        in_time = own is not None and (own.in_scan or own.fn_name in _WALKS)
        if (x := places(names, values, in_time)) is not None:
            data = None if plan is None else self._data_at(site, plan)
            return ribbon(site, values, names, self.interval, x, data, self.others.get(site))
        return elements(site, values, names, self.interval, called, self.others.get(site))

    def _data_at(self, site: str, plan: Any) -> np.ndarray | None:
        """What was observed along the site's axis, if it is this array of all that is nearest to it."""
        data = _data_along(plan, self.arrays[site].shape[2])
        if data is None:
            return None
        if len(data) not in self.near:
            like = {n: v for n, v in self.arrays.items() if v.shape[2:] == data.shape and v.dtype.kind == "f"}
            alike = {n: explained(v, data) for n, v in like.items()}
            best = max(alike, key=alike.__getitem__)
            self.near[len(data)] = best if alike[best] > 0 else ""
        return data if self.near[len(data)] == site else None

    def large(self, label: str) -> Shown:
        if label in self.arrays:
            return self.shown(label)
        self.run.values(label)  # raises for what does not exist
        site = label.rpartition("[")[0]
        return self._scalar(site, _index(label, site))

    def _scalar(self, site: str, index: tuple[int, ...]) -> Marginal:
        values, second = self.arrays[site], self.others.get(site)
        return marginal(
            label_of(site, index),
            site,
            values[(..., *index)],
            self.interval,
            self.run.value_labels(site),
            None if second is None else second[(..., *index)],
        )


def _data_along(plan: Any, length: int) -> np.ndarray | None:
    """What was observed along an axis of this length, where one site alone was."""
    found = [np.asarray(v) for v in plan.observed.values() if np.shape(v) == (length,)]
    return found[0] if len(found) == 1 and found[0].dtype.kind in "biuf" else None


def _pair(run: Run, first: str, second: str) -> Pair:
    x, y = (np.asarray(run.values(label), float)[:MAX_CHAINS] for label in (first, second))
    marked = np.asarray(run.diverging)[:MAX_CHAINS]
    at = np.argwhere(marked[:, : x.shape[1]]) if marked.size else np.zeros((0, 2), int)
    at = at[spaced(len(at), _MARKED)]
    step = max(1, x.size // _POINTS)
    spots = tuple(at.T)
    return Pair((first, second), x[:, ::step], y[:, ::step], x[spots], y[spots])
