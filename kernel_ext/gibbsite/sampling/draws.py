"""The draws of a run, kept as chunks and stacked when asked for."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from gibbsite.kernels.plan import Plan
from gibbsite.sampling.engine import Chunk


class Draws:
    """Completed steps of all chains. Appended to by the sampling thread, read by any.

    Chunks are never changed once appended, so a reader only needs the list as it is at one moment.
    """

    def __init__(self, plan: Plan):
        self._plan = plan
        self._members = {m: g for g, names in plan.groups.items() for m in names}
        self._chunks: list[tuple[dict[str, np.ndarray], dict[str, np.ndarray]]] = []
        self._stacked: tuple[int, dict[str, np.ndarray]] = (0, {})
        self.steps = 0

    def append(self, chunk: Chunk) -> None:
        """Add a chunk's arrays, `[step, chain, …]` on the device."""
        values = {n: np.asarray(v) for n, v in chunk.values.items()}
        stats = {n: np.asarray(v) for n, v in chunk.stats.items()}
        for group, names in self._plan.groups.items():
            if all(n in values for n in names):
                values[group] = np.stack([values.pop(n) for n in names], axis=2)
        n = next(iter(values.values())).shape[0]
        self._chunks.append((values, stats))
        self.steps += n

    def _stack(self, which: int, names: list[str] | None = None) -> dict[str, np.ndarray]:
        chunks = list(self._chunks)
        if not chunks:
            return {}
        names = names or list(chunks[0][which])
        return {n: np.moveaxis(np.concatenate([c[which][n] for c in chunks]), 0, 1) for n in names}

    def values(self, skip: int = 0) -> dict[str, np.ndarray]:
        """Draws `[chain, draw, …]` by name, without the first `skip` steps."""
        chunks = len(self._chunks)
        if self._stacked[0] != chunks:
            self._stacked = (chunks, self._stack(0))
        order = [n for n in self._plan.groups if n in self._stacked[1]]
        order += [n for n in self._plan.sites if n in self._stacked[1]]
        return {n: self._stacked[1][n][:, skip:] for n in order}

    def scalar(self, name: str, index: tuple[int, ...], skip: int = 0) -> np.ndarray:
        """One component of a site, `[chain, draw]`: what a plot asks for, without stacking all the rest."""
        parts = [values[name][(slice(None), slice(None), *index)] for values, _ in list(self._chunks)]
        return np.concatenate(parts).T[:, skip:]

    def stats(self, skip: int = 0) -> dict[str, np.ndarray]:
        """Statistics `[chain, draw]` by `"<block>.<name>"`, without the first `skip` steps."""
        return {n: v[:, skip:] for n, v in self._stack(1).items()}


def label_of(site: str, index: tuple[int, ...]) -> str:
    """How a component is called: `mu`, `mu[0]`, `mu[0, 1]`."""
    return f"{site}[{', '.join(map(str, index))}]" if index else site


def scalar_labels(values: Mapping[str, np.ndarray]) -> list[tuple[str, str, tuple[int, ...]]]:
    """`(label, site, index)` of every scalar component of draws `[chain, draw, …]`."""
    out: list[tuple[str, str, tuple[int, ...]]] = []
    for site, v in values.items():
        for index in np.ndindex(v.shape[2:]):
            out.append((label_of(site, index), site, tuple(int(i) for i in index)))
    return out


def empty_like(plan: Plan, chains: int) -> dict[str, Any]:
    """No draws yet: arrays `[chain, 0, …]` of the recorded sites."""
    members = {m for names in plan.groups.values() for m in names}
    out: dict[str, Any] = {}
    for group, names in plan.groups.items():
        site = plan.sites[names[0]]
        out[group] = np.zeros((chains, 0, len(names), *site.shape), site.dtype)
    for name, site in plan.sites.items():
        if name not in members:
            out[name] = np.zeros((chains, 0, *site.shape), site.dtype)
    return out
