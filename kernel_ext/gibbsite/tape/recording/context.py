"""Contexts: small objects that decide what a recorder enters, keeps, notes and replaces.

`A | B` composes them: both must agree to enter or keep a record; notes are merged and values are replaced
from left to right, so that what stands further right has the last word and sees what the left one did.
"""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from gibbsite.programs.jaxpr.compat import is_traced


@dataclass(frozen=True)
class Step:
    """What a context is asked about: one step of the run, before or after it is taken.

    `kind` and `op` as its record will have them; `depth` (1 at the top); values of the operands; `apply`
    takes such values and returns the list of results; `primitive` is the name of JAX's primitive under `op`.
    """

    kind: str
    op: str
    depth: int
    operands: tuple[Any, ...]
    apply: Callable[..., list[Any]]
    primitive: str


class Context:
    """Enters everything, keeps everything, notes nothing: override what should differ."""

    keeps_values: bool = True

    def enters(self, step: Step) -> bool:
        """Whether a call is recorded inside; if not, it counts as a primitive."""
        return True

    def keeps(self, step: Step) -> bool:
        """Whether a record is kept at all."""
        return True

    def before(self, step: Step) -> Any:
        """Called before a step runs; what it returns is handed to `notes`."""
        return None

    def notes(self, step: Step, values: list[Any], before: Any) -> dict[str, Any]:
        """Metadata for the record, once its values are there."""
        return {}

    def replaces(self, step: Step, values: list[Any]) -> list[Any]:
        """The values that the program goes on with."""
        return values

    def __or__(self, other: "Context") -> "Context":
        return Composed((*_parts(self), *_parts(other)))


def _parts(context: Context) -> tuple[Context, ...]:
    return context.parts if isinstance(context, Composed) else (context,)


@dataclass(frozen=True)
class Composed(Context):
    """Several contexts, asked from left to right."""

    parts: tuple[Context, ...]

    @property
    def keeps_values(self) -> bool:  # type: ignore[override]
        return all(p.keeps_values for p in self.parts)

    def enters(self, step: Step) -> bool:
        return all(p.enters(step) for p in self.parts)

    def keeps(self, step: Step) -> bool:
        return all(p.keeps(step) for p in self.parts)

    def before(self, step: Step) -> Any:
        return [p.before(step) for p in self.parts]

    def notes(self, step: Step, values: list[Any], before: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        # the rightmost was started last: it is asked first, so that timings nest, and merged last
        for part, start in reversed(list(zip(self.parts, before, strict=True))):
            found = {**part.notes(step, values, start), **found}
        return found

    def replaces(self, step: Step, values: list[Any]) -> list[Any]:
        for part in self.parts:
            values = part.replaces(step, values)
        return values


@dataclass(frozen=True)
class DepthLimit(Context):
    """Calls below `depth` count as primitives; 1 records the top level only (thesis, listing 3.1)."""

    depth: int

    def enters(self, step: Step) -> bool:
        return step.depth < self.depth


@dataclass(frozen=True)
class Values(Context):
    """Whether values are kept. Without, calls run whole and their insides are symbolic."""

    keeps_values: bool = True  # type: ignore[misc]


@dataclass(frozen=True)
class Timing(Context):
    """Notes `seconds` of wall-clock time, the values being ready."""

    def before(self, step: Step) -> float:
        return time.perf_counter()

    def notes(self, step: Step, values: list[Any], before: float) -> dict[str, Any]:
        for value in values:
            if isinstance(value, jax.Array) and not is_traced(value):
                value.block_until_ready()
        return {"seconds": time.perf_counter() - before}


@dataclass(frozen=True)
class Memory(Context):
    """Notes `bytes`, the size of the values made."""

    def notes(self, step: Step, values: list[Any], before: None) -> dict[str, Any]:
        return {"bytes": sum(_bytes(v) for v in values)}


def _bytes(value: Any) -> int:
    try:
        return int(np.prod(value.shape)) * value.dtype.itemsize
    except AttributeError:
        return sys.getsizeof(value)
