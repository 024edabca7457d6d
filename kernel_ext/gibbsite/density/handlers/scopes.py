"""Scopes around loops: values that come from outside by full names, handed to the names inside of `scan`.

`handlers.scope` renames what a `scan` says once the loop is through; inside, sites have their short names, so
that values under the full ones would be passed over in silence, and drawn anew at every evaluation.
"""

import functools
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from typing import Any

from numpyro import handlers, primitives
from numpyro.primitives import Messenger


def under(fn: Callable, handler: Callable[[], AbstractContextManager[Any]]) -> Callable:
    """`fn`, each of its runs within a new `handler()`."""

    @functools.wraps(fn)
    def run(*args: Any, **kwargs: Any) -> Any:
        with handler():
            return fn(*args, **kwargs)

    return run


class ScopedScans(Messenger):
    """Has handlers outside of it substitute and condition inside of loops under scopes that are within it."""

    def process_message(self, msg: dict[str, Any]) -> None:
        """Replace the list that handlers further out add their values to."""
        if msg["type"] != "control_flow":
            return
        given = msg["kwargs"]["substitute_stack"]
        prefix = prefix_within(self)
        if prefix and not isinstance(given, _Renamed):
            msg["kwargs"]["substitute_stack"] = _Renamed(given, prefix)


def prefix_within(handler: Messenger) -> str:
    """What the scopes within a handler put before a name; the innermost is the last."""
    stack = list(primitives._PYRO_STACK)
    inside = stack[stack.index(handler) + 1 :]
    scopes = [h for h in inside if isinstance(h, handlers.scope) and "sample" not in h.hide_types]
    return "".join(f"{h.prefix}{h.divider}" for h in scopes)


class _Renamed(list[Any]):
    """Pairs of a kind and values by name (or a function of a site), as `scan` applies them inside."""

    def __init__(self, pairs: Any, prefix: str):
        super().__init__(pairs)
        self._prefix = prefix

    def append(self, pair: tuple[str, Any]) -> None:
        """Take up what a handler outside adds, under the names that hold inside."""
        kind, values = pair
        super().append((kind, self._inside(kind, values)))

    def _inside(self, kind: str, values: Any) -> Mapping[str, Any] | Callable[[Any], Any]:
        prefix = self._prefix
        if callable(values):
            return lambda site: values({**site, "name": f"{prefix}{site['name']}"})
        short = {n.removeprefix(prefix): v for n, v in values.items() if n.startswith(prefix)}
        return {n: {**v, "name": n} for n, v in short.items()} if kind == "replay" else short


GIVEN = "gibbsite_given"
"""In a statement's `infer`: the argument that holds the value which the model was conditioned on."""


class Given(handlers.condition):
    """NumPyro's `condition`, whose statements say by which argument they were conditioned: what `obs=` says
    is a datum, what somebody holds fixed later need not be one."""

    def __init__(self, fn: Any, data: Mapping[str, Any], arguments: Mapping[str, str]):
        super().__init__(fn, data=dict(data))
        self._arguments = arguments

    def process_message(self, msg: Any) -> None:
        """Fix the value, and mark the statement; one inside `scan` was fixed there."""
        super().process_message(msg)
        if msg["type"] == "sample" and msg["name"] in self._arguments:
            msg["infer"] = {**msg["infer"], GIVEN: self._arguments[msg["name"]]}


class Redrawn(handlers.uncondition):
    """Draws the observed `sites` anew; everything else that is observed keeps its value."""

    def __init__(self, fn: Any, sites: Collection[str]):
        super().__init__(fn)
        self._sites = frozenset(sites)

    def process_message(self, msg: Any) -> None:
        """Let go of the value."""
        if msg["type"] == "sample" and msg["name"] in self._sites:
            super().process_message(msg)
