"""A model function → the arrays that it knows by name: globals, closed-over values, defaults."""

import inspect
from collections.abc import Callable, Collection, Iterator
from types import CodeType
from typing import Any

import jax
import numpy as np

from gibbsite.programs.jaxpr.compat import is_traced


def known_arrays(fn: Callable, taken: Collection[str]) -> dict[str, Any]:
    """Arrays of several numbers by the names under which `fn` uses them; names in `taken` are left out."""
    found: dict[str, Any] = {}
    for name, value in _names(fn):
        array = isinstance(value, np.ndarray | jax.Array) and not is_traced(value)
        if array and value.size > 1 and value.dtype.kind in "iufb" and name not in taken:
            found.setdefault(name, np.asarray(value))
    return found


def _names(fn: Any) -> Iterator[tuple[str, Any]]:
    fn = inspect.unwrap(fn) if callable(fn) else fn
    while not hasattr(fn, "__code__") and (inner := getattr(fn, "fn", getattr(fn, "func", None))) is not None:
        fn = inspect.unwrap(inner)
    code = getattr(fn, "__code__", None)
    if code is None:
        return
    arguments = code.co_varnames[: code.co_argcount]
    yield from zip(reversed(arguments), reversed(fn.__defaults__ or ()), strict=False)
    yield from (fn.__kwdefaults__ or {}).items()
    for name, cell in zip(code.co_freevars, fn.__closure__ or (), strict=False):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not yet assigned
            continue
    for name in sorted(_globals(code)):
        if name in fn.__globals__:
            yield name, fn.__globals__[name]


def _globals(code: CodeType) -> set[str]:
    inner = [_globals(c) for c in code.co_consts if isinstance(c, CodeType)]
    return set(code.co_names).union(*inner)
