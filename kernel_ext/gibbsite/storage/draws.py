"""The draws of a run, in arrays that grow; and as people meet them, a dictionary that prints shapes."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from gibbsite.density.named import Named
from gibbsite.plans.schedule.plan import Plan
from gibbsite.storage.summaries import Summaries

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Chunk:
    """What some consecutive steps produced, leading axes `[step, chain]`; `stats` by block number."""

    values: dict[str, np.ndarray]
    stats: dict[str, np.ndarray]


class Part:
    """Arrays `[chain, step, …]` that are appended to by one thread and read by any.

    What was written is never changed: a reader sees the first `steps` entries of arrays that may be replaced
    by longer copies. Room that is not used yet costs address space, not memory.
    """

    def __init__(self, room: int):
        self._room = room
        self._arrays: Arrays = {}
        self.steps = 0

    def reserve(self, room: int) -> None:
        """Make room for so many steps in all."""
        self._room = max(room, self._room)

    def append(self, arrays: Mapping[str, np.ndarray], n: int) -> None:
        """Add `n` steps of arrays `[step, chain, …]`."""
        end = self.steps + n
        if not self._arrays:
            self._arrays = {k: self._new(v.shape[1], v.shape[2:], v.dtype, end) for k, v in arrays.items()}
        if any(v.shape[1] < end for v in self._arrays.values()):
            longer = {k: self._new(v.shape[0], v.shape[2:], v.dtype, end) for k, v in self._arrays.items()}
            for k, v in longer.items():
                v[:, : self.steps] = self._arrays[k][:, : self.steps]
            self._arrays = longer
        for k, v in arrays.items():
            self._arrays[k][:, self.steps : end] = np.moveaxis(v, 0, 1)
        self.steps = end

    def cut(self) -> "Part":
        """As it is now, for a reader in another thread: it stays as it is while this one grows."""
        now = Part(0)
        now._arrays, now.steps = self._arrays, self.steps
        return now

    def _new(self, chains: int, shape: tuple[int, ...], dtype: Any, least: int) -> np.ndarray:
        try:
            return np.empty((chains, max(self._room, least), *shape), dtype)
        except (MemoryError, ValueError):  # more than there are addresses: grow as draws come
            return np.empty((chains, least + least // 2, *shape), dtype)

    def read(self, start: int = 0) -> Arrays:
        """What is complete, from step `start` on: views that must not be written to."""
        steps = self.steps
        return {k: _for_readers(v)[:, start:steps] for k, v in self._arrays.items()}


def _for_readers(array: np.ndarray) -> np.ndarray:
    """The array through a memory that nobody can write to, nor make writeable."""
    memory: Any = array
    return np.asarray(memoryview(memory).toreadonly()) if array.size else array[:]


@dataclass(frozen=True)
class Cut:
    """The parts of `Draws` at one moment."""

    sampled: Part
    sampled_stats: Part
    warm: Part
    warm_stats: Part


class Draws:
    """Completed steps of all chains: values after warm-up (and of warm-up, if kept), statistics of all.

    Of sites that are not in `keep` (None: all are), there are summaries of the draws after warm-up.
    """

    def __init__(
        self,
        plan: Plan,
        warmup: int,
        draws: int,
        keep_warmup: bool = False,
        keep: Collection[str] | None = None,
    ):
        self._plan, self.warmup, self.keep_warmup, self.keep = plan, warmup, keep_warmup, keep
        self.summaries = Summaries()
        self.sampled, self.sampled_stats = Part(draws), Part(draws)
        self.warm, self.warm_stats = Part(warmup), Part(warmup)
        self._order = [*plan.groups, *plan.sites]

    def cut(self) -> "Cut":
        """What is complete now, for the thread that writes it."""
        return Cut(self.sampled.cut(), self.sampled_stats.cut(), self.warm.cut(), self.warm_stats.cut())

    @property
    def steps(self) -> int:
        """Steps done, those of warm-up included."""
        return self.warm_stats.steps + self.sampled.steps

    def append(self, chunk: Chunk, n: int) -> tuple[Arrays, Arrays]:
        """Add a chunk of `n` steps, all in warm-up or all after it; returns it as arrays `[step, chain, …]`,
        those of `keep` alone, indexed sites stacked under their group's name."""
        stats = chunk.stats
        warming = self.warm_stats.steps < self.warmup
        values = self._grouped(chunk)
        rest = {n: v for n, v in values.items() if not wanted(n, self.keep)}
        values = {n: v for n, v in values.items() if n not in rest}
        keep = self.keep_warmup or not warming
        into, stats_into = (self.warm, self.warm_stats) if warming else (self.sampled, self.sampled_stats)
        before = stats_into.steps
        stats_into.append(stats, n)
        try:
            if values and keep:
                into.append(values, n)
        except BaseException:  # no room: a step is complete with both, or not there
            stats_into.steps = before
            raise
        if not warming:
            self.summaries.add(rest)
        return values, stats

    def _grouped(self, chunk: Chunk) -> Arrays:
        values = dict(chunk.values)
        for group, names in self._plan.groups.items():
            if all(n in values for n in names):
                values[group] = np.stack([values.pop(n) for n in names], axis=2)
        return {n: values[n] for n in self._order if n in values}

    def scalar(self, name: str, index: tuple[int, ...]) -> np.ndarray:
        """One component of a site, `[chain, draw]`: a view that must not be written to."""
        return self.sampled.read()[name][(slice(None), slice(None), *index)]

    def recent_stats(self, most: int = 200) -> Arrays:
        """Statistics `[chain, step]` of the last steps of the phase that the run is in."""
        part = self.sampled_stats if self.sampled_stats.steps else self.warm_stats
        return part.read(max(0, part.steps - most))


def wanted(name: str, keep: Collection[str] | None) -> bool:
    """Whether draws of a site are kept."""
    return keep is None or name in keep


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


def empty_like(plan: Plan, chains: int, keep: Collection[str] | None = None) -> Arrays:
    """No draws yet: arrays `[chain, 0, …]` of the recorded sites, or of those in `keep`."""
    members = {m for names in plan.groups.values() for m in names}
    out: Arrays = {}
    for group, names in plan.groups.items():
        site = plan.sites[names[0]]
        out[group] = np.zeros((chains, 0, len(names), *site.shape), site.dtype)
    for name, site in plan.sites.items():
        if name not in members:
            out[name] = np.zeros((chains, 0, *site.shape), site.dtype)
    return {n: v for n, v in out.items() if wanted(n, keep)}


_LISTED = 60


class Drawn(Named):
    """Site → array `[chain, draw, *shape]`. A `dict`, and a pytree of JAX's as a `dict` is."""

    def __init__(self, arrays: Mapping[str, Any] | Iterable[tuple[str, Any]] = ()):
        super().__init__("site with draws", arrays)

    def __reduce__(self) -> Any:
        return type(self), (dict(self),)

    def copy(self) -> "Drawn":
        """The same arrays in another dictionary."""
        return type(self)(self)

    def __repr__(self) -> str:
        if not self:
            return "<no draws: no sites>"
        leading = np.shape(next(iter(self.values())))[:2]
        head = "<draws" if len(leading) < 2 else f"<draws of {leading[0]} chains × {leading[1]}"
        width = max(len(n) for n in self)
        lines = [f"  {n.ljust(width)}  {_form(v)}" for n, v in list(self.items())[:_LISTED]]
        more = len(self) - len(lines)
        return "\n".join(
            [f"{head}, [chain, draw, …] by site>", *lines, *([f"  … {more} more"] if more else [])]
        )


def _form(array: Any) -> str:
    shape, dtype = getattr(array, "shape", None), getattr(array, "dtype", type(array).__name__)
    return str(dtype) if shape is None else f"{dtype} [{', '.join(map(str, shape))}]"


def _flat(drawn: Drawn) -> tuple[list[tuple[Any, Any]], tuple[str, ...]]:
    names = sorted(drawn)  # as JAX orders dictionaries
    return [(jax.tree_util.DictKey(n), drawn[n]) for n in names], tuple(names)


def _whole(names: tuple[str, ...], arrays: Iterable[Any]) -> Drawn:
    return Drawn(zip(names, arrays, strict=True))


jax.tree_util.register_pytree_with_keys(Drawn, _flat, _whole)
