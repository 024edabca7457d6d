"""Coordinates of positive numbers between their logarithm and themselves, learnt from draws and gradients.

The scale of a hierarchy that may be 0 has a logarithm with a long lower tail, which no metric makes normal,
and a chain crosses slowly. `u = (κ + log(exp(exp(a v − κ)) − 1)) / a` is v, the logarithm, far below its knee
κ / a, and grows as exp(a v) far above: at a = 1 the inverse of the softplus function, at −½ what it is of a
scale to its precision. Power and knee are those for which draws and gradients are most nearly normal: they
minimise the Fisher divergence of a normal distribution, as degrees of centring do.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gibbsite.kernels.learnt.metric import divergence, moments

_POWERS = (1.0, 0.5, -0.5, -1.0)
_MEANS = (-1.5, -1.0, -0.5, 0.0, 0.25)
"""Of a v − κ. No further on: where most draws lie far above the knee, steps that fit them leap over the bend
from below it, and a chain that comes there stays (group counts, one run in five)."""
_TIE = 0.05
_FAR, _MOST = -8.0, 80.0


class Bends(NamedTuple):
    """Power and knee of every element that may be bent, `[bends]` each; with an infinite knee v stays."""

    power: jax.Array
    knee: jax.Array


def straight(count: int) -> Bends:
    """Nothing is bent."""
    return Bends(jnp.ones(count), jnp.full(count, jnp.inf))


def bent_to(v: jax.Array, bends: Bends) -> jax.Array:
    """v → u."""
    still = jnp.isinf(bends.knee)
    knee = jnp.where(still, 0.0, bends.knee)
    s = jnp.where(still, 0.0, bends.power * v - knee)
    return jnp.where(still, v, (knee + _inverse_softplus_exp(s)) / bends.power)


def bent_from(u: jax.Array, bends: Bends) -> tuple[jax.Array, jax.Array]:
    """u → v and log dv/du, element by element."""
    still = jnp.isinf(bends.knee)
    knee = jnp.where(still, 0.0, bends.knee)
    t = jnp.where(still, 0.0, bends.power * u - knee)
    s = _log_softplus(t)
    return jnp.where(still, u, (knee + s) / bends.power), jnp.where(still, 0.0, _log_slope(t, s))


def bent(v: jax.Array, g: jax.Array, bends: Bends) -> tuple[jax.Array, jax.Array]:
    """u, and the gradient by it of the logdensity of u, from v and the gradient by it of that of v."""
    u = bent_to(v, bends)
    still = jnp.isinf(bends.knee)
    t = jnp.where(still, 0.0, bends.power * u - jnp.where(still, 0.0, bends.knee))
    slope = jnp.exp(_log_slope(t, _log_softplus(t)))
    return u, jnp.where(still, g, slope * g + bends.power * (1 - jax.nn.sigmoid(t) - slope))


def learnt_bends(v: jax.Array, g: jax.Array, weight: jax.Array) -> tuple[Bends, tuple[jax.Array, jax.Array]]:
    """The bends that fit draws and gradients `[n, bends]`, and F of every element as written and with them.

    An element stays straight unless that is worse by more than noise.
    """
    mean, _ = moments(v, weight)
    power, at = (jnp.asarray(a, v.dtype).ravel() for a in np.meshgrid(_POWERS, _MEANS, indexing="ij"))

    def tried(power: jax.Array, at: jax.Array) -> jax.Array:
        bends = Bends(jnp.broadcast_to(power, mean.shape), power * mean - at)
        return divergence(*bent(v, g, bends), weight)

    plain = divergence(v, g, weight)
    tables = jax.lax.map(lambda c: tried(*c), (power, at))
    tables = jnp.where(jnp.isfinite(tables), tables, jnp.inf)
    best, least = jnp.argmin(tables, 0), tables.min(0)
    better = least + _TIE < plain
    knee = jnp.where(better, power[best] * mean - at[best], jnp.inf)
    return Bends(jnp.where(better, power[best], 1.0), knee), (plain, jnp.where(better, least, plain))


def _inverse_softplus_exp(s: jax.Array) -> jax.Array:
    """log(exp(exp(s)) − 1)."""
    e = jnp.exp(jnp.minimum(s, _MOST))
    near = jnp.maximum(e, np.exp(_FAR))
    return jnp.where(s < _FAR, s + e / 2, near + jnp.log(-jnp.expm1(-near)))


def _log_softplus(t: jax.Array) -> jax.Array:
    """log(log(1 + exp(t)))."""
    far = t < _FAR
    return jnp.where(
        far, t - jnp.exp(jnp.minimum(t, _FAR)) / 2, jnp.log(jax.nn.softplus(jnp.where(far, 0.0, t)))
    )


def _log_slope(t: jax.Array, s: jax.Array) -> jax.Array:
    """log ds/dt of s, the logarithm of softplus at t."""
    far = t < _FAR
    near = jnp.where(far, 0.0, t)
    return jnp.where(
        far, -jnp.exp(jnp.minimum(t, _FAR)) / 2, jax.nn.log_sigmoid(near) - jnp.where(far, 0.0, s)
    )
