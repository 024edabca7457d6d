"""The density a site kernel sees: a NumPyro model, given its arguments and every value outside the block.

Nothing here is derived from the model's structure beyond which sites' densities the block can change, so
these targets work for any NumPyro model, analysed by Gibbsite or not.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from numpyro.distributions import MaskedDistribution
from numpyro.distributions.transforms import biject_to
from numpyro.distributions.util import sum_rightmost
from numpyro.handlers import seed, substitute, trace
from numpyro.infer.util import _unconstrain_reparam
from numpyro.ops.provenance import eval_provenance

from gibbsite.conditional.draws.gamma import own_gammas
from gibbsite.density.model.bounds import COMPARED, base_constraint, bounds_inside, within
from gibbsite.density.model.collect import base_distribution
from gibbsite.density.model.tails import held_in_tails

Values = Mapping[str, jax.Array]


def _guarded_log_prob(site: Mapping[str, Any]) -> jax.Array:
    """Unreduced log_prob of a traced site, −inf where its value lies outside the support.

    NumPyro checks supports only when validation is enabled; a sampler whose proposals move a bound
    (`x ~ Uniform(0, theta)`) must always check them.
    """
    fn, value = held_in_tails(site["fn"], counts=True), site["value"]
    log_prob = fn.log_prob(value, site["intermediates"]) if site["intermediates"] else fn.log_prob(value)
    support, found = (fn.base_dist if isinstance(fn, MaskedDistribution) else fn).support, []
    if support is not None and isinstance(base_constraint(support), COMPARED):
        found.append(support(value))
    if bounds_inside(base_distribution(fn)):  # ends that the support does not tell of
        inside = within(fn, value)
        while inside.ndim > log_prob.ndim:
            inside = inside.all(axis=-1)
        found.append(inside)
    for inside in found:
        if isinstance(fn, MaskedDistribution):
            inside = inside | ~jnp.broadcast_to(fn._mask, jnp.shape(log_prob))
        log_prob = jnp.where(inside, log_prob, -jnp.inf)
    return log_prob if site["scale"] is None else site["scale"] * log_prob


def run_model(
    model: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], z: Values
) -> Mapping[str, Any]:
    """The trace of a conditioned model at constrained values `z` of all its latent sites."""
    return trace(substitute(model, data=dict(z))).get_trace(*args, **kwargs)


def _sample_sites(model_trace: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {name: site for name, site in model_trace.items() if site["type"] == "sample"}


def touched_sites(
    model: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], z: Values
) -> frozenset[str]:
    """Sites whose log_prob can change when `z` does; the rest is constant for the block."""

    def log_probs(**values: jax.Array) -> dict[str, jax.Array]:
        sites = _sample_sites(run_model(model, args, kwargs, values))
        return {name: jnp.sum(_guarded_log_prob(site)) for name, site in sites.items()}

    reached = eval_provenance(log_probs, **z)
    return frozenset(name for name, sources in reached.items() if sources) | frozenset(z)


@dataclass(frozen=True)
class Target:
    """The conditional of a block's sites: pure functions of their values.

    `model` is already conditioned on the values of the other blocks, which travel in `kwargs`. `touched`
    names the sites to evaluate. Logdensities are scalars, up to a constant; NaN counts as −inf.
    """

    model: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    touched: frozenset[str]

    def trace(self, z: Values) -> Mapping[str, Any]:
        """The model's trace at constrained values `z`."""
        return run_model(self.model, self.args, self.kwargs, z)

    def sum_sites(self, model_trace: Mapping[str, Any], skip: frozenset[str] = frozenset()) -> jax.Array:
        """Sum of the log_probs of the touched sites of a trace, without those in `skip`."""
        total = jnp.zeros(())
        for name, site in _sample_sites(model_trace).items():
            if name in self.touched and name not in skip:
                total = total + jnp.sum(_guarded_log_prob(site))
        return jnp.where(jnp.isnan(total), -jnp.inf, total)

    def logdensity(self, z: Values) -> jax.Array:
        """Logdensity at constrained values."""
        return self.sum_sites(self.trace(z))

    def draw_prior(self, key: jax.Array, z: Values) -> dict[str, jax.Array]:
        """Ancestral draw of the block's sites from their priors given everything else."""
        sites = trace(seed(own_gammas(self.model), key)).get_trace(*self.args, **self.kwargs)
        return {name: sites[name]["value"] for name in z}

    def prior_log_probs(self, z: Values) -> dict[str, jax.Array]:
        """The block's priors alone, unscaled and unmasked: of each draw, `[*batch]` by site."""
        sites = self.trace(z)
        plain = {n: sites[n]["fn"] for n in z}
        plain = {n: f.base_dist if isinstance(f, MaskedDistribution) else f for n, f in plain.items()}
        return {n: jnp.asarray(f.log_prob(sites[n]["value"])) for n, f in plain.items()}

    def prior_log_prob(self, z: Values) -> jax.Array:
        """The sum of `prior_log_probs`."""
        return sum((jnp.sum(p) for p in self.prior_log_probs(z).values()), jnp.zeros(()))

    def unconstrain(self, z: Values) -> dict[str, jax.Array]:
        """Continuous values moved to unconstrained space by the supports at `z`; discrete values stay.

        Values that sit on the edge of their support by rounding are moved to a large finite coordinate.
        """
        model_trace = self.trace(z)
        out = {}
        for name, value in z.items():
            support = model_trace[name]["fn"].support
            if support.is_discrete:
                out[name] = value
                continue
            u = biject_to(support)._inverse(value)
            out[name] = jnp.nan_to_num(u, nan=0.0, posinf=1e3, neginf=-1e3)
        return out

    def _free_trace(self, u: Values) -> Mapping[str, Any]:
        continuous = {name: value for name, value in u.items() if jnp.issubdtype(value.dtype, jnp.floating)}
        discrete = {name: value for name, value in u.items() if name not in continuous}
        model = substitute(self.model, data=discrete)
        model = substitute(model, substitute_fn=partial(_unconstrain_reparam, continuous))
        return trace(model).get_trace(*self.args, **self.kwargs)

    def constrain(self, u: Values) -> dict[str, jax.Array]:
        """The inverse of `unconstrain`."""
        model_trace = self._free_trace(u)
        return {name: model_trace[name]["value"] for name in u}

    def free_logdensity(self, u: Values) -> jax.Array:
        """Logdensity of unconstrained coordinates: that of their values plus the log Jacobian."""
        model_trace = self._free_trace(u)
        total = self.sum_sites(model_trace)
        for name, free in u.items():
            fn, value = model_trace[name]["fn"], model_trace[name]["value"]
            if jnp.issubdtype(free.dtype, jnp.floating):
                # NumPyro's own factors of these go by names that scopes change
                total = total + jnp.sum(biject_to(fn.support).log_abs_det_jacobian(free, value))
        return jnp.where(jnp.isnan(total), -jnp.inf, total)


def event_log_prob(distribution: Any, value: jax.Array) -> jax.Array:
    """log_prob of a proposal summed to a scalar, −inf outside its support."""
    log_prob = distribution.log_prob(value)
    if isinstance(base_constraint(distribution.support), COMPARED):
        inside = distribution.support(value)
        log_prob = jnp.where(
            sum_rightmost(~inside, jnp.ndim(inside) - jnp.ndim(log_prob)) > 0, -jnp.inf, log_prob
        )
    return jnp.sum(log_prob)
