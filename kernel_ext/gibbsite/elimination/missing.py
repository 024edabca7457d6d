"""How much of the information on the other sites is lost because discrete ones are not observed.

With the discrete sites known, a step of Gibbs draws the others from what they and the data say together. The
share λ of that information which the data alone do not have is the rate at which such a sampler forgets: it
makes (1 − λ) / (1 + λ) effective draws per sweep (Dempster, Laird and Rubin 1977; Liu 1994, "The fraction of
missing information and convergence rate for data augmentation").
"""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from numpyro.distributions.transforms import biject_to

from gibbsite.elimination.marginal import Marginal
from gibbsite.trace.jaxpr.for_cpu import jitted

DRAWS = 256
MOST_COORDINATES = 64


def missing_fraction(marginal: Marginal, latents: Mapping[str, Any], key: Any) -> float | None:
    """The largest share λ of missing information about any direction of the continuous sites, at `latents`
    (their values by name, best a posterior mean): the largest eigenvalue of the scores' variance over draws
    of the discrete sites, measured by the mean information with these known (Louis 1982).

    None where there is nothing continuous, or more than `MOST_COORDINATES` numbers of it.
    """
    density = marginal.density
    data = tuple(density.arguments.arrays)
    given = marginal.left(latents)
    smooth = {n: v for n, v in given.items() if not density.sites[n].discrete}
    transforms = {n: biject_to(density.sites[n].support) for n in smooth}
    free = {n: jnp.asarray(transforms[n].inv(v), jnp.result_type(float)) for n, v in smooth.items()}
    start, unravel = ravel_pytree(free)
    if not 0 < start.size <= MOST_COORDINATES:
        return None

    def logdensity(u: Any, z: Mapping[str, Any]) -> Any:
        total: Any = jnp.zeros(())
        values = {}
        for n, x in unravel(u).items():
            values[n] = transforms[n](x)
            total = total + jnp.sum(transforms[n].log_abs_det_jacobian(x, values[n]))
        ev = density.evaluator({**given, **values, **z}, data)
        for term in density.terms:
            part = term.contribution(ev.lazy(term.atom), ev.full)
            total = total + jnp.sum(jnp.broadcast_to(part, term.shape))
        return total

    def measured(key: Any, u: Any) -> tuple[Any, Any]:
        def one(key: Any) -> tuple[Any, Any]:
            z = density.packed(marginal.draw_at(key, given, data))
            score = jax.grad(logdensity)
            return score(u, z), -jax.jacfwd(score)(u, z)

        scores, information = jax.lax.map(one, jax.random.split(key, DRAWS), batch_size=16)
        return jnp.atleast_2d(jnp.cov(scores.T)), jnp.mean(information, axis=0)

    lost, whole = (np.asarray(x, np.float64) for x in jitted(measured)(key, start))
    values, vectors = np.linalg.eigh((whole + whole.T) / 2)
    if not (np.isfinite(whole).all() and np.isfinite(lost).all()) or values[0] <= 1e-6 * values[-1]:
        return None  # not at a mode: nothing can be said
    root = vectors / np.sqrt(values)
    return float(np.clip(np.linalg.eigvalsh(root.T @ lost @ root)[-1], 0.0, 1.0))
