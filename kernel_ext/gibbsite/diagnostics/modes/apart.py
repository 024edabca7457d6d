"""Draws of several chains → the groups of chains that share a mode."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gibbsite.diagnostics.measures.snapshot import ScalarStat

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
    if len(chains) == 1:
        return f"chain {chains[0]}"
    return f"chains {', '.join(map(str, chains[:-1]))} and {chains[-1]}"


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
