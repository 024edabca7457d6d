"""How much of the information on the other sites is lost because discrete ones are not observed.

With the discrete sites known, a step of Gibbs draws the others from what they and the data say together. The
share λ of that information which the data alone do not have is the rate at which such a sampler forgets: it
makes (1 − λ) / (1 + λ) effective draws per sweep (Dempster, Laird and Rubin 1977; Liu 1994, "The fraction of
missing information and convergence rate for data augmentation").
"""

import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from numpyro.distributions.transforms import biject_to

from gibbsite.density.terms import summed
from gibbsite.elimination.marginal import Marginal
from gibbsite.programs.jaxpr.compiling import Quick

DRAWS = 256
MOST_COORDINATES = 64


def missing_fraction(marginal: Marginal, latents: Mapping[str, Any], key: Any) -> float | None:
    """The largest share λ of missing information about any direction of the continuous sites, at `latents`
    (their values by name, best a posterior mean): the largest eigenvalue of the scores' variance over draws
    of the discrete sites, measured by the mean information with these known (Louis 1982).

    None where there is nothing continuous, or more than `MOST_COORDINATES` numbers of it.
    """
    return MissingFraction(marginal)(latents, key, tuple(marginal.density.arguments.arrays))


class MissingFraction:
    """The same for models of one structure: compiled once, called as `(latents, key, data)`."""

    def __init__(self, marginal: Marginal):
        self._marginal = marginal
        self._measured = Quick(self._measure)

    def __call__(self, latents: Mapping[str, Any], key: Any, data: Any) -> float | None:
        """λ at `latents`, with the data arrays `data`."""
        density = self._marginal.density
        given = dict(self._marginal.left(latents))
        kept = {n: np.asarray(given.pop(n)) for n in list(given) if not density.sites[n].discrete}
        size = sum(math.prod(_free(density.sites[n]).inverse_shape(x.shape)) for n, x in kept.items())
        if not 0 < size <= MOST_COORDINATES:
            return None
        lost, whole = (np.asarray(x, np.float64) for x in self._measured(key, kept, given, data))
        if not (np.isfinite(whole).all() and np.isfinite(lost).all()):
            return None  # as where a probability was clamped to zero
        values, vectors = np.linalg.eigh((whole + whole.T) / 2)
        if values[0] <= 1e-6 * values[-1]:
            return None  # not at a mode: nothing can be said
        root = vectors / np.sqrt(values)
        return float(np.clip(np.linalg.eigvalsh(root.T @ lost @ root)[-1], 0.0, 1.0))

    def _measure(self, key: Any, kept: Any, fixed: Any, data: Any) -> tuple[Any, Any]:
        """Variance of the scores over draws of the discrete sites; mean information with these known."""
        density = self._marginal.density
        free = {n: _free(density.sites[n]).inv(x).astype(jnp.result_type(float)) for n, x in kept.items()}
        start, unravel = ravel_pytree(free)

        def values_at(u: Any) -> tuple[dict[str, Any], Any]:
            values, total = {}, jnp.zeros(())
            for n, x in unravel(u).items():
                transform = _free(density.sites[n])
                values[n] = transform(x)
                total = total + jnp.sum(transform.log_abs_det_jacobian(x, values[n]))
            return values, total

        def logdensity(u: Any, z: Mapping[str, Any]) -> Any:
            values, total = values_at(u)
            ev = density.evaluator({**fixed, **values, **z}, data)
            return summed(density.terms, ev, total, lazily=True)

        given = {**fixed, **values_at(start)[0]}

        def one(key: Any) -> tuple[Any, Any]:
            drawn = density.packed(self._marginal.draw_at(key, given, data))
            z = {n: v for n, v in drawn.items() if n in density.latent_vars}
            score = jax.grad(logdensity)
            return score(start, z), -jax.jacfwd(score)(start, z)

        scores, information = jax.lax.map(one, jax.random.split(key, DRAWS), batch_size=16)
        return jnp.atleast_2d(jnp.cov(scores.T)), jnp.mean(information, axis=0)


def _free(site: Any) -> Any:
    """The way from unconstrained coordinates to a site's values."""
    return biject_to(site.support)
