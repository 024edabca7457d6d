"""Integrals that are infinite, found before anything runs."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import biject_to

from gibbsite.density import Density
from gibbsite.density.terms import summed
from gibbsite.elimination.integrals.message import Message
from gibbsite.errors import ModelError

_IMPROPER = "ImproperUniform"


def check_finite(density: Density, sites: Sequence[str], messages: Sequence[Message]) -> None:
    """Refuse to integrate over sites whose conditional is improper; raises `ModelError`.

    Only a prior without an integral, or a factor of the user's own, can make one so. It is looked at where
    all that is left has an ordinary value: what data and other sites say of a Gaussian, and whether a family
    has parameters that it may have, does not hang on where.
    """
    own = [n for n in sites if _questionable(density, n)]
    if not own:
        return
    state = {}
    for name in density.latents:
        site = density.sites[name]
        if site.discrete:
            zero = np.zeros(site.shape, site.dtype)
            state[name] = zero if site.support is None else site.support.feasible_like(zero)
            continue
        to = biject_to(site.support)
        state[name] = to(jnp.full(to.inverse_shape(site.shape), 0.1))
    latents = density.state_values(state)
    data = tuple(density.arguments.arrays)
    for message in messages:
        mine = [n for n in own if n in message.sites]
        if not mine:
            continue
        try:
            found, log_prob, curvature = jax.jit(partial(_looked_at, density, message, names=mine))(
                latents, data
            )
        except ValueError as problem:  # NumPyro's, of parameters that its distribution cannot have
            raise _infinite(density, mine[0]) from problem
        for name in mine:
            spread = np.asarray(found[name].variance, np.float64)
            told = 1 / np.where(spread > 0, spread, np.inf)
            bound = np.asarray(curvature[name], np.float64) * 100 * np.finfo(density.sites[name].dtype).eps
            if (
                not np.isfinite(log_prob)
                or not np.all(np.isfinite(spread) & (spread > 0))
                or np.any(told <= bound)
            ):
                raise _infinite(density, name)


def _infinite(density: Density, name: str) -> ModelError:
    return ModelError(
        f"{name!r} cannot be integrated out: its prior is improper, and what the data and other sites "
        f"say leaves the integral over it infinite, or beyond the digits of "
        f"{density.sites[name].dtype}; give {name!r} a "
        f"proper prior, or leave it to NUTS"
    )


def _questionable(density: Density, name: str) -> bool:
    factors = set(density.factor_names)
    improper = density.sites[name].fn_name == _IMPROPER
    return improper or any(t.origin in factors for t, _ in density.terms_of(name))


def _looked_at(density: Density, message: Message, latents: Any, data: Any, names: Sequence[str]) -> Any:
    """Moments, log probability of the place, and the curvature of each element of sites alone at it."""
    place, log_prob = message.settled(latents, data, True)

    def total(name: str, x: Any) -> Any:
        ev = density.evaluator({**latents, **place, name: x}, data)
        return summed((t for t, _ in density.terms_of(name)), ev)

    def curvature(name: str) -> Any:
        x = place[name]

        def second(unit: Any) -> Any:
            slope = jax.grad(lambda v: total(name, v))
            return jnp.sum(jax.jvp(slope, (x,), (unit.reshape(x.shape),))[1] * unit.reshape(x.shape))

        units = jnp.eye(x.size, dtype=x.dtype)
        return -jax.lax.map(second, units, batch_size=16).reshape(x.shape)

    return message.moments(latents, data), log_prob, {n: curvature(n) for n in names}
