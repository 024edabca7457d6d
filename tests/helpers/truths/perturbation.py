"""The truth about dependence of random programs; that of models is asked by the package itself."""

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gibbsite.checking.perturbation import Move, misses, moves, watcher
from gibbsite.programs.jaxpr.compat import ClosedJaxpr
from gibbsite.programs.maps.access import component_array, is_static, of_site
from gibbsite.programs.maps.index_maps import index_maps
from gibbsite.programs.passes.flatten import flatten

from helpers.models.program_functions import FUNCTIONS
from helpers.models.programs import MIXES, STEPS, N, random_program

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


def astray(seed: int) -> list[str]:
    """The known indices of random program number `seed` that lead out of their site, from within windows."""
    closed, _, _ = program(seed)
    shapes = {"z": (N,), "y": (2, 3)}
    starts = [(n, of_site(shape)) for n, shape in shapes.items()]
    maps = index_maps(closed, dict(zip(closed.jaxpr.invars[:2], starts, strict=True)), shapes)
    found = []
    for eqn in closed.jaxpr.eqns:
        for out in eqn.outvars:
            shape = getattr(out.aval, "shape", None)
            for site, accesses in maps[out].items() if shape is not None else ():
                for a in accesses:
                    parts = [(c, n) for c, n in zip(a.index, shapes[site], strict=True) if is_static(c)]
                    for c, n in parts:
                        index = np.broadcast_to(component_array(c, shape, _nothing), shape)
                        here = index[tuple(slice(*w) for w in a.window)]
                        if here.size and not (here.min() >= 0 and here.max() < n):
                            found.append(f"{eqn.primitive.name}: {site}{here.min(), here.max()}")
    return found


def _nothing(var: Any) -> Any:
    raise AssertionError(f"a known index reads {var}")


INDEX = np.array([0, 2, 1, 5, 3, 4])
VARIANTS = {"reduced": 24, "cumulative": 16, "elementwise": 0}
"""Of every other step, six; every function is there by itself."""


@cache
def everything() -> ClosedJaxpr:
    """Each step in several variants, each function and mix, beside each other: a flat program of an array of
    `N` numbers and one of indices."""
    rng = np.random.default_rng(0)
    made = [maker(rng) for name, maker in STEPS.items() for _ in range(VARIANTS.get(name, 6))]

    def program(x: Any, i: Any) -> Any:
        out = [step(x, i) for step in made] + [f(x) for f in FUNCTIONS]
        return out + [mix(x, x[::-1], i) for mix in MIXES]

    return flatten(jax.make_jaxpr(program)(jnp.zeros(N), jnp.asarray(INDEX)))


def values(closed: ClosedJaxpr, *inputs: Any) -> dict[Any, np.ndarray]:
    """The values of all variables but random keys."""
    names = [v for e in closed.jaxpr.eqns for v in e.outvars if hasattr(v.aval, "shape")]
    found = dict(zip(names, map(np.asarray, watcher(closed)(*inputs)), strict=True))
    found |= dict(zip(closed.jaxpr.constvars, map(np.asarray, closed.consts), strict=True))
    return found | dict(zip(closed.jaxpr.invars, map(np.asarray, inputs), strict=True))
