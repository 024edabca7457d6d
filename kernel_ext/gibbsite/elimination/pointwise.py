"""How likely each observation is given the others, with discrete sites summed out."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from gibbsite.density.maps.access import Access, component_array, full_window
from gibbsite.elimination.tabled import TableMarginal
from gibbsite.errors import ModelError
from gibbsite.trace.jaxpr.compat import Literal


def pointwise(marginal: TableMarginal) -> Callable[[Mapping[str, Any], Any], dict[str, Any]]:
    """A function of the other latents and the data that gives, by observed site, the array of
    `log p(y_i | the other data, latents)`.

    By `1 / p(y_i | the rest) = Σ_k P(z = k | y) / p(y_i | z = k)`, where `z` is the element that `y_i` reads
    (Gelfand, Dey and Chang 1992, "Model determination using predictive distributions"). Raises `ModelError`
    for an observation that reads several summed elements.
    """
    density, of = marginal.density, marginal.of
    reads = {n: _read(marginal, n) for n in density.outputs["observed"]}

    def given_z(name: str, site: str, access: Access, given: dict[str, Any], probs: Any, data: Any) -> Any:
        atom, support = density.outputs["log_prob"][name], of.supports[site]
        shape, z = tuple(atom.aval.shape), density.sites[site]

        def at(value: Any) -> Any:
            filled = jnp.broadcast_to(value, z.shape).astype(z.dtype)
            return density.evaluator({**given, site: filled}, data).full(atom)

        logs = jax.vmap(at)(jnp.asarray(support.values))
        read = density.evaluator(given, data).full
        flat: Any = jnp.zeros((1,) * len(shape), int)
        for c, n in zip(access.index, support.elements, strict=False):
            flat = flat * n + jnp.asarray(component_array(c, shape, read))  # type: ignore[arg-type]
        weight = probs[site][:, jnp.broadcast_to(flat, shape)]
        found = jnp.where(weight > 0, jnp.log(jnp.where(weight > 0, weight, 1)) - logs, -jnp.inf)
        return -jax.nn.logsumexp(found, axis=0)

    def run(latents: Mapping[str, Any], data: Any) -> dict[str, Any]:
        left = marginal.left(latents)
        probs = marginal.plan.probabilities(left, data)
        out = {}
        for name, found in reads.items():
            if found is None:
                out[name] = density.evaluator(left, data).full(density.outputs["log_prob"][name])
            else:
                out[name] = given_z(name, *found, left, probs, data)
        return out

    return run


def _read(marginal: TableMarginal, name: str) -> tuple[str, Access] | None:
    """The summed site that an observed one reads, and which of its elements; None where it reads none."""
    density = marginal.density
    atom = density.outputs["log_prob"][name]
    maps = {} if isinstance(atom, Literal) else density.maps[atom]
    mine = [s for s in marginal.of.names if s in maps]
    if not mine:
        return None
    accesses = maps[mine[0]]
    plain = len(mine) == 1 and len(accesses) == 1 and marginal.of.supports[mine[0]].values.ndim == 1
    if (
        not plain
        or not accesses[0].single
        or accesses[0].latents()
        or (accesses[0].window != full_window(tuple(atom.aval.shape)))
    ):
        raise ModelError(
            f"{name!r} reads several elements of {', '.join(mine)} at once: its pointwise likelihood with "
            f"them summed out is not computed; log_likelihood=True gives it at their draws"
        )
    return mine[0], accesses[0]
