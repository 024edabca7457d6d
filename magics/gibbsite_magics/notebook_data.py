"""The notebook's data beside a model's: what it was not given, does not use, or was given before a change."""

import dis
import inspect
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

_ARRAYS = ("numpy", "jax", "jaxlib", "pandas", "polars")


def forgotten(model: Any, namespace: Mapping[str, Any]) -> list[str]:
    """Where a model observes nothing: a line for each of its latent sites that the notebook has values for,
    of the site's own shape, with what to write."""
    if any(site.role == "observed" for site in model.sites.values()):
        return []
    found = []
    for name, site in model.sites.items():
        value = namespace.get(name)
        numbers = _is_array(value) or (
            isinstance(value, list) and all(isinstance(v, int | float) for v in value)
        )
        if value is None or not (site.role == "latent" and site.shape and numbers):
            continue
        if np.shape(value) == tuple(site.shape):
            call = ", ".join([*model.kwargs, name])
            found.append(
                f"{model.name} observes nothing, and the notebook has values for {name!r}, of its shape "
                f"{tuple(site.shape)}: to condition on them, write `%%model {model.name}({call})`"
            )
    return found


def unused(name: str, fn: Callable[..., Any]) -> list[str]:
    """A line for each argument of the function of a model that nothing in it reads."""
    code = getattr(fn, "__code__", None)
    if code is None:
        return []
    read = {i.argval for i in dis.get_instructions(code) if i.opname.startswith("LOAD_")} | {
        *code.co_cellvars
    }
    arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return [f"nothing in {name} reads its argument {a!r}" for a in arguments if a not in read]


class Taken:
    """The notebook's values that a model was given, as they were when its cell ran."""

    def __init__(
        self, fn: Callable[..., Any], args: tuple, kwargs: Mapping[str, Any], namespace: Mapping[str, Any]
    ):
        given = inspect.signature(fn).bind_partial(*args, **kwargs).arguments
        self._prints = {
            n: _fingerprint(v)
            for n, v in given.items()
            if n in namespace and namespace[n] is v and _is_array(v)
        }

    def changed(self, name: str, namespace: Mapping[str, Any]) -> list[str]:
        """A line for each that the notebook's variable of that name no longer equals."""
        return [
            f"{n} has changed since the cell of {name} ran, and the run uses it as it was: run that cell "
            f"again to use what {n} is now"
            for n, before in self._prints.items()
            if n in namespace and _is_array(namespace[n]) and _fingerprint(namespace[n]) != before
        ]


def _is_array(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] in _ARRAYS and hasattr(value, "__array__")


def _fingerprint(value: Any) -> tuple[Any, ...]:
    """Type, shape and a checksum: of the bytes where there are any, else of what the elements print as."""
    columns = getattr(value, "columns", None)
    parts = [value] if columns is None else [value[c] for c in columns]
    found = zlib.crc32(repr([*columns] if columns is not None else "").encode())
    for part in parts:
        array = np.asarray(part)
        plain = array if array.dtype.kind in "biufcmMSU" else array.astype(str)
        found = zlib.crc32(plain.tobytes(), found)
    return type(value).__name__, tuple(np.shape(value)), found
