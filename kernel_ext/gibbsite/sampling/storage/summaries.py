"""Mean and spread of sites whose draws are not kept."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

PREFIX = "summary of "


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
            x = v.reshape(-1, *v.shape[2:]).astype(np.float64)
            self._chains = v.shape[1]
            with np.errstate(all="ignore"):  # of non-finite draws: the summary says so
                mean = x.mean(axis=0)
                n, m2 = len(x), ((x - mean) ** 2).sum(axis=0)
                before, old, old_m2 = self._held.get(site, (0, np.zeros_like(mean), np.zeros_like(m2)))
                delta, total = mean - old, before + n
                joined = old + delta * (n / total), old_m2 + m2 + delta**2 * (before * n / total)
            self._held[site] = (total, *joined)

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
