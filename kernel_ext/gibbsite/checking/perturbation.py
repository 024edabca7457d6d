"""The truth about dependence: perturb one element of a site and see which elements of which arrays move."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gibbsite.programs.jaxpr.compat import RIGHT, ClosedJaxpr, Literal, bind_equation
from gibbsite.programs.maps.access import Access, Affine, Table, Whole, component_array

# a program runs a dozen times on a few numbers: nearly all of the time would go into making it fast
QUICK: dict[str, Any] = {"xla_backend_optimization_level": 0, **RIGHT}
if jax.__version_info__ < (0, 11):  # later ones know no other way of fusing, and refuse the option
    QUICK["xla_cpu_use_fusion_emitters"] = False


def all_variables(closed: ClosedJaxpr) -> list[Any]:
    """Every variable that an equation computes."""
    return [v for e in closed.jaxpr.eqns for v in e.outvars if hasattr(v.aval, "shape")]


def update_slice(operand: Any, update: Any, *starts: Any) -> Any:
    """`lax.dynamic_update_slice` by looking up every element."""
    inside: Any = True
    places = []
    for axis, (start, n, m) in enumerate(zip(starts, operand.shape, update.shape, strict=True)):
        place = jnp.arange(n) - jnp.clip(start, 0, n - m)
        inside = inside & ((place >= 0) & (place < m)).reshape(
            [-1 if a == axis else 1 for a in range(operand.ndim)]
        )
        places.append(jnp.clip(place, 0, m - 1))
    return jnp.where(inside, update[jnp.ix_(*places)], operand)


ITERATED = frozenset(
    ["igamma", "igamma_grad_a", "igammac", "random_gamma_grad", "regularized_incomplete_beta"]
)


def one_by_one(eqn: Any, operands: list[Any]) -> list[Any]:
    """An elementwise primitive, each element on its own."""
    shape = eqn.outvars[0].aval.shape
    columns = [jnp.broadcast_to(x, shape).reshape(-1) for x in operands]
    return [jax.lax.map(lambda row: bind_equation(eqn, list(row))[0], columns).reshape(shape)]


def watcher(closed: ClosedJaxpr) -> Any:
    """A function of the inputs that returns the value of every intermediate variable.

    Updates of slices are computed in another way: fused with what reads its operand, that primitive writes in
    place before it has read (XLA for CPUs in JAX 0.10.2), and elements move that must not. Series are summed
    for each element on its own: together they stop when the slowest has converged, and the others' last bits
    move with it.
    """

    def watch(*inputs: Any) -> list[Any]:
        env = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
        env.update(zip(closed.jaxpr.invars, inputs, strict=True))
        for eqn in closed.jaxpr.eqns:
            operands = [a.val if isinstance(a, Literal) else env[a] for a in eqn.invars]
            by_hand = eqn.primitive.name == "dynamic_update_slice"
            if eqn.primitive.name in ITERATED:
                outs = one_by_one(eqn, operands)
            else:
                outs = [update_slice(*operands)] if by_hand else bind_equation(eqn, operands)
            env.update(zip(eqn.outvars, outs, strict=True))
        return [env[v] for v in all_variables(closed)]

    return jax.jit(watch, compiler_options=QUICK)


def indices(component: Any, shape: tuple, tables: Mapping[Table, Any]) -> Any:
    """The indices of a component, given those of all tables."""
    if isinstance(component, Table):
        return tables[component]
    return component_array(component, shape, tables.__getitem__)


def predicted(access: Access, shape: tuple, element: tuple, tables: Mapping[Table, Any]) -> np.ndarray:
    """Which elements of an array of `shape` the access says may read `element` of the site."""
    mask: Any = np.ones(shape, bool)
    for axis, (low, high) in enumerate(access.window):
        place = np.arange(shape[axis]).reshape([-1 if a == axis else 1 for a in range(len(shape))])
        mask = mask & (place >= low) & (place < high)
    for component, at in zip(access.index, element, strict=True):
        if isinstance(component, Whole):
            continue
        assert isinstance(component, Affine | Table)
        mask = mask & (indices(component, shape, tables) == at)
    return np.broadcast_to(mask, shape)


def table_reader(maps: Any, values: Mapping[Any, Any]) -> Any:
    """A function of all variables' values that gives the indices of every table in the index maps."""
    accesses = [a for v in values for found in maps[v].values() for a in found]
    tables = list(dict.fromkeys(c for a in accesses for c in a.index if isinstance(c, Table)))
    if not tables:
        return lambda values: {}
    variables = list(values)

    def every(arrays: list[Any]) -> list[Any]:
        read = dict(zip(variables, arrays, strict=True)).__getitem__
        return [t.value(read) for t in tables]

    run = jax.jit(every, compiler_options=QUICK)
    return lambda values: dict(zip(tables, map(np.asarray, run([values[v] for v in variables])), strict=True))


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
    read_tables = table_reader(maps, found[0].values[0]) if found else None
    for move in found:
        tables = [read_tables(values) for values in move.values]  # type: ignore[misc]

        for var, real in move.real.items():
            claim = np.zeros(real.shape, bool)
            for access in maps[var].get(move.site, ()):
                for known in tables:  # indices that read the site itself move with it
                    claim |= predicted(access, real.shape, move.element, known)
            total, missed = total + int(real.sum()), missed + int((real & ~claim).sum())
    return total, missed
