"""Values in the place of draws: what a model is conditioned on, and its data."""

from collections.abc import Collection, Mapping
from typing import Any

from numpyro import handlers

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
