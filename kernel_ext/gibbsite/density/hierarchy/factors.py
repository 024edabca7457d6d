"""Random walks and multivariate normals → the linear map that makes their elements independent a priori."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular

_MOST = 100
"""Elements of a vector whose factor is solved with at every gradient."""


class Whitening(NamedTuple):
    """`stretched` maps standard normal numbers to how far the site is from `loc`, `whitened` is its inverse,
    and `log_size` the logarithm of the determinant of the former; arrays of the site's shape."""

    loc: Any
    stretched: Callable[[Any], Any]
    whitened: Callable[[Any], Any]
    log_size: Any

    def forth(self, z: Any) -> Any:
        """Standard normal numbers → the site's value."""
        return self.loc + self.stretched(z)

    def back(self, x: Any) -> Any:
        """The inverse of `forth`."""
        return self.whitened(x - self.loc)


def of_normal(site: Any, parameters: Mapping[str, Any]) -> Callable[[Callable[[Any], Any]], Whitening] | None:
    """For one vector with a triangular factor of its covariance, of 100 elements at most."""
    if "scale_tril" not in parameters or len(site.shape) != 1 or not 0 < site.shape[0] <= _MOST:
        return None

    def whitening(of: Callable[[Any], Any]) -> Whitening:
        loc, factor = jnp.asarray(of(parameters["loc"])), jnp.asarray(of(parameters["scale_tril"]))
        return Whitening(
            loc,
            lambda z: factor @ z,
            lambda x: solve_triangular(factor, x, lower=True),
            jnp.sum(jnp.log(jnp.diagonal(factor))),
        )

    return whitening


def of_walk(site: Any, parameters: Mapping[str, Any]) -> Callable[[Callable[[Any], Any]], Whitening] | None:
    """For a random walk whose last axis is time."""
    if site.in_scan:
        return None

    def whitening(of: Callable[[Any], Any]) -> Whitening:
        scale = jnp.broadcast_to(jnp.asarray(of(parameters["scale"]))[..., None], site.shape)
        return Whitening(
            jnp.zeros_like(scale),
            lambda z: jnp.cumsum(scale * z, -1),
            lambda x: jnp.diff(x, axis=-1, prepend=0.0) / scale,
            jnp.sum(jnp.log(scale)),
        )

    return whitening
