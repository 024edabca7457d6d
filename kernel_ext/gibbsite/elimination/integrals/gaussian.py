"""Gaussian sites as a message: the determinant at their mean."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gibbsite.conditional.forms.degree import certify_quadratic
from gibbsite.conditional.forms.walk import Refused
from gibbsite.conditional.gaussian.chained import ChainedGaussian, strung
from gibbsite.conditional.linear.arrow import Bordered, Vector
from gibbsite.conditional.linear.joint import JointGaussian, check_real, joint_gaussian
from gibbsite.density import Density
from gibbsite.elimination.integrals.message import Latents, Message, Moments
from gibbsite.ground.once import once

_AT_ONCE = 16


class GaussianMessage(Message):
    """Sites that are Gaussian together given the rest, as chains, group by group, or whole."""

    def __init__(self, gaussian: JointGaussian | ChainedGaussian):
        self.gaussian, self.density = gaussian, gaussian.density
        self.sites = gaussian.sites
        self.reason, self.cost, self.signature = gaussian.reason, gaussian.cost, gaussian.signature
        sites = self.density.sites
        self.size = sum(int(np.prod(sites[s].shape, dtype=np.int64)) for s in self.sites)

    def solved(self, latents: Latents, data: Any, held: bool) -> tuple[Any, Any]:
        """Mean and factorised precision; where `held`, the mean is held fixed under derivatives."""
        if isinstance(self.gaussian, ChainedGaussian):
            return self.gaussian.solved(latents, data, held)
        return self.gaussian.differentiable(latents, data, held)

    def values(self, x: Any) -> dict[str, Any]:
        """The values by site that a vector of the solution holds."""
        return self.gaussian.values(x)

    def settled(self, latents: Latents, data: Any, held: bool) -> tuple[dict[str, Any], Any]:
        """The mean, where the slope of the log density is zero: to hold it fixed loses nothing of a
        gradient."""
        mean, factor = self.solved(latents, data, held)
        return self.values(mean), factor.half_log_det - self.size * math.log(2 * math.pi) / 2

    def draw(self, key: Any, latents: Latents, data: Any) -> dict[str, Any]:
        """One exact joint draw."""
        return self.gaussian.drawn(key, latents, data).values

    def moments(self, latents: Latents, data: Any) -> dict[str, Moments]:
        """Means and variances."""
        mean, factor = self.solved(latents, data, held=True)
        variances = _variances(factor, mean) if isinstance(factor, Bordered) else factor.variances()
        means, spread = self.values(mean), self.values(variances)
        return {s: Moments(means[s], spread[s]) for s in self.sites}


def _variances(factor: Bordered, like: Vector) -> Vector:
    """Of each element: the squares of what each standard Normal number moves it by. Groups do not move each
    other, so one number of every group goes at once."""

    def squares(z: Vector) -> Vector:
        return jax.tree.map(jnp.square, factor.noise(z))

    zero: Vector = jax.tree.map(jnp.zeros_like, like)
    out: Vector = zero
    for role in ("groups", "rest", "border"):
        part = getattr(zero, role)
        if not part.size:
            continue

        def one(unit: Any, role: str = role, part: Any = part) -> Vector:
            return squares(zero._replace(**{role: jnp.broadcast_to(unit, part.shape)}))

        units = jnp.eye(part.shape[-1], dtype=part.dtype)
        found = lax.map(one, units, batch_size=_AT_ONCE)
        out = jax.tree.map(lambda a, b: a + jnp.sum(b, 0), out, found)
    return out


@once
def gaussian_message(density: Density, sites: tuple[str, ...]) -> GaussianMessage:
    """The message of sites that are Gaussian together; `Refused`, with the reason, where they are not."""
    check_real(density, sites)
    certify_quadratic(density, *sites)
    try:
        return GaussianMessage(ChainedGaussian(density, sites, strung(density, sites)))
    except Refused:
        return GaussianMessage(joint_gaussian(density, sites))
