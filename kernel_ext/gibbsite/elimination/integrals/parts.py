"""Which messages continuous sites make, together; and which sites can be integrated out."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import biject_to

from gibbsite.conditional.conjugate.certify import ConjugateConditional
from gibbsite.conditional.dispatch import conditional_of
from gibbsite.conditional.forms.walk import Refused
from gibbsite.conditional.linear.choose import coupled
from gibbsite.conditional.linear.joint import is_gaussian
from gibbsite.density import Density
from gibbsite.density.terms import summed
from gibbsite.elimination.integrals.conjugate import Message, conjugate_message, is_closed
from gibbsite.elimination.integrals.gaussian import gaussian_message, scaled_message
from gibbsite.errors import ModelError
from gibbsite.ground.once import once
from gibbsite.programs.jaxpr.compat import jit


def messages_of(density: Density, sites: Sequence[str]) -> tuple[Message, ...]:
    """The messages of continuous sites, one for each part that shares no term with the others.

    Raises `Refused`, with the site and what stands in its way.
    """
    return tuple(_message(density, part) for part in coupled(density, sites))


def _message(density: Density, part: tuple[str, ...]) -> Message:
    gaussian = tuple(s for s in part if is_gaussian(conditional_of(density, s), chains=True))
    others = tuple(s for s in part if s not in gaussian)
    for site in others:
        try:
            conjugate_message(conditional_of(density, site))
        except Refused as why:
            raise Refused(f"{site!r} cannot be integrated out: {why}") from why
    try:
        if not others:
            alone = conditional_of(density, part[0])
            if len(part) == 1 and isinstance(alone, ConjugateConditional):
                return conjugate_message(alone)
            return gaussian_message(density, part)
        if len(part) == 1:
            return conjugate_message(conditional_of(density, part[0]))
        if gaussian and len(others) == 1:
            return scaled_message(density, gaussian_message(density, gaussian), others[0])
    except Refused as why:
        raise Refused(f"{' and '.join(part)} cannot be integrated out together: {why}") from why
    named = " and ".join(part)
    raise Refused(
        f"{named} cannot be integrated out together: they share terms, and with one of them integrated out "
        f"the others have no conditional in closed form; integrate out {' or '.join(map(repr, part))} alone"
    )


def integrable(density: Density, sites: Sequence[str]) -> bool:
    """Whether the continuous `sites` can be integrated out in one block."""
    try:
        messages_of(density, sites)
    except Refused:
        return False
    return True


@once
def eliminable(density: Density) -> tuple[tuple[str, ...], ...]:
    """Blocks of continuous latents that can be integrated out exactly, each as one block: the largest first.

    The first takes in as many as it can, Gaussian sites before others, sites of many elements first; then
    come its parts that share no term, and every other site alone. Sites that decide the supports of others,
    and those without a conditional in closed form, are in none. Empty where there are none. Nothing is said
    of what pays.
    """
    found = []
    for name in density.latents:
        if density.sites[name].discrete:
            continue
        conditional = conditional_of(density, name)
        if (is_gaussian(conditional, chains=True) or is_closed(conditional)) and integrable(density, (name,)):
            found.append(name)

    def first(name: str) -> tuple[bool, int]:
        return not is_gaussian(conditional_of(density, name), chains=True), -int(
            np.prod(density.sites[name].shape, dtype=np.int64)
        )

    whole: tuple[str, ...] = ()
    for name in sorted(found, key=first):
        wider = tuple(n for n in density.latents if n in (*whole, name))
        if integrable(density, wider):
            whole = wider
    blocks = [whole, *coupled(density, list(whole)), *((n,) for n in found)]
    return tuple(dict.fromkeys(b for b in blocks if b))


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
            found, log_prob, curvature = jit(partial(_looked_at, density, message, names=mine))(latents, data)
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
