"""A module by its name → the module, imported when something of it is first asked for.

Storing and summarising load ArviZ, xarray, zarr and large parts of SciPy, which takes longer than Gibbsite
itself; a script that asks for a conditional needs none of them. Nor does one that asks for a graph need the
floors that sample: the facade names these alike. PEP 810 proposes the like as `lazy import`.
"""

import sys
import threading
from contextlib import suppress
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, ForwardRef


class _Later(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what looks at all modules (copying, doctest) does not load them
            raise AttributeError(f"module {self.__name__!r} is not loaded; it has no {name!r} yet")
        return getattr(import_module(self.__name__), name)


def later(name: str) -> Any:
    """Stands for the module `name`, which is imported at the first use of one of its names.

    Raises `ImportError` at that use, where there is no such module. A type checker sees the module if the
    caller imports it under `TYPE_CHECKING`.
    """
    return _Later(name)


def meanwhile(name: str) -> None:
    """Import a module that will be wanted, in a thread of its own: whoever asks for it then waits for the
    rest alone, and is told where there is no such module."""

    def load() -> None:
        with suppress(ImportError):
            import_module(name)

    if name not in sys.modules:
        threading.Thread(target=load, name=f"gibbsite imports {name}", daemon=True).start()


def named_later(module: str, name: str) -> Any:
    """Stands for a class in annotations: `typing.get_type_hints` imports its module and finds the class."""
    return ForwardRef(f"later({module!r}).{name}", module=__name__)


if TYPE_CHECKING:
    from pandas import DataFrame as DataFrame
else:
    DataFrame = named_later("pandas", "DataFrame")
