"""Arrays that repeat one value for every reading of a site's element, as arrays of the site's shape.

In `mu + tau * z[g]` the elements of `z` are read by many observations; `tau`, or `mu[g]` beside it, is the
same for all that read one element, and so is a number of that element.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gibbsite.density.density import Density
from gibbsite.programs.jaxpr.compat import JaxprEqn, Literal, bind_equation, shape_of
from gibbsite.programs.jaxpr.primitives import ELEMENTWISE, PLACES, SELECTS, of_kind
from gibbsite.programs.maps.access import (
    Access,
    Affine,
    Component,
    Shape,
    Table,
    along,
    constant,
    full_window,
    of_site,
    through,
)
from gibbsite.programs.maps.provenance import Arg
from gibbsite.programs.maps.rules import aligned, rule_of

MOVES = PLACES
Read = Callable[[Any], Any]


def place_of(density: Density, atom: Any, site: str) -> Access | None:
    """Which element of `site` each element of an array reads, where it is one that no latent chooses."""
    accesses = density.maps[atom].get(site, ())
    if len(accesses) != 1:
        return None
    (access,) = accesses
    whole = access.single and not access.latents() and access.window == full_window(shape_of(atom))
    return access if whole else None


def filled(density: Density, eqn: JaxprEqn) -> Any | None:
    """What `jnp.take` puts NaN in for where an index is out of bounds; None if the equation is no such."""
    if not of_kind(eqn, SELECTS) or density.maps.latents(eqn.invars[0]):
        return None
    cases = eqn.invars[1:]
    kept = [a for a in cases if density.maps.latents(a)]
    if len(kept) != 1 or len(cases) != 2:
        return None
    (other,) = (a for a in cases if a is not kept[0])
    with jax.ensure_compile_time_eval():
        return kept[0] if np.all(np.isnan(np.asarray(density.evaluator({}).lazy(other)))) else None


def _index(component: Component) -> Any:
    """Equal for indices that are the same, however many axes of size 1 their tables have."""
    if not isinstance(component, Table):
        return component
    kind, *rest = component.key
    if kind == "gather":
        var, number, _, high = rest
        return kind, var, number, high, component.axes
    if kind == "static":
        shape, values = rest
        return kind, values, component.axes, tuple(n for n in shape if n != 1)
    if kind == "look up":
        # the table itself, whose axes stand elsewhere
        (inner, *more), at, _ = rest
        places = [e for e in at if e is not None]
        axes = [a for e in places if isinstance(e, Affine) for a in e.axes]
        rank = len(component.shape)
        if inner == "gather" and places == [along(rank, a) for a in axes]:
            var, number, _, high = more
            return inner, var, number, high, tuple(axes)
    return component


@dataclass(frozen=True, eq=False)
class Lift:
    """Lifts arrays to a site's shape: `place` says which element every element of a `shape` reads."""

    density: Density
    site_shape: Shape
    place: Access
    shape: Shape

    def __call__(self, atom: Any) -> Callable[[Read], Any] | None:
        """Computes, from the values of the jaxpr's variables, what an operand beside the array is for every
        element of the site, of an array that broadcasts against the site; None where it is not one value."""
        return self._at(atom, aligned(shape_of(atom), self.shape))

    def _at(self, atom: Any, index: tuple[Component, ...]) -> Callable[[Read], Any] | None:
        """As `__call__`, for an array that is read at `index`."""
        leaf = self._leaf(atom, index)
        eqn = None if isinstance(atom, Literal) else self.density.producer.get(atom)
        if leaf is not None or eqn is None:
            return leaf
        inner = filled(self.density, eqn)
        if inner is not None:
            return self._at(inner, index)
        if of_kind(eqn, ELEMENTWISE) and len(eqn.outvars) == 1:
            return self._elementwise(eqn, index)
        return self._moved(eqn, index) if of_kind(eqn, MOVES) else None

    def _leaf(self, atom: Any, index: tuple[Component, ...]) -> Callable[[Read], Any] | None:
        """The array itself, where it is read at one place, or where the site is."""
        fixed: list[Any] = []
        axes: list[int] = []
        for n, c in zip(shape_of(atom), index, strict=True):
            if isinstance(c, Affine) and not c.axes:
                fixed.append(c.offset)
                continue
            here = [_index(p) for p in self.place.index]
            found = [k for k, p in enumerate(here) if p == _index(c) and self.site_shape[k] == n]
            found = [k for k in found if k not in axes]
            if not found:
                return None
            axes.append(found[0])
            fixed.append(slice(None))

        def read(of: Read) -> Any:
            x = jnp.transpose(of(atom)[tuple(fixed)], tuple(int(i) for i in np.argsort(axes)))
            return jnp.reshape(x, [n if k in axes else 1 for k, n in enumerate(self.site_shape)])

        return read

    def _elementwise(self, eqn: JaxprEqn, index: tuple[Component, ...]) -> Callable[[Read], Any] | None:
        out = shape_of(eqn.outvars[0])
        parts = []
        for a in eqn.invars:
            shape = shape_of(a)
            at = [index[d] if n == out[d] else constant(len(self.shape), 0) for d, n in enumerate(shape)]
            part = self._at(a, tuple(at))
            if part is None:
                return None
            parts.append(part)

        def read(of: Read) -> Any:
            return bind_equation(eqn, jnp.broadcast_arrays(*(p(of) for p in parts)))[0]

        return read

    def _moved(self, eqn: JaxprEqn, index: tuple[Component, ...]) -> Callable[[Read], Any] | None:
        """Through an equation that moves the elements of its first operand."""
        maps, operand = self.density.maps, eqn.invars[0]
        shape = shape_of(operand)
        rest = [Arg(shape_of(a), {}) if isinstance(a, Literal) else maps.args[a] for a in eqn.invars[1:]]
        if isinstance(operand, Literal) or any(a.accesses for a in rest):
            return None
        (out,) = rule_of(eqn)(eqn, [Arg(shape, {"": of_site(shape)}), *rest], maps)
        found = through(out.accesses.get("", ()), index, self.shape)
        if len(found) != 1 or not found[0].single or found[0].window != full_window(self.shape):
            return None
        return self._at(operand, found[0].index)
