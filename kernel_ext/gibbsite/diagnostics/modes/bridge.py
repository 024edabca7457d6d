"""Draws in several modes → what each weighs, with its error: bridge sampling, mode by mode."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from gibbsite.diagnostics.modes.mass import effective, student, student_logdensity
from gibbsite.diagnostics.modes.space import Space

_MOST_DRAWS = 2000
_ROUNDS = 1000
_TOLERANCE = 1e-8
_WORST = 0.5
"""Relative error of a mass above which nothing is said of weights."""


@dataclass(frozen=True)
class Weights:
    """What modes weigh, `share` and its standard error `[mode]`, and their `log_mass` `[mode]`, each up to
    one constant."""

    share: np.ndarray
    error: np.ndarray
    log_mass: np.ndarray


def mode_weights(space: Space, modes: Sequence[Mapping[str, np.ndarray]], seed: int = 0) -> Weights | None:
    """The weights of modes, from draws `[chain, draw, *shape]` by site of the chains in each.

    The mass of each is estimated by bridge sampling (Meng and Wong 1996, with the optimal bridge) between its
    draws and a Student's t of their moments; half the draws make the t, the others the bridge. A point
    belongs to the mode whose t is the densest there, so that no mass is counted twice. Errors are those of
    Frühwirth-Schnatter (2004), with effective numbers of draws. None where they are too large to say
    anything: moments of a mode that is bent, or of many more numbers than draws.
    """
    if space.given:
        return None
    halves = [_halves(space, m) for m in modes]
    if any(len(fit) <= fit.shape[1] + 2 or not np.isfinite(fit).all() for fit, _ in halves):
        return None
    try:
        proposals = [_moments(fit) for fit, _ in halves]
    except np.linalg.LinAlgError:
        return None
    random = np.random.default_rng(seed)
    found = []
    for k, (_, rest) in enumerate(halves):
        points, _ = student(random, len(rest), *proposals[k])
        at_draws, at_points = (_ratios(space, x, k, proposals) for x in (rest, points))
        found.append(_bridge(at_draws, at_points, rest))
    log_mass, error = np.array([f[0] for f in found]), np.array([f[1] for f in found])
    if not np.isfinite(log_mass).all() or not (error < _WORST).all():
        return None
    share = np.exp(log_mass - logsumexp(log_mass))
    spread = share**2 * (error**2 * (1 - 2 * share) + np.sum(share**2 * error**2))
    return Weights(share, np.sqrt(spread), log_mass)


def _halves(space: Space, values: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates `[draw, size]` of the first and second halves of every chain, evenly spaced, chain by
    chain."""
    chains, draws = next(iter(values.values())).shape[:2]
    parts: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    for _ in range(chains):
        for half, part in zip(np.array_split(np.arange(draws), 2), parts, strict=True):
            part.append(half[:: max(1, len(half) * chains // _MOST_DRAWS)])
    out = []
    for part in parts:
        rows = {n: np.concatenate([v[c, p] for c, p in enumerate(part)]) for n, v in values.items()}
        out.append(space.free(rows))
    return out[0], out[1]


def _moments(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Location and triangular scale. Raises `LinAlgError` where the draws span no volume."""
    cov = np.atleast_2d(np.cov(x, rowvar=False))
    return x.mean(axis=0), np.linalg.cholesky(cov + 1e-10 * np.diag(np.diag(cov)))


def _ratios(
    space: Space, x: np.ndarray, k: int, proposals: Sequence[tuple[np.ndarray, np.ndarray]]
) -> np.ndarray:
    """Log of density over proposal of mode `k` at points `[point, size]`; −∞ where they belong to another."""
    q = np.stack([student_logdensity(x, *p) for p in proposals])
    level, _ = space.logdensity(x, {})
    return np.where(q.argmax(axis=0) == k, level - q[k], -np.inf)


def _bridge(at_draws: np.ndarray, at_points: np.ndarray, draws: np.ndarray) -> tuple[float, float]:
    """Log mass and its relative standard error, from log ratios at draws and at the proposal's points."""
    known = np.isfinite(at_draws)
    if not known.any() or not np.isfinite(at_points).any():
        return np.nan, np.inf
    l1, l2, n2 = at_draws[known], at_points, len(at_points)
    middle = float(np.median(l1))
    n1 = max(float(np.min(effective(np.column_stack([draws[known], l1])))), 2.0)
    s1, s2 = n1 / (n1 + n2), n2 / (n1 + n2)
    l1, l2, log_z = l1 - middle, l2 - middle, 0.0

    def bridge(ratio: np.ndarray) -> np.ndarray:
        """Minus log of s1 p/q + s2 z, the optimal bridge over p."""
        return -np.logaddexp(np.log(s1) + ratio, np.log(s2) + log_z)

    for _ in range(_ROUNDS):
        above, below = logsumexp(l2 + bridge(l2)) - np.log(n2), logsumexp(bridge(l1)) - np.log(len(l1))
        before, log_z = log_z, float(above - below)
        if abs(log_z - before) < _TOLERANCE:
            break
    f1, f2 = np.exp(l2 + bridge(l2)), np.exp(log_z + bridge(l1))
    square = f1.var() / (n2 * f1.mean() ** 2) + f2.var() / (n1 * f2.mean() ** 2)
    return log_z + middle, float(np.sqrt(square))
