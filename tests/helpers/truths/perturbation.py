"""The truth about dependence of random programs; that of models is asked by the package itself."""

from functools import cache
from typing import Any

import jax
from gibbsite.checking.perturbation import Move, misses, moves
from gibbsite.density.maps.access import of_site
from gibbsite.density.maps.index_maps import index_maps
from gibbsite.density.program.flatten import flatten
from gibbsite.trace.jaxpr.compat import ClosedJaxpr

from helpers.models.programs import N, random_program

NOT_COMPILED = frozenset([4986])
"""Programs on which XLA's own compiler aborts (JAX 0.10.2, CPU); they run primitive by primitive."""


@cache
def program(seed: int) -> tuple[ClosedJaxpr, list[Any], Any]:
    """A random program as a flat jaxpr, its inputs, and what to move its sites to."""
    fn, (z, y, index, target_z, target_y) = random_program(seed)
    targets = {"z": (0, target_z), "y": (1, target_y)}
    return flatten(jax.make_jaxpr(fn)(z, y, index)), [z, y, index], targets


@cache
def truth(seed: int) -> tuple[ClosedJaxpr, list[Move]]:
    """A random program and what really moves in it; the same whatever the rules say."""
    closed, inputs, targets = program(seed)
    with jax.disable_jit(seed in NOT_COMPILED):
        return closed, moves(closed, inputs, targets)


def check_program(seed: int) -> tuple[int, int]:
    """Moved and missed elements of the random program number `seed` under the rules of now."""
    closed, found = truth(seed)
    shapes = {"z": (N,), "y": (2, 3)}
    starts = [(n, of_site(shape)) for n, shape in shapes.items()]
    maps = index_maps(closed, dict(zip(closed.jaxpr.invars[:2], starts, strict=True)), shapes)
    return misses(maps, found)
