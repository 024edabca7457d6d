"""Gaussian vectors of which some elements are missing: the density of those that are known, and the law of
the others given them.

A vector x with known part o and missing part m has p(x) = p(x_o) p(x_m | x_o), both Gaussian (Eaton 1983,
ch. 3; Little and Rubin 2002, §11.2): what is known counts in full, and no vector is lost with what it lacks.
"""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import (
    Distribution,
    ExpandedDistribution,
    LowRankMultivariateNormal,
    MaskedDistribution,
    MultivariateNormal,
    constraints,
)
from numpyro.distributions.util import validate_sample

from gibbsite.density.model.collect import base_distribution
from gibbsite.density.model.sites import GAUSSIAN_VECTORS


def of_gaussian_vectors(fn: Distribution) -> bool:
    """Whether a distribution's events have marginals and conditionals in closed form."""
    return type(base_distribution(fn)).__name__ in GAUSSIAN_VECTORS


def known_part(fn: Distribution, gone: np.ndarray) -> Distribution:
    """`fn`, of Gaussian vectors in a batch, with the density of the elements that are not `gone`,
    `[*batch, n]`. Draws of it are of whole vectors."""
    if isinstance(fn, MaskedDistribution):
        return known_part(fn.base_dist, gone).mask(jnp.asarray(fn._mask))
    return MarginalNormal(*_moments(fn, gone.shape), gone)


def missing_part(fn: Distribution, value: Any, gone: np.ndarray) -> "ConditionalNormal":
    """The law of the elements `gone` of Gaussian vectors, side by side in the order of the data, given the
    others, which are at `value`."""
    while isinstance(fn, MaskedDistribution):
        fn = fn.base_dist
    loc, tril = _moments(fn, gone.shape)
    gone, loc, value = np.atleast_2d(gone), jnp.atleast_2d(loc), jnp.atleast_2d(value)
    some = np.nonzero(gone.any(-1))
    return ConditionalNormal(loc[some], _rows(tril, some), value[some], gone[some])


class MarginalNormal(MultivariateNormal):
    """A `MultivariateNormal` whose density is that of the elements that are not `gone`."""

    def __init__(self, loc: Any, scale_tril: Any, gone: np.ndarray):
        super().__init__(loc=loc, scale_tril=scale_tril)
        self._gone = gone

    @validate_sample
    def log_prob(self, value: Any) -> Any:
        """Per vector; 0 where all of it is gone."""
        whole = np.atleast_2d(self._gone)
        some = np.nonzero(whole.any(-1))
        gone, place = whole[some], np.zeros(whole.shape[:-1], np.int32)
        place[some] = np.arange(len(gone))
        apart = jnp.broadcast_to(value - self.loc, whole.shape)[some]
        padded, apart = _padded(_rows(self.scale_tril, some), gone), jnp.where(gone, 0.0, apart)
        known = MultivariateNormal(0.0, scale_tril=padded).log_prob(apart)
        known += 0.5 * np.log(2 * np.pi) * gone.sum(-1)
        place = place.reshape(self._gone.shape[:-1])
        if whole.any(-1).all():
            return known[place]
        return jnp.where(self._gone.any(-1), known[place], super().log_prob(value))


class ConditionalNormal(Distribution):
    """The elements `gone` of Gaussian vectors, `[m]`, given the others of `value`: `loc`, `value` and `gone`
    are `[vectors, n]`, `scale_tril` is `[vectors, n, n]` or `[n, n]`."""

    arg_constraints: ClassVar = {"loc": constraints.real_matrix, "scale_tril": constraints.lower_cholesky}
    support: Any = constraints.real_vector
    reparametrized_params: ClassVar = ["loc", "scale_tril"]

    def __init__(self, loc: Any, scale_tril: Any, value: Any, gone: np.ndarray):
        self.loc, self.scale_tril, self._value, self._gone = loc, scale_tril, value, gone
        super().__init__((), (int(gone.sum()),), validate_args=False)

    def _whole(self) -> tuple[Any, Any]:
        """Means and lower factors of the vectors given what is known; of known elements 0 and 1."""
        gone = self._gone
        covariance = _covariance(self.scale_tril)
        padded = _padded(self.scale_tril, gone)
        across = jnp.where(
            ~gone[..., :, None] & gone[..., None, :], covariance, 0.0
        )  # [vectors, known, gone]
        half = jax.scipy.linalg.solve_triangular(jnp.broadcast_to(padded, across.shape), across, lower=True)
        apart = jnp.where(gone, 0.0, self._value - self.loc)[..., None]
        white = jax.scipy.linalg.solve_triangular(jnp.broadcast_to(padded, across.shape), apart, lower=True)
        mean = self.loc + jnp.matmul(jnp.swapaxes(half, -1, -2), white)[..., 0]
        rest = _padded_covariance(covariance, ~gone) - jnp.matmul(jnp.swapaxes(half, -1, -2), half)
        return jnp.where(gone, mean, 0.0), _factor(rest, covariance)

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Any:
        """Draws, `[*sample_shape, m]`."""
        mean, tril = self._whole()
        noise = jax.random.normal(key, (*sample_shape, *self._gone.shape, 1))
        return (mean + jnp.matmul(tril, noise)[..., 0])[..., *np.nonzero(self._gone)]

    def log_prob(self, value: Any) -> Any:
        """The log density of `[…, m]`."""
        mean, tril = self._whole()
        place = np.zeros(self._gone.shape, np.int32)
        place[self._gone] = np.arange(self.event_shape[0])
        apart = jnp.where(self._gone, value[..., place] - mean, 0.0)
        known = MultivariateNormal(0.0, scale_tril=tril).log_prob(apart)
        return known.sum(-1) + 0.5 * np.log(2 * np.pi) * (~self._gone).sum()


def _moments(fn: Distribution, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """Means, `[*batch, n]`, and lower factors, which may lack axes of the batch."""
    while isinstance(fn, ExpandedDistribution):
        fn = fn.base_dist
    if isinstance(fn, LowRankMultivariateNormal):
        tril = jnp.linalg.cholesky(fn.covariance_matrix)
    else:
        assert isinstance(fn, MultivariateNormal)
        tril = fn.scale_tril
    return jnp.broadcast_to(fn.loc, shape), tril


def _rows(tril: Any, some: tuple[np.ndarray, ...]) -> Any:
    """Those of a batch of lower factors, which may be one for all, or lack axes of the batch."""
    batch = tril.shape[:-2]
    if all(n == 1 for n in batch):
        return tril.reshape(tril.shape[-2:])
    places = some[len(some) - len(batch) :]
    return tril[tuple(i if n > 1 else np.zeros_like(i) for n, i in zip(batch, places, strict=True))]


def _covariance(tril: Any) -> Any:
    return jnp.matmul(tril, jnp.swapaxes(tril, -1, -2))


def _padded_covariance(covariance: Any, gone: np.ndarray) -> Any:
    """With independent standard normals in place of what is gone."""
    both = ~gone[..., :, None] & ~gone[..., None, :]
    return jnp.where(both, covariance, np.eye(gone.shape[-1], dtype=bool) & ~both)


def _padded(tril: Any, gone: np.ndarray) -> Any:
    covariance = _covariance(tril)
    return _factor(_padded_covariance(covariance, gone), covariance)


def _factor(matrix: Any, covariance: Any) -> Any:
    """A lower factor; what rounding takes from a matrix made from this covariance is put back."""
    n = covariance.shape[-1]
    most = jnp.max(jnp.diagonal(covariance, axis1=-2, axis2=-1), axis=-1)[..., None, None]
    return jnp.linalg.cholesky(matrix + n * jnp.finfo(covariance.dtype).eps * most * jnp.eye(n))
