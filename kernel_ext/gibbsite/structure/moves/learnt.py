"""What a structure's warm-up has learnt of its continuous sites, which a chain that enters draws them from.

What one structure has and another has not, or means something else by, says nothing of where it fits the
data, and a prior seldom does. So some moves draw it from the posterior of the structure that they enter, as
its own warm-up found it: a multivariate t distribution in real coordinates, whose tails are heavier than
those of what it stands for (Carlin and Chib 1995, "Bayesian model choice via Markov chain Monte Carlo
methods", call it a pseudo-prior; Green 2003, "Trans-dimensional Markov chain Monte Carlo", section 4).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import random
from jax.scipy.linalg import cho_solve
from jax.scipy.special import gammaln

from gibbsite.structure.moves.places import Place

DRAWS = 300
"""Steps after a warm-up, whose draws are what a posterior is learnt from."""
MOST = 50
"""Numbers whose covariance so many draws tell well enough to propose them together."""
_FREEDOM = 5.0
_AS_DRAWS = 5.0
"""So many draws without a correlation are added, so that no direction is without width."""


class Reals:
    """Continuous sites as one vector of real numbers, `[size]`."""

    def __init__(self, places: Mapping[str, Place]):
        self.places = dict(places)
        self.size = sum(math.prod(p.shape) for p in places.values())

    def of(self, values: Mapping[str, Any]) -> Any:
        """The vector at values of the sites."""
        each = [jnp.ravel(p.coordinate.inv(values[n])) for n, p in self.places.items()]
        return jnp.concatenate([jnp.zeros(0), *each])

    def spread(self, masks: Mapping[str, Any]) -> Any:
        """Masks over `Place.batch` by site, as one over the numbers."""
        wide = [
            jnp.broadcast_to(masks[n].reshape(masks[n].shape + (1,) * p.event_dim), p.shape)
            for n, p in self.places.items()
        ]
        return jnp.concatenate([jnp.zeros(0, bool), *map(jnp.ravel, wide)])

    def back(self, reals: Any) -> tuple[dict[str, Any], Any]:
        """The sites' values at a vector, and by number the log of how volumes change."""
        values, steep, start = {}, [jnp.zeros(0)], 0
        for name, p in self.places.items():
            own = reals[start : start + math.prod(p.shape)].reshape(p.shape)
            found = p.coordinate(own)
            log_det = p.coordinate.log_abs_det_jacobian(own, found)
            values[name] = found.astype(p.dtype)
            steep.append(jnp.ravel(jnp.broadcast_to(log_det, p.shape)))
            start += own.size
        return values, jnp.concatenate(steep)


class Anew(NamedTuple):
    """What a move draws from what was learnt, by site, the log density of that, and whether it does."""

    uses: Any
    values: Mapping[str, Any]
    cost: Any


@dataclass(frozen=True)
class Learnt:
    """The posterior of some sites of one structure: location and width by number, `[size]`, and
    correlations, `[size, size]`."""

    reals: Reals
    location: np.ndarray
    width: np.ndarray
    correlation: np.ndarray

    @classmethod
    def of(cls, reals: Reals, draws: np.ndarray) -> "Learnt":
        """From draws of the vector, `[draw, size]`."""
        draws = np.asarray(draws, np.float64)
        draws = draws[np.isfinite(draws).all(axis=1)]
        if len(draws) < 2:  # nowhere to be: wherever a chain is proposed to enter will do
            draws = np.zeros((2, reals.size))
        width = draws.std(axis=0)
        width = np.where(width > 0, width, 1.0)
        scaled = (draws - draws.mean(axis=0)) / width
        own = (scaled.T @ scaled + _AS_DRAWS * np.eye(reals.size)) / (len(draws) + _AS_DRAWS)
        return cls(reals, draws.mean(axis=0), width, own)

    def drawn(
        self, key: Any, uses: Any, values: Mapping[str, Any], kept: Mapping[str, Any], draw: Any
    ) -> Anew:
        """A chain enters (`draw`) or is looked at where it is: of the numbers of `values` those that are not
        `kept`, given the others."""
        mask = self.reals.spread(kept)
        apart = (self.reals.of(values) - self.location) / self.width
        key_joint, key_width = random.split(key)
        new = self._given(key_joint, key_width, apart, mask)
        new = jnp.where(mask | ~draw, apart, new)
        found, steep = self.reals.back(self.location + self.width * new)
        everything = jnp.ones(mask.shape, bool)
        cost = self._log_density(new, everything) - self._log_density(new, mask)
        cost -= jnp.sum(jnp.where(mask, 0.0, steep + jnp.log(self.width)))
        return Anew(uses, found, cost)

    def _among(self, mask: Any) -> Any:
        """A factor of the correlations among the numbers of a mask, others being by themselves."""
        both = mask[:, None] & mask
        return jnp.linalg.cholesky(jnp.where(both, self.correlation, jnp.eye(len(mask))))

    def _given(self, key_joint: Any, key_width: Any, apart: Any, mask: Any) -> Any:
        """Numbers in units of widths, those outside of the mask drawn given those within."""
        whole, among = jnp.linalg.cholesky(jnp.asarray(self.correlation)), self._among(mask)
        joint = whole @ random.normal(key_joint, mask.shape)

        def predicted(x: Any) -> Any:
            return self.correlation @ jnp.where(mask, cho_solve((among, True), jnp.where(mask, x, 0.0)), 0.0)

        count = jnp.sum(mask)
        square = self._square(apart, mask, among)
        freedom = _FREEDOM + count
        scale = jnp.sqrt((_FREEDOM + square) / (2 * random.gamma(key_width, freedom / 2)))
        return predicted(apart) + scale * (joint - predicted(joint))

    @staticmethod
    def _square(apart: Any, mask: Any, among: Any) -> Any:
        within = jnp.where(mask, apart, 0.0)
        return within @ cho_solve((among, True), within)

    def _log_density(self, apart: Any, mask: Any) -> Any:
        """Of the numbers of a mask, in units of widths."""
        among, count = self._among(mask), jnp.sum(mask)
        square = self._square(apart, mask, among)
        total = (
            gammaln((_FREEDOM + count) / 2) - gammaln(_FREEDOM / 2) - count / 2 * math.log(_FREEDOM * math.pi)
        )
        total -= jnp.sum(jnp.log(jnp.diagonal(among)))
        return total - (_FREEDOM + count) / 2 * jnp.log1p(square / _FREEDOM)
