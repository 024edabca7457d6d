"""Elliptical slice sampling (Murray, Adams and MacKay 2010) for sites with Gaussian priors."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax import random
from jax.scipy.linalg import solve_triangular
from numpyro.distributions.transforms import AffineTransform
from numpyro.handlers import substitute, trace

from gibbsite.density.model.collect import base_distribution
from gibbsite.errors import ScheduleError
from gibbsite.kernels.base import SiteKernel, StepInfo, step_info
from gibbsite.kernels.blocks.target import Target, Values

GAUSSIAN = ("Normal", "MultivariateNormal", "LowRankMultivariateNormal", "GaussianRandomWalk")
_MAX_SHRINKS = 200


@dataclass(frozen=True)
class Whitening:
    """A Gaussian as `x = loc + L e` with `e` standard normal of the shape of `x`.

    `scale` is elementwise, or a lower-triangular factor where `triangular`; `walk` marks a cumulative sum
    along the last axis.
    """

    loc: jax.Array
    scale: jax.Array
    triangular: bool = False
    walk: bool = False

    def colour(self, e: jax.Array) -> jax.Array:
        """The value whose standardised form is `e`."""
        if self.triangular:
            return self.loc + (self.scale @ e[..., None])[..., 0]
        x = self.scale * e
        return self.loc + (jnp.cumsum(x, -1) if self.walk else x)

    def whiten(self, x: jax.Array) -> jax.Array:
        """The inverse of `colour`."""
        x = x - self.loc
        if self.triangular:
            scale = jnp.broadcast_to(self.scale, x.shape + x.shape[-1:])
            return solve_triangular(scale, x[..., None], lower=True)[..., 0]
        if self.walk:
            x = jnp.concatenate([x[..., :1], jnp.diff(x, axis=-1)], -1)
        return x / self.scale


def whitening(fn: Any) -> Whitening | None:
    """How a NumPyro distribution is a Gaussian, or None if it is not one that is known here.

    Looks through `expand`, `to_event`, `mask` and affine transforms.
    """
    # where a batch is expanded, parameters broadcast from its right; sizes in the middle may be 1
    if isinstance(fn, dist.Independent | dist.MaskedDistribution | dist.ExpandedDistribution):
        return whitening(fn.base_dist)
    if isinstance(fn, dist.Normal):
        return Whitening(jnp.asarray(fn.loc), jnp.asarray(fn.scale))
    if isinstance(fn, dist.MultivariateNormal):
        return Whitening(jnp.asarray(fn.loc), jnp.asarray(fn.scale_tril), triangular=True)
    if isinstance(fn, dist.LowRankMultivariateNormal):
        return Whitening(jnp.asarray(fn.loc), jnp.linalg.cholesky(fn.covariance_matrix), triangular=True)
    if isinstance(fn, dist.GaussianRandomWalk):
        steps = jnp.asarray(fn.scale)[..., None]
        return Whitening(jnp.zeros(()), steps, walk=True)
    if type(fn) is dist.TransformedDistribution and all(
        isinstance(t, AffineTransform) for t in fn.transforms
    ):
        base = whitening(fn.base_dist)
        if base is None or base.triangular or base.walk:
            return None
        for t in fn.transforms:
            assert isinstance(t, AffineTransform)
            scale = jnp.asarray(t.scale)
            base = Whitening(jnp.asarray(t.loc) + scale * base.loc, scale * base.scale)
        return base
    return None


def _gaussian(name: str, fn: Any) -> Whitening:
    found = whitening(fn)
    if found is None:
        raise ScheduleError(
            f"ESlice needs a Gaussian prior, but {name!r} has prior {type(base_distribution(fn)).__name__}; "
            f"it accepts {', '.join(GAUSSIAN)}. Slice, HMC or NUTS fit {name!r}"
        )
    return found


class EllipticalSlice(SiteKernel):
    """Elliptical slice sampling of all sites of the block together.

    The prior of each site is read from the model's distribution given the other values: `Normal`,
    `MultivariateNormal`, `LowRankMultivariateNormal` or `GaussianRandomWalk`, also expanded, in plates, or
    moved by an affine transform. Sites of one block may be each other's parents: the ellipse lives in the
    coordinates that make all of them standard normal. `ScheduleError` for other priors. Nothing to tune.
    """

    def check(self, name: str, site: Mapping[str, Any]) -> None:
        """Refuse priors that are not Gaussian."""
        _gaussian(name, site["fn"])

    def _colour(self, site: Mapping[str, Any], e: Mapping[str, jax.Array]) -> jax.Array | None:
        if site["type"] != "sample" or site["name"] not in e:
            return None
        return _gaussian(site["name"], site["fn"]).colour(e[site["name"]])

    def _likelihood(self, target: Target, e: Values) -> tuple[jax.Array, dict[str, jax.Array]]:
        """Everything but the Gaussian priors of the block, and the values that belong to `e`."""
        model = substitute(target.model, substitute_fn=partial(self._colour, e=e))
        sites = trace(model).get_trace(*target.args, **target.kwargs)
        total = target.sum_sites(sites, skip=frozenset(e))
        for name in e:
            fn, value, scale = sites[name]["fn"], sites[name]["value"], sites[name]["scale"]
            if scale is None and not isinstance(fn, dist.MaskedDistribution):
                continue
            # a scaled or masked prior is not the Gaussian itself: the difference joins the likelihood
            plain = fn.base_dist if isinstance(fn, dist.MaskedDistribution) else fn
            weighted = fn.log_prob(value) * (1.0 if scale is None else scale)
            total = total + jnp.sum(weighted) - jnp.sum(plain.log_prob(value))
        return jnp.where(jnp.isnan(total), -jnp.inf, total), {name: sites[name]["value"] for name in e}

    def step(
        self, key: jax.Array, z: Values, tuning: Any, target: Target, adapting: jax.Array
    ) -> tuple[dict[str, jax.Array], Any, StepInfo]:
        """Draw an ellipse through the current point and shrink an angle bracket until the slice is hit."""
        sites = target.trace(z)
        here = {name: _gaussian(name, sites[name]["fn"]).whiten(x) for name, x in z.items()}
        key_ellipse, key_height, key_angle, key_shrink = random.split(key, 4)
        keys = dict(zip(here, random.split(key_ellipse, len(here)), strict=True))
        aside = {name: random.normal(keys[name], e.shape, e.dtype) for name, e in here.items()}
        start, _ = self._likelihood(target, here)
        height = start - random.exponential(key_height)
        angle = random.uniform(key_angle, maxval=2 * jnp.pi)

        def at(angle: jax.Array) -> dict[str, jax.Array]:
            return {n: here[n] * jnp.cos(angle) + aside[n] * jnp.sin(angle) for n in here}

        def outside(carry: Any) -> jax.Array:
            _, _, _, _, _, loglik, count = carry
            return ~(loglik > height) & (count < _MAX_SHRINKS)

        def shrink(carry: Any) -> Any:
            angle, low, high, key, _, _, count = carry
            low, high = jnp.where(angle < 0, angle, low), jnp.where(angle < 0, high, angle)
            key, key_draw = random.split(key)
            angle = random.uniform(key_draw, minval=low, maxval=high)
            loglik, values = self._likelihood(target, at(angle))
            return angle, low, high, key, values, loglik, count + 1

        loglik, values = self._likelihood(target, at(angle))
        values = {name: jnp.asarray(values[name], z[name].dtype) for name in z}
        carry = (angle, angle - 2 * jnp.pi, angle, key_shrink, values, loglik, jnp.ones((), jnp.int32))
        # the first shrink must keep the point at angle 0 inside: the bracket is (angle − 2π, angle)
        carry = jax.lax.while_loop(outside, shrink, carry)
        _, _, _, _, values, loglik, count = carry
        found = loglik > height
        new = {name: jnp.where(found, values[name], z[name]) for name in z}
        return new, tuning, step_info(jnp.where(found, 1.0, 0.0), count + 1)
