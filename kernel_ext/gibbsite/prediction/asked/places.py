"""Which elements of the run's sites the elements of a prediction are: by label, or by place where there are
none.

An element without a label is known by its place where what is given for all places is what the run has seen:
the same rows with another covariate are the same rows, rows may be appended to them, and a table of other
people is one of other people, though the first of them has the covariates of the run's first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from gibbsite.density import Density, Site
from gibbsite.density.known_elements import constant_value, sources
from gibbsite.errors import DataError
from gibbsite.ground.once import once
from gibbsite.inputs.tables import Labels, plate_labels
from gibbsite.prediction.asked.arguments import Asked, bound_arguments, leaves_of
from gibbsite.programs.jaxpr.primitives import CONVERTS, GATHERS, MOVES, moved_from, of_kind

_MOVED = MOVES, CONVERTS
_ROUNDED = 0.01  # of a column's spread: what is written with two or three figures is off by less


@dataclass(frozen=True)
class Rows:
    """Arguments that were `before` long and are `now` long: of the new rows the first `same` are the model's
    own, in their order: all that there are of either, or none, but for steps of a loop."""

    before: int
    now: int
    same: int


def rows_of(origin: Any, asked: Asked, outcomes: Mapping[str, str], read: frozenset[str]) -> list[Rows]:
    """How the rows of what is given go with the model's own. `outcomes` are the leaves that are observed
    values, by name; of the others only those in `read` are looked at."""
    before, now = leaves_of(origin, bound_arguments(origin)), leaves_of(origin, asked.values)
    found: dict[tuple[int, int], list[str]] = {}
    for name in asked.new:
        if name in before and name in now and np.ndim(before[name]) and name not in asked.absent:
            found.setdefault((len(before[name]), len(now[name])), []).append(name)
    out = []
    for (old, new), names in found.items():
        stays = not any(len(before[n]) == old for n in outcomes if n in asked.absent)
        given = [n for n in names if n in outcomes]
        whole = old == new and stays and all(_agree(before[n], now[n]) == new for n in given)
        counts = [n for n in names if n in read or n in outcomes] or names
        same = new if whole else min(_agree(before[n], now[n]) for n in counts)
        if not any(s.in_scan for s in origin.density.sites.values()):  # whose steps have no other place
            empty = all(_is_empty(now[n]) for n in counts)
            told = [n for n in given if not _is_empty(now[n])]  # fewer covariates may agree by chance
            if same < min(old, new) or (empty and old != new) or (new < old and not told):
                same = 0
        out.append(Rows(old, new, same))
    return out


def _is_empty(values: Any) -> bool:
    return np.asarray(values).dtype.kind == "f" and bool(np.isnan(values).all())


def _agree(before: Any, now: Any) -> int:
    """How many of the first rows are equal; where the new ones hold nothing (NaN) they are."""
    a, b = np.asarray(before), np.asarray(now)
    n = min(len(a), len(b))
    a, b = a[:n], b[:n]
    if a.shape != b.shape:
        return 0
    same = equals(a, b)
    if b.dtype.kind == "f":
        same = same | np.isnan(b)
    rows = same.reshape(n, -1).all(axis=1)
    return n if rows.all() else int(np.argmin(rows))


def equals(before: np.ndarray, now: np.ndarray) -> np.ndarray:
    """Which elements of arrays of one shape are the same to a model, which has them in JAX's precision."""
    if before.dtype.kind == now.dtype.kind == "f":
        own = jax.dtypes.canonicalize_dtype(np.float64)
        coarse = max(before.dtype, now.dtype, own, key=lambda d: np.finfo(d).resolution)
        with np.errstate(over="ignore"):
            before, now = before.astype(coarse), now.astype(coarse)
    return before == now


def unchanged(before: Any, now: Any) -> bool:
    """Whether two arrays are the same to a model, gaps (NaN) included."""
    a, b = np.asarray(before), np.asarray(now)
    if a.shape != b.shape:
        return False
    gaps = np.isnan(a) & np.isnan(b) if a.dtype.kind == b.dtype.kind == "f" else False
    return bool(np.all(equals(a, b) | gaps))


def nearly_own(origin: Any, asked: Asked, rows: Sequence[Rows], read: frozenset[str]) -> list[str]:
    """Sentences of more rows than the model's own, of which the first are these but for rounding."""
    before, now = leaves_of(origin, bound_arguments(origin)), leaves_of(origin, asked.values)
    found = []
    for one in (r for r in rows if r.same < r.before < r.now):
        names = [n for n in asked.new if n in read and n in before and n in now and n not in asked.absent]
        pairs = {n: (np.asarray(before[n]), np.asarray(now[n])) for n in names if np.ndim(before[n])}
        pairs = {n: p for n, p in pairs.items() if (len(p[0]), len(p[1])) == (one.before, one.now)}
        if pairs and all(_near(a, b[: one.before]) for a, b in pairs.values()):
            found.append(
                f"the first {one.before} rows of {', '.join(pairs)} are the run's own but for rounding, and "
                f"taken for new ones, so that the last is {one.now} rows after the run's own and not "
                f"{one.now - one.before}; give these as they were"
            )
    return found


def _near(a: np.ndarray, b: np.ndarray) -> bool:
    if a.dtype.kind != "f" or a.shape != b.shape:
        return bool(np.array_equal(a, b))
    there = a[np.isfinite(a)].astype(float)
    return bool(there.size and np.allclose(a, b, rtol=0, atol=_ROUNDED * there.std(), equal_nan=True))


def element_labels(origin: Any, sizes: Mapping[str, int], labels: Labels) -> Labels:
    """Labels of plates' elements under new arguments: of the model's own sets of labels, as they are now."""
    # as many categories as there happen to be rows now say nothing of these
    found = plate_labels(sizes, {n: t for n, t in labels.items() if " of " in n})
    for plate, own in own_labels(origin).items():
        grown = [t for n, t in labels.items() if origin.labels.get(n) == own and len(t) == sizes.get(plate)]
        if grown:
            found[plate] = grown[0]
    return found


def own_labels(origin: Any) -> Labels:
    """Labels of the run's plates by which its elements are found: of rows, and of categories that the model
    reads, or makes a plate over. Another column may name the rows, and is not looked up; nor is a plate of
    the rows that a column names, each once, one of its categories."""
    known, told = origin.analysis.known, dict[str, tuple[str, ...]]()
    for plate, texts in origin.plate_labels.items():
        for leaf in (n for n, t in origin.labels.items() if t == texts and not _unread(origin, n)):
            of_rows = leaf in known.naming and known.plates.get(plate) != leaf
            if not of_rows or plate in _picked_plates(origin.density).get(leaf, ()):
                told[plate] = texts
    return told


@once
def _picked_plates(density: Density) -> dict[str, set[str]]:
    """By column the plates of the latents that its codes pick from, or from what is made of these."""
    found: dict[str, set[str]] = {}
    for eqn in density.closed.jaxpr.eqns:
        if not of_kind(eqn, GATHERS):
            continue
        size = eqn.invars[0].aval.shape[:1]
        latents = [density.sites[n] for n in density.maps.latents(eqn.invars[0])]
        plates = {p for s in latents if s.shape[:1] == size for p in s.plates}
        for leaf in sources(density, [eqn.invars[1]]) & density.data_names.keys():
            found.setdefault(density.data_names[leaf], set()).update(plates)
    return found


def _unread(origin: Any, leaf: str) -> bool:
    """Whether a column is an array that the model neither computes with nor makes a plate over; others may be
    read by Python."""
    read = origin.density.read_names | {*origin.analysis.known.plates.values()}
    return leaf in origin.density.arguments.names and leaf not in read


def grown_plates(origin: Any, asked: Asked) -> dict[str, int]:
    """The plates of categories, as long as there are now categories.

    Raises `DataError` for categories that the model does not have where no plate has an element for each.
    """
    every = dict(asked.groups.values())
    sizes = {p: len(every[t]) for p, t in own_labels(origin).items() if t in every}
    for leaf, texts in asked.labels.items():
        own = origin.labels.get(leaf)
        if own is None or leaf not in asked.new or _unread(origin, leaf):
            continue
        plates = [p for p, found in own_labels(origin).items() if found == own]
        more = asked.unknown.get(leaf, ())
        if more and not plates and own not in every and leaf in origin.density.read_names:
            raise DataError(
                f"{leaf!r} holds {', '.join(map(repr, more[:5]))}{', …' * (len(more) > 5)}, which the "
                f"model's own data do not have ({', '.join(map(repr, own[:5]))}{', …' * (len(own) > 5)}), "
                "and no plate of the model has an element for each category: nothing says what a new one is "
                "drawn from"
            )
        sizes |= {p: len(texts) for p in plates}
    return sizes


class Places:
    """Per site and axis, which element of the run's draws each element is: its number there, or -1."""

    def __init__(self, origin: Any, density: Density, labels: Labels, rows: list[Rows]):
        self._origin, self._density, self._rows = origin, density, rows
        sizes = {n: p.size for n, p in density.plates.items()}
        self.labels, self._own = element_labels(origin, sizes, labels), own_labels(origin)

    def of(self, name: str) -> tuple[np.ndarray, ...] | None:
        """Of the latent site `name`; None where the run has no such site, or one of other axes."""
        now, before = self._density.sites[name], self._origin.sites.get(name)
        if before is None or len(before.shape) != len(now.shape):
            return None
        return tuple(self._axis(now, before, a) for a in range(len(now.shape)))

    def _axis(self, now: Site, before: Site, axis: int) -> np.ndarray:
        size, old = now.shape[axis], before.shape[axis]
        plate = dict(zip(now.plate_axes, now.plates, strict=True)).get(axis)
        if plate is not None and plate == dict(zip(before.plate_axes, before.plates, strict=True)).get(axis):
            mine, theirs = self.labels.get(plate), self._own.get(plate)
            if mine is not None and theirs is not None and len(theirs) == old:
                where = {t: i for i, t in enumerate(theirs)}
                return np.array([where.get(t, -1) for t in mine], np.int32)
            steps = now.in_scan and axis == 0
            return self._by_place(old, size, size >= old or steps or self._is_picked(now.name))
        if (now.in_scan and axis == 0) or size != old or axis >= now.element_rank:
            return self._by_place(old, size)
        return np.arange(size, dtype=np.int32)

    def _is_picked(self, name: str) -> bool:
        """Whether codes pick from a latent: then its elements are known by their numbers."""
        density = self._density
        for eqn in density.closed.jaxpr.eqns:
            if of_kind(eqn, GATHERS) and moved_from(density.producer, eqn.invars[0], *_MOVED) is (
                density.latent_vars.get(name)
            ):
                at = eqn.invars[1]
                known = not density.maps.latents(at)
                codes = np.ravel(constant_value(density, at)) if known else np.zeros(1)
                if not np.array_equal(codes, np.arange(codes.size)):  # and not the index of its own plate
                    return True
        return False

    def _by_place(self, old: int, size: int, untold: bool = True) -> np.ndarray:
        """`untold`: whether elements are the run's where nothing that was given tells, as of fewer that are
        asked for by their number."""
        same = [r.same for r in self._rows if (r.before, r.now) == (old, size)]
        known = min(same, default=min(old, size) if untold else 0)
        return np.where(np.arange(size) < min(known, old), np.arange(size), -1).astype(np.int32)
