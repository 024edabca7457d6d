"""From certified statistics to a distribution that can be drawn exactly.

A family is found from the support and the statistics of the *whole* conditional, prior included, so any prior
whose log density is a combination of the same statistics takes part: a HalfNormal or a Uniform as well as a
Gamma.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from numpyro.distributions import constraints

from gibbsite.conditional import gamma_draw
from gibbsite.conditional.conjugate_forms import LOG, LOG1M, LOG2, X2, Key, X, key_text
from gibbsite.conditional.conjugate_rules import Domain
from gibbsite.conditional.conjugate_walk import Refused, known_value
from gibbsite.density import Density

Stats = Mapping[Key, Any]
Bounds = tuple[Any, Any]


@dataclass(frozen=True)
class Support:
    """What is known of a continuous support: "real", "positive", "unit", "interval", "above", "below",
    "simplex".

    `low` and `high` are atoms of the density or numbers, None where there is no bound.
    """

    kind: str
    low: Any = None
    high: Any = None

    @property
    def domain(self) -> Domain:
        """What it says of the sign of `x` and `1 - x`."""
        unit = self.kind in ("unit", "simplex")
        positive = unit or self.kind == "positive"
        if self.kind in ("interval", "above"):
            positive = isinstance(self.low, float) and self.low >= 0
            unit = positive and isinstance(self.high, float) and self.high <= 1
        return Domain(positive, unit)


def support_of(density: Density, site: str) -> Support:
    """The support of a continuous latent; `Refused` where its kind is not known here."""
    s = density.sites[site]
    c = s.support
    while isinstance(c, constraints.independent):
        c = c.base_constraint
    parameters = density.outputs["parameters"].get(site, {})
    if c is constraints.real or c is constraints.real_vector:
        return Support("real")
    if c is constraints.simplex:
        return Support("simplex")
    if c in (constraints.positive, constraints.nonnegative, constraints.softplus_positive):
        return Support("positive", 0.0)
    if c is constraints.unit_interval:
        return Support("unit", 0.0, 1.0)
    names = {"Pareto": ("scale", None)}.get(s.fn_name, ("low", "high"))
    low, high = (_bound(density, parameters.get(n)) for n in names)
    if isinstance(c, constraints.interval) and low is not None and high is not None:
        if low == 0.0 and high == 1.0:
            return Support("unit", 0.0, 1.0)
        return Support("interval", low, high)
    if isinstance(c, constraints.greater_than) and low is not None:
        return Support("positive", 0.0) if low == 0.0 else Support("above", low)
    if isinstance(c, constraints.less_than) and high is not None:
        return Support("below", None, high)
    raise Refused(f"the support of {site} ({c}) has no conjugate family here")


def _bound(density: Density, atom: Any) -> Any:
    """A bound as a float where it is one known number, else its atom."""
    if atom is None:
        return None
    value = known_value(density, atom)
    if value is not None and np.all(value == value.flat[0]):
        return float(value.flat[0])
    return atom


@dataclass(frozen=True)
class Family:
    """How to draw from `exp(sum of coefficient × statistic)` on a support."""

    name: str
    text: str
    distribution: Callable[[Stats, Bounds], Any]
    finish: Callable[[Any], Any] = lambda x: x

    def sample(self, key: Any, stats: Stats, bounds: Bounds, shape: tuple[int, ...], event: int) -> Any:
        """A draw for every element, of `shape`; `event` trailing axes belong to one draw."""
        d = self.distribution(stats, bounds).expand(shape[: len(shape) - event])
        return self.finish(d.sample(key))


def _at(stats: Stats, key: Key) -> Any:
    return stats.get(key, jnp.zeros(()))


def _normal(stats: Stats, bounds: Bounds) -> Any:
    precision = -2.0 * stats[X2]
    return dist.Normal(_at(stats, X) / precision, jax.lax.rsqrt(precision))


def _truncated(stats: Stats, bounds: Bounds) -> Any:
    normal = _normal(stats, bounds)
    low, high = bounds
    return dist.TruncatedNormal(normal.loc, normal.scale, low=low, high=high)


def _gamma_of(power: float) -> Callable[[Stats, Bounds], Any]:
    key: Key = (power, 0.0, 0.0, 0.0)

    def distribution(stats: Stats, bounds: Bounds) -> Any:
        return gamma_draw.Gamma((_at(stats, LOG) + 1.0) / power, -stats[key])

    def inverse(stats: Stats, bounds: Bounds) -> Any:
        return gamma_draw.InverseGamma((_at(stats, LOG) + 1.0) / power, -stats[key])

    return inverse if power == -1.0 else distribution


def _log_normal(stats: Stats, bounds: Bounds) -> Any:
    precision = -2.0 * stats[LOG2]
    return dist.LogNormal((_at(stats, LOG) + 1.0) / precision, jax.lax.rsqrt(precision))


def _beta(stats: Stats, bounds: Bounds) -> Any:
    return gamma_draw.Beta(_at(stats, LOG) + 1.0, _at(stats, LOG1M) + 1.0)


def _dirichlet(stats: Stats, bounds: Bounds) -> Any:
    return gamma_draw.Dirichlet(_at(stats, LOG) + 1.0)


def _pareto(stats: Stats, bounds: Bounds) -> Any:
    return dist.Pareto(bounds[0], -_at(stats, LOG) - 1.0)


def family_for(support: Support, keys: frozenset[Key], site: str) -> Family:
    """The family with these statistics on this support; `Refused` if none is drawn exactly."""
    kind = support.kind
    if kind == "real" and keys <= {X, X2} and X2 in keys:
        return Family("Normal", f"{site} and {site}^2", _normal)
    if kind == "positive":
        found = _positive(keys, site)
        if found is not None:
            return found
    if kind in ("unit", "interval", "positive", "above", "below") and keys <= {X, X2} and X2 in keys:
        return Family("TruncatedNormal", f"{site} and {site}^2", _truncated)
    if kind == "unit" and keys <= {LOG, LOG1M}:
        return Family("Beta", f"log({site}) and log(1-{site})", _beta)
    if kind == "simplex" and keys <= {LOG}:
        return Family("Dirichlet", f"log({site})", _dirichlet)
    if kind == "above" and keys <= {LOG} and support.domain.positive:
        return Family("Pareto", f"log({site})", _pareto)
    shown = ", ".join(sorted(key_text(k, site) for k in keys)) or "no statistic at all"
    raise Refused(
        f"its statistics ({shown}) on a support of kind {kind!r} belong to no family that is drawn exactly"
    )


def _positive(keys: frozenset[Key], site: str) -> Family | None:
    powers = [k for k in keys if k != LOG]
    if len(powers) == 1 and powers[0][1:] == (0.0, 0.0, 0.0) and (powers[0] != X2 or LOG in keys):
        p = powers[0][0]
        if p in (1.0, -1.0):
            name = "Gamma" if p == 1.0 else "InverseGamma"
            return Family(name, f"log({site}) and {site if p == 1.0 else f'1/{site}'}", _gamma_of(p))
        name = f"power {1 / p:g} of a Gamma"
        return Family(name, f"log({site}) and {site}^{p:g}", _gamma_of(p), lambda u: u ** (1.0 / p))
    if keys <= {LOG, LOG2} and LOG2 in keys:
        return Family("LogNormal", f"log({site}) and log({site})^2", _log_normal)
    return None
