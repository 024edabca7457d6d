"""Two sets of starts → which of the second lie where none of the first does."""

from collections.abc import Mapping

import numpy as np


def elsewhere(first: Mapping[str, np.ndarray], second: Mapping[str, np.ndarray]) -> np.ndarray:
    """Which chains of `second` `[chain]`, by values `[step, chain, *shape]` by site, lie apart from all
    chains of `first`: in some number, farther from all values of these than either spreads."""
    chains = next(iter(second.values())).shape[1]
    found = np.zeros(chains, bool)
    for name, values in second.items():
        if values.dtype.kind not in "fiu" or not values[0, 0].size:
            continue
        steps = len(values)
        here = first[name].reshape(-1, values[0, 0].size).astype(np.float64)
        there = values.reshape(steps, chains, -1).astype(np.float64)
        low, high = here.min(axis=0), here.max(axis=0)
        own_low, own_high = there.min(axis=0), there.max(axis=0)
        gap = np.maximum(own_low - high, low - own_high)
        spread = np.maximum(high - low, own_high - own_low)
        with np.errstate(invalid="ignore"):
            found |= ((gap > spread) & (gap > 0)).any(axis=1)
    return found


def largest_group(values: Mapping[str, np.ndarray]) -> list[int]:
    """The chains of the largest group that share their places, by values `[step, chain, *shape]`."""
    chains = next(iter(values.values())).shape[1]
    near = np.zeros((chains, chains), bool)
    for a in range(chains):
        one = {n: v[:, [a]] for n, v in values.items()}
        near[a] = ~elsewhere(one, values)
    return np.flatnonzero(near[int(near.sum(axis=1).argmax())]).tolist()
