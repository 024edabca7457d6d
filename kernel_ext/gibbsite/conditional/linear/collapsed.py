"""A discrete site drawn with Gaussian sites integrated out, then these given it.

Where the value of a discrete site goes with coefficients that fit it (a change point and the lines on both
sides, an indicator and the coefficient that it lets in), draws in turn hardly move, or never. With the
Gaussian sites integrated out the probability of a value is that of the density at their mean, over the root
of the determinant of their precision (George and McCulloch 1997, "Approaches for Bayesian variable
selection", §4.2). Several elements are updated one after another.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gibbsite.conditional.draws.categorical import draw_index
from gibbsite.conditional.forms.walk import Refused
from gibbsite.conditional.linear.joint import joint_gaussian
from gibbsite.conditional.reads.support import FiniteSupport, finite_support
from gibbsite.density import Density
from gibbsite.errors import ModelError

# values whose Gaussians are solved for at once
_AT_ONCE = 64


class CollapsedBlock:
    """The update of a discrete `site` and of the Gaussian sites `inner`, which are integrated out for it."""

    def __init__(self, density: Density, site: str, inner: Sequence[str]):
        self.density, self.site, self.inner = density, site, tuple(inner)
        self.support = _support(density, site)
        self.gaussian = joint_gaussian(density, self.inner)
        sites = {site, *self.inner}
        self._terms = [t for t in density.terms if not density.maps.latents(t.atom).isdisjoint(sites)]
        near = [density.maps.latents(t.atom) for t in self._terms]
        if not any(site in n and n.intersection(inner) for n in near):
            raise Refused(f"{site} meets none of {', '.join(inner)} in any term")
        self.elements = int(np.prod(self.support.elements, dtype=np.int64))
        swept = f"; its {self.elements} elements one after another" if self.elements > 1 else ""
        self.reason = (
            f"{site} is drawn over its {self.support.size} values with {' and '.join(self.inner)} integrated "
            f"out, then these given it{swept}"
        )
        self.cost = f"{self.elements} × {self.support.size} + 1 times ({self.gaussian.cost})"

    def logits(self, value: Any, latents: Mapping[str, Any], data: Any) -> Any:
        """The log density of a value of the site with the Gaussian sites integrated out, up to a constant."""
        latents = {**latents, self.site: value}
        mean, factor = self.gaussian.solved(latents, data)
        ev = self.density.evaluator({**latents, **self.gaussian.values(mean)}, data)
        total = -factor.half_log_det
        for term in self._terms:
            part = term.contribution(ev.full(term.atom), ev.full)
            total = total + jnp.sum(jnp.broadcast_to(part, term.shape))
        return jnp.where(jnp.isnan(total), -jnp.inf, total)

    def update(self, key: Any, latents: Mapping[str, Any], data: Any) -> dict[str, Any]:
        """New values by site, pure in complete latent values and data arrays."""
        support, shape = self.support, self.density.sites[self.site].shape
        key, inner_key = jax.random.split(key)
        values = jnp.asarray(support.values)
        valid = None if support.valid is None else jnp.asarray(support.valid).reshape(support.size, -1)

        def element(z: Any, at: Any) -> tuple[Any, None]:
            i, key = at

            def score(value: Any) -> Any:
                return self.logits(z.at[i].set(value).reshape(shape), latents, data)

            logits = jax.lax.map(score, values, batch_size=min(_AT_ONCE, support.size))
            if valid is not None:
                logits = jnp.where(valid[:, i], logits, -jnp.inf)
            chosen = values[draw_index(key, logits, ())]
            # where nothing has a density, the site stays
            return z.at[i].set(jnp.where(jnp.any(logits > -jnp.inf), chosen, z[i])), None

        start = jnp.reshape(latents[self.site], (-1,))
        keys = jax.random.split(key, self.elements)
        z, _ = jax.lax.scan(element, start, (jnp.arange(self.elements), keys))
        z = z.reshape(shape)
        return {self.site: z, **self.gaussian.update(inner_key, {**latents, self.site: z}, data)}

    def sample(self, key: Any, state: Mapping[str, Any]) -> dict[str, Any]:
        """One update from the values in `state`, by site."""
        latents = self.density.state_values(state, without=self.inner)
        return self._sample(key, latents, tuple(self.density.arguments.arrays))

    @cached_property
    def _sample(self) -> Any:
        return jax.jit(self.update)

    @property
    def signature(self) -> str:
        """Equal for blocks whose compiled programs are the same for any data they are given."""
        support = self.support
        valid = None if support.valid is None else support.valid.tolist()
        return repr((self.site, support.values.tolist(), valid, self.gaussian.signature))


def _support(density: Density, site: str) -> FiniteSupport:
    try:
        support = finite_support(density, site)
    except ModelError as why:
        raise Refused(str(why)) from why
    if support is None or support.values.ndim > 1:
        raise Refused(f"{site} has no list of values")
    if density.bounds_of(site):
        raise Refused(f"{site} moves the support of another site")
    return support


def collapsed_block(density: Density, sites: Sequence[str]) -> CollapsedBlock:
    """The collapsed update of one discrete site and the Gaussian others; `Refused` where there is none.

    It is derived once per density.
    """
    discrete = [s for s in sites if density.sites[s].discrete]
    inner = [s for s in sites if s not in discrete]
    if len(discrete) != 1 or not inner:
        raise Refused("it takes one discrete site, and the Gaussian sites that are integrated out for it")
    key = ("collapsed", discrete[0], tuple(inner))
    if key not in density.cache:
        with jax.ensure_compile_time_eval():
            density.cache[key] = CollapsedBlock(density, discrete[0], inner)
    return density.cache[key]
