"""A model function with what it reads beside its arguments as that is now.

The function runs again whenever something is asked of the model or of its runs. By then the notebook may have
given its names other values: draws of one program would be put into another one. Names, closures and
functions of the user's own that are called are therefore those of the time when the model was made.
"""

import dis
import sysconfig
from collections.abc import Callable, Iterator
from copy import copy
from functools import partial
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any

import numpy as np
from numpyro.primitives import Messenger

# Elements of containers that are copied; what is longer stays the user's own.
_MOST = 10_000
_CONTAINERS = (dict, list, set, tuple)
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


def reads(fn: Callable[..., Any]) -> dict[str, Any]:
    """The globals by name that a function reads, or one of the user's own that it calls, as they are now."""
    found: dict[str, Any] = {}
    for one in _functions(fn, set()):
        names = _named(one.__code__, "LOAD_GLOBAL", "LOAD_NAME")
        found |= {n: one.__globals__[n] for n in sorted(names) if n in one.__globals__}
    return found


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
            return self._function(value) if _is_users(value) else value
        kind: Any = type(value)
        if kind is MethodType:
            return MethodType(self.of(value.__func__), value.__self__)
        if kind is partial:
            given = {n: self.of(v) for n, v in value.keywords.items()}
            return partial(self.of(value.func), *map(self.of, value.args), **given)
        if kind is np.ndarray:
            return value.copy()
        if kind.__module__.partition(".")[0] in ("pandas", "xarray") and hasattr(value, "copy"):
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
    root = str(fn.__module__ or "").partition(".")[0]
    return root not in _OWN and not fn.__code__.co_filename.startswith(_LIBRARIES)


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
    if isinstance(value, MethodType | partial | Messenger):
        inner = value.__func__ if isinstance(value, MethodType) else getattr(value, "func", None)
        yield from _functions(inner or getattr(value, "fn", None), seen)
    if not isinstance(value, FunctionType) or not _is_users(value):
        return
    yield value
    read = [_held(c) for c in value.__closure__ or ()]
    names = _named(value.__code__, "LOAD_GLOBAL", "LOAD_NAME")
    for other in (*read, *(value.__globals__[n] for n in names if n in value.__globals__)):
        yield from _functions(other, seen)


def _changes_containers(code: CodeType) -> bool:
    stores = ("STORE_SUBSCR", "DELETE_SUBSCR")
    return any(
        _CHANGING & set(c.co_names) or any(i.opname in stores for i in dis.get_instructions(c))
        for c in _codes(code)
    )
