"""Columns of categories and dates within a model, where they are arrays of numbers: how many categories there
are, and what columns are compared with, codes and days in place of texts and dates.

Of an array `df.kind == kind` with a text is a plain False, and it is no size of a plate. Which arrays are
columns of the model's arguments is known by what they are, as long as they are handed on as they came; of
others, a comparison with a text is refused.
"""

import datetime
import dis
import inspect
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from copy import copy
from functools import partial, wraps
from types import FunctionType, MethodType
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpyro.primitives import Messenger

from gibbsite.errors import DataError
from gibbsite.ground.lazy_import import later
from gibbsite.inputs.table import Table

categories = later("gibbsite.inputs.categories")  # few models ask a column for them

_DATES = (datetime.date, np.datetime64)
_SINCE = "days since "
_NUMBERS = (int, float, np.integer, np.floating)
_OTHERS = ("jax", "jaxlib", "numpy", "numpyro", "pandas")
_LIBRARIES = (*_OTHERS, "gibbsite")
_plain: "WeakKeyDictionary[Any, Any]" = WeakKeyDictionary()  # the model functions themselves
_SAID = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


class _Columns(threading.local):
    """The columns of the model that this thread runs, by what they are."""

    def __init__(self) -> None:
        self.known: dict[int, tuple[Any, str, Sequence[str], str]] = {}
        self.plates: dict[str, str] = {}


_columns = _Columns()


@contextmanager
def _known(
    arguments: Mapping[str, Any],
    labels: Mapping[str, Sequence[str]],
    units: Mapping[str, str],
    plates: dict[str, str],
) -> Any:
    before, around = _columns.known, _columns.plates
    found = (part for name, value in arguments.items() for part in _leaves(value, name))
    now = {id(v): (v, n, labels.get(n, ()), units.get(n, "")) for n, v in found if n in labels or n in units}
    _columns.known = {**now, **before}  # whoever is outermost knows the categories that there are by now
    _columns.plates = plates
    try:
        yield
    finally:
        _columns.known, _columns.plates = before, around


def _leaves(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """The arrays in an argument, called as `Known` calls them."""
    inside = value._columns if isinstance(value, Table) else value if isinstance(value, dict) else None
    if inside is None:
        yield name, value
    else:
        for key, part in inside.items():
            yield from _leaves(part, f"{name}[{key!r}]")


def with_columns(fn: Callable[..., Any], known: Any, within: AbstractContextManager) -> Callable[..., Any]:
    """The model function with the columns of categories and dates among its arguments `known` (`Known`) while
    it runs, whoever runs it, `within` what has arrays answer as columns."""
    if not (known.labels or known.units):
        return fn
    if isinstance(fn, MethodType):
        return MethodType(with_columns(fn.__func__, known, within), fn.__self__)
    if isinstance(fn, partial):
        return partial(with_columns(fn.func, known, within), *fn.args, **fn.keywords)
    if isinstance(fn, Messenger) and fn.fn is not None:
        made = copy(fn)
        made.fn = with_columns(fn.fn, known, within)
        return made
    if isinstance(fn, FunctionType):
        fn = _plain.get(fn, fn)
    signature = inspect.signature(fn)

    @wraps(fn)
    def told(*args: Any, **kwargs: Any) -> Any:
        arguments = signature.bind(*args, **kwargs).arguments
        with within, _known(arguments, known.labels, known.units, known.plates):
            return fn(*args, **kwargs)

    if isinstance(fn, FunctionType):
        _plain[told] = fn
    return told


def size_of(plate: str, size: Any) -> Any:
    """As many elements as a column has categories, where a plate is made over one; any other size as it
    is."""
    held = _held(size)
    if held is None or not held[2]:
        return size
    _columns.plates[plate] = held[1]
    return len(held[2])


def labels_within(column: Any) -> tuple[str, ...]:
    """The categories of a column that a model has been given, while it runs; none of others."""
    held = _held(column)
    return () if held is None else tuple(held[2])


def categories_within(column: Any) -> Any:
    """The `Categories` of a column that a model has been given; None of others."""
    held = _held(column)
    return categories.Categories(held[2], held[1]) if held is not None and held[2] else None


def _held(array: Any) -> tuple[Any, str, Sequence[str], str] | None:
    held = _columns.known.get(id(array)) if _columns.known else None
    return held if held is not None and held[0] is array else None


def comparable(array: Any, other: Any, how: str) -> Any:
    """What an array is compared with in place of `other`: its code, or days; else as it is. Raises
    `DataError` for texts and dates that stand for no number."""
    held = _held(array)
    if held is not None and isinstance(other, (str, *_NUMBERS, *_DATES)):
        if isinstance(other, str) and _one_of_several():
            raise DataError(
                f"{held[1]} holds many values, of which `in` asks as if they were one: compare with each, "
                f"`({held[1]} == {other!r}) | …`"
            ).at(None, "index-of-another-type")
        return other if isinstance(other, _NUMBERS) and _of_jax() else _of_column(other, how, *held[1:])
    dated = isinstance(other, _DATES)
    if not (dated or isinstance(other, str) or _texts(other)) or _of_libraries():
        return other
    what = "the date" if dated else "the text" if isinstance(other, str) else "texts"
    raise DataError(
        f"an array is compared with {what} {other!r}, which no number is: columns of categories are codes "
        "here, and dates are days. Compare the column as it came, `df.kind == kind`, with one text or date "
        "at a time; or compare codes, `levels(df.kind).index(kind)`"
    ).at(None, "index-of-another-type")


def _texts(other: Any) -> bool:
    some = isinstance(other, list | tuple | set) and bool(other) and all(isinstance(o, str) for o in other)
    return some or (isinstance(other, np.ndarray) and other.dtype.kind in "USM")


def _of_jax() -> bool:
    """Whether JAX asks by itself, as it compares indices with 0."""
    frame = sys._getframe(2)
    while frame is not None and (_root(frame) == "gibbsite" or frame.f_code.co_name == "op"):
        frame = frame.f_back  # type: ignore[assignment]
    return frame is not None and _root(frame) == "jax"


def _of_libraries() -> bool:
    """Whether a library asks, and not the model."""
    frame = sys._getframe(2)
    while frame is not None and _root(frame) in _LIBRARIES:
        if _root(frame) in _OTHERS[2:]:
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


def _one_of_several() -> bool:
    """Whether the model asks by `in`."""
    frame: Any = sys._getframe(2)
    while frame is not None and _root(frame) in _LIBRARIES:
        frame = frame.f_back
    return frame is not None and dis.opname[frame.f_code.co_code[frame.f_lasti]] == "CONTAINS_OP"


def _root(frame: Any) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _of_column(other: Any, how: str, name: str, labels: Sequence[str], unit: str) -> Any:
    """The number that a column's `other` is."""
    if unit.startswith(_SINCE):
        return _days(other, name, unit.removeprefix(_SINCE)) if isinstance(other, (str, *_DATES)) else other
    if not labels:
        return other
    text = str(other)
    if not isinstance(other, str):
        text = str(int(other)) if not isinstance(other, _DATES) and float(other).is_integer() else text
        own = isinstance(other, _DATES) or (text in labels and labels.index(text) != other)
        code = other in range(len(labels)) and (not other or how in ("eq", "ne"))
        if not own and (code or not other_numbers(labels)):
            return other  # a code
        raise DataError(
            f"{name} holds categories ({_some(labels)}), of which the model gets the codes 0, 1, …, and is "
            f"compared with {text}: {_as_text(how, text, labels)}numbers have to be numbers in the table, as "
            f"with `astype(int)`"
        ).at(None, "index-of-another-type")
    told = f"{name} holds categories, of which the model gets the codes"
    if text not in labels:
        known = ", ".join(map(repr, labels))
        raise DataError(f"{told}: none of them is {text!r}; it has {known}").at(None, "index-of-another-type")
    code = labels.index(text)
    if how not in ("eq", "ne"):
        raise DataError(f"{told}: {code} for {text!r}, so write `{_SAID[how]} {code}`").at(
            None, "index-of-another-type"
        )
    return code


def _as_text(how: str, text: str, labels: Sequence[str]) -> str:
    return f"with that category, write `{_SAID[how]} {text!r}`; " if text in labels else ""


def other_numbers(labels: Sequence[str]) -> bool:
    """Whether categories are numbers, and others than their codes."""
    try:
        return [float(t) for t in labels] != list(range(len(labels)))
    except ValueError:
        return False


def _some(labels: Sequence[str]) -> str:
    return ", ".join(labels[:3]) + (", …" if len(labels) > 3 else "")


def _days(other: Any, name: str, since: str) -> float:
    try:
        moment = np.datetime64(getattr(other, "to_datetime64", lambda: other)())
    except ValueError as problem:
        raise DataError(f"{name} holds dates, and {other!r} is none: write it as '2024-01-31'").at(
            None, "index-of-another-type"
        ) from problem
    return float((moment.astype("M8[us]") - np.datetime64(since).astype("M8[us]")) / np.timedelta64(1, "D"))
