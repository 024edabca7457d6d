"""Conjugate conditionals: certified on the jaxpr, then read off it.

The conditional of a continuous site is conjugate where its log density, as a function of the site, is a
linear combination of the statistics of a family that can be drawn exactly, element by element, or where it
is a quadratic form of the whole site. Prior art: Lai, Burroni, Guan and Sun, "Automatically marginalized
MCMC in probabilistic programming" (2023), on jaxprs; AugurV2 and NIMBLE by tables.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import jax.numpy as jnp
import numpy as np

from gibbsite.conditional.conditional import Conditional
from gibbsite.conditional.conjugate.families import Family, family_for
from gibbsite.conditional.forms.forms import Key, key_text
from gibbsite.conditional.forms.support import (
    Limit,
    Support,
    limited,
    limited_interval,
    limits_of,
    support_of,
)
from gibbsite.conditional.forms.walk import Assumed, statistics
from gibbsite.density import Density
from gibbsite.programs.passes.for_cpu import jitted


class ConjugateConditional(Conditional):
    """An exact conditional whose elements are independent members of one family.

    `family` names it. `natural(state)` gives the coefficients of its statistics, `distribution(state)` the
    NumPyro distribution that is drawn from.
    """

    kind = "conjugate"

    def __init__(
        self,
        density: Density,
        site: str,
        support: Support,
        family: Family,
        keys: tuple[Key, ...],
        limits: tuple[Limit, ...] = (),
        assumed: Assumed | None = None,
    ):
        self.family, self.support, self.keys, self.limits = family, support, keys, limits
        self.assumed = dict(assumed or {})
        touched = [t for t, _ in density.terms_of(site)]
        origins = ", ".join(dict.fromkeys(t.origin for t in touched))
        n = sum(int(np.prod(t.shape, dtype=np.int64)) for t in touched)
        reason = f"{family.name}: the log density is linear in {family.text}, in the terms of {origins}"
        if limits:
            reason += f"; limited by the values of {', '.join(dict.fromkeys(m.of for m in limits))}"
        super().__init__(density, site, reason, f"one pass over {n} term elements")

    def _stats(self, latents: Mapping[str, Any], data: Any, **owed: Any) -> dict[Key, Any]:
        return statistics(self.density, self.site, self.support.domain, latents, data, self.assumed, **owed)

    def _bounds(self, latents: Mapping[str, Any], data: Any) -> tuple[Any, Any]:
        read = self.density.evaluator({n: v for n, v in latents.items() if n != self.site}, data)
        low, high = (
            e if e is None or isinstance(e, float) else read.full(e)
            for e in (self.support.low, self.support.high)
        )
        if not self.limits:
            return low, high
        ends = limited_interval(
            self.density, self.site, self.limits, self.support.domain, latents, data, self.assumed
        )
        low = ends[0] if low is None else jnp.maximum(low, ends[0])
        return low, ends[1] if high is None else jnp.minimum(high, ends[1])

    def update(self, key: Any, latents: Mapping[str, Any], data: Any) -> Any:
        site = self.density.sites[self.site]
        event = 1 if self.support.kind == "simplex" else 0
        d = self.distribution_at(latents, data).expand(site.shape[: len(site.shape) - event])
        return d.sample(key).astype(site.dtype)

    def statistics_at(self, latents: Mapping[str, Any], data: Any) -> dict[Key, Any]:
        """The coefficients of the statistics by their keys, each of the site's shape."""
        shape = self.density.sites[self.site].shape
        return {k: jnp.broadcast_to(v, shape) for k, v in self._stats(latents, data).items()}

    def parts(self, origin: str, latents: Mapping[str, Any], data: Any) -> tuple[dict[Key, Any], ...]:
        """As `statistics_at`, of the statement `origin`, and of all others."""
        shape = self.density.sites[self.site].shape
        found = (
            self._stats(latents, data, owed=lambda other: other == origin),
            self._stats(latents, data, owed=lambda other: other != origin),
        )
        return tuple({k: jnp.broadcast_to(v, shape) for k, v in stats.items()} for stats in found)

    def natural(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """Coefficients of the statistics, each of the site's shape, by the statistic's name."""
        shape = self.density.sites[self.site].shape
        found = self._natural(self._latents(state), self._data)
        return {
            key_text(k, self.site): jnp.broadcast_to(v, shape) for k, v in zip(self.keys, found, strict=True)
        }

    def distribution(self, state: Mapping[str, Any]) -> Any:
        """The NumPyro distribution that is drawn from."""
        return self.distribution_at(self._latents(state), self._data)

    def distribution_at(self, latents: Mapping[str, Any], data: Any) -> Any:
        """As `distribution`, at complete latent values and data arrays."""
        return self.family.distribution(self.statistics_at(latents, data), self._bounds(latents, data))

    @property
    def signature(self) -> str:
        limits = [(m.of, m.sign) for m in self.limits]
        return repr((self.family.name, self.site, self.keys, limits))

    @cached_property
    def _natural(self) -> Any:
        return jitted(lambda latents, data: tuple(self._stats(latents, data)[k] for k in self.keys))


def certified(density: Density, site: str, assumed: Assumed | None = None) -> ConjugateConditional:
    """The conditional whose elements are drawn by themselves, where some sites may have `assumed` values;
    `Refused` where there is none."""
    limits = limits_of(density, site)
    support = support_of(density, site)
    support = limited(support) if limits else support
    found: list[frozenset[Key]] = []

    def certify(latents: Mapping[str, Any], data: Any) -> Any:
        stats = statistics(density, site, support.domain, latents, data, assumed)
        found.append(frozenset(stats))
        return stats, limited_interval(density, site, limits, support.domain, latents, data, assumed)

    density.on_shapes(certify)
    keys = found[-1]
    family = family_for(support, keys, site, (density.sites[site].shape or (0,))[-1])
    return ConjugateConditional(density, site, support, family, tuple(sorted(keys)), limits, assumed)
