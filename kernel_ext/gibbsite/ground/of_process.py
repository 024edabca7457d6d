"""Objects that one process has: compiled programs and threads."""

from typing import Any, ClassVar, Self

from gibbsite.errors import ArgumentError


class OfProcess:
    """An object that no pickle holds; a deep copy of it is itself, as of functions and modules."""

    _keep_by: ClassVar[str]
    """How to have it elsewhere."""

    def __copy__(self) -> Self:
        found = type(self).__new__(type(self))
        found.__dict__.update(self.__dict__)
        return found

    def __deepcopy__(self, memo: Any) -> Self:
        return self

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise ArgumentError(f"a {type(self).__name__} cannot be pickled: {self._keep_by}")
