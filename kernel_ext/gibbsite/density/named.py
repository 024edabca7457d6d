"""Things by name: a dictionary that knows what was meant by a wrong one."""

from collections.abc import Iterable
from typing import Any

from gibbsite.errors import UnknownNameError


class Named(dict[str, Any]):
    """A dictionary whose `KeyError` for a name that is not there suggests the nearest one."""

    def __init__(self, kind: str, entries: Any = ()):
        super().__init__(entries)
        self.kind = kind

    def __missing__(self, name: str) -> Any:
        raise UnknownNameError(self.kind, name, _texts(self))

    def __reduce__(self) -> Any:
        return type(self), (self.kind, dict(self))


def _texts(names: Iterable[Any]) -> list[str]:
    return [str(n) for n in names]
