"""The density of a model with every impossibility made merely unlikely, to walk from impossible values to
possible ones."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from gibbsite.density.passes.program import Program, program_of
from gibbsite.ground.once import once
from gibbsite.ground.opaque import notes_in
from gibbsite.programs.jaxpr.compat import jaxpr_as_fun
from gibbsite.programs.passes.flatten import flatten

if TYPE_CHECKING:
    from gibbsite.density.density import Density

PENALTY = 16.0
"""The penalty that stands in the arguments of a softened density: one in 10⁷, as a probability."""
_INSIDE = "inside"


@once
def softened(density: "Density") -> "Density":
    """`density` over the same sites, with one more data array, the last: a penalty P > 0, a scalar.

    An element of a log probability that is not finite, or a value outside a support that moves, counts −P;
    every other element lies within ±P/4, so that one impossibility more is never worth having. The analysis
    is made anew, and kept.
    """
    program = soft(program_of(density))
    given = density.arguments
    penalty = jnp.asarray(PENALTY, jnp.float32)
    arguments = replace(given, names=(*given.names, "penalty"), arrays=(*given.arrays, penalty))
    return replace(
        density,
        arguments=arguments,
        cache={},
        deviances=None,  # numbers as small as these are not rounded
        **program.analysed(density.latent_vars, notes_in(density.cache)),
    )


def soft(program: Program) -> Program:
    """A program with the penalty as its last data array, its log probabilities softened by it, and those of
    values outside their supports among them."""
    jaxpr, run = program.closed.jaxpr, jaxpr_as_fun(program.closed)
    found = []

    def softer(*inputs: Any) -> list[Any]:
        *values, penalty = inputs
        out = dict(program.arranged(run(*values)))
        parts = {n: _soft(v, penalty) for n, v in out["log_prob"].items()}
        for n, v in out[_INSIDE].items():
            parts[f"{_INSIDE} {n}"] = jnp.where(v == 0, 0.0, -penalty)
        leaves, tree = jax.tree.flatten({**out, "log_prob": parts, _INSIDE: {}})
        found.append(tree)
        return leaves

    like = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in jaxpr.invars]
    closed: Any = jax.make_jaxpr(softer)(*like, jax.ShapeDtypeStruct((), jnp.float32))
    flat = flatten(closed, data=len(program.data_vars) + 1)
    return replace(program, closed=flat, tree=found[0])


def _soft(log_prob: Any, penalty: Any) -> Any:
    likely = jnp.clip(log_prob, -penalty / 4, penalty / 4)
    return jnp.where(jnp.isfinite(log_prob), likely, -penalty)


def impossibilities(density: "Density", latents: Mapping[str, Any], data: Any) -> dict[str, Any]:
    """Per site or factor, how many elements of its log probability are not finite, or of its value are
    outside a support that moves; pure in complete latent values and data arrays."""
    out = density.computed(latents, data)
    found = {n: jnp.sum(~jnp.isfinite(v), dtype=jnp.int32) for n, v in out["log_prob"].items()}
    for n, v in out[_INSIDE].items():
        found[n] = found.get(n, 0) + jnp.sum(v != 0, dtype=jnp.int32)
    return found
