"""Mean and spread of sites whose draws are not kept."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

PREFIX = "summary of "

BLOCK = 8192
"""Elements at a time: what is computed of them stays in the processor's cache."""


@dataclass(frozen=True)
class Summary:
    """Mean and standard deviation of every element over all draws of all chains, `[*shape]`; `draws` counts
    them per chain."""

    mean: np.ndarray
    sd: np.ndarray
    draws: int


class Summaries:
    """Running means and squared deviations by site (Chan, Golub and LeVeque 1983), in double precision."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[int, np.ndarray, np.ndarray]] = {}
        self._chains = 1

    def add(self, values: Mapping[str, np.ndarray]) -> None:
        """Take in draws, arrays `[draw, chain, …]`."""
        for site, v in values.items():
            shape, n = v.shape[2:], v.shape[0] * v.shape[1]
            self._chains = v.shape[1]
            zeros = np.zeros(shape), np.zeros(shape)
            before, old, old_m2 = self._held.get(site, (0, *zeros))
            total = before + n
            mean, m2 = _moments(v.reshape(n, -1))
            with np.errstate(all="ignore"):
                delta = mean.reshape(shape) - old
                old_m2 = old_m2 + m2.reshape(shape) + delta**2 * (before * n / total)
                self._held[site] = (total, old + delta * (n / total), old_m2)

    def read(self) -> dict[str, Summary]:
        """The summaries so far."""
        return {
            site: Summary(mean, np.sqrt(m2 / max(n - 1, 1)), n // self._chains)
            for site, (n, mean, m2) in list(self._held.items())
        }

    def pack(self) -> dict[str, np.ndarray]:
        """All of it as arrays, for a checkpoint."""
        out = {}
        for site, (n, mean, m2) in self._held.items():
            out |= {f"{PREFIX}{site}:n": np.array([n, self._chains])}
            out |= {f"{PREFIX}{site}:mean": mean, f"{PREFIX}{site}:m2": m2}
        return out

    def unpack(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take up what `pack` made."""
        for key in [k for k in arrays if k.endswith(":n")]:
            site = key.removeprefix(PREFIX).removesuffix(":n")
            n, self._chains = (int(i) for i in arrays[key])
            self._held[site] = (n, arrays[f"{PREFIX}{site}:mean"], arrays[f"{PREFIX}{site}:m2"])


def _moments(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means and summed squared deviations of columns, in double precision."""
    mean, m2 = np.empty(rows.shape[1]), np.empty(rows.shape[1])
    with np.errstate(all="ignore"):  # of non-finite draws: the summary says so
        for k in range(0, rows.shape[1], BLOCK):
            block = rows[:, k : k + BLOCK].astype(np.float64)
            mean[k : k + BLOCK] = centre = block.mean(axis=0)
            block -= centre
            m2[k : k + BLOCK] = np.einsum("ij,ij->j", block, block)
    return mean, m2
