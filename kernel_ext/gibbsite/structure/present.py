"""Which elements are there in which structure, and draws as people see them: NaN where a site is absent."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gibbsite.structure.ways import Way, named


@dataclass(frozen=True)
class Entry:
    """One structure as a run remembers it: its way, and the shapes of its sites."""

    way: Way
    shapes: Mapping[str, tuple[int, ...]]

    @property
    def name(self) -> str:
        """`K = 3`."""
        return named(self.way)

    def as_json(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {"way": [[n, v] for n, v in self.way], "shapes": {n: list(s) for n, s in self.shapes.items()}}

    @staticmethod
    def from_json(told: Mapping[str, Any]) -> "Entry":
        """What `as_json` gave."""
        way = tuple((str(n), tuple(v) if isinstance(v, list) else int(v)) for n, v in told["way"])
        return Entry(way, {str(n): tuple(map(int, s)) for n, s in told["shapes"].items()})


def seen(index: np.ndarray, raw: Mapping[str, np.ndarray], entries: Sequence[Entry]) -> dict[str, np.ndarray]:
    """Draws `[chain, draw, *shape]` by site, decisions first, from what was kept with room for all: NaN where
    an element is not there, in arrays as large as the largest structure that was visited."""
    visited = [int(i) for i in np.unique(index)]
    out: dict[str, np.ndarray] = {}
    for name in dict.fromkeys(n for i in visited for n, _ in entries[i].way):
        values = {i: dict(entries[i].way).get(name) for i in visited}
        out[name] = _decided(index, values)
    for name, array in raw.items():
        shapes = {i: entries[i].shapes.get(name) for i in visited}
        there = [s for s in shapes.values() if s is not None]
        if name in out or (index.size and not there):
            continue
        out[name] = _masked(index, array, shapes) if index.size else array
    return out


def _decided(index: np.ndarray, values: Mapping[int, Any]) -> np.ndarray:
    known = {i: np.asarray(v) for i, v in values.items() if v is not None}
    shape = next(iter(known.values())).shape
    absent = len(known) < len(values)
    table = np.full((max(values) + 1, *shape), np.nan if absent else 0, float if absent else np.int32)
    for i, v in known.items():
        table[i] = v
    return table[index]


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
