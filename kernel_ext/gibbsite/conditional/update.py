"""What every exact way to update sites has in common, whatever is eliminated on the way."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple

from gibbsite.density import Density
from gibbsite.ground.arguments import random_key
from gibbsite.programs.passes.for_cpu import jitted


class Drawn(NamedTuple):
    """New values by site; and of Gaussians what rounding left of them, in standard deviations (see
    `gibbsite.conditional.linear.joint.Solved`), None where it is not measured."""

    values: dict[str, Any]
    rounding: Any = None


class Update(ABC):
    """One update of `sites` that leaves their joint conditional invariant, given all other latents.

    Conditionals of one site, jointly Gaussian sites, marginals on their way back, and blocks that integrate
    sites out on the way are such updates; kernels know no more of them than this. `eliminated` are those of
    `sites` that are integrated out while the others are drawn; of `fresh` ones nothing reads the values that
    they have; `measured` updates tell what rounding left. `reason` says why it is right, `cost` what one
    takes, in words.
    """

    density: Density
    sites: tuple[str, ...]
    eliminated: tuple[str, ...] = ()
    measured: bool = False
    reason: str
    cost: str

    @property
    def fresh(self) -> tuple[str, ...]:
        """Sites whose own values are not read."""
        return self.sites

    @property
    @abstractmethod
    def signature(self) -> str:
        """Equal for updates whose compiled programs are the same for any data they are given."""

    @abstractmethod
    def drawn(self, key: Any, latents: Mapping[str, Any], data: Any) -> Drawn:
        """New values, pure in latent values by site, of which those of `fresh` sites do not matter, and in
        data arrays."""

    def sample(self, key: Any, state: Mapping[str, Any]) -> Any:
        """New values by site from those in `state`."""
        return self._sample(random_key(key), self._latents(state), self._data)

    @cached_property
    def _sample(self) -> Any:
        return jitted(lambda key, latents, data: self.drawn(key, latents, data).values)

    def _latents(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """What an update reads of a state."""
        return self.density.state_values(state, without=self.fresh)

    @property
    def _data(self) -> tuple[Any, ...]:
        return tuple(self.density.arguments.arrays)
