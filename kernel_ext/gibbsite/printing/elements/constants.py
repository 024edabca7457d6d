"""Known arrays as text: a number, a short list, a sum of index letters, or the name that the user gave."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from gibbsite.density.density import Density
from gibbsite.density.intervals import of_site
from gibbsite.printing.elements.indices import Index, Span, Sym, added, bounds, moved, written
from gibbsite.printing.elements.text import ATOM, PRODUCT, SUM, Text, call
from gibbsite.printing.elements.writer import Writer
from gibbsite.programs.domains.domain import results
from gibbsite.programs.domains.interval import ANY, INTERVALS, Interval, of_array, wraps
from gibbsite.programs.jaxpr.compat import Literal
from gibbsite.programs.jaxpr.primitives import ADDS, JOINS, MULTIPLIES, NEGATES, SUBTRACTS, of_kind
from gibbsite.programs.jaxpr.values import Values as Known
from gibbsite.programs.jaxpr.walker import OnDemand
from gibbsite.programs.maps.access import affine_of

_SHORT = 44
_FEW = 16


class Constants:
    """Prints elements of constant arrays; `named` holds those that were too long to be written out."""

    def __init__(self, density: Density, writer: Writer):
        self._density, self._writer = density, writer

    @property
    def named(self) -> Mapping[str, np.ndarray]:
        """The arrays that go by a name, shared by all texts of a model."""
        return self._density.constants

    def write(self, value: np.ndarray, index: tuple[Index, ...]) -> Text:
        """The element (or part) of `value` at `index`."""
        value, index = self._fixed(value, index)
        if not value.size:
            return self._named(value, index)
        if _uniform(value):
            text = number(value.reshape(-1)[0])
            return Text(text, PRODUCT if "/" in text else ATOM if text[0] != "-" else SUM)
        if value.dtype.kind in "iuf" and (place := self.affine(value, index)) is not None:
            text = written(place, tight=False)
            simple = len(place.parts) == 1 and not place.offset and place.parts[0][1] == 1
            return Text(text, ATOM if simple else SUM, place.tags)
        free = [i for i in index if isinstance(i, Span)]
        if len(free) == len(index) == 2 and (text := self._diagonal(value)) is not None:
            return Text(text, PRODUCT if "*" in text else ATOM, tuple(i.tag for i in free))
        if value.size <= _FEW and len(text := _listed(value)) <= _SHORT:
            return self._writer.part(text, value.shape, index)
        return self._named(value, index)

    def affine(self, value: np.ndarray, index: tuple[Index, ...]) -> Sym | None:
        """The sum of the indices that the elements equal, where they are that."""
        if any(isinstance(i, Span) for i in index) or value.dtype.kind not in "iuf":
            return None
        whole = np.round(value.astype(float))
        if not np.array_equal(whole, value) or np.abs(whole).max() > 2**31:
            return None
        found = affine_of(whole.astype(np.int64))
        if found is None:
            return None
        total: Index = found.offset
        for n, i, step in zip(value.shape, index, found.coefs, strict=True):
            if not step:
                continue
            ends = bounds(i, self._writer.ranges)
            if ends is None or ends[0] < 0 or ends[1] >= n:
                return None  # an index from the end, or out of range, names no place in the sum
            if (more := added(total, moved(i, 0, step))) is None:
                return None
            total = more
        return total if isinstance(total, Sym) else None

    def _fixed(self, value: np.ndarray, index: tuple[Index, ...]) -> tuple[np.ndarray, tuple[Index, ...]]:
        """`value` cut down to the places that `index` can name, its constant axes left out."""
        kept: list[Index] = []
        for axis, i in reversed(list(enumerate(index))):
            if isinstance(i, int):
                value = np.take(value, i, axis=axis)
                continue
            if isinstance(i, Span) and (i.start, i.size, i.step) != (0, value.shape[axis], 1):
                value = np.take(value, i.start + i.step * np.arange(i.size), axis=axis)
                i = Span(i.tag, 0, i.size)
            ends = bounds(i, self._writer.ranges) if isinstance(i, Sym) else None
            if ends is not None and 0 <= ends[0] <= ends[1] < value.shape[axis]:
                value = np.take(value, np.arange(ends[0], ends[1] + 1), axis=axis)
                i = moved(i, -ends[0])
                if ends[0] == ends[1]:
                    value = np.take(value, 0, axis=axis)
                    continue
            first = np.take(value, [0], axis=axis) if value.shape[axis] else value
            if value.shape[axis] and not isinstance(i, Span) and _same(value, first):
                value = np.take(value, 0, axis=axis)
                continue
            kept.insert(0, i)
        return value, tuple(kept)

    def _diagonal(self, value: np.ndarray) -> str | None:
        n = value.shape[0]
        if value.shape != (n, n) or not np.array_equal(value, np.diag(np.diag(value))):
            return None
        diagonal = np.diag(value)
        if _uniform(diagonal):
            scale = number(diagonal[0])
            eye = call("eye", str(n))
            return eye if scale == "1" else f"{scale} * {eye}" if "/" not in scale else f"({scale}) * {eye}"
        listed = _listed(diagonal)
        return call("diag", listed) if len(listed) <= _SHORT else None

    def _named(self, value: np.ndarray, index: tuple[Index, ...]) -> Text:
        with np.errstate(invalid="ignore"):  # NaN is no whole number
            alike = [
                n
                for n, known in self.named.items()
                if known.shape == value.shape and np.array_equal(known.astype(value.dtype), value)
            ]
        if alike:
            name = alike[0]
        else:
            stem = "mask" if value.dtype == bool else "const"
            name = next(n for k in range(1, 10**6) if (n := f"{stem}{k}") not in self.named)
            self._density.constants[name] = value
        return self._writer.part(name, value.shape, index)


def _uniform(value: np.ndarray) -> bool:
    return _same(value, value.reshape(-1)[0])


def _same(value: np.ndarray, first: np.ndarray) -> bool:
    return bool(np.array_equal(value, np.broadcast_to(first, value.shape), equal_nan=value.dtype.kind == "f"))


def _listed(value: np.ndarray) -> str:
    if not value.ndim:
        return number(value)
    return "[" + ", ".join(_listed(v) for v in value) + "]"


def number(value: Any) -> str:
    """A number as a person writes it: `0.3`, `1/3`, `-2`, `1e-06`."""
    scalar = np.asarray(value).reshape(-1)[0]
    if scalar.dtype.kind != "f":
        return str(scalar)
    short = f"{float(scalar):.6g}"
    if not np.isfinite(scalar) or (type(scalar)(short) == scalar and len(short) <= 6):
        return short
    ratio = Fraction(float(scalar)).limit_denominator(99)
    if (
        ratio.numerator
        and ratio.denominator > 1
        and abs(type(scalar)(float(ratio)) - scalar) <= np.spacing(abs(scalar))
    ):
        return f"{ratio.numerator}/{ratio.denominator}"
    return short


_MOST = 100_000
Ends = tuple[int, int]


class Values:
    """What is known of a density's variables without any latent's value; results are kept."""

    def __init__(self, density: Density, producer: Any):
        self._density, self._producer = density, producer
        consts = zip(density.closed.jaxpr.constvars, density.closed.consts, strict=True)
        known = Known(producer, dict(consts), by_jax=True, most=_MOST)
        self.give, self.constant = known.give, known.value
        self._sites = {v: n for n, v in density.latent_vars.items()}
        self._data = dict(zip(density.data_vars, density.arguments.arrays, strict=True))
        self._intervals: OnDemand[Interval] = OnDemand(
            producer, self._leaf, lambda eqn, xs: results(INTERVALS, eqn, xs)
        )

    def _leaf(self, atom: Any) -> Interval | None:
        if isinstance(atom, Literal):
            return of_array(atom.val)
        if atom in self._data:
            return of_array(self._data[atom])
        if atom in self._sites:
            return self._support(self._sites[atom])
        value = self.constant(atom)
        return of_array(value) if value is not None else None if atom in self._producer else ANY

    def bounds(self, atom: Any) -> Ends | None:
        """The least and the greatest value of an integer array, where they are certain."""
        dtype = np.asarray(atom.val).dtype if isinstance(atom, Literal) else atom.aval.dtype
        if not isinstance(dtype, np.dtype) or dtype.kind not in "iub":
            return None
        found = self._intervals(atom)
        return (int(found.low), int(found.high)) if found.bounded else None

    def wraps(self, eqn: Any) -> bool:
        """Whether a sum, difference or product of integers may leave its type's range, and wrap around."""
        dtype = np.dtype(eqn.outvars[0].aval.dtype)
        if not of_kind(eqn, ADDS, SUBTRACTS, MULTIPLIES, NEGATES) or dtype.kind not in "iu":
            return False
        ends = [self._intervals(a) for a in eqn.invars]
        if not all(e.bounded for e in ends):
            return dtype.itemsize < 4 or dtype.kind == "u"
        return wraps(eqn, ends)

    def component(self, atom: Any, k: int) -> Ends | None:
        """The bounds of `atom[..., k]`, an array of index vectors."""
        eqn = None if isinstance(atom, Literal) else self._producer.get(atom)
        if of_kind(eqn, JOINS):
            last = eqn.params["dimension"] == len(atom.aval.shape) - 1  # type: ignore[union-attr]
            parts = eqn.invars  # type: ignore[union-attr]
            if last and all(a.aval.shape[-1] == 1 for a in parts):
                return self.bounds(parts[k])
        value = self.constant(atom)
        return self.bounds(atom) if value is None else (int(value[..., k].min()), int(value[..., k].max()))

    def _support(self, site: str) -> Interval:
        density = self._density
        if site in density.enumerated:
            return of_array(np.asarray(density.enumerated[site]))
        return of_site(density, site)


class Printer(Writer, ABC):
    """A writer that knows a density's arrays: `producer` tells which equation computes each, `values` what
    is known of them, `as_place` whether an index into another array is being written, and `wrapped` whether
    negative ones were found to count from the end."""

    def __init__(
        self,
        density: Density,
        ranges: dict[str, tuple[int, int]] | None = None,
        long: int = 100,
    ):
        super().__init__(ranges, long)
        self.density = density
        self.producer = dict(density.producer)
        self.values = Values(density, self.producer)
        self.constants = Constants(density, self)
        self.as_place = self.wrapped = False

    @abstractmethod
    def write(self, atom: Any, index: tuple[Index, ...]) -> Text:
        """The element of `atom` at `index`, by name, as a number, or as what it is computed from."""

    @abstractmethod
    def place(self, atom: Any, index: tuple[Index, ...]) -> Index:
        """The element of an integer array as an index into another array."""

    @abstractmethod
    def branches(self, eqn: Any) -> list[list[Any]]:
        """The outputs of a `cond`'s branches, as atoms computed from its operands."""
