"""A model function with what it reads beside its arguments as that is now.

The function runs again whenever something is asked of the model or of its runs. By then the notebook may have
given its names other values: draws of one program would be put into another one. Names, closures and
functions of the user's own that are called are therefore those of the time when the model was made.
"""

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator
from copy import copy
from functools import partial
from types import CellType, FunctionType, MethodType
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from numpyro.primitives import Messenger

from gibbsite.inputs.reading import (
    EMPTY,
    changes_containers,
    codes_of,
    compiled_from,
    functions_of,
    held,
    is_users,
    named,
)

MOST = 10_000
"""Elements of containers that are copied; what is longer stays the user's own."""
CONTAINERS = (dict, list, set, tuple)
_TABLES = ("pandas", "xarray")
_CALLED = (FunctionType, MethodType, partial, Messenger)
# what looks names up by their text, as expressions and formulas do
_BY_TEXT = frozenset("eval exec globals query model_matrix dmatrix dmatrices design_matrices".split())


class Names(dict[str, Any]):
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


class _Capturing:
    def __init__(self, fn: Callable[..., Any]):
        self._made: dict[int, tuple[Any, Any]] = {}  # with what it was made of, whose id no other may get
        self._globals: dict[int, Names] = {}
        self._cells: dict[int, CellType] = {}
        functions = list(functions_of(fn, set()))
        self._assigned = {id(cell) for f in functions for cell in _assigned(f)}
        self._containers = not any(changes_containers(f.__code__) for f in functions)

    def of(self, value: Any) -> Any:
        """What stands in place of a value."""
        if id(value) in self._made:
            return self._made[id(value)][1]
        made = self._new(value)
        self._made.setdefault(id(value), (value, made))
        return made

    def _new(self, value: Any) -> Any:
        if isinstance(value, FunctionType):
            return self._function(value) if is_users(value) else self._wrapper(value)
        kind: Any = type(value)
        if (inner := compiled_from(value)) is not None:
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
        if self._containers and kind in CONTAINERS and len(value) <= MOST:
            if kind in (tuple, set):
                return kind(map(self.of, value))
            rebuilt: Any = kind()
            self._made[id(value)] = value, rebuilt  # before what it holds, which may hold it
            if kind is dict:
                rebuilt.update((k, self.of(v)) for k, v in value.items())
            else:
                rebuilt.extend(map(self.of, value))
            return rebuilt
        if self._containers and kind in (OrderedDict, defaultdict) and len(value) <= MOST:
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
        if named(code, "STORE_GLOBAL", "DELETE_GLOBAL"):
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
        for name in named(code, "LOAD_GLOBAL", "LOAD_NAME"):
            if name not in names and name in fn.__globals__:
                names[name] = self.of(fn.__globals__[name])
        if any(_BY_TEXT & {*c.co_names} for c in codes_of(code)):
            for name in [n for n in fn.__globals__ if n not in names]:
                names[name] = fn.__globals__[name]
        return made

    def _wrapper(self, fn: FunctionType) -> FunctionType:
        """A library's function, as `jax.vmap` makes: around the user's as that is now."""
        before = fn.__closure__ or ()
        cells = tuple(self._cell(c) if isinstance(held(c), _CALLED) else c for c in before)
        if all(held(a) is held(b) for a, b in zip(cells, before, strict=True)):
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
            if (value := held(cell)) is not EMPTY:
                made.cell_contents = self.of(value)
        return self._cells[id(cell)]


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


def _assigned(fn: FunctionType) -> Iterator[CellType]:
    """The cells that a function, or one within it, assigns to."""
    names = named(fn.__code__, "STORE_DEREF", "DELETE_DEREF")
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
        if name in names:
            yield cell


def _names_of(live: dict[str, Any]) -> Names:
    return live if isinstance(live, Names) else Names(live)
