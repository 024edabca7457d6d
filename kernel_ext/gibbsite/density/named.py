"""Things by name: a dictionary that knows what was meant by a wrong one."""

from collections.abc import Mapping
from typing import Any

from gibbsite.errors import UnknownNameError


class Named(dict[str, Any]):
    """A dictionary whose `KeyError` for a name that is not there suggests the nearest one."""

    def __init__(self, kind: str, entries: Any = ()):
        super().__init__(entries)
        self.kind = kind

    def __missing__(self, name: str) -> Any:
        raise UnknownNameError(self.kind, name, [str(n) for n in self])

    def __reduce__(self) -> Any:
        return type(self), (self.kind, dict(self))


class BlockInfo(Named):
    """Statistics by block; `plan`, also under that name where no block has it, is what was predicted of the
    schedule and what came of it, None where nobody weighed it."""

    def __init__(self, entries: Any = (), plan: Mapping[str, Any] | None = None):
        super().__init__("block", entries)
        self.plan = plan

    def __missing__(self, name: str) -> Any:
        if name == "plan" and self.plan is not None:
            return self.plan
        return super().__missing__(name)

    def __reduce__(self) -> Any:
        return type(self), (dict(self), self.plan)
