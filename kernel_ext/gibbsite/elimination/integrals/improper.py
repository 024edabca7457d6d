"""Which flat priors leave a density without an integral, so that there is no posterior."""

import logging
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import biject_to, constraints

from gibbsite.conditional.dispatch import conditional_of
from gibbsite.conditional.forms.walk import Refused
from gibbsite.conditional.linear.joint import is_gaussian
from gibbsite.density import Density
from gibbsite.density.model.bounds import base_constraint
from gibbsite.density.terms import summed
from gibbsite.elimination.integrals.conjugate import Message, is_closed
from gibbsite.elimination.integrals.parts import messages_of
from gibbsite.errors import ModelError
from gibbsite.programs.jaxpr.compat import jit

_log = logging.getLogger("gibbsite")
_IMPROPER = "ImproperUniform"


def check_finite(density: Density, sites: Sequence[str], messages: Sequence[Message]) -> None:
    """Refuse to integrate over sites whose conditional is improper; raises `ModelError`.

    Only a prior without an integral, or a factor of the user's own, can make one so. It is looked at where
    all that is left has an ordinary value: what data and other sites say of a Gaussian, and whether a family
    has parameters that it may have, does not hang on where.
    """
    own = [n for n in sites if _questionable(density, n)]
    if name := next(_without_integral(density, own, messages), None):
        raise ModelError(
            f"{name!r} cannot be integrated out: its prior is improper, and what the data and other sites "
            f"say leaves the integral over it infinite, or beyond the digits of "
            f"{density.sites[name].dtype}; give {name!r} a "
            f"proper prior, or leave it to NUTS"
        )


def improper(density: Density) -> tuple[str, ...]:
    """The latents of improper priors over which, given the rest, the density has no integral, or none that
    its digits tell from that: there is no posterior then. Of models without discrete latents, those whose
    conditionals are Gaussian are looked at together, and others that are conjugate one by one; of others,
    whether the density is the same all along a line."""
    flat = [n for n in density.latents if density.sites[n].fn_name == _IMPROPER]
    if not flat or any(density.sites[n].discrete for n in density.latents):
        return ()
    gaussian = [n for n in flat if is_gaussian(conditional_of(density, n), chains=True)]
    closed = [n for n in flat if n not in gaussian and is_closed(conditional_of(density, n))]
    found = [] if len(gaussian) == len(flat) else [*_level(density, flat)]
    for names in filter(None, (gaussian, *([n] for n in closed))):
        try:
            messages = messages_of(density, names)
        except Refused:  # nothing is known of them together
            continue
        found += _without_integral(density, names, messages)
    return tuple(found)


_MOST_FLAT = 256
"""Numbers of flat priors whose second derivatives are looked at."""
_ALONG = np.array([-300.0, -7.0, 7.0, 300.0])


def _level(density: Density, flat: Sequence[str]) -> Sequence[str]:
    """Sites without bounds along a line of which the log density is the same, from wherever it is left."""
    own = [n for n in flat if base_constraint(density.sites[n].support) is constraints.real]
    sizes = [int(np.prod(density.sites[n].shape)) for n in own]
    if not 0 < sum(sizes) <= _MOST_FLAT:
        return ()
    start = density.state_values(_ordinary(density))

    def at(x: Any) -> Any:
        parts = jnp.split(x, np.cumsum(sizes)[:-1])
        mine = {n: p.reshape(density.sites[n].shape) for n, p in zip(own, parts, strict=True)}
        return density.log_joint({**start, **mine})

    where = jnp.asarray(np.random.default_rng(0).normal(0.0, 0.3, (2, sum(sizes))))
    bent = np.asarray(jit(jax.hessian(at))(where[0]), np.float64)
    eps = float(np.finfo(where.dtype).eps)
    if not np.isfinite(bent).all():
        return ()
    values, vectors = np.linalg.eigh(bent)
    for k in np.flatnonzero(np.abs(values) <= 1e3 * eps * np.abs(values).max()):
        line = vectors[:, k]
        steps = jnp.asarray(where[:, None] + _ALONG[:, None] * line)
        found, level = (np.asarray(jit(jax.vmap(at))(x.reshape(-1, line.size))) for x in (steps, where))
        apart = np.abs(found.reshape(2, -1) - level[:, None])
        if (apart <= 1e4 * eps * (1 + np.abs(level[:, None]))).all():
            ends = np.cumsum([0, *sizes])
            return [n for n, a, b in zip(own, ends, ends[1:], strict=False) if np.abs(line[a:b]).max() > 0.01]
    return ()


def _ordinary(density: Density) -> dict[str, Any]:
    """A value of every latent in the middle of its support."""
    state = {}
    for name in density.latents:
        site = density.sites[name]
        if site.discrete:
            zero = np.zeros(site.shape, site.dtype)
            state[name] = zero if site.support is None else site.support.feasible_like(zero)
            continue
        to = biject_to(site.support)
        state[name] = to(jnp.full(to.inverse_shape(site.shape), 0.1))
    return state


def _without_integral(density: Density, own: Sequence[str], messages: Sequence[Message]) -> Iterator[str]:
    if not own:
        return
    latents = density.state_values(_ordinary(density))
    data = tuple(density.arguments.arrays)
    for message in messages:
        mine = [n for n in own if n in message.sites]
        if not mine:
            continue
        try:
            proper = message.proper(latents, data)
            if proper is not None:
                yield from () if bool(proper) else mine
                continue
            found, log_prob, curvature = jit(partial(_looked_at, density, message, names=mine))(latents, data)
        except ValueError as problem:  # NumPyro's, of parameters that its distribution cannot have
            _log.debug("%s: %s", mine, problem)
            yield from mine
            continue
        for name in mine:
            spread = np.asarray(found[name].variance, np.float64)
            told = 1 / np.where(spread > 0, spread, np.inf)
            bound = np.asarray(curvature[name], np.float64) * 100 * np.finfo(density.sites[name].dtype).eps
            if (
                not np.isfinite(log_prob)
                or not np.all(np.isfinite(spread) & (spread > 0))
                or np.any(told <= bound)
            ):
                yield name


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
