"""The truth about dependence: perturb one element of a site and see which elements of which arrays move."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from density.programs import N, random_program
from gibbsite.density.access import Access, Affine, Table, Whole, component_array, of_site
from gibbsite.density.flatten import flatten
from gibbsite.density.index_maps import index_maps
from gibbsite.trace.compat import ClosedJaxpr, jaxpr_as_fun, make_jaxpr_like


def all_variables(closed: ClosedJaxpr) -> list[Any]:
    """Every variable that an equation computes."""
    return [v for e in closed.jaxpr.eqns for v in e.outvars if hasattr(v.aval, "shape")]


def watcher(closed: ClosedJaxpr) -> Any:
    """A function of the inputs that returns the value of every intermediate variable."""
    jaxpr = closed.jaxpr
    every = make_jaxpr_like(jaxpr, jaxpr.constvars, jaxpr.invars, all_variables(closed), jaxpr.eqns)
    return jax.jit(jaxpr_as_fun(ClosedJaxpr(every, closed.consts)))


def predicted(access: Access, shape: tuple, element: tuple, read: Any) -> np.ndarray:
    """Which elements of an array of `shape` the access says may read `element` of the site."""
    mask: Any = np.ones(shape, bool)
    for axis, (low, high) in enumerate(access.window):
        place = np.arange(shape[axis]).reshape([-1 if a == axis else 1 for a in range(len(shape))])
        mask = mask & (place >= low) & (place < high)
    for component, at in zip(access.index, element, strict=True):
        if isinstance(component, Whole):
            continue
        assert isinstance(component, Affine | Table)
        mask = mask & (np.asarray(component_array(component, shape, read)) == at)
    return np.broadcast_to(mask, shape)


def moved(a: Any, b: Any) -> np.ndarray:
    """Which elements differ; NaN equals NaN."""
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype.kind == "f":
        return ~((a == b) | (np.isnan(a) & np.isnan(b)))
    return a != b


@dataclass(frozen=True)
class Move:
    """One perturbed element of a site: what moved in each variable, and all values before and after."""

    site: str
    element: tuple
    real: Mapping[Any, np.ndarray]
    values: tuple[Mapping[Any, Any], ...]


def moves(
    closed: ClosedJaxpr, inputs: list[Any], sites: Mapping[str, tuple[int, Any]], limit: int = 6
) -> list[Move]:
    """Perturb up to `limit` elements of each site: `sites` gives its input and the values to move to."""
    variables, watch, out = all_variables(closed), watcher(closed), []
    consts = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))

    def values(run_inputs: list[Any]) -> dict[Any, Any]:
        run = [np.asarray(v) for v in watch(*run_inputs)]
        return {**consts, **dict(zip(closed.jaxpr.invars, run_inputs)), **dict(zip(variables, run))}  # noqa: B905

    before = values(inputs)
    for site, (position, target) in sites.items():
        base = np.asarray(inputs[position])
        elements = [e for e in np.ndindex(base.shape) if np.asarray(target)[e] != base[e]]
        for element in elements[:limit]:
            other = base.copy()
            other[element] = np.asarray(target)[element]
            after = values([jnp.asarray(other) if i == position else x for i, x in enumerate(inputs)])
            real = {v: m for v in variables if (m := moved(before[v], after[v])).any()}
            out.append(Move(site, element, real, (before, after)))
    return out


def misses(maps: Any, found: list[Move]) -> tuple[int, int]:
    """How many elements moved, and how many of them the maps had excluded."""
    total = missed = 0
    for move in found:
        for var, real in move.real.items():
            claim = np.zeros(real.shape, bool)
            for access in maps[var].get(move.site, ()):
                for env in move.values:  # indices that read the site itself move with it
                    claim |= predicted(access, real.shape, move.element, env.__getitem__)
            total, missed = total + int(real.sum()), missed + int((real & ~claim).sum())
    return total, missed


@cache
def truth(seed: int) -> tuple[ClosedJaxpr, list[Move]]:
    """A random program and what really moves in it; the same whatever the rules say."""
    program, (z, y, index, target_z, target_y) = random_program(seed)
    closed = flatten(jax.make_jaxpr(program)(z, y, index))
    return closed, moves(closed, [z, y, index], {"z": (0, target_z), "y": (1, target_y)})


def check_program(seed: int) -> tuple[int, int]:
    """Moved and missed elements of the random program number `seed` under the rules of now."""
    closed, found = truth(seed)
    shapes = {"z": (N,), "y": (N,)}
    starts = [("z", of_site((N,))), ("y", of_site((N,)))]
    maps = index_maps(closed, dict(zip(closed.jaxpr.invars[:2], starts, strict=True)), shapes)
    return misses(maps, found)
