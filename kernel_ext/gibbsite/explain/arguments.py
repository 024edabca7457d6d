"""Arguments that a model's function lacks or has not, and those of its statements that are no numbers."""

import difflib
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gibbsite.errors import ArgumentError, DataError
from gibbsite.programs.jaxpr.source_line import line_at


def check_arguments(fn: Callable, name: str, args: tuple, kwargs: Mapping[str, Any]) -> None:
    """Raise `ArgumentError` where `fn(*args, **kwargs)` could not be called, with what is missing."""
    try:
        signature = inspect.signature(fn, follow_wrapped=False)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*args, **kwargs)
        return
    except TypeError as error:
        problem = error
    parameters = [p for p in signature.parameters.values() if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    names = [p.name for p in parameters]
    unknown = [n for n in kwargs if n not in names]
    if unknown and "unexpected" in str(problem):
        near = difflib.get_close_matches(unknown[0], names, n=1, cutoff=0.5)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        has = f"it has {', '.join(map(repr, names))}" if names else "it has none"
        what = f"{name} has no argument {unknown[0]!r}{hint} ({has})"
    else:
        given = {*names[: len(args)], *kwargs}
        missing = [p.name for p in parameters if p.default is p.empty and p.name not in given]
        if missing:
            call = ", ".join([name, *(f"{n}=…" for n in missing)])
            listed = ", ".join(map(repr, missing))
            what = f"{name} needs {listed}, which was not given: gibbsite.model({call})"
        else:
            what = f"{name} cannot be called so ({problem}): it is {name}{signature}"
    raise ArgumentError(what).at(None, "arguments-of-a-model") from None


def check_numbers(msg: Mapping[str, Any], line: tuple[str, int] | None) -> None:
    """Refuse texts, and other things that are no numbers, as parameters or data of a sample statement: raises
    `ArgumentError` and `DataError`."""
    fn, name = msg["fn"], msg["name"]
    for parameter in getattr(fn, "arg_constraints", None) or ():
        value = getattr(fn, "__dict__", {}).get(parameter)
        if isinstance(value, str):
            raise ArgumentError(
                f"{parameter!r} of {name!r}{_told(line)} is the text {value!r}, and {type(fn).__name__} "
                f"takes a number: the name of a site stands before the `~`, or first in `numpyro.sample`"
            ).at(line, "arguments-of-a-distribution", repr(value))
    value = msg["value"]
    if isinstance(value, str) or (isinstance(value, np.ndarray) and value.dtype.kind not in "biufc"):
        kind = "a text" if isinstance(value, str) else f"{value.dtype}"
        raise DataError(
            f"the data of {name!r}{_told(line)} hold no numbers but {kind}: convert them first; categories "
            f"and texts that are passed as arguments become codes by themselves"
        ).at(line, "no-numbers", name)
    if value is not None and not hasattr(value, "dtype") and not isinstance(value, _NUMBERS):
        kind = type(value).__name__
        numbers = "…" if kind == "tuple" else "list(…)"
        raise DataError(
            f"the data of {name!r}{_told(line)} are a {kind} and no array: write `jnp.array({numbers})`; "
            f"lists of numbers become arrays where they are arguments of the model"
        ).at(line, "no-numbers", name)


_NUMBERS = (bool, int, float, complex, list)


def _told(line: tuple[str, int] | None) -> str:
    if line is None:
        return ""
    text = line_at(*line).text
    return f" (line {line[1]}{f': `{text}`' if text else ''})"
