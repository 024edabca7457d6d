"""Convergence measures of scalar draws, by ArviZ's definitions."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from arviz_base import rcParams
from arviz_stats.base import array_stats  # pyright: ignore

from gibbsite.sampling.draws import scalar_labels
from gibbsite.sampling.snapshot import ScalarStat

_MIN_DRAWS = 8


def _measure(fn: Any, x: np.ndarray, **options: Any) -> float:
    with np.errstate(all="ignore"):  # odd chains: the answer is NaN or infinite, which says it
        return float(fn(x, chain_axis=0, draw_axis=1, **options))


def scalar_stat(label: str, site: str, index: tuple[int, ...], x: np.ndarray) -> ScalarStat:
    """All measures of one scalar's draws `[chain, draw]`.

    R-hat is rank-normalised and split, ESS bulk and tail (Vehtari and others 2021, "Rank-normalization,
    folding, and localization"). Measures are NaN for constant or non-finite draws, and for fewer than 8.
    """
    discrete = x.dtype.kind in "iub"
    x = x.astype(np.float64)
    finite = x.size > 0 and bool(np.isfinite(x).all())
    mean, sd = (float(x.mean()), float(x.std(ddof=1))) if finite and x.size > 1 else (np.nan, np.nan)
    if not finite or x.shape[1] < _MIN_DRAWS or sd == 0:
        return ScalarStat(label, site, index, mean, sd, np.nan, np.nan, np.nan, np.nan, discrete)
    bulk = _measure(array_stats.ess, x, method="bulk")
    tail = _measure(array_stats.ess, x, method="tail", prob=rcParams["stats.ci_prob"])
    bulk, tail = (e if np.isfinite(e) and e > 0 else np.nan for e in (bulk, tail))
    rhat = _measure(array_stats.rhat, x, method="rank")
    mcse = _measure(array_stats.mcse, x, method="mean")
    return ScalarStat(label, site, index, mean, sd, mcse, rhat, bulk, tail, discrete)


def worst_first(stats: Sequence[ScalarStat]) -> list[ScalarStat]:
    """Highest R-hat and lowest ESS first; scalars without measures last."""

    def badness(s: ScalarStat) -> tuple[float, float]:
        ratio = 1 / s.ess_bulk if np.isfinite(s.ess_bulk) else 0.0
        return (round(s.rhat, 2) if np.isfinite(s.rhat) else 0.0, ratio)

    return sorted(stats, key=badness, reverse=True)


def all_stats(values: Mapping[str, np.ndarray], per_site: int | None = None) -> list[ScalarStat]:
    """The measures of every scalar in draws `[chain, draw, …]`, worst first.

    With `per_site`, at most that many evenly spaced components of each site.
    """
    out = []
    for site, v in values.items():
        labels = scalar_labels({site: v})
        if per_site is not None and len(labels) > per_site:
            labels = [labels[i] for i in np.linspace(0, len(labels) - 1, per_site).astype(int)]
        out += [scalar_stat(label, site, index, v[(..., *index)]) for label, _, index in labels]
    return worst_first(out)
