"""What plots of one scalar need beyond its values: ranks and autocorrelation, at a bounded cost."""

import numpy as np

_RANKED = 20_000
_CORRELATED = 8_192


def rank_counts(values: np.ndarray, bins: int = 20) -> np.ndarray:
    """How each chain's draws spread over the ranks of all draws: counts `[chain, bin]`.

    Level rows mean that the chains agree (Vehtari, Gelman, Simpson, Carpenter and Bürkner, 2021,
    "Rank-normalization, folding, and localization"). Ties are broken in a fixed, random-like order, so that
    discrete sites are not shown as disagreeing. Long runs are thinned evenly: `values` is `[chain, draw]`.
    """
    chains, draws = values.shape
    step = max(1, chains * draws // _RANKED)
    thin = values[:, ::step]
    if thin.size == 0:
        return np.zeros((chains, bins), int)
    shuffle = np.random.default_rng(0).permutation(thin.size)
    order = np.lexsort((shuffle, thin.ravel()))
    ranks = np.empty(thin.size, int)
    ranks[order] = np.arange(thin.size)
    binned = (ranks * bins // thin.size).reshape(thin.shape)
    return np.stack([np.bincount(row, minlength=bins) for row in binned])


def autocorrelation(values: np.ndarray, max_lag: int = 40) -> np.ndarray:
    """Autocorrelation of each chain at lags `0 … max_lag`, `[chain, lag]`, over its newest draws.

    NaN for a chain that is constant or not finite. Fewer lags where there are few draws.
    """
    x = np.asarray(values[:, -_CORRELATED:], float)
    draws = x.shape[1]
    if draws < 2:
        return np.full((x.shape[0], 1), np.nan)
    lags = min(max_lag, draws - 1)
    good = np.asarray(np.isfinite(x).all(axis=1))
    x = np.where(good[:, None], x, 0.0)
    largest = np.max(np.abs(x), initial=0.0)
    x = x - x.mean(axis=1, keepdims=True)
    spectrum = np.fft.rfft(x, 1 << (2 * draws - 1).bit_length(), axis=1)
    covariance = np.fft.irfft(np.abs(spectrum) ** 2, axis=1)[:, : lags + 1]
    # Relative to the scale of the values, so that rounding is not taken for variation.
    variance = covariance[:, :1]
    moving = good[:, None] & (variance > 1e-12 * draws * largest**2)
    return np.where(moving, covariance / np.where(moving, variance, 1.0), np.nan)


def spaced(size: int, most: int) -> np.ndarray:
    """At most so many evenly spaced numbers below `size`, its ends among them."""
    return np.unique(np.linspace(0, max(size - 1, 0), min(size, most)).astype(int))


def evenly(found: np.ndarray, most: int = 200) -> np.ndarray:
    """At most `most` of a series, evenly spaced, its ends among them."""
    return found[spaced(found.size, most)]
