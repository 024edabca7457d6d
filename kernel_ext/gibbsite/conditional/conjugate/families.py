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
import numpyro.distributions as dist

from gibbsite.conditional.draws.gamma import GammaPower, drawn_here
from gibbsite.conditional.draws.truncated import TruncatedBeta, TruncatedGaussian, TruncatedPowerGamma
from gibbsite.conditional.forms.forms import LOG, LOG1M, LOG2, X2, Key, X, key_text
from gibbsite.conditional.forms.support import Bounds, Support
from gibbsite.conditional.forms.walk import Refused

Stats = Mapping[Key, Any]


@dataclass(frozen=True)
class Family:
    """How to draw from `exp(sum of coefficient × statistic)` on a support."""

    name: str
    text: str
    distribution: Callable[[Stats, Bounds], Any]


def coefficient(stats: Stats, key: Key) -> Any:
    """That of a statistic, 0 where there is none."""
    return stats.get(key, jnp.zeros(()))


def _normal(stats: Stats, bounds: Bounds) -> Any:
    precision = -2.0 * stats[X2]
    return dist.Normal(coefficient(stats, X) / precision, jax.lax.rsqrt(precision))


def _truncated(stats: Stats, bounds: Bounds) -> Any:
    return TruncatedGaussian(coefficient(stats, X), -2.0 * coefficient(stats, X2), *_open(bounds))


def _open(bounds: Bounds) -> Bounds:
    low, high = bounds
    return (-jnp.inf if low is None else low, jnp.inf if high is None else high)


def _truncated_powers(power: float) -> Callable[[Stats, Bounds], Any]:
    key: Key = (power, 0.0, 0.0, 0.0)

    def distribution(stats: Stats, bounds: Bounds) -> Any:
        low, high = _open(bounds)
        return TruncatedPowerGamma(
            coefficient(stats, LOG) + 1.0, -coefficient(stats, key), power, jnp.maximum(low, 0.0), high
        )

    return distribution


def _truncated_beta(stats: Stats, bounds: Bounds) -> Any:
    low, high = _open(bounds)
    ends = jnp.maximum(low, 0.0), jnp.minimum(high, 1.0)
    return TruncatedBeta(coefficient(stats, LOG) + 1.0, coefficient(stats, LOG1M) + 1.0, *ends)


def _uniform(stats: Stats, bounds: Bounds) -> Any:
    return dist.Uniform(*bounds)


def _gamma_of(power: float) -> Callable[[Stats, Bounds], Any]:
    key: Key = (power, 0.0, 0.0, 0.0)

    def distribution(stats: Stats, bounds: Bounds) -> Any:
        shape, rate = (coefficient(stats, LOG) + 1.0) / power, -stats[key]
        if power in (1.0, -1.0):
            return drawn_here((dist.Gamma if power == 1.0 else dist.InverseGamma)(shape, rate))
        return GammaPower(shape, rate, power)

    return distribution


def _log_normal(stats: Stats, bounds: Bounds) -> Any:
    precision = -2.0 * stats[LOG2]
    return dist.LogNormal((coefficient(stats, LOG) + 1.0) / precision, jax.lax.rsqrt(precision))


def _beta(stats: Stats, bounds: Bounds) -> Any:
    return drawn_here(dist.Beta(coefficient(stats, LOG) + 1.0, coefficient(stats, LOG1M) + 1.0))


def _dirichlet(stats: Stats, bounds: Bounds) -> Any:
    return drawn_here(dist.Dirichlet(coefficient(stats, LOG) + 1.0))


def _pareto(stats: Stats, bounds: Bounds) -> Any:
    return dist.Pareto(bounds[0], -coefficient(stats, LOG) - 1.0)


def _dirichlet_of_two(stats: Stats, bounds: Bounds) -> Any:
    """Of two elements, each is one less the other."""
    other = jnp.flip(coefficient(stats, LOG1M), -1)
    return drawn_here(dist.Dirichlet(coefficient(stats, LOG) + other + 1.0))


def family_for(support: Support, keys: frozenset[Key], site: str, size: int = 0) -> Family:
    """The family with these statistics on this support, of `size` elements where that is a simplex;
    `Refused` if none is drawn exactly."""
    kind = support.kind
    if kind == "real" and keys <= {X, X2} and X2 in keys:
        return Family("Normal", f"{site} and {site}^2", _normal)
    if kind == "positive":
        found = _positive(keys, site)
        if found is not None:
            return found
    if kind == "unit" and keys and keys <= {LOG, LOG1M}:
        return Family("Beta", f"log({site}) and log(1-{site})", _beta)
    if kind == "simplex" and keys <= {LOG}:
        return Family("Dirichlet", f"log({site})", _dirichlet)
    if kind == "simplex" and size == 2 and keys <= {LOG, LOG1M}:
        return Family("Dirichlet", f"log({site})", _dirichlet_of_two)
    if kind == "above" and keys == {LOG} and support.domain.positive:
        return Family("Pareto", f"log({site})", _pareto)
    found = _on_interval(support, keys, site) if kind not in ("real", "simplex") else None
    if found is not None:
        return found
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
        return Family(name, f"log({site}) and {site}^{p:g}", _gamma_of(p))
    if keys <= {LOG, LOG2} and LOG2 in keys:
        return Family("LogNormal", f"log({site}) and log({site})^2", _log_normal)
    return None


def _on_interval(support: Support, keys: frozenset[Key], site: str) -> Family | None:
    bounded = support.kind in ("unit", "interval")
    if not keys:
        return Family("Uniform", f"no statistic of {site}", _uniform) if bounded else None
    if keys <= {X, X2} and (X2 in keys or bounded):
        return Family("TruncatedNormal", f"{site} and {site}^2", _truncated)
    if support.kind == "positive" or not support.domain.positive:
        return None
    powers = [k for k in keys if k != LOG]
    if not powers:
        return Family("truncated power law", f"log({site})", _truncated_powers(1.0))
    if len(powers) == 1 and powers[0][1:] == (0.0, 0.0, 0.0):
        p = powers[0][0]
        name = {1.0: "truncated Gamma", -1.0: "truncated InverseGamma"}.get(
            p, f"power {1 / p:g} of a truncated Gamma"
        )
        return Family(name, f"log({site}) and {key_text(powers[0], site)}", _truncated_powers(p))
    if keys <= {LOG, LOG1M} and support.domain.unit:
        return Family("truncated Beta", f"log({site}) and log(1-{site})", _truncated_beta)
    return None
