"""What is left of a model when Gaussian sites are integrated out, by dense algebra on NumPyro's own log
density."""

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from numpyro.infer.util import log_density


def dense(case, shapes):
    """A function of the state of the rest: log density with all constants, and `(mean, covariance)` of the
    sites as flat vectors with the way back to arrays by site."""
    zero, unravel = ravel_pytree({s: jnp.zeros(shapes[s]) for s in case.sites})

    def joint(x, state):
        return log_density(case.fn, case.args, {}, {**state, **unravel(x)})[0]

    def truth(state):
        precision = -jax.hessian(joint)(zero, state)
        slope = jax.grad(joint)(zero, state)
        covariance = jnp.linalg.inv(precision)
        mean = covariance @ slope
        value = joint(mean, state) + (len(zero) * jnp.log(2 * jnp.pi) - jnp.linalg.slogdet(precision)[1]) / 2
        return value, (mean, covariance)

    return truth, unravel
