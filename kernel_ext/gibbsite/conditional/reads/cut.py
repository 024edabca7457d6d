"""The program cut at some of its variables: what an array reads of them."""

from collections.abc import Mapping
from typing import Any

from gibbsite.density import Density
from gibbsite.density.maps.access import Accesses, of_site
from gibbsite.density.maps.index_maps import index_maps
from gibbsite.trace.jaxpr.compat import ClosedJaxpr
from gibbsite.trace.passes.parts import jaxpr_of_parts, live


def maps_after(density: Density, atom: Any, cut: Mapping[Any, str]) -> Mapping[str, Accesses]:
    """Index maps of `atom` where the variables of `cut` are inputs, by the names that it gives them; all
    other inputs count as data."""
    eqns = [e for e in density.closed.jaxpr.eqns if not any(v in cut for v in e.outvars)]
    known = set(density.closed.jaxpr.invars)
    invars = density.closed.jaxpr.invars + [v for v in cut if v not in known]
    jaxpr = jaxpr_of_parts(density.closed.jaxpr.constvars, invars, [atom], eqns)
    shapes = {name: tuple(v.aval.shape) for v, name in cut.items()}
    inputs = {v: (name, of_site(shapes[name])) for v, name in cut.items()}
    return index_maps(ClosedJaxpr(live(jaxpr), density.closed.consts), inputs, shapes)[atom]
