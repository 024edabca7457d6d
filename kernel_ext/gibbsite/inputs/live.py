"""What a captured function reads that may become another all the same."""

import sys
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Mapping
from functools import partial
from types import BuiltinFunctionType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any

import jax
import numpy as np

from gibbsite.inputs.captured import CONTAINERS, MOST, Names
from gibbsite.inputs.reading import (
    EMPTY,
    changes_containers,
    compiled_from,
    functions_of,
    held,
    is_librarys,
    is_users,
    named,
)

_NO_ARGUMENTS: Mapping[str, Any] = MappingProxyType({})


def live(fn: Callable[..., Any], arguments: Mapping[str, Any] = _NO_ARGUMENTS) -> tuple[str, ...]:
    """What a captured function reads, or is given, that may become another all the same, by name: objects and
    modules of the user's own, caches, containers where some function changes any."""
    functions = list(functions_of(fn, set()))
    changes = any(changes_containers(f.__code__) for f in functions)
    found: dict[str, None] = {}
    for one in functions:
        names = named(one.__code__, "LOAD_GLOBAL", "LOAD_NAME")
        read = {n: one.__globals__[n] for n in sorted(names) if n in one.__globals__}
        read |= {n: held(c) for n, c in zip(one.__code__.co_freevars, one.__closure__ or (), strict=True)}
        if not isinstance(one.__globals__, Names) and is_users(one):
            found[one.__name__] = None
        found |= {n: None for n, v in read.items() if _may_change(v, changes)}
    found |= {n: None for n, v in arguments.items() if _may_change(v, changes)}
    owner = getattr(fn, "__self__", None)
    return (*found, *([type(owner).__name__] if owner is not None and _may_change(owner, changes) else ()))


_PLAIN = (
    *(int, float, complex, str, bytes, slice, range, type(None), type(...), np.generic, np.dtype),
    *(jax.Array, FunctionType, BuiltinFunctionType, np.ndarray, np.ufunc),
)


def _may_change(value: Any, containers: bool) -> bool:
    if isinstance(value, _PLAIN) or value is EMPTY:
        return False  # copied, captured, or what it is
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return any(_may_change(v, containers) for v in value)
    if type(value) in CONTAINERS or type(value) in (OrderedDict, defaultdict):
        inner = value.values() if isinstance(value, dict) else value
        return containers or len(value) > MOST or any(_may_change(v, containers) for v in inner)
    if isinstance(value, MethodType):
        return _may_change(value.__self__, containers)
    if isinstance(value, partial):
        return any(_may_change(v, containers) for v in (*value.args, *value.keywords.values()))
    if isinstance(value, ModuleType):
        return not is_librarys(value.__name__, getattr(value, "__file__", None) or "<frozen")
    of_type = value if isinstance(value, type) else type(value)
    if of_type.__name__ == "PjitFunction":
        return compiled_from(value) is not None
    module = sys.modules.get(of_type.__module__)
    mutable = not isinstance(value, type) and of_type.__module__ in ("types", "collections", "functools")
    holds = vars(value).values() if not isinstance(value, type) and hasattr(value, "__dict__") else ()
    wraps = any(isinstance(v, FunctionType) and is_users(v) for v in holds)  # as `np.vectorize` does
    return mutable or wraps or not is_librarys(of_type.__module__, getattr(module, "__file__", None) or "")
