"""`python -m gibbsite sample MODULE:NAME --store PATH`: a run without a notebook."""

import ast
import importlib
import inspect
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gibbsite.errors import ArgumentError, DataError, ModelError, UnknownNameError
from gibbsite.facade import Model, model


def found(target: str) -> Any:
    """What `package.module:name`, or `file.py:name`, names. Raises `ModelError` and `UnknownNameError`."""
    place, _, name = target.rpartition(":")
    if not place or not name:
        raise ModelError(f"{target!r} names no model: write MODULE:NAME or FILE.py:NAME")
    if place.endswith(".py"):
        path = Path(place).expanduser().resolve()
        if not path.is_file():
            raise ModelError(f"{target!r} names no model: there is no file {str(path)!r}")
        sys.path.insert(0, str(path.parent))
        place = path.stem
    try:
        module = importlib.import_module(place)
    except ModuleNotFoundError as missing:
        if missing.name is None or not f"{place}.".startswith(f"{missing.name}."):
            raise  # the module is there, and lacks something itself
        raise ModelError(f"{target!r} names no model: there is no module {missing.name!r} here") from None
    if not hasattr(module, name):
        known = [n for n, v in vars(module).items() if callable(v) and not n.startswith("_")]
        raise UnknownNameError("model or function", name, known)
    return getattr(module, name)


def read_data(files: Sequence[Path]) -> dict[str, np.ndarray]:
    """Arrays by name: those of `.npz` files, the columns of `.csv` files. Raises `DataError`; executes
    nothing."""
    out: dict[str, np.ndarray] = {}
    for file in files:
        try:
            if file.suffix == ".npz":
                with np.load(file, allow_pickle=False) as arrays:
                    out |= {n: arrays[n] for n in arrays.files}
            elif file.suffix == ".csv":
                table = np.genfromtxt(file, delimiter=",", names=True, dtype=None, encoding="utf-8")
                out |= {n: np.atleast_1d(table[n]) for n in table.dtype.names or ()}
            else:
                raise DataError(f"{str(file)!r}: data are read from .npz and .csv")
        except (OSError, ValueError) as problem:
            if isinstance(problem, DataError):
                raise
            raise DataError(f"{str(file)!r} cannot be read: {problem}") from problem
    return out


def set_values(said: Sequence[str]) -> dict[str, Any]:
    """Of each `NAME=VALUE` the value as a Python literal, or else as text. Raises `ArgumentError`."""
    out = {}
    for one in said:
        name, sign, value = one.partition("=")
        if not sign or not name.isidentifier():
            raise ArgumentError(f"--set takes NAME=VALUE, not {one!r}")
        try:
            out[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            out[name] = value
    return out


def made_model(target: str, files: Sequence[Path] = (), said: Sequence[str] = ()) -> Model:
    """The model that is named: a `Model` as it is, a function with its arguments by name from the files and
    from what was set. Of the files' arrays a function takes those that it has parameters for."""
    thing, arrays, values = found(target), read_data(files), set_values(said)
    if not callable(thing):
        raise ModelError(f"{target!r} is neither a model nor a function")
    parameters = inspect.signature(thing.fn if isinstance(thing, Model) else thing).parameters
    unknown = [n for n in values if n not in parameters]
    if unknown:
        raise UnknownNameError("argument", unknown[0], parameters)
    arguments = {n: v for n, v in arrays.items() if n in parameters} | values
    if arrays and not set(arrays) & set(parameters):
        raise ArgumentError(
            f"none of {', '.join(arrays)} in the data is an argument of {target!r}: "
            f"{', '.join(parameters) or 'it has none'}"
        )
    if not isinstance(thing, Model):
        plain = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        needed = [n for n, p in parameters.items() if p.kind in plain and p.default is p.empty]
        missing = [n for n in needed if n not in arguments]
        if missing:
            raise ArgumentError(
                f"{target!r} wants the argument{'s' * (len(missing) > 1)} {', '.join(missing)}: "
                "give --data FILE or --set NAME=VALUE"
            )
        return model(thing, **arguments)
    if not arguments:
        return thing
    bound = dict(zip(parameters, thing.args, strict=False))
    return model(thing.fn, **{**bound, **thing.kwargs, **arguments})
