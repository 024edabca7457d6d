"""The model as NumPyro sees it: states, and the log joint density term by term; no analysis of ours."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from numpyro import handlers
from numpyro.infer.initialization import init_to_sample, init_to_uniform

from gibbsite.density.model.alone import handlers_alone
from gibbsite.kernels.blocks.finite import INPUTS_KWARG
from gibbsite.programs.jaxpr.compiling import Quick

_TRIES = 20
_near_zero: Any = init_to_uniform(radius=1)
_drawn: Any = init_to_sample


def log_terms(model: Any, values: Mapping[str, Any], inputs: Any = None) -> Any:
    """The log density of every statement at values of all latents, `[terms]`: differences of terms keep
    digits that those of sums lose. `inputs` are the model's data (default: its own)."""
    traced = sites_of(model, values, inputs)
    parts = []
    for site in traced.values():
        if site["type"] != "sample":
            continue
        value, between = site["value"], site["intermediates"]
        term = site["fn"].log_prob(value, between) if between else site["fn"].log_prob(value)
        parts.append(jnp.ravel(term if site["scale"] is None else site["scale"] * term))
    return jnp.concatenate(parts)


def ratio(model: Any, base: Any, values: Mapping[str, Any]) -> tuple[Any, Any]:
    """The log joint density at `values` less that whose terms are `base`, and how much of it is rounding."""
    terms = log_terms(model, values)
    apart = jnp.where(jnp.isneginf(base) & jnp.isneginf(terms), 0.0, terms - base)
    eps = jnp.finfo(terms.dtype).eps
    sizes = jnp.where(jnp.isfinite(terms), jnp.abs(terms) + jnp.abs(base), 0.0)
    return jnp.sum(apart), 16 * eps * jnp.sqrt(jnp.sum(sizes**2))


@dataclass(frozen=True)
class Place:
    """Values of all latents by site, and the terms of the log joint density there."""

    values: dict[str, np.ndarray]
    terms: np.ndarray


def places(model: Any, found: list[dict[str, np.ndarray]]) -> list[Place]:
    """States with their terms."""
    terms = Quick(lambda s: log_terms(model, s))
    return [Place(s, np.asarray(terms(arrays(s)))) for s in found]


def arrays(values: Mapping[str, Any]) -> dict[str, Any]:
    """As JAX's arrays."""
    return {n: jnp.asarray(v) for n, v in values.items()}


def states(model: Any, count: int, seed: int = 0) -> list[dict[str, np.ndarray]]:
    """Values of all latents of positive density, by site: draws of the statements, and where there are none
    uniform ones in unconstrained coordinates. Fewer than `count` where few are found."""
    found: list[dict[str, np.ndarray]] = []
    ways = [Quick(lambda key, d=drawer: _state(model, key, d)) for drawer in (_drawn, _near_zero)]
    for n in range(_TRIES):
        key = jax.random.fold_in(jax.random.key(seed), n)
        for make in ways:
            try:
                values, height = make(key)
            except NotImplementedError:  # improper: nothing to draw from
                continue
            if np.isfinite(height) and all(np.isfinite(v).all() for v in values.values()):
                found.append({k: np.asarray(v) for k, v in values.items()})
                break
        if len(found) == count:
            break
    return found


def _state(model: Any, key: Any, drawer: Callable[..., Any]) -> tuple[dict[str, Any], Any]:
    def chosen(site: Any) -> Any:
        if site["type"] != "sample" or site["is_observed"]:
            return None
        drawn = drawer(site)
        if drawn is None:  # a discrete one
            drawn = site["fn"](rng_key=site["kwargs"]["rng_key"], sample_shape=())
        return drawn

    seeded = handlers.substitute(handlers.seed(model.execution.written_model, key), substitute_fn=chosen)
    with handlers_alone, numpyro.validation_enabled(False):
        traced = handlers.trace(seeded).get_trace(**{INPUTS_KWARG: model.execution.inputs})
    latents = model.density.latents
    values = {n: jnp.asarray(traced[n]["value"]) for n in latents}
    return values, jnp.sum(log_terms(model, values))


def sites_of(model: Any, values: Mapping[str, Any], inputs: Any = None) -> dict[str, Any]:
    """NumPyro's trace of the model at values of all latents; those that lack are drawn, by one key."""
    # models index NumPy's arrays by values
    execution = model.execution
    fixed = handlers.substitute(
        handlers.seed(execution.written_model, jax.random.key(0)), data=arrays(values)
    )
    with handlers_alone, numpyro.validation_enabled(False):
        return handlers.trace(fixed).get_trace(
            **{INPUTS_KWARG: execution.inputs if inputs is None else inputs}
        )
