"""New elements of what is drawn as a whole, given the known ones: conditionals of Gaussian vectors."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import GaussianRandomWalk, LowRankMultivariateNormal, MultivariateNormal

from gibbsite.density.model.collect import base_distribution
from gibbsite.density.model.sites import GAUSSIAN_VECTORS

PROCESSES = GAUSSIAN_VECTORS
"""Those of them that data can be the places of: a function's values, known at some, asked at others."""
GAUSSIAN = (*PROCESSES, "GaussianRandomWalk")
"""The families whose new elements have a conditional in closed form."""


def moments(fn: Any) -> tuple[Any, Any]:
    """Mean and covariance of a Gaussian vector: `[*batch, n]` and `[*batch, n, n]`."""
    base = base_distribution(fn)
    if isinstance(base, GaussianRandomWalk):
        n = base.num_steps
        steps = jnp.arange(1.0, n + 1.0)
        scale = jnp.asarray(base.scale)[..., None, None]
        return jnp.zeros((*jnp.shape(base.scale), n)), scale**2 * jnp.minimum(steps[:, None], steps)
    assert isinstance(base, MultivariateNormal | LowRankMultivariateNormal)
    covariance = base.covariance_matrix
    return base.loc, covariance


def conditional_draw(fn: Any, key: Any, values: Any, known: np.ndarray) -> Any:
    """A draw of a Gaussian vector of batch and event shape, whose elements `known` along the last axis are at
    `values`: x_u | x_k has mean m_u + K_uk K_kk⁻¹ (x_k − m_k) and covariance K_uu − K_uk K_kk⁻¹ K_ku
    (Rasmussen and Williams 2006, §2.2; Eaton 1983, ch. 3). A walk goes on from its last known step alone.

    `values` has the shape of the draw; what it holds at unknown elements is not read.
    """
    shape = (*fn.batch_shape, *fn.event_shape)
    where_known, where_not = np.flatnonzero(known), np.flatnonzero(~known)
    base = base_distribution(fn)
    values = jnp.broadcast_to(values, shape)
    if isinstance(base, GaussianRandomWalk) and where_known.size and where_known[-1] + 1 == where_known.size:
        steps = jax.random.normal(key, (*shape[:-1], where_not.size)) * jnp.asarray(base.scale)[..., None]
        on = values[..., where_known[-1] :][..., :1] + jnp.cumsum(steps, axis=-1)
        return values.at[..., where_not].set(on)
    mean, covariance = moments(fn)
    mean = jnp.broadcast_to(mean, shape)
    covariance = jnp.broadcast_to(covariance, (*shape, shape[-1]))
    k_uu = covariance[..., where_not[:, None], where_not]
    if where_known.size:
        k_kk = covariance[..., where_known[:, None], where_known]
        k_ku = covariance[..., where_known[:, None], where_not]
        lower = jnp.linalg.cholesky(k_kk)
        half = jax.scipy.linalg.solve_triangular(lower, k_ku, lower=True)
        apart = (values - mean)[..., where_known, None]
        white = jax.scipy.linalg.solve_triangular(lower, apart, lower=True)
        shift = jnp.matmul(jnp.swapaxes(half, -1, -2), white)[..., 0]
        k_uu = k_uu - jnp.matmul(jnp.swapaxes(half, -1, -2), half)
    else:
        shift = jnp.zeros(())
    # what rounding takes from a covariance whose points lie close together is put back
    size = shape[-1] * jnp.finfo(k_uu.dtype).eps
    most = jnp.max(jnp.diagonal(covariance, axis1=-2, axis2=-1), axis=-1)[..., None, None]
    root = jnp.linalg.cholesky(k_uu + size * most * jnp.eye(where_not.size))
    noise = jax.random.normal(key, (*shape[:-1], where_not.size, 1))
    new = mean[..., where_not] + shift + jnp.matmul(root, noise)[..., 0]
    return values.at[..., where_not].set(new)
