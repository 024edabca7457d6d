"""A run whose chains found different modes → which they are, what each weighs, and draws in proportion."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from gibbsite.diagnostics.measures.snapshot import Notice, ScalarStat
from gibbsite.diagnostics.modes.mass import effective, student, student_logdensity
from gibbsite.diagnostics.modes.renamed import latent_draws
from gibbsite.diagnostics.modes.space import Space, space_of
from gibbsite.errors import ModelError
from gibbsite.ground.arguments import listed
from gibbsite.plans.schedule.plan import Plan

_MOST_BRIDGED = 2000
_ROUNDS = 1000
_TOLERANCE = 1e-8
_WORST = 0.5
"""Relative error of a mass above which nothing is said of weights."""


@dataclass(frozen=True)
class Weights:
    """What modes weigh, `share` and its standard error `[mode]`."""

    share: np.ndarray
    error: np.ndarray


def mode_weights(space: Space, modes: Sequence[Mapping[str, np.ndarray]], seed: int = 0) -> Weights | None:
    """The weights of modes, from draws `[chain, draw, *shape]` by site of the chains in each.

    The mass of each is estimated by bridge sampling (Meng and Wong 1996, with the optimal bridge) between its
    draws and a Student's t of their moments; half the draws make the t, the others the bridge. A point
    belongs to the mode whose t is the densest there, so that no mass is counted twice. Errors are those of
    Frühwirth-Schnatter (2004), with effective numbers of draws. None where they are too large to say
    anything: moments of a mode that is bent, or of many more numbers than draws.
    """
    if space.given or not all(modes):  # beside discrete sites there may be no coordinates at all
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
    return Weights(share, np.sqrt(spread))


def _halves(space: Space, values: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates `[draw, size]` of the first and second halves of every chain, evenly spaced, chain by
    chain."""
    chains, draws = next(iter(values.values())).shape[:2]
    parts: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    for _ in range(chains):
        for half, part in zip(np.array_split(np.arange(draws), 2), parts, strict=True):
            part.append(half[:: max(1, len(half) * chains // _MOST_BRIDGED)])
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


_SHARE = 0.99
"""Two chains are apart in a scalar where a draw of the one exceeds one of the other with this probability: in
the scalar itself, or in its distance from the middle of both."""
_SETTLED = 0.9
_MOST_DRAWS, _MOST_SCALARS = 400, 40


@dataclass(frozen=True)
class Apart:
    """Groups of chains, in the order of their first ones, and by which scalar they differ most, with its mean
    in each group."""

    groups: tuple[tuple[int, ...], ...]
    label: str
    means: tuple[float, ...]

    def __str__(self) -> str:
        each = (f"{m:.3g} in {told_chains(g)}" for g, m in zip(self.groups, self.means, strict=True))
        return f"{self.label} is about {', '.join(each)}"


def told_chains(chains: Sequence[int]) -> str:
    """`chain 2`, `chains 0 and 3`."""
    return f"chain{'s' * (len(chains) > 1)} {listed(chains)}"


def groups_of_chains(scalars: Sequence[ScalarStat], draws: Mapping[str, np.ndarray]) -> Apart | None:
    """How chains fall apart, by the scalars that disagree most; None where they do not.

    Chains that share no values of a scalar are in different groups, unless others lie between them. A chain
    that is still on its way, so that its halves share none, tells of no mode: then there is no answer.
    """
    bad = [s for s in scalars if s.rhat > 1.05][:_MOST_SCALARS]
    if not bad:
        return None
    values = [_some(draws[s.site][(..., *s.index)]) for s in bad]
    chains = values[0].shape[0]
    over = np.array([[[_overlap(v[a], v[b]) for b in range(chains)] for a in range(chains)] for v in values])
    separate = (over > _SHARE).any(axis=0)
    if not separate.any():
        return None
    number = np.arange(chains)
    for a, b in zip(*np.nonzero(~separate), strict=True):
        number = np.where(number == number[max(a, b)], number[min(a, b)], number)
    found = tuple(tuple(np.flatnonzero(number == g).tolist()) for g in dict.fromkeys(number.tolist()))
    if len(found) == 1:
        return None
    worst = int(np.argmax([_between(v, found) for v in values]))
    v = values[worst]
    if any(_overlap(*np.array_split(row, 2)) > _SETTLED for row in v):
        return None
    return Apart(found, bad[worst].called, tuple(float(v[list(g)].mean()) for g in found))


def _some(x: np.ndarray) -> np.ndarray:
    return x[:, :: max(1, x.shape[1] // _MOST_DRAWS)].astype(np.float64)


def _overlap(a: np.ndarray, b: np.ndarray) -> float:
    """How surely draws of two chains are told apart: one half where not at all, one where always."""
    found = _larger(a, b)
    middle = np.median(np.concatenate([a, b]))
    folded = _larger(np.abs(a - middle), np.abs(b - middle))
    return max(found, 1 - found, folded, 1 - folded)


def _larger(a: np.ndarray, b: np.ndarray) -> float:
    """The share of pairs in which the first is larger, ties half (Mann and Whitney 1947)."""
    b = np.sort(b)
    below = np.searchsorted(b, a, "left") + np.searchsorted(b, a, "right")
    return float(below.mean() / (2 * len(b)))


def _between(v: np.ndarray, groups: Sequence[Sequence[int]]) -> float:
    """How far groups are from each other beside how far they spread."""
    means = np.array([v[list(g)].mean() for g in groups])
    spread = np.sqrt(np.mean([v[list(g)].var() for g in groups]))
    return float(np.ptp(means) / max(spread, 1e-12 * max(1.0, float(np.abs(means).max()))))


@dataclass(frozen=True)
class Modes:
    """The modes that chains of a run are in: `groups` of chains, and `weights` of bridge sampling where these
    could be told. There may be others that no chain has found."""

    apart: Apart
    estimated: Weights | None
    draws_of: Mapping[str, np.ndarray]

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """The chains in each mode."""
        return self.apart.groups

    @property
    def weights(self) -> np.ndarray | None:
        """What each weighs `[mode]`, summing to 1; None where it cannot be told."""
        return None if self.estimated is None else self.estimated.share

    @property
    def errors(self) -> np.ndarray | None:
        """Standard errors of `weights`."""
        return None if self.estimated is None else self.estimated.error

    def draws(self, seed: int = 0) -> dict[str, np.ndarray]:
        """Draws `[draw, *shape]` by site, as many as the run has, that visit each mode in proportion to its
        weight: with replacement, at random. Raises `ModelError` where weights cannot be told."""
        if self.weights is None:
            raise ModelError("the weights of the modes could not be told; give the run a Tempered kernel")
        random = np.random.default_rng(seed)
        chains, steps = next(iter(self.draws_of.values())).shape[:2]
        share = np.zeros(chains)
        for group, weight in zip(self.groups, self.weights, strict=True):
            share[list(group)] = weight / len(group)
        chain = random.choice(chains, chains * steps, p=share / share.sum())
        step = random.integers(steps, size=chains * steps)
        return {n: v[chain, step] for n, v in self.draws_of.items()}

    def __str__(self) -> str:
        count = len(self.groups)
        text = f"chains are in {count} different modes: {self.apart}"
        if self.weights is None or self.errors is None:
            return f"{text}; what each weighs cannot be told"
        each = [f"{w:.2g} ± {e:.1g}" for w, e in zip(self.weights, self.errors, strict=True)]
        return f"{text}; they weigh {', '.join(each)}"

    def __repr__(self) -> str:
        which = "; ".join(told_chains(g) for g in self.groups)
        return f"<Modes: {which}>"


def modes_found(plan: Plan, scalars: Sequence[ScalarStat], draws: Mapping[str, np.ndarray]) -> Modes | None:
    """The modes that chains are in by their draws `[chain, draw, *shape]`; None where they are not apart."""
    apart = groups_of_chains(scalars, draws)
    if apart is None:
        return None
    return Modes(apart, _weights(plan, apart.groups, draws), draws)


def _weights(plan: Plan, groups: Sequence[Sequence[int]], draws: Mapping[str, np.ndarray]) -> Weights | None:
    density = plan.density
    if density is None:
        return None
    held = latent_draws(plan, draws)
    names = [n for n in density.latents if n not in set(plan.generated) | set(plan.hidden)]
    space = space_of(plan, names)
    if space is None or not {*space.smooth} <= set(held):
        return None
    modes = [{n: held[n][list(g)] for n in space.smooth} for g in groups]
    return mode_weights(space, modes)


def noticed_modes(found: Modes, hint: str) -> Notice:
    """The notice of a run whose chains are in different modes."""
    return Notice(str(found), hint, "modes", (found.apart.label.partition("[")[0],))
