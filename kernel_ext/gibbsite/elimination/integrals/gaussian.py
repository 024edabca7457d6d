"""Gaussian sites as a message, alone or with the scale that all of their terms share."""

import itertools
import math
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gibbsite.conditional.conjugate.wishart import WishartConditional
from gibbsite.conditional.dispatch import conditional_of
from gibbsite.conditional.forms.support import certify_quadratic
from gibbsite.conditional.forms.walk import Refused
from gibbsite.conditional.gaussian.chained import ChainedGaussian, strung
from gibbsite.conditional.linear.arrow import Bordered, Vector
from gibbsite.conditional.linear.joint import JointGaussian, check_real, joint_gaussian
from gibbsite.density import Density
from gibbsite.density.passes.totals import Totals, in_totals
from gibbsite.elimination.integrals.conjugate import (
    Latents,
    Message,
    Moments,
    conjugate_message,
    moments_of,
    place_of,
)
from gibbsite.elimination.integrals.scales import MatrixScale, NumberScale, Scale
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
        return self.gaussian.drawn(key, latents, data).values

    def moments(self, latents: Latents, data: Any) -> dict[str, Moments]:
        mean, factor = self.solved(latents, data, held=True)
        variances = _variances(factor, mean) if isinstance(factor, Bordered) else factor.variances()
        means, spread = self.values(mean), self.values(variances)
        return {s: Moments(means[s], spread[s]) for s in self.sites}


class TotalsMessage(GaussianMessage):
    """Sites that are chains in their running totals: integrated out, and drawn, as these."""

    gaussian: ChainedGaussian

    def __init__(self, density: Density, gaussian: ChainedGaussian, totals: Totals):
        super().__init__(gaussian)
        self.density, self._totals = density, totals
        self.reason = f"{gaussian.reason}, of the running totals of {' and '.join(totals.along)}"
        self.signature = repr(("totals", totals.along, gaussian.signature))

    def solved(self, latents: Latents, data: Any, held: bool) -> tuple[Any, Any]:
        """As a Gaussian message's, of the totals."""
        return super().solved(self._totals.totals(latents), data, held)

    def values(self, x: Any) -> dict[str, Any]:
        """The values by site that a vector of totals makes."""
        return self._totals.steps(self.gaussian.values(x))

    def draw(self, key: Any, latents: Latents, data: Any) -> dict[str, Any]:
        return self._totals.steps(super().draw(key, self._totals.totals(latents), data))

    def moments(self, latents: Latents, data: Any) -> dict[str, Moments]:
        mean, factor = self.solved(latents, data, held=True)
        layout = self.gaussian.layout
        spread = self.gaussian.values(factor.variances())
        for strand in layout.strands:
            if order := len(self._totals.along.get(strand.site, ())):
                lagged = factor.lagged(layout, strand, order)
                spread[strand.site] = _of_differences(lagged, strand.axis)
        means = self.values(mean)
        return {s: Moments(means[s], spread[s]) for s in self.sites}


def _of_differences(lagged: Sequence[Any], axis: int) -> Any:
    """The variances of differences of the highest order that there are covariances for, which are with what
    is 0, 1, … places before."""
    order = len(lagged) - 1
    signs = [(-1) ** k * math.comb(order, k) for k in range(order + 1)]

    def moved(x: Any, by: int) -> Any:
        widths = [(by, 0) if a == axis else (0, 0) for a in range(x.ndim)]
        return lax.slice_in_dim(jnp.pad(x, widths), 0, x.shape[axis], axis=axis)

    pairs = itertools.product(range(order + 1), repeat=2)
    return sum(signs[j] * signs[k] * moved(lagged[abs(j - k)], min(j, k)) for j, k in pairs)


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

        def several(out: Vector, places: Any, role: str = role, part: Any = part) -> tuple[Vector, None]:
            def one(unit: Any) -> Vector:
                return squares(zero._replace(**{role: jnp.broadcast_to(unit, part.shape)}))

            found = jax.vmap(one)(jax.nn.one_hot(places, part.shape[-1], dtype=part.dtype))
            return jax.tree.map(lambda a, b: a + jnp.sum(b, 0), out, found), None

        # places beyond the last are no unit at all
        blocks = jnp.arange(-(-part.shape[-1] // _AT_ONCE) * _AT_ONCE).reshape(-1, _AT_ONCE)
        out, _ = lax.scan(several, out, blocks)
    return out


@once
def gaussian_message(density: Density, sites: tuple[str, ...]) -> GaussianMessage:
    """The message of sites that are Gaussian together; `Refused`, with the reason, where they are not."""
    check_real(density, sites)
    degrees = certify_quadratic(density, *sites)
    try:
        return GaussianMessage(ChainedGaussian(density, sites, strung(density, sites), degrees))
    except Refused:
        totals = in_totals(density, sites)
    if totals is not None:
        degrees = certify_quadratic(totals.density, *sites)
        with suppress(Refused):  # then the steps themselves are as good
            return TotalsMessage(density, _chained(totals, sites, degrees), totals)
    return GaussianMessage(joint_gaussian(density, sites))


def _chained(totals: Totals, sites: tuple[str, ...], degrees: Any) -> ChainedGaussian:
    """The chains of totals; `Refused` where what is added up is no chain, or is one along another axis."""
    layout = strung(totals.density, sites)
    axes = {s.site: s.axis for s in layout.strands}
    if any({*along} != {axes.get(n)} or len(along) > layout.reach for n, along in totals.along.items()):
        raise Refused("running totals along an axis that is no chain")
    return ChainedGaussian(totals.density, sites, layout, degrees)


class ScaledMessage(Message):
    """Gaussian sites, then the scale that all of their terms share."""

    def __init__(self, gaussian: GaussianMessage, scale: Scale):
        self.gaussian, self.scale, self.density = gaussian, scale, gaussian.density
        self.sites = (*gaussian.sites, scale.name)
        named, own = " and ".join(gaussian.sites), scale.conditional
        self.reason = (
            f"{gaussian.reason}; then {scale.name}, which scales all of {named}: "
            f"{own.reason.replace(':', f' with {named} integrated out:', 1)}"
        )
        self.cost = f"{gaussian.cost}; {own.cost}"
        self.signature = repr((gaussian.signature, scale.signature))

    def _solved(self, latents: Latents, data: Any, held: bool) -> tuple[Any, Any, Any]:
        """Mean and precision of the Gaussian sites where the scale is one, and the distribution of the
        scale."""
        mean, factor = self.gaussian.solved({**latents, self.scale.name: self.scale.one}, data, held)
        return mean, factor, self.scale.left({**latents, **self.gaussian.values(mean)}, data)

    def settled(self, latents: Latents, data: Any, held: bool) -> tuple[dict[str, Any], Any]:
        """The Gaussian sites' mean and a place of the scale."""
        mean, factor, d = self._solved(latents, data, held)
        site = self.scale.site
        place = jnp.broadcast_to(place_of(d), site.shape).astype(site.dtype)
        log_prob = factor.half_log_det + self.scale.half_log_det(place)
        log_prob = log_prob - self.gaussian.size * math.log(2 * math.pi) / 2
        values = {**self.gaussian.values(mean), site.name: place}
        return values, log_prob + jnp.sum(d.log_prob(place))

    def draw(self, key: Any, latents: Latents, data: Any) -> dict[str, Any]:
        """The scale with the Gaussian sites integrated out, then these given it."""
        key, key_scale = jax.random.split(key)
        site, d = self.scale.site, self._solved(latents, data, held=True)[2]
        shape = site.shape[: len(site.shape) - len(d.event_shape)]
        drawn = d.expand(shape).sample(key_scale).astype(site.dtype)
        return {site.name: drawn, **self.gaussian.draw(key, {**latents, site.name: drawn}, data)}

    def moments(self, latents: Latents, data: Any) -> dict[str, Moments]:
        """Means and variances, of the Gaussian sites those of a multivariate (or matrix) t."""
        site, d = self.scale.site, self._solved(latents, data, held=True)[2]
        found = self.gaussian.moments({**latents, site.name: self.scale.one}, data)
        out = {s: Moments(m.mean, m.variance * self.scale.spread(d, s)) for s, m in found.items()}
        return {**out, site.name: Moments(*(jnp.broadcast_to(x, site.shape) for x in moments_of(d)))}


def scaled_message(density: Density, gaussian: GaussianMessage, site: str) -> ScaledMessage:
    """The message of Gaussian sites and of the scale `site`; `Refused`, with the reason, where some term of
    the Gaussian sites is not scaled by it as all others are."""
    conditional = conditional_of(density, site)
    conjugate_message(conditional)
    if isinstance(conditional, WishartConditional):
        return ScaledMessage(gaussian, MatrixScale(density, conditional, gaussian.sites))
    return ScaledMessage(gaussian, NumberScale(density, conditional, gaussian.sites))
