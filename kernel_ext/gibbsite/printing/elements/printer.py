"""What the rules for single primitives ask of whoever prints a density."""

from abc import ABC, abstractmethod
from typing import Any

from gibbsite.density.density import Density
from gibbsite.printing.elements.constants import Constants
from gibbsite.printing.elements.indices import Index
from gibbsite.printing.elements.text import Text
from gibbsite.printing.elements.values import Values
from gibbsite.printing.elements.writer import Writer


class Printer(Writer, ABC):
    """A writer that knows a density's arrays: `producer` tells which equation computes each, `values` what
    is known of them, `as_place` whether an index into another array is being written, and `wrapped` whether
    negative ones were found to count from the end."""

    def __init__(
        self,
        density: Density,
        ranges: dict[str, tuple[int, int]] | None = None,
        long: int = 100,
    ):
        super().__init__(ranges, long)
        self.density = density
        self.producer = dict(density.producer)
        self.values = Values(density, self.producer)
        self.constants = Constants(density, self)
        self.as_place = self.wrapped = False

    @abstractmethod
    def write(self, atom: Any, index: tuple[Index, ...]) -> Text:
        """The element of `atom` at `index`, by name, as a number, or as what it is computed from."""

    @abstractmethod
    def place(self, atom: Any, index: tuple[Index, ...]) -> Index:
        """The element of an integer array as an index into another array."""

    @abstractmethod
    def branches(self, eqn: Any) -> list[list[Any]]:
        """The outputs of a `cond`'s branches, as atoms computed from its operands."""
