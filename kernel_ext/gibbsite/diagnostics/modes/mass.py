"""Draws of a chain → bounds of the mass of the mode that it is in.

The mass of a mode is `log Z = E[logdensity] + H`, with `H` the entropy of what the chain draws from. Both
terms are needed: a narrow mode is high and may weigh nothing, a wide one is low and may weigh everything.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaln as log_gamma

from gibbsite.diagnostics.modes.space import Space

DOUBT = np.log(1000.0)
"""A mode counts as of no weight beside another where its bound from above, a thousand times over, is below
the other's bound from below."""

_POINTS = 256
_TAILS = 8.0  # degrees of freedom of what points are drawn from: lighter than no posterior's by much
_SHAPES = ((1.0, 1.0), (1.0, 0.7), (0.0, 1.0), (0.0, 0.5))  # share of correlation that is kept, and scale
_SURE, _LEAST_POINTS = 4.0, 64.0  # standard errors; effective points from which they can be relied on
_RADII = (0.1, 0.01, 0.001)  # around the last draw, where draws hardly move: in unconstrained units
_LEAST_ESS = 8.0
_ERRORS = 3.0
_SLACK = 10.0
_FASTER = 10.0  # than a chain climbs now: what kernels learn may speed it up


def climb(level: np.ndarray) -> float:
    """By how much these rise in a draw, where the second half lies above the first by more than they vary:
    the chain is on its way to somewhere. 0 where it is not."""
    first, second = np.array_split(level, 2)
    spread = np.sqrt((first.var() + second.var()) / 2)
    rise = float(second.mean() - first.mean())
    return rise / (len(level) / 2) if rise > spread + 1.0 else 0.0


@dataclass(frozen=True)
class Bounds:
    """Log masses: surely not above `upper`, and not below `lower` but once in a thousand times."""

    lower: float
    upper: float


def effective(x: np.ndarray) -> np.ndarray:
    """Effective number of draws of each column of `[draw, number]`, by the initial monotone sequence of
    autocorrelations (Geyer 1992); the number of draws at most, 1 at least."""
    n = len(x)
    x = x - x.mean(axis=0)
    size = 1 << (2 * n - 1).bit_length()
    spectrum = np.abs(np.fft.rfft(x, size, axis=0)) ** 2
    rho = np.fft.irfft(spectrum, size, axis=0)[:n]
    with np.errstate(all="ignore"):
        rho = rho / rho[0]
    pairs = rho[: n // 2 * 2].reshape(n // 2, 2, -1).sum(axis=1)
    pairs = np.minimum.accumulate(np.where(np.cumsum(pairs <= 0, axis=0) > 0, 0.0, pairs), axis=0)
    time = np.maximum(2 * pairs.sum(axis=0) - 1, 1.0)
    return np.where(np.isfinite(time), np.clip(n / time, 1.0, n), n)


def upper_bound(
    x: np.ndarray, level: np.ndarray, fit: np.ndarray, z_entropy: float, ahead: float = np.inf
) -> float:
    """The most that the mode may weigh in which the draws `[draw, size]` with logdensities `level` are.

    The smaller of two. No law of these variances has more entropy than independent normals; to that come
    three standard errors of the mean logdensity, and a variance as many times larger as draws were needed
    for an effective one. It is infinite where any number has hardly been explored. And as priors have a mass
    of 1, no region weighs more than the largest density of the data in it, which lies above those of its
    draws by about half a unit per number. Where a chain is still climbing, that holds of what it can reach
    in the `ahead` draws that it has left.
    """
    size = x.shape[1]
    by_fit = _most(fit, ahead) + 0.5 * size + _SLACK
    if not np.isfinite(level).all() or not np.isfinite(x).all() or climb(level):
        return by_fit
    ess = effective(np.column_stack([x, level]))
    moves = np.ptp(x, axis=0) > 0
    if ess.min() < _LEAST_ESS or not moves.all():
        return by_fit
    spread = x.var(axis=0, ddof=1) * len(x) / ess[:-1]
    entropy = 0.5 * np.sum(np.log(2 * np.pi * np.e * spread))
    error = _ERRORS * level.std(ddof=1) / np.sqrt(ess[-1])
    return min(by_fit, float(level.mean() + error + entropy + z_entropy))


def _most(fit: np.ndarray, ahead: float) -> float:
    """The largest density of the data that a chain with these meets, or can climb to in `ahead` draws; what
    is impossible at some of them counts for nothing."""
    seen = fit[fit > -np.inf]
    if not len(seen) or not np.isfinite(seen).all():
        return np.inf
    rate = climb(seen)
    return float(seen.max()) + (_FASTER * rate * ahead if rate else 0.0)


def lower_bound(space: Space, x: np.ndarray, z: dict[str, np.ndarray], seed: int = 0) -> float:
    """The least that the mode weighs around the draws `[draw, size]`: the mean importance weight of points
    from a Student's t of their moments, divided by a thousand for each way that was tried.

    The mean of weights is unbiased whatever the points are drawn from, so by Markov's inequality it exceeds
    the mass by a factor of a thousand once in a thousand times at most; drawn from a poor fit it is merely
    low. Where many of the points count, it lies within a few of its own standard errors, and these are taken
    off instead. Discrete sites that are not summed out stay at the values of one draw: their other values
    only add.
    """
    if not np.isfinite(x).all():
        return -np.inf
    size = x.shape[1]
    if size == 0:
        level, _ = space.logdensity(x[-1:], {k: v[-1:] for k, v in z.items()})
        return float(level[0])
    random = np.random.default_rng(seed)
    at = {k: np.repeat(v[-1:], _POINTS, axis=0) for k, v in z.items()}
    found, near = [], [-np.inf]
    for mean, factor in _proposals(x):
        drawn, log_q = student(random, _POINTS, mean, factor)
        level, _ = space.logdensity(drawn, at)
        found.append(log_mean(level - log_q))
        near.append(found[-1] + _short_by(level - log_q))
    return max(max(found) - DOUBT - np.log(len(found)), *near)


def _short_by(log_weights: np.ndarray) -> float:
    """What is taken off the logarithm of a mean of weights so that it is hardly above what it estimates; all
    of it where few of them are most of the mean (Kong 1992, by their effective number)."""
    weights = np.exp(log_weights - np.max(log_weights)) if np.isfinite(np.max(log_weights)) else np.zeros(1)
    weights = np.where(np.isfinite(weights), weights, 0.0)
    count = weights.sum() ** 2 / max(float(np.sum(weights**2)), 1e-300)
    return float(np.log1p(-_SURE / np.sqrt(count))) if count >= _LEAST_POINTS else -np.inf


def _proposals(x: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Locations and triangular scales to draw points from around draws `[draw, size]`."""
    n, size = x.shape
    mean, spread = x.mean(axis=0), x.std(axis=0, ddof=1)
    out = [(x[-1], radius * np.eye(size)) for radius in _RADII]
    if not (spread > 0).all():
        return out
    unit = (x - mean) / spread
    observed = unit.T @ unit / (n - 1)
    for kept, scale in _SHAPES:
        share = kept * n / (n + size)  # few draws of many numbers say little of their correlations
        mixed = share * observed + (1 - share) * np.diag(np.diag(observed)) + 1e-6 * np.eye(size)
        out.append((mean, scale * spread[:, None] * np.linalg.cholesky(mixed)))
    return out


def student(
    random: np.random.Generator, points: int, mean: np.ndarray, factor: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Points `[point, size]` of a Student's t around `mean` with scale `factor` (lower triangular), and their
    log densities."""
    e = random.standard_normal((points, len(mean)))
    w = random.chisquare(_TAILS, points) / _TAILS
    drawn = mean + (e / np.sqrt(w)[:, None]) @ factor.T
    return drawn, student_logdensity(drawn, mean, factor)


def student_logdensity(x: np.ndarray, mean: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """The log density of that Student's t at `[point, size]`."""
    size = len(mean)
    e = np.linalg.solve(factor, (x - mean).T)
    return (
        log_gamma((_TAILS + size) / 2)
        - log_gamma(_TAILS / 2)
        - 0.5 * size * np.log(_TAILS * np.pi)
        - np.log(np.diag(factor)).sum()
        - 0.5 * (_TAILS + size) * np.log1p((e**2).sum(axis=0) / _TAILS)
    )


def log_mean(a: np.ndarray) -> float:
    """The logarithm of the mean of exponentials; −∞ of none that is finite."""
    a = np.where(np.isnan(a), -np.inf, a)
    top = float(np.max(a, initial=-np.inf))
    return top + float(np.log(np.mean(np.exp(a - top)))) if np.isfinite(top) else -np.inf


def discrete_entropy(z: dict[str, np.ndarray]) -> float:
    """The most entropy that the values `[draw, *shape]` of discrete sites have together: that of their
    elements one by one, with the correction of Miller (1955) for few draws."""
    total = 0.0
    for v in z.values():
        flat = v.reshape(len(v), -1)
        for column in flat.T:
            _, count = np.unique(column, return_counts=True)
            p = count / len(column)
            total += float(-(p * np.log(p)).sum()) + (len(count) - 1) / (2 * len(column))
    return total


def bounds(
    space: Space, values: dict[str, Any], seed: int = 0, both: bool = True, ahead: float = np.inf
) -> Bounds:
    """Bounds of the mass of the mode that one chain's draws `[draw, *shape]` by site are in, or can climb to
    in `ahead` draws.

    Without `both` the bound from below, which takes evaluations, is left out."""
    x, z = space.free(values), space.discrete(values)
    level, fit = space.logdensity(x, z)
    if not space.proper:
        fit = np.full(len(x), np.inf)
    upper = upper_bound(x, level, fit, discrete_entropy(z), ahead)
    return Bounds(lower_bound(space, x, z, seed) if both else -np.inf, upper)
