"""Convergence measures of scalar draws, by ArviZ's definitions.

The formulas stand here and not in calls of ArviZ: warm-up asks for them, and importing ArviZ with what it
takes of SciPy, xarray and pandas was a tenth of what precedes the first draws of a small model.
"""

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from scipy.fft import next_fast_len

from gibbsite.diagnostics.measures.ranks import Scored
from gibbsite.diagnostics.measures.snapshot import ScalarStat
from gibbsite.storage.draws import label_of, scalar_labels

_MIN_DRAWS = 8
MOST_RHAT = 1e6
"""What R-hat is said to be where chains stand still, each at a value of its own: a quotient without bound."""


_TAIL = 0.89
"""The share of draws that tails leave between them: ArviZ's `stats.ci_prob` as it comes. What somebody sets
there does not reach warm-up, and so no draws."""


def _rhat(scored: Scored, superchains: np.ndarray | None = None) -> float:
    """The larger R-hat of the ranks and of the folded ranks, nested where chains are of `superchains`; NaN
    for a single chain."""
    if len(scored.split) < 4:
        return np.nan
    both = None if superchains is None else np.tile(superchains, 2)  # halves
    with np.errstate(all="ignore"):  # odd chains: the answer is NaN or infinite, which says it
        return min(max(_quotient(z, both) for z in (scored.scores, scored.folded())), MOST_RHAT)


def _quotient(x: np.ndarray, superchains: np.ndarray | None) -> float:
    """R-hat of `[chain, draw]` as it is (Gelman and others 2013, 11.4), or nested (Margossian and others
    2024, equations 4 to 8)."""
    draws, means, within = x.shape[1], x.mean(axis=1), x.var(axis=1, ddof=1)
    if superchains is None:
        return float(np.sqrt((draws * means.var(ddof=1) / within.mean() + draws - 1) / draws))
    groups = [superchains == k for k in np.unique(superchains)]
    inside = [within[g].mean() + (means[g].var(ddof=1) if g.sum() > 1 else 0.0) for g in groups]
    return float(np.sqrt(1 + np.var([means[g].mean() for g in groups], ddof=1) / np.mean(inside)))


def _ess(scored: Scored) -> tuple[float, float]:
    """In the bulk, and the lesser one of both tails."""
    bulk, *tails = (_ess_of(z) for z in (scored.scores, *scored.below([1 - _TAIL, _TAIL])))
    return bulk, min(tails)


def _ess_of(x: np.ndarray) -> float:
    """Effective draws of `[chain, draw]` as they are, for their mean: autocovariances of all chains, cut and
    smoothed by Geyer's initial monotone sequence (Vehtari and others 2021, equations 10 to 14)."""
    if np.ptp(x) < np.finfo(float).resolution:
        return float(x.size)
    chains, draws = x.shape
    around = x - x.mean(axis=1, keepdims=True)
    waves = np.fft.rfft(around, n=next_fast_len(2 * draws), axis=1)
    covariances = np.fft.irfft(waves * waves.conj(), n=next_fast_len(2 * draws), axis=1)[:, :draws] / draws
    at_lag = covariances.mean(axis=0)
    within = at_lag[0] * draws / (draws - 1)
    whole = at_lag[0] + (x.mean(axis=1).var(ddof=1) if chains > 1 else 0.0)
    with np.errstate(all="ignore"):
        correlations = 1 - (within - at_lag) / whole
    correlations[0] = 1.0
    last = (draws - 3) // 2
    pairs = correlations[: 2 * last + 2].reshape(-1, 2).sum(axis=1)
    if not np.isfinite(pairs).all():
        return np.nan
    last = min([last, *np.flatnonzero(pairs <= 0)])  # the first pair that is not positive ends the sequence
    alone = correlations[2 * last] if pairs[last] >= 0 else max(correlations[2 * last], 0.0)
    times = 2 * np.minimum.accumulate(pairs[:last]).sum() + alone - 1
    return x.size / max(times, 1 / np.log10(x.size))


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
    label: str, site: str, index: tuple[int, ...], x: np.ndarray, superchains: np.ndarray | None = None
) -> ScalarStat:
    """All measures of one scalar's draws `[chain, draw]`.

    R-hat is rank-normalised and split, ESS bulk and tail (Vehtari and others 2021, "Rank-normalization,
    folding, and localization"). Measures are NaN for constant or non-finite draws, and for fewer than 8.
    Of many short chains, whose means differ by chance, R-hat is that of their `superchains`, by number
    `[chain]` (Margossian and others 2024, "Nested R-hat").
    """
    discrete = x.dtype.kind in "iub"
    x = x.astype(np.float64)
    finite = x.size > 0 and bool(np.isfinite(x).all())
    mean, sd = (float(x.mean()), float(x.std(ddof=1))) if finite and x.size > 1 else (np.nan, np.nan)
    if not finite or x.shape[1] < _MIN_DRAWS or np.ptp(x) == 0:
        return ScalarStat(label, site, index, mean, sd, np.nan, np.nan, np.nan, np.nan, discrete)
    scored = Scored(x)
    bulk, tail = (e if np.isfinite(e) and e > 0 else np.nan for e in _ess(scored))
    rhat = _rhat(scored, superchains)
    mcse = sd / np.sqrt(_ess_of(scored.split))
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
) -> list[ScalarStat]:
    """As `all_stats`, of the given flat indices of each site."""
    out = []
    for site, flat in elements.items():
        for k in flat:
            index = tuple(int(i) for i in np.unravel_index(int(k), values[site].shape[2:]))
            x = values[site][(..., *index)]
            out.append(scalar_stat(label_of(site, index), site, index, x, superchains))
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
