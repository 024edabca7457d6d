"""Draws and their gradients → a linear map that makes them alike in every direction.

The diagonal minimises the Fisher divergence of a diagonal normal distribution to the draws; the low-rank part
does so in the directions that are left, whose variance and mean squared gradient have a geometric mean far
from one (Seyboldt, Carlson and Carpenter, "Preconditioning Hamiltonian Monte Carlo by minimizing Fisher
divergence", 2025).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

MOST_RANK = 16
SMALL = 32
"""Dimensions up to which there are as many directions as dimensions."""
_CUTOFF = 2.0
_SHRINK = 0.05
_TINY = 1e-20


class Metric(NamedTuple):
    """The map `w → scale (w + U ((stretch − 1) Uᵀ w))` from coordinates in which momenta are standard normal.

    `scale` has shape `[d]`, `directions` (U, orthonormal columns, or zeros) `[d, k]`, `stretch` `[k]`.
    """

    scale: jax.Array
    directions: jax.Array
    stretch: jax.Array

    def apply(self, w: jax.Array) -> jax.Array:
        """The map, of a vector."""
        return self.scale * self._stretched(w, self.stretch)

    def transposed(self, g: jax.Array) -> jax.Array:
        """Its transpose: a gradient in the coordinates that the map leads from."""
        return self._stretched(self.scale * g, self.stretch)

    def untransposed(self, g: jax.Array) -> jax.Array:
        """The inverse of `transposed`."""
        return self._stretched(g, 1 / self.stretch) / self.scale

    def inverse(self, x: jax.Array) -> jax.Array:
        """The inverse of `apply`."""
        return self._stretched(x / self.scale, 1 / self.stretch)

    def _stretched(self, w: jax.Array, by: jax.Array) -> jax.Array:
        if not self.stretch.size:
            return w
        return w + self.directions @ ((by - 1) * (w @ self.directions))


def unit_metric(scale: jax.Array, rank: int) -> Metric:
    """A diagonal metric with room for `rank` directions."""
    return Metric(scale, jnp.zeros((scale.size, rank), scale.dtype), jnp.ones(rank, scale.dtype))


def moments(x: jax.Array, weight: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Mean and variance of the rows of `x` that `weight` (0 or 1, `[n]`) counts; 0 where it counts none."""
    weight = weight.reshape(-1, *(1,) * (x.ndim - 1))
    total = jnp.maximum(weight.sum(), 1)
    mean = jnp.sum(jnp.where(weight > 0, x, 0), 0) / total
    return mean, jnp.sum(jnp.where(weight > 0, (x - mean) ** 2, 0), 0) / total


def fisher_diagonal(x: jax.Array, g: jax.Array, weight: jax.Array) -> jax.Array:
    """Scales per coordinate from draws `x` and gradients `g`, both `[n, d]`: sd² = √(var x / var g)."""
    _, spread = moments(x, weight)
    _, slope = moments(g, weight)
    return jnp.clip(((spread + _TINY) / (slope + _TINY)) ** 0.25, 1e-10, 1e10)


def divergence(x: jax.Array, g: jax.Array, weight: jax.Array) -> jax.Array:
    """½ log (var x · var g) by coordinate: 0 for a normal one independent of the others, else above."""
    return log_product(moments(x, weight)[1], moments(g, weight)[1])


def log_product(spread: jax.Array, slope: jax.Array) -> jax.Array:
    """`divergence`, from the variances."""
    return 0.5 * (jnp.log(spread + _TINY) + jnp.log(slope + _TINY))


def _power(matrix: jax.Array, power: float) -> jax.Array:
    values, vectors = jnp.linalg.eigh(matrix)
    return (vectors * jnp.maximum(values, 1e-12) ** power) @ vectors.T


def low_rank(x: jax.Array, g: jax.Array, weight: jax.Array, scale: jax.Array, rank: int) -> Metric:
    """The metric with the `rank` directions that `scale` alone leaves most uneven.

    Directions are eigenvectors of the geometric mean of the draws' covariance and the inverse of their
    gradients', both shrunk towards one; those within a factor of two of one are left alone.
    """
    n, d = jnp.maximum(weight.sum(), 1), x.shape[1]

    def covariance(rows: jax.Array) -> jax.Array:
        mean, _ = moments(rows, weight)
        rows = jnp.where(weight[:, None] > 0, rows - mean, 0)
        shrink = _SHRINK * d / n
        return (rows.T @ rows / n + shrink * jnp.eye(d, dtype=x.dtype)) / (1 + shrink)

    spread, slope = covariance(x / scale), covariance(g * scale)
    root, inverse = _power(slope, 0.5), _power(slope, -0.5)
    values, vectors = jnp.linalg.eigh(inverse @ _power(root @ spread @ root, 0.5) @ inverse)
    uneven = jnp.abs(jnp.log(jnp.maximum(values, 1e-12)))
    size, order = jax.lax.top_k(uneven, rank)
    kept = size > jnp.log(_CUTOFF)
    directions = jnp.where(kept, vectors[:, order], 0.0)
    return Metric(scale, directions, jnp.where(kept, jnp.sqrt(jnp.maximum(values[order], 1e-12)), 1.0))
