"""Draws of one site → its marginals: a density or bars for a scalar, intervals for the elements of an array,
probabilities for those of an array of categories."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gibbsite.ground.lazy_import import later
from gibbsite.sampling.derived.interval import Interval
from gibbsite.storage.draws import label_of

az = later("arviz_stats.base")

# Draws that a density is made of, evenly thinned: more would move no line by a pixel.
MOST_DRAWS = 20_000
_GRID = 240
_MOST_BARS = 60
_MOST_ROWS = 40
_LEAST_RIBBON, _MOST_POINTS = 13, 400
_MOST_CELLS = 300
_MOST_CATEGORIES = 24


@dataclass(frozen=True)
class Marginal:
    """One scalar. `y` is the density at `x` of all chains together, `chains` `[chain, x]` that of each; of a
    discrete one, the probabilities of values, or of the `wide` ranges around `x`. `prior` is that of the
    prior at `x`, where it is known; `called` are the labels of the values 0, 1, …, where they have some;
    `other` is another run's density, or probabilities, at `x`. In a share `there` of the draws it has a
    value: all else is of these."""

    label: str
    site: str
    discrete: bool
    x: np.ndarray
    y: np.ndarray
    chains: np.ndarray
    wide: float
    mean: float
    median: float
    sd: float
    low: float
    high: float
    interval: Interval
    prior: np.ndarray | None = None
    called: tuple[str, ...] = ()
    other: np.ndarray | None = None
    there: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Intervals:
    """An array's elements: `labels` name scalars, `names` are shown. `inner` is the interval of half the
    draws. Of a large array, evenly spaced elements of `total`. `other` is another run's median, low and
    high."""

    site: str
    labels: tuple[str, ...]
    names: tuple[str, ...]
    median: np.ndarray
    low: np.ndarray
    high: np.ndarray
    inner_low: np.ndarray
    inner_high: np.ndarray
    interval: Interval
    total: int
    other: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None


@dataclass(frozen=True, kw_only=True)
class Forest(Intervals):
    """An array, an element a row."""

    mean: np.ndarray


@dataclass(frozen=True)
class Strip:
    """An array of categories: `shares` `[element, category]` are probabilities, `called` their labels where
    they have some; else as `Forest`."""

    site: str
    labels: tuple[str, ...]
    names: tuple[str, ...]
    categories: np.ndarray
    shares: np.ndarray
    total: int
    called: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Ribbon(Intervals):
    """An array along an ordered axis, such as time or age: `x` are the places of its elements and `data` what
    was observed there, where that is on the same scale."""

    x: np.ndarray
    data: np.ndarray | None = None


Shown = Marginal | Forest | Strip | Ribbon


def marginal(
    label: str,
    site: str,
    values: np.ndarray,
    interval: Interval,
    called: Sequence[str] = (),
    beside: np.ndarray | None = None,
) -> Marginal:
    """Of one scalar's draws `[chain, draw]`; `called` are the labels of the values 0, 1, …, `beside` another
    run's draws of it."""
    thin = _thinned(values.astype(np.int32) if values.dtype == bool else values)
    discrete = thin.dtype.kind in "iub"
    known = np.isfinite(thin)
    pooled, there = thin[known], float(known.mean()) if known.size else 1.0
    with np.errstate(all="ignore"):
        # of all draws, as tables have it: that of some would be off by more than its Monte Carlo error
        mean = float(np.mean(values, dtype=float, where=np.isfinite(values))) if pooled.size else np.nan
        median = float(np.median(pooled)) if pooled.size else np.nan
        sd = float(np.std(pooled.astype(float), ddof=1)) if pooled.size > 1 else np.nan
    low, high = interval.of(pooled)
    second = None if beside is None else _thinned(beside).ravel().astype(pooled.dtype)
    both = pooled if second is None else np.concatenate([pooled, second])
    x, wide = _bars(both) if discrete else (_grid(both[np.isfinite(both)]), 0.0)
    of = _shares if discrete else _density
    each = [of(c[k], x, wide) for c, k in zip(thin, known, strict=True)]
    chains = np.stack(each) if each else np.zeros((0, x.size))
    return Marginal(
        label, site, discrete, x, of(pooled, x, wide), chains, wide,
        mean, median, sd, float(low), float(high), interval, called=tuple(called),
        other=None if second is None else of(second, x, wide), there=there,
    )  # fmt: skip


def with_prior(found: Marginal, draws: np.ndarray) -> Marginal:
    """The same with the prior's density, or probabilities, of prior draws `[draw]`."""
    finite = draws[np.isfinite(draws)]
    if found.x.size < 2 or finite.size < 100:
        return found
    if found.discrete:
        return replace(found, prior=_shares(finite, found.x, found.wide))
    span = found.x[-1] - found.x[0]
    near = finite[(finite > found.x[0] - 3 * span) & (finite < found.x[-1] + 3 * span)]
    if near.size < 50:  # the prior is so wide that few of its draws come here: level, at their share
        level = near.size / finite.size / (7 * span)
        return replace(found, prior=np.full(found.x.size, level))
    return replace(found, prior=_density(near, found.x, 0.0) * (near.size / finite.size))


def places(names: Sequence[str], values: np.ndarray, in_time: bool = False) -> np.ndarray | None:
    """Where the elements of a vector stand along an ordered axis; None where nothing says that they have an
    order.

    That is said by labels that are rising numbers or dates, by a site that goes through time, and, without
    labels, by neighbours of draws `[chain, draw, n]` that are alike: their means' correlation is more than
    three standard errors from that of independent numbers.
    """
    n = values.shape[2]
    if values.ndim != 3 or n < _LEAST_RIBBON or values.dtype.kind not in "f":
        return None
    for kind in (np.float64, "M8[D]"):
        try:
            found = np.array(names, dtype=kind)
        except ValueError:  # no numbers, no dates
            continue
        found = found.astype(np.float64)
        if np.isfinite(found).all() and (np.diff(found) > 0).all():
            return found
    plain = all(name.endswith("]") and "[" in name for name in (names[0], names[-1]))  # `level[3]`
    if not plain:
        return np.arange(n, dtype=float) if in_time else None
    if not in_time:
        with np.errstate(all="ignore"):
            middle = _thinned(values).mean(axis=(0, 1), dtype=float)
            alike = np.corrcoef(middle[1:], middle[:-1])[0, 1]
        if not alike > 3 / np.sqrt(n):
            return None
    return np.arange(n, dtype=float)


def explained(values: np.ndarray, data: np.ndarray) -> float:
    """How much of the variance of `data` `[n]` the means of draws `[chain, draw, n]` account for: 1 where
    they are the data, 0 or less where they are of another scale or of something else."""
    there = np.isfinite(data)
    with np.errstate(all="ignore"):
        middle = _thinned(values).mean(axis=(0, 1), dtype=float)
        return 1 - float(np.mean((data - middle)[there] ** 2) / np.var(data[there].astype(float)))


def ribbon(
    site: str,
    values: np.ndarray,
    names: Sequence[str],
    interval: Interval,
    x: np.ndarray,
    data: np.ndarray | None = None,
    beside: np.ndarray | None = None,
) -> Ribbon:
    """Of draws `[chain, draw, n]` at the places `x` `[n]`; `data` `[n]` are shown with them, `beside` is
    another run's draws."""
    n = values.shape[2]
    flat = np.unique(np.linspace(0, n - 1, min(n, _MOST_POINTS)).round().astype(int))
    return Ribbon(
        site=site, names=tuple(names[int(k)] for k in flat), total=n, x=x[flat],
        data=None if data is None else data[flat].astype(float),
        **_intervals(values, flat, site, interval, beside),
    )  # fmt: skip


def elements(
    site: str,
    values: np.ndarray,
    names: Sequence[str],
    interval: Interval,
    called: Sequence[str] = (),
    beside: np.ndarray | None = None,
) -> Forest | Strip:
    """Of an array's draws `[chain, draw, *shape]`; `names` are those of all its elements, `called` the labels
    of the values 0, 1, …, `beside` another run's draws of it, which a forest shows too."""
    shape = values.shape[2:]
    total = int(np.prod(shape, dtype=np.int64))
    categories = _categories(values, total)
    most = _MOST_ROWS if categories is None else _MOST_CELLS
    flat = np.unique(np.linspace(0, total - 1, min(total, most)).round().astype(int))
    pooled = _picked(values, flat)
    shown = tuple(names[int(k)] for k in flat)
    if categories is not None:
        shares = np.stack([(pooled == c).mean(axis=1) for c in categories], axis=1)
        return Strip(site, _labels(site, flat, shape), shown, categories, shares, total, tuple(called))
    with np.errstate(all="ignore"):
        mean = pooled.mean(axis=1, dtype=float)
    return Forest(
        site=site, names=shown, total=total, mean=mean, **_intervals(values, flat, site, interval, beside)
    )


def _intervals(
    values: np.ndarray, flat: np.ndarray, site: str, interval: Interval, beside: np.ndarray | None
) -> dict[str, Any]:
    """What a forest and a ribbon have in common, of the elements `flat` of `values`."""

    def middle_and_ends(of: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        with np.errstate(all="ignore"):
            return (np.median(of, axis=1), *interval.of(of))

    drawn = _picked(values, flat)
    median, low, high = middle_and_ends(drawn)
    inner_low, inner_high = interval.of(drawn, 0.5)
    return {
        "labels": _labels(site, flat, values.shape[2:]),
        "interval": interval, "median": median, "low": low, "high": high,
        "inner_low": inner_low, "inner_high": inner_high,
        "other": None if beside is None else middle_and_ends(_picked(beside, flat)),
    }  # fmt: skip


def _labels(site: str, flat: np.ndarray, shape: tuple[int, ...]) -> tuple[str, ...]:
    return tuple(label_of(site, tuple(int(i) for i in np.unravel_index(int(k), shape))) for k in flat)


def _thinned(values: np.ndarray) -> np.ndarray:
    chains, draws = values.shape[:2]
    return values[:, :: max(1, chains * draws // MOST_DRAWS)]


def _picked(values: np.ndarray, flat: np.ndarray) -> np.ndarray:
    """Draws of some elements of an array, all chains together: `[element, draw]`."""
    some = _thinned(values)[(slice(None), slice(None), *np.unravel_index(flat, values.shape[2:]))]
    return some.reshape(-1, flat.size).T


def _categories(values: np.ndarray, total: int) -> np.ndarray | None:
    """The values that a discrete array takes, if they are few."""
    if values.dtype.kind not in "iub" or not values.size:
        return None
    some = np.unique(np.linspace(0, total - 1, min(total, _MOST_CELLS)).round().astype(int))
    seen = _picked(values, some)
    low, high = int(seen.min()), int(seen.max())
    return np.arange(low, high + 1) if high - low < _MOST_CATEGORIES else None


def _grid(finite: np.ndarray) -> np.ndarray:
    """Where a density is evaluated: far draws of heavy tails are left out."""
    if finite.size < 2:
        return np.zeros(0)
    low, high = np.quantile(finite, (0.002, 0.998))
    pad = 0.15 * (high - low)
    low, high = max(low - pad, finite.min()), min(high + pad, finite.max())
    return np.linspace(low, high, _GRID) if high > low else np.zeros(0)


def _density(values: np.ndarray, x: np.ndarray, wide: float) -> np.ndarray:
    near = values[np.isfinite(values)]
    if x.size:
        pad = 0.05 * (x[-1] - x[0])
        near = near[(near >= x[0] - pad) & (near <= x[-1] + pad)]
    if x.size < 2 or near.size < 2 or near.min() == near.max():
        return np.zeros(x.size)
    at, density, _ = az.array_stats.kde(near.astype(float), grid_len=_GRID)
    return np.interp(x, at, density, left=0.0, right=0.0) * (near.size / values.size)


def _bars(values: np.ndarray) -> tuple[np.ndarray, float]:
    if not values.size:
        return np.zeros(0), 1.0
    low, high = int(values.min()), int(values.max())
    wide = -(-(high - low + 1) // _MOST_BARS)
    return np.arange(low, high + 1, wide) + (wide - 1) / 2, float(wide)


def _shares(values: np.ndarray, x: np.ndarray, wide: float) -> np.ndarray:
    if not x.size or not values.size:
        return np.zeros(x.size)
    edges = np.append(x - wide / 2, x[-1] + wide / 2)
    return np.histogram(values, edges)[0] / values.size
