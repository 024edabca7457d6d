"""What people ask for, checked in words before anything is made of it."""

import os
import reprlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gibbsite.errors import OptionError, UnknownNameError

_MOST_BYTES = 255  # of a file's name, nearly everywhere
_short = reprlib.Repr()
_short.maxstring = _short.maxother = _short.maxlong = 60


def shown(value: Any) -> str:
    """The value, short enough for a sentence."""
    return " ".join(_short.repr(value).split())


def listed(things: Iterable[object]) -> str:
    """`a`; `a and b`; `a, b and c`."""
    *first, last = map(str, things)
    return f"{', '.join(first)} and {last}" if first else last


def count(name: str, value: Any, least: int, most: int = 2**62) -> int:
    """A whole number within bounds. Raises `OptionError`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise OptionError(f"{name} must be a whole number, not {shown(value)}")
    if not least <= value <= most:
        bound = f"at least {least}" if value < least else f"at most {most:,}"
        raise OptionError(f"{name} must be {bound}, not {shown(value)}")
    return int(value)


def seconds(name: str, value: Any) -> float:
    """A time that is not negative; infinity is one. Raises `OptionError`."""
    number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not number or not value >= 0:
        raise OptionError(f"{name} must be a number of seconds, 0 or more, not {shown(value)}")
    return float(value)


def text(name: str, value: Any, such_as: str) -> str | None:
    """A text, or None. Raises `OptionError`."""
    if value is not None and not isinstance(value, str):
        raise OptionError(f"{name} must be a text such as {such_as!r}, not {shown(value)}")
    return value


def flag(name: str, value: Any) -> bool:
    """True or False. Raises `OptionError`."""
    if not isinstance(value, bool | np.bool_):
        raise OptionError(f"{name} must be True or False, not {shown(value)}")
    return bool(value)


def a_name(kind: str, value: Any, known: Iterable[str]) -> str:
    """A name, be there one of the kind ("site") or not. Raises `UnknownNameError` for what can be none."""
    if not isinstance(value, str):
        raise UnknownNameError(kind, value, known)
    return value


def random_key(value: Any) -> Any:
    """A random key of JAX's, of either kind. Raises `OptionError`."""
    if isinstance(value, jax.Array | np.ndarray):
        raw = value.dtype == np.uint32 and value.ndim > 0
        if raw or jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
            return value
    raise OptionError(f"key must be a random key such as jax.random.key(0), not {shown(value)}")


def a_path(name: str, value: Any) -> Path:
    """A path of a file or a folder. Raises `OptionError`."""
    try:
        spelt = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    except TypeError:
        spelt = None
    if not isinstance(spelt, str) or not spelt.strip():
        raise OptionError(f"{name} must be a path, not {shown(value)}")
    try:
        longest = max(map(len, map(os.fsencode, Path(spelt).parts)), default=0)
    except ValueError:
        longest = None
    if "\0" in spelt or longest is None:
        raise OptionError(f"{name}: {shown(spelt)} holds a character that no path may have")
    if longest > _MOST_BYTES:
        raise OptionError(
            f"{name}: {shown(spelt)} holds a name of {longest} bytes; {_MOST_BYTES} are the most"
        )
    return Path(spelt)


def by_name(name: str, value: Any) -> Mapping[str, Any]:
    """Values by name; none for None. Raises `OptionError`."""
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(n, str) for n in value):
        raise OptionError(f"{name} takes values by site, as in {{'mu': …}}, not {shown(value)}")
    return value


class InOrder(tuple[Any, ...]):
    """Several arguments of a model, in the order of its function's."""


def in_order(first: Any, more: tuple[Any, ...]) -> Any:
    """The first of what is given without a name, or all of it `InOrder`."""
    return InOrder((first, *more)) if more else first
