"""The program cut at some of its variables: what an array reads of them."""

from collections.abc import Mapping
from typing import Any

from gibbsite.density import Density
from gibbsite.programs.maps.access import Accesses, of_site
from gibbsite.programs.maps.index_maps import index_maps
from gibbsite.programs.passes.parts import given


def maps_after(density: Density, atom: Any, cut: Mapping[Any, str]) -> Mapping[str, Accesses]:
    """Index maps of `atom` where the variables of `cut` are inputs, by the names that it gives them; all
    other inputs count as data."""
    program = given(density.closed, cut, [atom])
    shapes = {name: tuple(v.aval.shape) for v, name in cut.items()}
    inputs = {v: (name, of_site(shapes[name])) for v, name in cut.items()}
    return index_maps(program, inputs, shapes)[atom]
