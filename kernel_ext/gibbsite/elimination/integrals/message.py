"""What continuous sites leave behind when they are integrated out, whatever family they are of.

For any value θ of the sites, `log p(rest) = log p(rest, θ) − log p(θ | rest)` (the candidate's formula: Besag
1989, "A candidate's formula"; Chib 1995). So a message is a place θ, best near the conditional's mean, where
single precision loses least, and the log probability of the conditional there: a Gaussian's determinant, a
Beta's normalising constant and a product of both go through one formula.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

Latents = Mapping[str, Any]


class Moments(NamedTuple):
    """Mean and variance of each element of a site given the rest, arrays of the site's shape."""

    mean: Any
    variance: Any


class Message(ABC):
    """Sites whose joint conditional given the rest is known exactly, in the order in which they go; `reason`
    is its family and where it was read, and `cost` the work of one evaluation, in words; `signature` is equal
    for messages that compile to the same program for any data.

    All methods are pure in the values of the other latents and the data arrays.
    """

    sites: tuple[str, ...]
    reason: str
    cost: str
    signature: str

    @abstractmethod
    def settled(self, latents: Latents, data: Any, held: bool) -> tuple[dict[str, Any], Any]:
        """A place of the sites, and the log probability of the conditional there.

        Where `held`, the gradient of the candidate's formula is right with the place held fixed, and costs
        least; without, its derivatives of any order are.
        """

    @abstractmethod
    def draw(self, key: Any, latents: Latents, data: Any) -> dict[str, Any]:
        """One exact joint draw, by site."""

    @abstractmethod
    def moments(self, latents: Latents, data: Any) -> dict[str, Moments]:
        """Means and variances, by site."""
