"""What continuous sites leave behind when they are integrated out, whatever family they are of.

For any value θ of the sites, `log p(rest) = log p(rest, θ) − log p(θ | rest)` (the candidate's formula: Besag
1989, "A candidate's formula"; Chib 1995). So a message is a place θ, best near the conditional's mean, where
single precision loses least, and the log probability of the conditional there: a Gaussian's determinant, a
Beta's normalising constant and a product of both go through one formula.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

Latents = Mapping[str, Any]


class Moments(NamedTuple):
    """Mean and variance of each element of a site given the rest, arrays of the site's shape."""

    mean: Any
    variance: Any


class Message(Protocol):
    """Sites whose joint conditional given the rest is known exactly.

    All methods are pure in the values of the other latents and the data arrays.
    """

    @property
    def sites(self) -> tuple[str, ...]:
        """In the order in which they are integrated out."""
        ...

    @property
    def reason(self) -> str:
        """The family of the conditional and where it was read, in words."""
        ...

    @property
    def cost(self) -> str:
        """The work of one evaluation, in words."""
        ...

    @property
    def signature(self) -> str:
        """Equal for messages that compile to the same program for any data."""
        ...

    def settled(self, latents: Latents, data: Any, held: bool) -> tuple[dict[str, Any], Any]:
        """A place of the sites, and the log probability of the conditional there.

        Where `held`, the gradient of the candidate's formula is right with the place held fixed, and costs
        least; without, its derivatives of any order are.
        """
        ...

    def draw(self, key: Any, latents: Latents, data: Any) -> dict[str, Any]:
        """One exact joint draw, by site."""
        ...

    def moments(self, latents: Latents, data: Any) -> dict[str, Moments]:
        """Means and variances, by site."""
        ...
