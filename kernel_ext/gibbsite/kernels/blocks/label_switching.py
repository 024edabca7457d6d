"""Components in each other's place, where the order of their weights is what a stick tells of them.

Large components of a Dirichlet process keep the labels under which a chain found them: point by point, and
along gradients, no order leads to another. Here two labels are exchanged in all that bears them, at once,
either with their weights, or with the weights left where they are, and the state is accepted by Metropolis,
Hastings and Green (Papaspiliopoulos and Roberts 2008, "Retrospective Markov chain Monte Carlo methods for
Dirichlet process hierarchical models", whose label-switching moves these are; Hastie, Liverani and Richardson
2015 show what is lost without).
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax, random

from gibbsite.density.hierarchy.stick_labels import StickLabels
from gibbsite.density.hierarchy.sticks import reordered, weights_of
from gibbsite.errors import OptionError
from gibbsite.kernels.base import SiteKernel, StepInfo, step_info
from gibbsite.kernels.blocks.target import Target, Values


class LabelSwitching(SiteKernel):
    """Exchanges labels of `found`, as `times` proposals in a row; as many as labels where it is 0.

    It moves nothing but labels, so that it stands beside updates of the same sites:

        Interleaved(model, [(NUTS(model), ["v", "mu"]), (LabelSwitching(model, found), ["v", "mu"])])
    """

    def __init__(self, model: Any, found: StickLabels, times: int = 0):
        super().__init__(model)
        if int(times) != times or times < 0:
            raise OptionError(f"SwitchLabels: times must be a positive integer, got {times!r}")
        self._found, self._times = found, int(times) or found.count

    def check(self, name: str, site: Any) -> None:
        """Takes what bears the labels, which its row in the table of kernels checks."""

    def step(
        self, key: jax.Array, z: Values, tuning: Any, target: Target, adapting: jax.Array
    ) -> tuple[dict[str, jax.Array], Any, StepInfo]:
        """Proposals one after another, each of a label by its weight and another one."""

        def propose(at: tuple[Values, jax.Array], key: jax.Array) -> tuple[Any, jax.Array]:
            here, level = at
            key_move, key_coin = random.split(key)
            there, log = self._proposed(key_move, here)
            new = target.logdensity(there)
            ratio = new - level + log
            ratio = jnp.where(jnp.isnan(ratio), -jnp.inf, ratio)
            taken = jnp.log(random.uniform(key_coin)) < ratio
            moved = {n: jnp.where(taken, there[n], v) for n, v in here.items()}
            return (moved, jnp.where(taken, new, level)), jnp.exp(jnp.minimum(ratio, 0.0))

        start = (dict(z), target.logdensity(z))
        (z, _), accepted = lax.scan(propose, start, random.split(key, self._times))
        return dict(z), tuning, step_info(accepted.mean(), self._times + 1)

    def _proposed(self, key: jax.Array, here: Values) -> tuple[dict[str, jax.Array], jax.Array]:
        """A state with two labels exchanged, and the log of the volume that the map makes of one.

        The first label is picked by its weight: exchanged back, the same two are picked as often, as the
        weights have changed places, or none has.
        """
        count, sticks = self._found.count, here[self._found.sticks]
        key_first, key_second, key_way = random.split(key, 3)
        first = random.categorical(key_first, jnp.log(weights_of(sticks)[:count]))
        second = (first + random.randint(key_second, (), 1, count)) % count
        order = jnp.arange(count).at[first].set(second).at[second].set(first)
        there = self._found.exchanged(here, order)
        shares, log = reordered(sticks, order)
        with_weights = random.bernoulli(key_way)
        there[self._found.sticks] = jnp.where(with_weights, shares, sticks)
        return there, jnp.where(with_weights, log, 0.0)
