"""The arguments of a model, split into arrays (inputs of the compiled program) and everything else."""

import inspect
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gibbsite.errors import DataError
from gibbsite.inputs.column import as_column
from gibbsite.inputs.tables import check_range
from gibbsite.programs.jaxpr.compat import is_traced


def _is_array(leaf: Any) -> bool:
    # `dtype` and not a conversion: kernels also split arguments that are being traced
    dtype = leaf.dtype if isinstance(leaf, np.ndarray | jax.Array | np.generic) else None
    return isinstance(dtype, np.dtype) and dtype.kind in "biufc"


@dataclass(frozen=True)
class Arguments:
    """Positional and keyword arguments of a model function, flattened.

    `names` holds a readable name per array leaf (`x`, `data['y']`), `arrays` their values, `given` the arrays
    as they came; `rebuild(arrays)` gives back `(args, kwargs)` with other arrays in their places.
    """

    names: tuple[str, ...]
    arrays: tuple[Any, ...]
    static: tuple[Any, ...]
    places: tuple[bool, ...]
    tree: Any
    given: tuple[Any, ...] = ()

    def fixing(self, which: Collection[int]) -> "Arguments":
        """The same arguments with some of the arrays, by number, constants of the program, as NumPy has them:
        for models that need their values while traced, where JAX would trace what is done with its own."""
        static, places, n = iter(self.static), [], 0
        constants = []
        for is_array in self.places:
            places.append(is_array and n not in which)
            if not places[-1]:
                constants.append(as_numpy(self.given[n]) if is_array else next(static))
            n += is_array
        names, arrays, given = (
            tuple(x for i, x in enumerate(row) if i not in which)
            for row in (self.names, self.arrays, self.given)
        )
        return Arguments(names, arrays, tuple(constants), tuple(places), self.tree, given)

    def rebuild(self, arrays: Sequence[Any]) -> tuple[tuple, dict]:
        """`(args, kwargs)` with `arrays` in place of the array leaves."""
        dynamic, fixed = iter(arrays), map(as_column, self.static)
        leaves = [next(dynamic) if is_array else next(fixed) for is_array in self.places]
        return jax.tree.unflatten(self.tree, leaves)

    @property
    def compiled_in(self) -> Hashable:
        """What a program of these arguments holds of them as constants, to compare: numbers and texts by
        value, arrays by their bytes, what cannot be hashed as the object that it is."""
        return str(self.tree), self.places, tuple(map(_constant, self.static))


class _Itself:
    """An object that equals itself alone, and is kept as long as somebody compares with it."""

    def __init__(self, value: Any):
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


def _constant(value: Any) -> Hashable:
    if isinstance(value, np.ndarray | np.generic) and value.dtype != object:
        return value.shape, str(value.dtype), value.tobytes()
    if isinstance(value, int | float | str):
        return type(value), repr(value)  # True is 1 and 0.0 is -0.0 to a dict
    try:
        hash(value)
    except TypeError:
        return _Itself(value)
    return type(value), value


def as_numpy(given: Any) -> Any:
    """An array of JAX's as one of NumPy's; anything else as it is."""
    known = isinstance(given, jax.Array) and _is_array(given) and not is_traced(given)
    return np.asarray(given) if known else given


def split_arguments(
    args: Sequence[Any], kwargs: Mapping[str, Any], parameter_names: Sequence[str] = ()
) -> Arguments:
    """Split a call's arguments. `parameter_names` names the positional parameters, for messages."""
    paths, tree = jax.tree_util.tree_flatten_with_path((tuple(args), dict(kwargs)))
    names, arrays, static, places, given = [], [], [], [], []
    for path, leaf in paths:
        dynamic = _is_array(leaf)
        places.append(dynamic)
        if dynamic:
            name = _name(path, parameter_names)
            names.append(name)
            arrays.append(_checked(name, leaf))
            given.append(leaf)
        else:
            static.append(leaf)
    return Arguments(tuple(names), tuple(arrays), tuple(static), tuple(places), tree, tuple(given))


def _checked(name: str, leaf: Any) -> Any:
    if isinstance(leaf, np.ma.MaskedArray):
        raise DataError(
            f"argument {name!r} is a masked array; pass the values and a boolean mask to the model, "
            f"and use `numpyro.handlers.mask` there"
        )
    check_range(f"argument {name!r}", leaf)
    return jnp.asarray(leaf)


def _name(path: Sequence[Any], parameter_names: Sequence[str]) -> str:
    key = path[1]
    if path[0].idx == 0:
        named = key.idx < len(parameter_names)
        head = str(parameter_names[key.idx]) if named else f"argument {key.idx}"
    else:
        head = str(key.key)
    return head + jax.tree_util.keystr(tuple(path[2:]))


def places_within(
    args: Sequence[Any], kwargs: Mapping[str, Any], parameter_names: Sequence[str]
) -> dict[str, tuple[Any, ...]]:
    """Where within its argument each leaf of a call is, by the leaf's name: keys of tables and dicts, numbers
    in sequences."""
    paths, _ = jax.tree_util.tree_flatten_with_path((tuple(args), dict(kwargs)))
    return {
        _name(path, parameter_names): tuple(getattr(k, "key", getattr(k, "idx", None)) for k in path[2:])
        for path, _ in paths
    }


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
