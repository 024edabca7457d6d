"""What higher floors do for objects of lower ones, which ask for it by name when somebody wants it.

The package's top says where it is (`offer`); a run that is asked for a prediction asks here.
"""

from collections.abc import Callable
from typing import Any

_where: dict[str, Callable[[], Any]] = {}


def offer(name: str, load: Callable[[], Any]) -> None:
    """Have `load()` give the module that is asked for as `name`."""
    _where[name] = load


def ask(name: str) -> Any:
    """The module that was offered as `name`. Raises `ImportError` where `gibbsite` itself was not
    imported."""
    if name not in _where:
        raise ImportError(f"nothing offers {name!r} before `gibbsite` itself is imported")
    return _where[name]()
