"""What functions read beside their arguments: names of globals, closures, and functions of the user's own."""

import ast
import dis
import hashlib
import inspect
import sysconfig
import textwrap
from collections.abc import Callable, Iterator
from functools import partial
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any

import numpy as np
from numpyro.primitives import Messenger

_LIBRARIES = ("<frozen", *(sysconfig.get_paths()[n] for n in ("stdlib", "platstdlib", "purelib", "platlib")))
_OWN = ("gibbsite", "gibbsite_magics")
_CHANGING = frozenset(
    "append extend insert add update setdefault pop popitem remove discard clear sort".split()
)
_DEEPEST = 8
"""Containers within containers that are looked into: some hold themselves."""
EMPTY = object()
"""What a cell holds that has not been assigned to yet."""


def reads(fn: Callable[..., Any]) -> dict[str, Any]:
    """The globals by name that a function reads, or one of the user's own that it calls, as they are now."""
    found: dict[str, Any] = {}
    for one in functions_of(fn, set()):
        names = named(one.__code__, "LOAD_GLOBAL", "LOAD_NAME")
        found |= {n: one.__globals__[n] for n in sorted(names) if n in one.__globals__}
    return found


def held(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not yet assigned
        return EMPTY


def is_users(fn: FunctionType) -> bool:
    """Whether a function is no library's."""
    return not is_librarys(str(fn.__module__ or ""), fn.__code__.co_filename)


def is_librarys(module: str, file: str) -> bool:
    return module.partition(".")[0] in (*_OWN, "builtins") or file.startswith(_LIBRARIES)


def compiled_from(value: Any) -> FunctionType | None:
    """The user's function that `jax.jit` was given."""
    inner = getattr(value, "__wrapped__", None) if type(value).__name__ == "PjitFunction" else None
    return inner if isinstance(inner, FunctionType) and is_users(inner) else None


def codes_of(code: CodeType) -> Iterator[CodeType]:
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from codes_of(inner)


def named(code: CodeType, *operations: str) -> set[str]:
    """The names that a function's operations of some kinds are about, those of functions within it too."""
    return {i.argval for c in codes_of(code) for i in dis.get_instructions(c) if i.opname in operations}


def functions_of(value: Any, seen: set[int]) -> Iterator[FunctionType]:
    """The functions of the user's own that a function may call."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if (compiled := compiled_from(value)) is not None:
        yield from functions_of(compiled, seen)
    if isinstance(value, MethodType | partial | Messenger):
        inner = value.__func__ if isinstance(value, MethodType) else getattr(value, "func", None)
        yield from functions_of(inner or getattr(value, "fn", None), seen)
    if not isinstance(value, FunctionType):
        return
    others = [held(c) for c in value.__closure__ or ()]
    if is_users(value):
        yield value
        names = named(value.__code__, "LOAD_GLOBAL", "LOAD_NAME")
        others += [value.__globals__[n] for n in names if n in value.__globals__]
    for other in others:
        yield from functions_of(other, seen)


def program_of(fn: Callable[..., Any]) -> str:
    """A digest of the statements of a function and of those of the user's own that it calls, as they are
    without comments, and of the plain values that these read beside their arguments."""
    told = []
    for one in functions_of(fn, set()):
        names = sorted(named(one.__code__, "LOAD_GLOBAL", "LOAD_NAME"))
        values = {n: one.__globals__[n] for n in names if n in one.__globals__}
        values |= zip(one.__code__.co_freevars, map(held, one.__closure__ or ()), strict=True)
        told.append("\n".join([_statements(one), *(f"{n} = {_plain(v)}" for n, v in values.items())]))
    return hashlib.sha256("\n".join(sorted(told)).encode()).hexdigest()


def _plain(value: Any, within: int = 0) -> str:
    """Numbers and texts in words; of anything else its kind."""
    if getattr(getattr(value, "dtype", None), "kind", None) in (*"biufcU",):
        array = np.asarray(value)
        return f"{array.dtype}{array.shape}{hashlib.sha256(array.tobytes()).hexdigest()}"
    if isinstance(value, dict | list | tuple) and within < _DEEPEST:
        items = value.items() if isinstance(value, dict) else value
        return f"[{', '.join(_plain(v, within + 1) for v in items)}]"
    return repr(value) if isinstance(value, int | float | complex | str | None) else type(value).__qualname__


def _statements(fn: FunctionType) -> str:
    try:
        return ast.unparse(ast.parse(textwrap.dedent(inspect.getsource(fn))))
    except (OSError, SyntaxError):  # not to be had, or a part of a statement, as of a `lambda`
        codes = list(codes_of(fn.__code__))
        return repr([(c.co_code, c.co_names, [v for v in c.co_consts if v not in codes]) for c in codes])


def changes_containers(code: CodeType) -> bool:
    stores = ("STORE_SUBSCR", "DELETE_SUBSCR")
    return any(
        _CHANGING & set(c.co_names) or any(i.opname in stores for i in dis.get_instructions(c))
        for c in codes_of(code)
    )
