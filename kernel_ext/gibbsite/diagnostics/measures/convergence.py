"""Convergence measures of scalar draws, by ArviZ's definitions."""

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from scipy.special import ndtri

from gibbsite.diagnostics.measures.snapshot import ScalarStat
from gibbsite.ground.angles import around_mean
from gibbsite.ground.lazy_import import later
from gibbsite.storage.draws import label_of, scalar_labels

# What convergence measures cost is sorting and normal quantiles. ArviZ sorts anew for every measure, and
# computes the quantile of every rank.


_OFFSET = 3 / 8


class Scored:
    """Draws `[chain, draw]`, finite numbers, of which each chain is cut into halves; the middle one of an odd
    number of draws is left out of these."""

    def __init__(self, x: np.ndarray):
        self._x = x.astype(np.float64)
        half = x.shape[1] // 2
        self.split = np.concatenate([self._x[:, :half], self._x[:, x.shape[1] - half :]])

    @cached_property
    def _order(self) -> np.ndarray:
        return np.argsort(self.split, axis=None)

    @cached_property
    def scores(self) -> np.ndarray:
        """The normal scores of the ranks, shaped as `split`."""
        return _scores(self.split, self._order)

    def folded(self) -> np.ndarray:
        """The normal scores of the distances from the median."""
        flat, n = self.split.ravel(), self.split.size
        middle = flat[self._order[[(n - 1) // 2, n // 2]]].mean()
        away = np.abs(self.split - middle)
        return _scores(away, np.argsort(away, axis=None))

    def below(self, shares: Sequence[float]) -> list[np.ndarray]:
        """For each share, whether a draw is at most that quantile of all: 0 and 1, shaped as `split`."""
        return [(self.split <= q).astype(np.float64) for q in np.quantile(self._x, shares)]


def _scores(x: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Normal scores of ranks by Blom (1958); equal numbers share the mean of their ranks."""
    ascending = x.ravel()[order]
    starts = np.flatnonzero(np.concatenate([[True], ascending[1:] != ascending[:-1]]))
    ends = np.append(starts[1:], x.size)
    twice = np.repeat(starts + ends + 1, ends - starts)  # twice the mean rank of what is equal
    found = np.empty(x.size)
    found[order] = _quantiles(x.size)[twice]
    return found.reshape(x.shape)


@lru_cache(maxsize=4)
def _quantiles(n: int) -> np.ndarray:
    """The normal scores of half ranks 0, ½, 1, … n of n numbers."""
    return ndtri((np.arange(2 * n + 1) / 2 - _OFFSET) / (n - 2 * _OFFSET + 1))


arviz_base = later("arviz_base")
az = later("arviz_stats.base")

_MIN_DRAWS = 8
MOST_RHAT = 1e6
"""What R-hat is said to be where chains stand still, each at a value of its own: a quotient without bound."""


def _measure(fn: Any, x: np.ndarray, **options: Any) -> float:
    with np.errstate(all="ignore"):  # odd chains: the answer is NaN or infinite, which says it
        return float(fn(x, chain_axis=0, draw_axis=1, **options))


def _rhat(scored: Scored, superchains: np.ndarray | None = None) -> float:
    """The larger R-hat of the ranks and of the folded ranks, nested where chains are of `superchains`; NaN
    for a single chain."""
    if len(scored.split) < 4:
        return np.nan
    fn, more = az.array_stats.rhat, {}
    if superchains is not None:
        fn, more = az.array_stats.rhat_nested, {"superchain_ids": np.tile(superchains, 2)}  # of both halves
    parts = [_measure(fn, z, method="identity", **more) for z in (scored.scores, scored.folded())]
    return min(max(parts), MOST_RHAT)


def _ess(scored: Scored) -> tuple[float, float]:
    """In the bulk, and the lesser one of both tails."""
    share = arviz_base.rcParams["stats.ci_prob"]
    below = scored.below([1 - share, share])
    bulk, *tails = (_measure(az.array_stats.ess, z, method="identity") for z in (scored.scores, *below))
    return bulk, min(tails)


def rank_rhat(x: np.ndarray) -> float:
    """Rank-normalised split R-hat of draws `[chain, draw]`, at most `MOST_RHAT`; NaN where undefined."""
    if x.shape[1] < _MIN_DRAWS or not np.isfinite(x).all() or np.ptp(x) == 0:
        return float("nan")
    return _rhat(Scored(x))


def rank_rhats(x: np.ndarray) -> np.ndarray:
    """`rank_rhat` of each scalar in draws `[draw, chain, scalar]`."""
    return np.array([rank_rhat(of.T) for of in np.moveaxis(x, -1, 0)])


def least_esses(x: np.ndarray) -> np.ndarray:
    """The lesser of bulk and tail ESS of each scalar in draws `[draw, chain, scalar]`; 0 where neither is
    defined."""
    found = [min(_ess(Scored(of.T))) if np.isfinite(of).all() else 0.0 for of in np.moveaxis(x, -1, 0)]
    return np.nan_to_num(found)


def scalar_stat(
    label: str,
    site: str,
    index: tuple[int, ...],
    x: np.ndarray,
    superchains: np.ndarray | None = None,
    turn: float | None = None,
) -> ScalarStat:
    """All measures of one scalar's draws `[chain, draw]`; of an angle, of which a `turn` is given, those of
    the draws cut opposite to their mean direction.

    R-hat is rank-normalised and split, ESS bulk and tail (Vehtari and others 2021, "Rank-normalization,
    folding, and localization"). Measures are NaN for constant or non-finite draws, and for fewer than 8.
    Of many short chains, whose means differ by chance, R-hat is that of their `superchains`, by number
    `[chain]` (Margossian and others 2024, "Nested R-hat").
    """
    discrete = x.dtype.kind in "iub"
    x = x.astype(np.float64)
    finite = x.size > 0 and bool(np.isfinite(x).all())
    if turn is not None and finite:
        x = around_mean(x, turn, axis=(0, 1))
    mean, sd = (float(x.mean()), float(x.std(ddof=1))) if finite and x.size > 1 else (np.nan, np.nan)
    if not finite or x.shape[1] < _MIN_DRAWS or np.ptp(x) == 0:
        return ScalarStat(label, site, index, mean, sd, np.nan, np.nan, np.nan, np.nan, discrete)
    scored = Scored(x)
    bulk, tail = (e if np.isfinite(e) and e > 0 else np.nan for e in _ess(scored))
    rhat = _rhat(scored, superchains)
    mcse = sd / np.sqrt(_measure(az.array_stats.ess, scored.split, method="identity"))
    return ScalarStat(label, site, index, mean, sd, mcse, rhat, bulk, tail, discrete)


def fair_share(stats: Sequence[ScalarStat], limit: int, also: Collection[str] = ()) -> list[ScalarStat]:
    """At most `limit` of `stats` (worst first), every site's own worst in turn, still worst first: one large
    site does not crowd out the others. Beyond the limit, those whose labels are in `also`."""
    rank: dict[str, int] = {}
    turns = []
    for place, stat in enumerate(stats):
        turns.append((rank.setdefault(stat.site, 0), place))
        rank[stat.site] += 1
    share = {place for _, place in sorted(turns)[:limit]}
    return [stat for place, stat in enumerate(stats) if place in share or stat.label in also]


def worst_first(stats: Sequence[ScalarStat]) -> list[ScalarStat]:
    """Highest R-hat and lowest ESS first; scalars without measures last."""

    def badness(s: ScalarStat) -> tuple[float, float]:
        ratio = 1 / s.ess_bulk if np.isfinite(s.ess_bulk) else 0.0
        return (round(s.rhat, 2) if np.isfinite(s.rhat) else 0.0, ratio)

    return sorted(stats, key=badness, reverse=True)


def all_stats(values: Mapping[str, np.ndarray]) -> list[ScalarStat]:
    """The measures of every scalar in draws `[chain, draw, …]`, worst first."""
    labels = scalar_labels(values)
    return worst_first([scalar_stat(n, site, i, values[site][(..., *i)]) for n, site, i in labels])


def some_stats(
    values: Mapping[str, np.ndarray],
    elements: Mapping[str, np.ndarray],
    superchains: np.ndarray | None = None,
    turns: Mapping[str, float] | None = None,
) -> list[ScalarStat]:
    """As `all_stats`, of the given flat indices of each site; `turns` of those that are angles."""
    out, turns = [], turns or {}
    for site, flat in elements.items():
        for k in flat:
            index = tuple(int(i) for i in np.unravel_index(int(k), values[site].shape[2:]))
            x = values[site][(..., *index)]
            out.append(scalar_stat(label_of(site, index), site, index, x, superchains, turns.get(site)))
    return worst_first(out)


def bfmi(energy: np.ndarray) -> np.ndarray:
    """Estimated Bayesian fraction of missing information per chain (Betancourt 2016), of energies
    `[chain, draw]`; NaN where the energy does not vary."""
    energy = energy.astype(np.float64)
    with np.errstate(all="ignore"):
        out = (np.diff(energy, axis=1) ** 2).mean(axis=1) / energy.var(axis=1, ddof=1)
    return np.where(np.isfinite(out), out, np.nan)


def sorted_rhat(x: np.ndarray) -> float:
    """Highest R-hat of a vector's components after sorting them within each draw `[chain, draw, K]`."""
    x = np.sort(x.astype(np.float64), axis=-1)
    values = np.array([rank_rhat(x[..., k]) for k in range(x.shape[-1])])
    return float(np.nanmax(values)) if np.isfinite(values).any() else float("nan")
