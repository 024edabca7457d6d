"""How the terms of the log density touch the elements of one site: which meet, and where it has no slope."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gibbsite.density import Density
from gibbsite.density.terms import Term
from gibbsite.ground.once import once
from gibbsite.programs.jaxpr.compat import JaxprEqn, Literal, Var, jit
from gibbsite.programs.jaxpr.primitives import LOOPS, of_kind, smooth_operands
from gibbsite.programs.jaxpr.walker import reached
from gibbsite.programs.maps.access import (
    Access,
    Accesses,
    Affine,
    Component,
    Table,
    Whole,
    Window,
    affine_of,
    component_array,
    disjoint,
    of_site,
)
from gibbsite.programs.maps.index_maps import index_maps
from gibbsite.programs.passes.replaced import given

Shape = tuple[int, ...]

SINGLE, COUPLED, DENSE = "single", "coupled", "dense"


@dataclass(frozen=True)
class Touch:
    """One term with its accesses to a site, restricted to the site's element axes.

    `kind` is SINGLE where every element of the term reads at most one element of the site, COUPLED where it
    reads several, each known, and DENSE where it may read any number.
    """

    term: Term
    accesses: tuple[Access, ...]
    kind: str


def resolved(density: Density, touching: Sequence[tuple[Any, Sequence[Access]]]) -> list[tuple[Access, ...]]:
    """The accesses with tables that turn out to be affine functions written as such.

    All tables that need no latent are computed in one compiled call on the bound data.
    """
    tables = {
        c: None
        for _, accesses in touching
        for a in accesses
        for c in a.index
        if isinstance(c, Table) and not c.latents
    }
    arrays: dict[Table, np.ndarray] = {}
    if tables:
        order = list(tables)

        def all_tables(data: Any) -> list[Any]:
            read = density.evaluator({}, data).full
            return [t.value(read) for t in order]

        values = jit(all_tables)(density.arguments.arrays)
        arrays = {t: np.asarray(v).reshape(t.shape) for t, v in zip(order, values, strict=True)}

    def simple(c: Component, window: Window) -> Component:
        if not isinstance(c, Table) or c not in arrays:
            return c
        # outside its window an access says nothing, so only the inside has to be affine
        cut = tuple(slice(*w) if n != 1 else slice(None) for w, n in zip(window, c.shape, strict=True))
        inside = affine_of(arrays[c][cut])
        if inside is None:
            return c
        shift = sum(k * window[a][0] for a, k in enumerate(inside.coefs))
        return Affine(inside.coefs, inside.offset - shift)

    return [
        tuple(Access(tuple(simple(c, a.window) for c in a.index), a.window) for a in accesses)
        for _, accesses in touching
    ]


def touches(density: Density, name: str, element_rank: int) -> list[Touch]:
    """How each term touches the latent site `name`, whose elements have `element_rank` axes."""
    touching = density.terms_of(name) + density.bounds_of(name)
    out = []
    for (term, _), accesses in zip(touching, resolved(density, touching), strict=True):
        cut = tuple(dict.fromkeys(Access(a.index[:element_rank], a.window) for a in accesses))
        if any(not a.single or name in a.latents() for a in cut):
            kind = DENSE
        elif disjoint(cut):
            kind = SINGLE
        elif any(a.latents() for a in cut):
            kind = DENSE  # which elements meet changes from draw to draw
        else:
            kind = COUPLED
        out.append(Touch(term, cut, kind))
    return out


def element_indices(density: Density, access: Access, shape: Shape) -> list[np.ndarray]:
    """Per site axis, the index that each element of the term reads; only for latent-free accesses."""
    read = density.evaluator({}).full
    return [
        np.broadcast_to(np.asarray(component_array(c, shape, read)), shape)  # type: ignore[arg-type]
        for c in access.index
    ]


def batch_axes(density: Density, site: str) -> tuple[int, ...]:
    """Axes of a site along which no term element reads two different indices."""
    axes = []
    for a in range(len(density.sites[site].shape)):
        if all(_same_index(accesses, a) for _, accesses in density.terms_of(site)):
            axes.append(a)
    return tuple(axes)


def _same_index(accesses: Any, axis: int) -> bool:
    components = [access.index[axis] for access in accesses]
    return not any(isinstance(c, Whole) for c in components) and all(c == components[0] for c in components)


@once
def blind_terms(density: Density, site: str) -> tuple[str, ...]:
    """The sites and factors whose terms depend on a continuous latent through steps alone (comparisons,
    rounding, indices), so that its gradient there is zero wherever it exists; in program order.

    A `where` between two smooth expressions of the site is none of them: there the gradient is there, too.
    """
    felt = _felt(density, site)
    found = [t.origin for t, _ in density.terms_of(site) if t.atom not in felt]
    return tuple(dict.fromkeys(o for o in found if o != site))


@once
def endless_terms(density: Density, site: str) -> tuple[str, ...]:
    """The sites and factors whose terms read a continuous latent through a loop of unknown length, which
    cannot be differentiated backwards; in program order."""
    loops = [eqn for eqn in density.closed.jaxpr.eqns if of_kind(eqn, LOOPS)]
    felt = _felt(density, site)

    def mine(eqn: JaxprEqn) -> list[Any]:
        return [a for a in eqn.invars if not isinstance(a, Literal) and a in felt]

    ends = [o for e in loops if any(a.aval.dtype.kind == "f" for a in mine(e)) for o in e.outvars]
    through = reached(density.closed.jaxpr, ends, mine) & felt
    found = [t.origin for t, _ in density.terms_of(site) if t.atom in through]
    return tuple(dict.fromkeys(found))


def _felt(density: Density, site: str) -> set[object]:
    """The variables that a gradient with respect to `site` may reach."""
    return reached(density.closed.jaxpr, [density.latent_vars[site]], smooth_operands)


def maps_after(density: Density, atom: Any, cut: Mapping[Any, str]) -> Mapping[str, Accesses]:
    """Index maps of `atom` where the variables of `cut` are inputs, by the names that it gives them; all
    other inputs count as data."""
    program = given(density.closed, cut, [atom])
    shapes = {name: tuple(v.aval.shape) for v, name in cut.items()}
    inputs = {v: (name, of_site(shapes[name])) for v, name in cut.items()}
    return index_maps(program, inputs, shapes)[atom]


def index_id(density: Density, component: Component) -> Any:
    """Equal for components that hold the same index: `u[subject]` and `slope[subject]` each bring
    `subject` into range by equations of their own."""
    if isinstance(component, Affine | Whole):
        return component
    return component.shape, _renamed(component.key, _numbers(density))


def same_values(density: Density, one: Any, two: Any) -> bool:
    """Whether two variables hold the same values by how they are computed."""
    numbers = _numbers(density)
    return numbers[one] == numbers[two]


def _renamed(key: Any, numbers: dict[Any, int]) -> Any:
    if isinstance(key, Var):
        return "variable", numbers[key]
    if isinstance(key, Table):
        return key.shape, _renamed(key.key, numbers)
    return tuple(_renamed(k, numbers) for k in key) if isinstance(key, tuple) else key


@once
def _numbers(density: Density) -> dict[Any, int]:
    """A number per variable, equal for variables that the same operations on the same inputs compute."""
    closed = density.closed
    numbers: dict[Any, int] = {}
    seen: dict[Any, int] = {}
    for var, const in zip(closed.jaxpr.constvars, closed.consts, strict=True):
        array = np.asarray(const)
        numbers[var] = seen.setdefault((array.shape, array.dtype.str, array.tobytes()), len(seen))
    for var in closed.jaxpr.invars:
        numbers[var] = seen.setdefault(var, len(seen))

    def operand(atom: Any) -> Any:
        if not isinstance(atom, Literal):
            return numbers[atom]
        array = np.asarray(atom.val)
        return str(atom.aval), array.tobytes()

    for eqn in closed.jaxpr.eqns:
        made = eqn.primitive, str(sorted(eqn.params.items())), tuple(map(operand, eqn.invars))
        for i, var in enumerate(eqn.outvars):
            numbers[var] = seen.setdefault((*made, i), len(seen))
    return numbers
