"""Values of Python, one by one → an array: numbers as they are, texts as codes, times as days."""

import datetime
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np

from gibbsite.errors import DataError

Labels = dict[str, tuple[str, ...]]


@dataclass
class Known:
    """What arrays do not say of themselves, by the argument's name (`county`, `df['county']`): `labels` of
    codes, and under `index of <name>` of rows; `units` of numbers that were times; how many rows there are
    that are only `numbered`."""

    labels: Labels = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)
    numbered: dict[str, int] = field(default_factory=dict)


def from_objects(values: Sequence[Any], name: str, known: Known) -> np.ndarray:
    """Numbers, texts or times, with None and the like among them, as one array; what is missing is NaN.

    Raises `DataError` for anything else, and for a mixture of kinds.
    """
    gone = [missing(v) for v in values]
    there = [v for v, g in zip(values, gone, strict=True) if not g]
    if all(isinstance(v, str) for v in there) and there:
        return codes([None if g else v for v, g in zip(values, gone, strict=True)], None, name, known)
    if is_numbers(there):
        if not any(gone) and (exact := np.asarray(there)).dtype.kind in "biuf":
            return exact
        return np.array([math.nan if g else float(v) for v, g in zip(values, gone, strict=True)])
    for kind, unit in ((datetime.date | np.datetime64, "M8[us]"), (datetime.timedelta, "m8[us]")):
        if there and all(isinstance(v, kind) for v in there):
            plain = ["NaT" if g else _naive(v) for v, g in zip(values, gone, strict=True)]
            return days(np.array(plain, unit), name, known)
    kinds = ", ".join(sorted({type(v).__name__ for v in there}))
    raise DataError(f"{name} holds {kinds or 'nothing'}, which is no number and no category").at(
        None, "no-numbers"
    )


def missing(value: Any) -> bool:
    """Whether a value says that there is none: None, NaN, and those of pandas."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating) and math.isnan(value)


def is_numbers(values: Sequence[Any]) -> bool:
    """Whether there are values, and all are numbers."""
    kinds = (bool, int, float, Decimal, np.number, np.bool_)
    return bool(values) and all(isinstance(v, kinds) for v in values)


def codes(texts: Sequence[str | None], among: list[str] | None, name: str, known: Known) -> np.ndarray:
    """Each text's place among the categories: in the order given, or else sorted; NaN for None, which makes
    them decimal numbers."""
    there = {t for t in texts if t is not None}
    order = sorted(there) if among is None else among
    places = {label: i for i, label in enumerate(order)}
    known.labels[name] = tuple(order)
    if None in texts:
        return np.array([math.nan if t is None else places[t] for t in texts])
    return np.fromiter((places[t] for t in texts if t is not None), np.int32, len(texts))


def days(times: np.ndarray, name: str, known: Known) -> np.ndarray:
    """Times as days since the first of them, durations as days; NaN where there is none."""
    if times.dtype.kind == "M":
        there = times[~np.isnat(times)]
        first = there.min() if there.size else np.datetime64("1970-01-01")
        midnight = first == first.astype("M8[D]")
        known.units[name] = f"days since {first.astype('M8[D]') if midnight else first.astype('M8[s]')}"
        times = times - first
    else:
        known.units[name] = "days"
    return times / np.timedelta64(1, "D")


def _naive(value: Any) -> Any:
    """A time with a zone, in UTC and without it."""
    zone = getattr(value, "tzinfo", None)
    return value if zone is None else value.astimezone(datetime.UTC).replace(tzinfo=None)
