"""Which elements of a site count, and the numbers of what no latent enters."""

from collections.abc import Iterator, Mapping
from typing import Any

import jax
import numpy as np

from gibbsite.density.density import Density
from gibbsite.density.model.collect import SEED
from gibbsite.density.passes.reroll import rerolled
from gibbsite.ground.once import once
from gibbsite.programs.jaxpr.compat import Literal
from gibbsite.programs.jaxpr.primitives import SEEDS, of_kind
from gibbsite.programs.jaxpr.values import Values


def known_numbers(density: Density, latents: Mapping[str, Any], by_jax: bool = False) -> Values:
    """The values of a density's variables at given latents, and of those that need none."""
    jaxpr = density.closed.jaxpr
    given = dict(zip(density.data_vars, density.arguments.arrays, strict=True))
    given |= dict(zip(jaxpr.constvars, density.closed.consts, strict=True))
    given |= {density.latent_vars[n]: v for n, v in latents.items()}
    return Values(density.producer, given, by_jax)


def draws_within(density: Density) -> bool:
    """Whether the model draws by NumPyro's key beside its statements."""
    seeds = [e for e in density.closed.jaxpr.eqns if of_kind(e, SEEDS)]
    return any(isinstance(e.invars[0], Literal) and int(e.invars[0].val) == SEED for e in seeds)


def constant_value(density: Density, atom: Any) -> np.ndarray:
    """The value of an atom that no latent enters."""
    if "constants" not in density.cache:
        density.cache["constants"] = known_numbers(density, {}, by_jax=True)
    found = density.cache["constants"].value(atom)
    if found is None:  # of what has effects
        with jax.ensure_compile_time_eval():
            found = np.asarray(density.evaluator({}).full(atom))
    return found


def kept_elements(density: Density, site: str) -> np.ndarray | None:
    """Which elements of a site no mask and no weight of 0 takes out; None where there is none, or a latent
    decides."""
    kept: Any = None
    for atom in density.outputs["weights"].get(site, []):
        if not density.maps.latents(atom):
            weight = constant_value(density, atom) != 0
            kept = weight if kept is None else kept & weight
    return kept


def fitted(kept: Any, shape: tuple[int, ...]) -> np.ndarray:
    """A mask over a site's elements, over those of a parameter, which may have fewer axes."""
    kept = kept.reshape(kept.shape[-len(shape) :] if kept.size == np.prod(shape) else kept.shape)
    while kept.ndim > len(shape):
        kept = kept.any(0)
    for axis, (n, size) in enumerate(zip(kept.shape[::-1], shape[::-1], strict=False)):
        if n != size and size == 1:
            kept = kept.any(-1 - axis, keepdims=True)
    return (
        np.broadcast_to(kept, shape)
        if np.broadcast_shapes(kept.shape, shape) == shape
        else np.ones(shape, bool)
    )


def equations_behind(density: Density, atoms: list[Any]) -> Iterator[Any]:
    """Every equation that the atoms are computed by, once."""
    made = (density.producer[a] for a in density.behind(*atoms) if a in density.producer)
    yield from {id(eqn): eqn for eqn in made}.values()


def sources(density: Density, atoms: list[Any]) -> set[Any]:
    """The inputs of the jaxpr that the atoms are computed from."""
    return {v for v in density.behind(*atoms) if v not in density.producer}


@once
def observed_values(density: Density) -> dict[str, np.ndarray]:
    """The value of every observed site that no latent reaches, by site, in program order.

    They are read from the re-rolled density, so that the sites of a loop cost one array together.
    """
    grouped = rerolled(density)
    found: dict[str, np.ndarray] = {}
    for name, atom in grouped.outputs["observed"].items():
        if grouped.maps.latents(atom):
            continue
        value = constant_value(grouped, atom)
        if name in density.sites:
            found[name] = value
        else:
            found.update(zip(density.groups[name], value, strict=True))
    return {n: found[n] for n in density.sites if n in found}
