"""The density of a model with every impossibility made merely unlikely, to walk from impossible values to
possible ones."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

from gibbsite.density.density import Density
from gibbsite.density.maps.access import of_site
from gibbsite.density.maps.index_maps import index_maps
from gibbsite.density.program.flatten import flatten
from gibbsite.density.terms import Decomposition
from gibbsite.trace.jaxpr.compat import jaxpr_as_fun

PENALTY = 16.0
"""The penalty that stands in the arguments of a softened density: one in 10⁷, as a probability."""
_INSIDE = "inside"


def softened(density: Density) -> Density:
    """`density` over the same sites, with one more data array, the last: a penalty P > 0, a scalar.

    An element of a log probability that is not finite, or a value outside a support that moves, counts −P;
    every other element lies within ±P/4, so that one impossibility more is never worth having. The analysis
    is made anew, and kept.
    """
    if "softened" not in density.cache:
        with jax.ensure_compile_time_eval():
            density.cache["softened"] = _softened(density)
    return density.cache["softened"]


def _softened(density: Density) -> Density:
    fn, tree = jaxpr_as_fun(density.closed), jax.tree.structure(density.outputs)
    sites = sorted(density.latent_vars)
    shapes = {n: density.sites[n].shape for n in sites}

    def soft(*inputs: Any) -> Mapping[str, Any]:
        *values, penalty = inputs
        out = dict(jax.tree.unflatten(tree, fn(*values)))
        parts = {n: _soft(v, penalty) for n, v in out["log_prob"].items()}
        for n, v in out[_INSIDE].items():
            parts[f"{_INSIDE} {n}"] = jnp.where(v == 0, 0.0, -penalty)
        return {**out, "log_prob": parts, _INSIDE: {}}

    like = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in density.closed.jaxpr.invars]
    traced: Any = jax.make_jaxpr(soft, return_shape=True)(*like, jax.ShapeDtypeStruct((), jnp.float32))
    closed, found = traced
    flat = flatten(closed)
    variables = flat.jaxpr.invars
    latent_vars = dict(zip(sites, variables[: len(sites)], strict=True))
    maps = index_maps(flat, {v: (n, of_site(shapes[n])) for n, v in latent_vars.items()}, shapes)
    outputs = jax.tree.unflatten(jax.tree.structure(found), flat.jaxpr.outvars)
    given = density.arguments
    arguments = replace(
        given, names=(*given.names, "penalty"), arrays=(*given.arrays, jnp.asarray(PENALTY, jnp.float32))
    )
    walk_back = Decomposition(flat, maps)
    return replace(
        density,
        closed=flat,
        latent_vars={n: latent_vars[n] for n in density.latent_vars},
        data_vars=tuple(variables[len(sites) :]),
        arguments=arguments,
        outputs=outputs,
        maps=maps,
        terms=tuple(t for origin, a in outputs["log_prob"].items() for t in walk_back.terms(origin, a)),
        bounds=(),
        cache={},
    )


def _soft(log_prob: Any, penalty: Any) -> Any:
    likely = jnp.clip(log_prob, -penalty / 4, penalty / 4)
    return jnp.where(jnp.isfinite(log_prob), likely, -penalty)


def impossibilities(density: Density, latents: Mapping[str, Any], data: Any) -> dict[str, Any]:
    """Per site or factor, how many elements of its log probability are not finite, or of its value are
    outside a support that moves; pure in complete latent values and data arrays."""
    fn, tree = jaxpr_as_fun(density.closed), jax.tree.structure(density.outputs)
    out = jax.tree.unflatten(tree, fn(*[latents[n] for n in sorted(density.latent_vars)], *data))
    found = {n: jnp.sum(~jnp.isfinite(v), dtype=jnp.int32) for n, v in out["log_prob"].items()}
    for n, v in out[_INSIDE].items():
        found[n] = found.get(n, 0) + jnp.sum(v != 0, dtype=jnp.int32)
    return found
