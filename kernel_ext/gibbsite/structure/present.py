"""Which elements are there in which structure, and draws as people see them: NaN where a site is absent."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from gibbsite.errors import ExpressionError
from gibbsite.sampling.derived.expression import Expression
from gibbsite.structure.ways import Way, named

_SAME = 1e-5
"""Relative differences that are rounding in single precision: the mean of weights that sum to one."""


@dataclass(frozen=True)
class Entry:
    """One structure as a run remembers it: its way, the shapes of its sites, how many values its discrete
    latents have, where these are listed, and the log of its prior probability, where that is known."""

    way: Way
    shapes: Mapping[str, tuple[int, ...]]
    values: Mapping[str, int] = field(default_factory=dict)
    log_prior: float | None = None

    @property
    def name(self) -> str:
        """`K = 3`."""
        return named(self.way)

    def extent(self, name: str, array: np.ndarray) -> tuple[int, ...]:
        """How much of an array `[chain, draw, *shape]` with room for all structures is there in this one; of
        what is derived, up to the last element that any draw has."""
        if name in self.shapes:
            return tuple(self.shapes[name])
        if name in dict(self.way) or not np.isnan(array).any():
            return array.shape[2:]
        finite = np.argwhere(~np.isnan(array).all(axis=(0, 1)))
        return tuple(finite.max(axis=0) + 1) if len(finite) else array.shape[2:]

    def as_json(self) -> dict[str, Any]:
        """For a checkpoint."""
        shapes = {n: list(s) for n, s in self.shapes.items()}
        told = {"way": [[n, v] for n, v in self.way], "shapes": shapes, "values": dict(self.values)}
        return told if self.log_prior is None else {**told, "log_prior": self.log_prior}

    @staticmethod
    def from_json(told: Mapping[str, Any]) -> "Entry":
        """What `as_json` gave."""
        way = tuple((str(n), tuple(v) if isinstance(v, list) else int(v)) for n, v in told["way"])
        shapes = {str(n): tuple(map(int, s)) for n, s in told["shapes"].items()}
        values = {str(n): int(v) for n, v in told.get("values", {}).items()}
        prior = told.get("log_prior")
        return Entry(way, shapes, values, None if prior is None else float(prior))


def seen(index: np.ndarray, raw: Mapping[str, np.ndarray], entries: Sequence[Entry]) -> dict[str, np.ndarray]:
    """Draws `[chain, draw, *shape]` by site, decisions first, from what was kept with room for all: NaN where
    an element is not there, in arrays as large as the largest structure that was visited. A site that Python
    asks for in some structures, and that is drawn in others like any other, has its values of both."""
    visited = [int(i) for i in np.unique(index)]
    out: dict[str, np.ndarray] = {}
    for name in dict.fromkeys(n for i in visited for n, _ in entries[i].way):
        values = {i: dict(entries[i].way).get(name) for i in visited}
        drawn = [i for i in visited if values[i] is None and name in entries[i].shapes]
        out[name] = _decided(index, values, drawn, raw.get(name))
    for name, array in raw.items():
        shapes = {i: entries[i].shapes.get(name) for i in visited}
        there = [s for s in shapes.values() if s is not None]
        if name in out or (index.size and not there):
            continue
        out[name] = _masked(index, array, shapes) if index.size else array
    return out


def _decided(
    index: np.ndarray, values: Mapping[int, Any], drawn: Sequence[int], draws: np.ndarray | None
) -> np.ndarray:
    """What was asked for in each draw, or was drawn in the structures `drawn`."""
    known = {i: np.asarray(v) for i, v in values.items() if v is not None}
    shape = next(iter(known.values())).shape
    absent = len(known) + len(drawn) < len(values)
    table = np.full((max(values) + 1, *shape), np.nan if absent else 0, float if absent else np.int32)
    for i, v in known.items():
        table[i] = v
    out = table[index]
    if drawn and draws is not None:
        there = np.isin(index, drawn)
        out[there] = draws[there]
    return out


def _masked(index: np.ndarray, array: np.ndarray, shapes: Mapping[int, Any]) -> np.ndarray:
    there = [s for s in shapes.values() if s is not None]
    room = tuple(max(sizes) for sizes in zip(*there, strict=True))
    cut = array[(slice(None), slice(None), *map(slice, room))]
    if all(s == room for s in shapes.values()):
        return cut
    mask = np.zeros((max(shapes) + 1, *room), bool)
    for i, s in shapes.items():
        if s is not None:
            mask[(i, *map(slice, s))] = True
    dtype = np.result_type(cut.dtype, np.float32) if cut.dtype.kind == "f" else float
    return np.where(mask[index], cut, np.asarray(np.nan, dtype)).astype(dtype)


def judged_in_all(
    index: np.ndarray, raw: Mapping[str, np.ndarray], entries: Sequence[Entry]
) -> dict[str, np.ndarray]:
    """Of draws with room for all, what is there in every structure and means the same in each: sites as they
    are; of sites of which there are more in some structures, and of labels of which there are more values,
    only what does not change when these are numbered anew, as they are by moves that leave any one out (Green
    and Richardson 2001, "Modelling heterogeneity with and without the Dirichlet process")."""
    out: dict[str, np.ndarray] = {}
    symmetric: dict[str, np.ndarray] = {}
    for name, draws in seen(index, raw, entries).items():
        flat = draws.reshape(*draws.shape[:2], -1)
        there = np.isfinite(flat)
        if len({e.values[name] for e in entries if name in e.values}) > 1:
            if flat.shape[2] > 1 and there.all():
                shares = [(flat == k).mean(axis=2) for k in np.unique(flat)]
                symmetric[f"pairs alike in {name}"] = np.square(shares).sum(axis=0)
                symmetric[f"largest share in {name}"] = np.max(shares, axis=0)
        elif len({e.shapes[name] for e in entries if name in e.shapes}) > 1:
            if there.any(axis=2).all():
                symmetric[f"mean of {name}"] = np.nanmean(flat, axis=2)
                symmetric[f"spread of {name}"] = np.nanstd(flat, axis=2)
        elif there.all():
            out[name] = draws
    return out | {n: v for n, v in symmetric.items() if np.ptp(v) > _SAME * np.abs(v).max()}


_ANY = ((0.0, 0.0), (-1e30, -1e30), (1e30, 1e30), (-1e30, 1e30), (1e30, -1e30))
"""Numbers that two sites could be."""


@dataclass(frozen=True)
class InStructures:
    """An expression that is computed in every draw from the elements which its structure has: `sum(a)` is of
    those that are there. NaN in draws of structures that lack what it reads, as far as that decides. `draws`
    hold the number of each draw's structure under `index`; `entries` tells what is known."""

    whole: Expression
    index: str
    entries: Callable[[], Sequence[Entry]]
    may_be_absent: ClassVar[bool] = True

    @property
    def text(self) -> str:
        """As it was written."""
        return self.whole.text

    @property
    def sites(self) -> tuple[str, ...]:
        """What it reads: the structures' numbers, too."""
        return (*self.whole.sites, self.index)

    @property
    def shape(self) -> tuple[int, ...]:
        """That of its value in the largest structure."""
        return self.whole.shape

    def of(self, draws: Mapping[str, np.ndarray]) -> np.ndarray:
        """Its value at draws `[chain, draw, …]` by site: `[chain, draw, *shape]`."""
        index, entries = draws[self.index], self.entries()
        blank = {n: np.zeros((1, 1, *np.shape(draws[n])[2:])) for n in self.whole.sites}
        truth = self.whole.of(blank).dtype == bool
        out = np.full((*index.shape, *self.shape), np.nan)
        for i in np.unique(index):
            there, known = index == i, entries[i]
            own = {}
            for name in self.whole.sites:
                array = np.asarray(draws[name])[there][None]
                own[name] = array[(slice(None), slice(None), *map(slice, known.extent(name, array)))]
            try:
                value = self._known(own, known)
            except ExpressionError:  # shapes that go together in larger structures alone
                continue
            place = np.full((int(there.sum()), *self.shape), np.nan)
            place[(slice(None), *map(slice, value.shape[2:]))] = value[0]
            out[there] = place
        return out.astype(bool) if truth and not np.isnan(out).any() else out

    def _known(self, own: Mapping[str, np.ndarray], known: Entry) -> np.ndarray:
        """Its value; NaN where that hangs upon a site, or an element, that the structure lacks: nothing
        compares with what is not there."""
        value = self.whole.within(own)
        there = {*known.shapes, *dict(known.way)}
        absent = [n for n, v in own.items() if n not in there and v.dtype.kind == "f" and np.isnan(v).all()]
        if not absent and not self.whole.indexes:
            return value
        tries = [
            self.whole.within(
                {**own, **{n: np.full_like(own[n], v[j % 2]) for j, n in enumerate(absent)}}, beyond=v[0]
            )
            for v in _ANY
        ]
        same = np.all([t == tries[0] for t in tries], axis=0)
        return np.where(same, tries[0] if value.dtype == bool else value, np.nan)
