"""A model function with what it reads beside its arguments as that is now.

The function runs again whenever something is asked of the model or of its runs. By then the notebook may have
given its names other values: draws of one program would be put into another one. Names, closures and
functions of the user's own that are called are therefore those of the time when the model was made.
"""

import dis
import sys
import sysconfig
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from functools import partial
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FunctionType,
    MappingProxyType,
    MethodType,
    ModuleType,
)
from typing import Any
from weakref import WeakValueDictionary

import jax
import numpy as np
from numpyro.primitives import Messenger

# Elements of containers that are copied; what is longer stays the user's own.
_MOST = 10_000
_CONTAINERS = (dict, list, set, tuple)
_TABLES = ("pandas", "xarray")
_NO_ARGUMENTS: Mapping[str, Any] = MappingProxyType({})
_CALLED = (FunctionType, MethodType, partial, Messenger)
# what looks names up by their text, as expressions and formulas do
_BY_TEXT = frozenset("eval exec globals query model_matrix dmatrix dmatrices design_matrices".split())
_CHANGING = frozenset(
    "append extend insert add update setdefault pop popitem remove discard clear sort".split()
)
_LIBRARIES = ("<frozen", *(sysconfig.get_paths()[n] for n in ("stdlib", "platstdlib", "purelib", "platlib")))
_OWN = ("gibbsite", "gibbsite_magics")


class _Names(dict[str, Any]):
    """Globals as they were; those that there were not, as they are when they are asked for."""

    def __init__(self, live: dict[str, Any]):
        super().__init__({n: v for n, v in live.items() if n.startswith("__")})
        self.live = live

    def __missing__(self, name: str) -> Any:
        return self.live[name]


def captured(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn` with its globals and closures as they are now, and so for what it calls of the user's own.

    Arrays and tables among them are copied, and containers, unless some function changes any. A function that
    assigns to a global, or to what it closes over, keeps that as it is. Objects of the user's classes are
    what they are.
    """
    return _Capturing(fn).of(fn)


def kept(fn: Callable[..., Any], value: Any) -> Any:
    """An argument of the captured `fn` in which no array and no function becomes another: containers are
    rebuilt around copies. Arrays and tables themselves are as they are, and copied where they are read."""
    array = isinstance(value, np.ndarray) or type(value).__module__.partition(".")[0] in _TABLES
    return value if array else _Capturing(fn).of(value)


def reads(fn: Callable[..., Any]) -> dict[str, Any]:
    """The globals by name that a function reads, or one of the user's own that it calls, as they are now."""
    found: dict[str, Any] = {}
    for one in _functions(fn, set()):
        names = _named(one.__code__, "LOAD_GLOBAL", "LOAD_NAME")
        found |= {n: one.__globals__[n] for n in sorted(names) if n in one.__globals__}
    return found


def live(fn: Callable[..., Any], arguments: Mapping[str, Any] = _NO_ARGUMENTS) -> tuple[str, ...]:
    """What a captured function reads, or is given, that may become another all the same, by name: objects and
    modules of the user's own, caches, containers where some function changes any."""
    functions = list(_functions(fn, set()))
    changes = any(_changes_containers(f.__code__) for f in functions)
    found: dict[str, None] = {}
    for one in functions:
        names = _named(one.__code__, "LOAD_GLOBAL", "LOAD_NAME")
        read = {n: one.__globals__[n] for n in sorted(names) if n in one.__globals__}
        read |= {n: _held(c) for n, c in zip(one.__code__.co_freevars, one.__closure__ or (), strict=True)}
        if not isinstance(one.__globals__, _Names) and _is_users(one):
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
    if isinstance(value, _PLAIN) or value is _EMPTY:
        return False  # copied, captured, or what it is
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return any(_may_change(v, containers) for v in value)
    if type(value) in _CONTAINERS or type(value) in (OrderedDict, defaultdict):
        inner = value.values() if isinstance(value, dict) else value
        return containers or len(value) > _MOST or any(_may_change(v, containers) for v in inner)
    if isinstance(value, MethodType):
        return _may_change(value.__self__, containers)
    if isinstance(value, partial):
        return any(_may_change(v, containers) for v in (*value.args, *value.keywords.values()))
    if isinstance(value, ModuleType):
        return not _is_librarys(value.__name__, getattr(value, "__file__", None) or "<frozen")
    of_type = value if isinstance(value, type) else type(value)
    if of_type.__name__ == "PjitFunction":
        return _compiled(value) is not None
    module = sys.modules.get(of_type.__module__)
    mutable = not isinstance(value, type) and of_type.__module__ in ("types", "collections", "functools")
    holds = vars(value).values() if not isinstance(value, type) and hasattr(value, "__dict__") else ()
    held = any(isinstance(v, FunctionType) and _is_users(v) for v in holds)  # as `np.vectorize` does
    return mutable or held or not _is_librarys(of_type.__module__, getattr(module, "__file__", None) or "")


class _Capturing:
    def __init__(self, fn: Callable[..., Any]):
        self._made: dict[int, tuple[Any, Any]] = {}  # with what it was made of, whose id no other may get
        self._globals: dict[int, _Names] = {}
        self._cells: dict[int, CellType] = {}
        functions = list(_functions(fn, set()))
        self._assigned = {id(cell) for f in functions for cell in _assigned(f)}
        self._containers = not any(_changes_containers(f.__code__) for f in functions)

    def of(self, value: Any) -> Any:
        """What stands in place of a value."""
        if id(value) in self._made:
            return self._made[id(value)][1]
        made = self._new(value)
        self._made.setdefault(id(value), (value, made))
        return made

    def _new(self, value: Any) -> Any:
        if isinstance(value, FunctionType):
            return self._function(value) if _is_users(value) else self._wrapper(value)
        kind: Any = type(value)
        if (inner := _compiled(value)) is not None:
            return self.of(inner)  # a program inlines it anyway, and JAX would keep what it was traced to
        if kind is MethodType:
            return MethodType(self.of(value.__func__), value.__self__)
        if kind is partial:
            given = {n: self.of(v) for n, v in value.keywords.items()}
            return partial(self.of(value.func), *map(self.of, value.args), **given)
        if isinstance(value, np.ndarray):
            return _copied(value)
        if kind.__module__.partition(".")[0] in _TABLES and hasattr(value, "copy"):
            return value.copy(deep=True)
        if self._containers and kind in _CONTAINERS and len(value) <= _MOST:
            if kind in (tuple, set):
                return kind(map(self.of, value))
            held: Any = kind()
            self._made[id(value)] = value, held  # before what it holds, which may hold it
            if kind is dict:
                held.update((k, self.of(v)) for k, v in value.items())
            else:
                held.extend(map(self.of, value))
            return held
        if self._containers and kind in (OrderedDict, defaultdict) and len(value) <= _MOST:
            same: Any = copy(value)
            same.update((k, self.of(v)) for k, v in value.items())
            return same
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return kind(*map(self.of, value))
        if isinstance(value, Messenger) and value.fn is not None:
            made: Any = copy(value)
            made.fn = self.of(value.fn)
            return made
        return value

    def _function(self, fn: FunctionType) -> FunctionType:
        code = fn.__code__
        if _named(code, "STORE_GLOBAL", "DELETE_GLOBAL"):
            return fn
        names = self._globals.setdefault(id(fn.__globals__), _names_of(fn.__globals__))
        cells = tuple(map(self._cell, fn.__closure__ or ()))
        made = FunctionType(code, names, fn.__name__, None, cells or None)
        self._made[id(fn)] = fn, made  # before what it reads, which may call it
        made.__defaults__ = None if fn.__defaults__ is None else tuple(map(self.of, fn.__defaults__))
        kept = fn.__kwdefaults__
        made.__kwdefaults__ = None if kept is None else {n: self.of(v) for n, v in kept.items()}
        made.__qualname__, made.__module__ = fn.__qualname__, fn.__module__
        made.__doc__, made.__annotations__ = fn.__doc__, fn.__annotations__
        made.__dict__.update(fn.__dict__)
        for name in _named(code, "LOAD_GLOBAL", "LOAD_NAME"):
            if name not in names and name in fn.__globals__:
                names[name] = self.of(fn.__globals__[name])
        if any(_BY_TEXT & {*c.co_names} for c in _codes(code)):
            for name in [n for n in fn.__globals__ if n not in names]:
                names[name] = fn.__globals__[name]
        return made

    def _wrapper(self, fn: FunctionType) -> FunctionType:
        """A library's function, as `jax.vmap` makes: around the user's as that is now."""
        before = fn.__closure__ or ()
        cells = tuple(self._cell(c) if isinstance(_held(c), _CALLED) else c for c in before)
        if all(_held(a) is _held(b) for a, b in zip(cells, before, strict=True)):
            return fn
        made = FunctionType(fn.__code__, fn.__globals__, fn.__name__, fn.__defaults__, cells)
        made.__kwdefaults__, made.__qualname__ = fn.__kwdefaults__, fn.__qualname__
        made.__module__ = fn.__module__
        made.__dict__.update(fn.__dict__)
        return made

    def _cell(self, cell: CellType) -> CellType:
        if id(cell) in self._assigned:
            return cell
        if id(cell) not in self._cells:
            self._cells[id(cell)] = made = CellType()
            if (held := _held(cell)) is not _EMPTY:
                made.cell_contents = self.of(held)
        return self._cells[id(cell)]


_EMPTY = object()
_copies: WeakValueDictionary[int, np.ndarray] = WeakValueDictionary()


def _copied(array: np.ndarray) -> np.ndarray:
    """A copy, the one that another model has where the array is still the same."""
    made = _copies.get(id(array))
    if made is not None and _is_same(made, array):
        return made
    made = _copies[id(array)] = array.copy()
    return made


def _is_same(one: np.ndarray, other: np.ndarray) -> bool:
    plain = type(one) is type(other) and one.dtype == other.dtype and one.dtype.kind in "biufc"
    return plain and np.array_equal(one, other, equal_nan=True)


def _held(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not yet assigned
        return _EMPTY


def _assigned(fn: FunctionType) -> Iterator[CellType]:
    """The cells that a function, or one within it, assigns to."""
    names = _named(fn.__code__, "STORE_DEREF", "DELETE_DEREF")
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
        if name in names:
            yield cell


def _names_of(live: dict[str, Any]) -> _Names:
    return live if isinstance(live, _Names) else _Names(live)


def _is_users(fn: FunctionType) -> bool:
    """Whether a function is no library's."""
    return not _is_librarys(str(fn.__module__ or ""), fn.__code__.co_filename)


def _is_librarys(module: str, file: str) -> bool:
    return module.partition(".")[0] in (*_OWN, "builtins") or file.startswith(_LIBRARIES)


def _compiled(value: Any) -> FunctionType | None:
    """The user's function that `jax.jit` was given."""
    inner = getattr(value, "__wrapped__", None) if type(value).__name__ == "PjitFunction" else None
    return inner if isinstance(inner, FunctionType) and _is_users(inner) else None


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _codes(inner)


def _named(code: CodeType, *operations: str) -> set[str]:
    """The names that a function's operations of some kinds are about, those of functions within it too."""
    return {i.argval for c in _codes(code) for i in dis.get_instructions(c) if i.opname in operations}


def _functions(value: Any, seen: set[int]) -> Iterator[FunctionType]:
    """The functions of the user's own that a function may call."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if (compiled := _compiled(value)) is not None:
        yield from _functions(compiled, seen)
    if isinstance(value, MethodType | partial | Messenger):
        inner = value.__func__ if isinstance(value, MethodType) else getattr(value, "func", None)
        yield from _functions(inner or getattr(value, "fn", None), seen)
    if not isinstance(value, FunctionType):
        return
    others = [_held(c) for c in value.__closure__ or ()]
    if _is_users(value):
        yield value
        names = _named(value.__code__, "LOAD_GLOBAL", "LOAD_NAME")
        others += [value.__globals__[n] for n in names if n in value.__globals__]
    for other in others:
        yield from _functions(other, seen)


def _changes_containers(code: CodeType) -> bool:
    stores = ("STORE_SUBSCR", "DELETE_SUBSCR")
    return any(
        _CHANGING & set(c.co_names) or any(i.opname in stores for i in dis.get_instructions(c))
        for c in _codes(code)
    )
