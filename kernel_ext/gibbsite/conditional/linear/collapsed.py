"""Sites drawn with Gaussian sites integrated out, then these given them.

Where the value of a discrete site goes with coefficients that fit it (a change point and the lines on both
sides, an indicator and the coefficient that it lets in), draws in turn hardly move, or never; and given few
effects, their scale moves little. Such sites are drawn first, each of their elements given the others, from
their density with the Gaussian sites integrated out, and these jointly right after: nothing in between is
drawn given values of the Gaussian sites that belong to other values of theirs (van Dyk and Park 2008,
"Partially collapsed Gibbs samplers").
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions.transforms import biject_to

from gibbsite.conditional.dispatch import conditional_of
from gibbsite.conditional.draws.categorical import draw_index
from gibbsite.conditional.draws.slice import evaluations, slice_in_turn
from gibbsite.conditional.forms.walk import Refused
from gibbsite.conditional.linear.joint import JointGaussian, is_gaussian, joint_gaussian
from gibbsite.conditional.reads.support import FiniteSupport, bounded_by, finite_support, support_movers
from gibbsite.conditional.update import Drawn, Update
from gibbsite.density import Density
from gibbsite.density.model.bounds import base_constraint
from gibbsite.density.terms import summed
from gibbsite.errors import ModelError
from gibbsite.ground.once import once

# values whose Gaussians are solved for at once
_AT_ONCE = 64
# the first interval of a slice, in units of the unconstrained coordinate, and the most steps out of it
_WIDTH, _MOST_STEPS = 2.0, 16

Latents = Mapping[str, Any]
LogDensity = Callable[[Latents], Any]


class Listed:
    """A discrete site, element after element drawn over its list of values."""

    def __init__(self, density: Density, site: str):
        self.density, self.site = density, site
        self.support = _listed(density, site)
        self.elements = int(np.prod(self.support.elements, dtype=np.int64))
        self.evaluations = self.elements * self.support.size
        self.told = f"drawn over its {self.support.size} values"

    def update(self, key: Any, latents: Latents, logdensity: LogDensity) -> Any:
        """A new value, from a log density of all latent values."""
        support, shape = self.support, self.density.sites[self.site].shape
        values = jnp.asarray(support.values)
        valid = None if support.valid is None else jnp.asarray(support.valid).reshape(support.size, -1)

        def element(z: Any, at: Any) -> tuple[Any, None]:
            i, key = at

            def score(value: Any) -> Any:
                return logdensity({**latents, self.site: z.at[i].set(value).reshape(shape)})

            logits = jax.lax.map(score, values, batch_size=min(_AT_ONCE, support.size))
            if valid is not None:
                logits = jnp.where(valid[:, i], logits, -jnp.inf)
            chosen = values[draw_index(key, logits, ())]
            # where nothing has a density, the site stays
            return z.at[i].set(jnp.where(jnp.any(logits > -jnp.inf), chosen, z[i])), None

        start = jnp.reshape(latents[self.site], (-1,))
        keys = jax.random.split(key, self.elements)
        z, _ = jax.lax.scan(element, start, (jnp.arange(self.elements), keys))
        return z.reshape(shape)

    @property
    def signature(self) -> str:
        """Equal where the compiled programs are the same for any data they are given."""
        valid = None if self.support.valid is None else self.support.valid.tolist()
        return repr((self.site, self.support.values.tolist(), valid))


class Sliced:
    """A continuous site, element after element by a slice through its unconstrained coordinate."""

    def __init__(self, density: Density, site: str):
        self.density, self.site = density, site
        _check_continuous(density, site)
        self.elements = int(np.prod(density.sites[site].shape, dtype=np.int64))
        self.evaluations = round(evaluations(known=False)) * self.elements
        self.told = "sliced"

    def update(self, key: Any, latents: Latents, logdensity: LogDensity) -> Any:
        """A new value, from a log density of all latent values."""
        site = self.density.sites[self.site]
        transform = biject_to(site.support)
        value = jnp.asarray(latents[self.site], jnp.result_type(float))
        flat = jnp.reshape(transform.inv(value), (-1,))
        # a value on the edge of its support by rounding has no coordinate
        flat = jnp.nan_to_num(flat, posinf=1e3, neginf=-1e3)

        def score(flat: Any) -> Any:
            u = flat.reshape(site.shape)
            z = transform(u)
            moved = jnp.sum(transform.log_abs_det_jacobian(u, z))
            total = moved + logdensity({**latents, self.site: z.astype(site.dtype)})
            return jnp.where(jnp.isnan(total), -jnp.inf, total)

        flat, _ = slice_in_turn(key, score, flat, _WIDTH, _MOST_STEPS, known=False)
        return transform(flat.reshape(site.shape)).astype(site.dtype)

    @property
    def signature(self) -> str:
        """Equal where the compiled programs are the same for any data they are given."""
        return repr((self.site, "sliced"))


Outer = Listed | Sliced


def outer_site(density: Density, site: str) -> Outer:
    """How a site is drawn while others are integrated out; `Refused`, with the reason, where it cannot be."""
    return Listed(density, site) if density.sites[site].discrete else Sliced(density, site)


def _check_continuous(density: Density, name: str) -> None:
    movers = support_movers(density, name) or bounded_by(density, name)
    if movers:
        raise Refused(f"a support moves with {name} or with {', '.join(sorted(movers))}")
    site = density.sites[name]
    if site.support is None or base_constraint(site.support).event_dim:
        raise Refused(f"the elements of {name} do not move one by one")


def _listed(density: Density, site: str) -> FiniteSupport:
    try:
        support = finite_support(density, site)
    except ModelError as why:
        raise Refused(str(why)) from why
    if support is None or support.values.ndim > 1:
        raise Refused(f"{site} has no list of values")
    if density.bounds_of(site):
        raise Refused(f"{site} moves the support of another site")
    return support


class CollapsedDraw(Update):
    """The update of `outer` sites with those of `gaussian` integrated out, and of these given them."""

    measured = True

    def __init__(self, density: Density, outer: Sequence[str], gaussian: JointGaussian):
        self.density, self.gaussian = density, gaussian
        self.outer = tuple(outer_site(density, s) for s in outer)
        self.sites, self.eliminated = (*outer, *gaussian.sites), gaussian.sites
        near = density.terms_reading(self.sites)
        self._terms = [t for i, t in near.items() if i not in gaussian.without]
        self.evaluations = sum(s.evaluations for s in self.outer)
        inner = " and ".join(gaussian.sites)
        told = "; ".join(f"{s.site} is {s.told} with {inner} integrated out" for s in self.outer)
        swept = [s for s in self.outer if s.elements > 1]
        told += "".join(f"; the {s.elements} elements of {s.site} one after another" for s in swept)
        self.reason = f"{told}; then {gaussian.reason}"
        self.cost = f"{self.evaluations} + 1 times ({gaussian.cost})"

    def logdensity(
        self, latents: Mapping[str, Any], data: Any, auxiliary: Mapping[str, Any] | None = None
    ) -> Any:
        """The log density of the outer sites, up to a constant, at latent values by site: a scalar, −inf
        where it is undefined.

        It is the density at the Gaussian sites' mean, over the root of the determinant of their precision
        (George and McCulloch 1997, "Approaches for Bayesian variable selection", §4.2).
        """
        mean, factor, _ = self.gaussian.solved(latents, data, auxiliary)
        ev = self.density.evaluator({**latents, **self.gaussian.values(mean)}, data)
        total = self.gaussian.replaced_at(ev, auxiliary or {}) - factor.half_log_det
        total = summed(self._terms, ev, total)
        return jnp.where(jnp.isnan(total), -jnp.inf, total)

    @property
    def fresh(self) -> tuple[str, ...]:
        """The Gaussian sites."""
        return self.eliminated

    def drawn(
        self, key: Any, latents: Mapping[str, Any], data: Any, auxiliary: Mapping[str, Any] | None = None
    ) -> Drawn:
        """One update of the outer sites, then a draw of the Gaussian ones."""
        key, *keys = jax.random.split(key, 1 + len(self.outer))
        drawn: dict[str, Any] = {}
        for site, k in zip(self.outer, keys, strict=True):
            here = {**latents, **drawn}
            drawn[site.site] = site.update(k, here, lambda x: self.logdensity(x, data, auxiliary))
        found, rounding = self.gaussian.drawn(key, {**latents, **drawn}, data, auxiliary)
        return Drawn({**drawn, **found}, rounding)

    @property
    def signature(self) -> str:
        return repr(([s.signature for s in self.outer], self.gaussian.signature))


@once
def collapsed_block(density: Density, sites: Sequence[str]) -> CollapsedDraw:
    """The collapsed update of the Gaussian ones among `sites` and of the others; `Refused` where there is
    none.

    It is derived once per density.
    """
    inner = [s for s in sites if not density.sites[s].discrete and is_gaussian(conditional_of(density, s))]
    outer = [s for s in sites if s not in inner]
    if not outer or not inner:
        raise Refused(
            "it takes sites that are Gaussian given the rest, and a discrete one or a scale that is drawn "
            "with them integrated out"
        )
    near = [density.maps.latents(t.atom) for t in density.terms]
    for s in outer:
        if not any(s in n and n.intersection(inner) for n in near):
            raise Refused(f"{s} meets none of {', '.join(inner)} in any term")
    return CollapsedDraw(density, outer, joint_gaussian(density, inner))
